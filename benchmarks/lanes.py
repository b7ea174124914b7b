"""How fast lanes are beside what they are chosen instead of: a table for docs/lanes.md.

    python benchmarks/lanes.py --packages DIR --compile MODEL.onnx ...
    python benchmarks/lanes.py --packages DIR --seconds 50 MODEL.onnx ...
    python benchmarks/lanes.py --packages DIR --write MODEL.onnx ...

First each model is compiled: without lanes, with two whatever is predicted of them,
with --lanes 2 and with --lanes auto, all by what is measured on this machine. Then five
processes take turns, two calls of a Session each: one lane with one thread and with
two, the latter on the engine of its package too, two lanes with one thread each, and
the same two lanes as two processes (buffers in shared memory, two bytes through a pipe
for a hand-off). Last the table of medians is written. DIR keeps packages and times, so
that each step and each model can have a quiet moment of its own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pages

import fairhand
from fairhand.analysis.schedule.lanes import WORTH
from fairhand.codegen.lanes import divide

LEAST = 3  # rounds, whatever the time
OTHERS = 0.05  # of a core: a round in which other processes take more does not count
PAUSE = 0.02  # seconds, in which threads that wait for more of the last run fall asleep

# The variants, each with its package and its threads.
VARIANTS = {
    "1 lane, 1 thread": ("serial", 1),
    "1 lane, 2 threads": ("serial", 2),
    "1 lane, 2 threads, its engine": ("serial", 2),
    "2 lanes, 1 thread each": ("lanes", 2),
    "2 processes, 1 thread each": ("lanes", 1),
}
ONE, TWO, ENGINE, LANES, PROCESSES = VARIANTS
ALONE = ONE, TWO, ENGINE


@dataclass(frozen=True)
class Row:
    model: str
    seconds: dict[str, float]  # medians
    predicted: float  # of two lanes beside one of one thread
    auto: float  # of lanes that divide all threads beside one lane of all
    two: str  # what --lanes 2 takes, and by what
    chosen: str  # what --lanes auto does
    rounds: int

    def gain(self, variant: str) -> float | None:
        """Of lanes beside this; None where one of both was not measured."""
        took, other = self.seconds.get(LANES), self.seconds.get(variant)
        return None if took is None or other is None else other / took


# ------------------------------------------------------------------ in other processes


def serve(folder: str, threads: int, name: str, pipe: Connection) -> None:
    """Run a package's Session once for each message; answer with the seconds."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    session, feed = loaded(folder, threads, "eager" if name != ENGINE else None)
    wanted = session.run(None, feed)
    if name == PROCESSES:
        beside(folder, session.model)
    for _ in range(3):  # prepares
        pairs = zip(session.run(None, feed), wanted, strict=True)
        assert name == ENGINE or all(np.array_equal(a, b) for a, b in pairs)
    with suppress(EOFError):
        while pipe.recv():
            start = time.perf_counter()
            session.run(None, feed)
            pipe.send(time.perf_counter() - start)


def loaded(folder: str, threads: int, engine: str | None) -> tuple[Any, dict[str, Any]]:
    """The Session of a package, on its own engine for None, and random inputs."""
    import torch

    path = Path(folder)
    sys.path.insert(0, str(path.parent))
    package = importlib.import_module(path.name)
    module = importlib.import_module(f"{path.name}.model")
    sizes = json.loads((path / "report.json").read_text("utf-8"))["sizes"][0]
    feed = {}
    for name, (dtype, shape) in module.INPUTS.items():
        dims = [
            sizes.get(f"{name}#{axis}" if d is None else d, d)
            for axis, d in enumerate(shape)
        ]
        made = torch.zeros(dims, dtype=getattr(torch, dtype))
        feed[name] = (made.normal_() if made.is_floating_point() else made).numpy()
    given = {} if engine is None else {"engine": engine}
    return package.Session(threads=threads, **given), feed


def beside(folder: str, model: Any) -> None:
    """Let all lanes but the first run in another process, which has its own weights."""
    context = multiprocessing.get_context("spawn")
    pipe, end = context.Pipe()
    context.Process(target=lanes_beside, args=(folder, end), daemon=True).start()
    import torch.multiprocessing

    torch.multiprocessing.set_sharing_strategy("file_system")
    busy = False
    places = {id(module): name for name, module in model.named_modules()}
    known: dict[tuple[str, str], tuple[int, list[Any], list[Any] | Any]] = {}

    def run_lanes(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
        nonlocal busy
        if busy:  # a fork in the first lane of another
            return [function(*given) for function, *given in (first, second)]
        function, *given = second
        owner = getattr(function, "__self__", function)
        method = "forward" if owner is function else function.__name__
        key = places[id(owner)], method
        if key not in known:
            shared = [x.clone().share_memory_() for x in given]
            pipe.send((key, shared))
            known[key] = (len(known), shared, pipe.recv())
        number, buffers, results = known[key]
        for buffer, x in zip(buffers, given, strict=True):
            buffer.copy_(x)
        pipe.send_bytes(number.to_bytes(2, "little"))
        busy = True
        own = first[0](*first[1:])
        busy = False
        pipe.recv_bytes()
        return [own, results]

    sys.modules[f"{Path(folder).name}.model"].run_lanes = run_lanes  # type: ignore


def lanes_beside(folder: str, pipe: Connection) -> None:
    """The other process: each message names a lane that has its buffers here."""
    import torch.multiprocessing

    torch.multiprocessing.set_sharing_strategy("file_system")
    torch.set_num_threads(1)
    model = loaded(folder, 1, "eager")[0].model
    known: list[tuple[Any, list[Any], Any]] = []
    with torch.inference_mode():
        while True:
            message = pipe.recv_bytes()
            if len(message) > 2:  # a new one, pickled
                import pickle

                (place, method), given = pickle.loads(message)
                function = getattr(model.get_submodule(place), method)
                made = function(*given)
                many = isinstance(made, tuple)
                results = [
                    x.clone().share_memory_() for x in (made if many else [made])
                ]
                known.append((function, given, results))
                pipe.send(tuple(results) if many else results[0])
                continue
            function, given, results = known[int.from_bytes(message, "little")]
            made = function(*given)
            for buffer, x in zip(
                results, made if isinstance(made, tuple) else [made], strict=True
            ):
                buffer.copy_(x)
            pipe.send_bytes(b"1")


# --------------------------------------------------------------------------- measuring


def prepare(path: Path, folder: Path) -> None:
    """The four packages of a model."""
    fairhand.compile(path, folder / "serial", verify=False)
    options: dict[str, Any] = {"profile": True, "progress": print, "cache": False}
    with patch.object(divide, "SURE", WORTH):
        fairhand.compile(path, folder / "lanes", lanes=2, verify=False, **options)
    fairhand.compile(path, folder / "two", lanes=2, **options)
    fairhand.compile(path, folder / "auto", lanes="auto", **options)


def measure(model: str, folder: Path, seconds: float) -> Row:
    """All variants in turn, for so long; those of lanes only if there are any."""
    count = lanes_of(folder / "lanes")["count"]
    variants = [name for name in VARIANTS if name in ALONE or count > 1]
    context = multiprocessing.get_context("spawn")
    pipes = {}
    processes = []
    for name in variants:
        package, threads = VARIANTS[name]
        pipes[name], other = context.Pipe()
        arguments = str(folder / package), threads, name, other
        processes.append(context.Process(target=serve, args=arguments))
        processes[-1].start()
        other.close()  # so that an answer that can't come is an EOFError
    rounds: list[tuple[float, dict[str, float]]] = []  # with what others took of it
    end = time.monotonic() + seconds
    try:
        while len(rounds) < LEAST or time.monotonic() < end:
            before = others_seconds(processes)
            start = time.monotonic()
            took = {}
            for name, pipe in pipes.items():
                time.sleep(PAUSE)
                for _ in range(2):  # of which the second counts: with a warm cache
                    pipe.send(True)
                    took[name] = pipe.recv()
            others = others_seconds(processes) - before
            rounds.append((others / (time.monotonic() - start), took))
    finally:
        for pipe, process in zip(pipes.values(), processes, strict=True):
            pipe.close()
            process.join()
    quiet = [took for others, took in rounds if others < OTHERS]
    if len(quiet) < LEAST:
        shares = ", ".join(f"{others:.0%}" for others, _ in rounds)
        sys.exit(f"{model}: others had {shares} of a core in the rounds, too much")
    times = {name: [took[name] for took in quiet] for name in variants}
    medians = {name: statistics.median(all_) for name, all_ in times.items()}
    return row_of(model, folder, medians, len(quiet))


def row_of(model: str, folder: Path, seconds: dict[str, float], rounds: int) -> Row:
    """Without seconds: what the packages say."""
    lanes, two, auto = (lanes_of(folder / name) for name in ("lanes", "two", "auto"))
    chosen = taken(two)
    if "measured_seconds" in two:
        chosen += f", {two['measured_seconds_without'] / two['measured_seconds']:.2f}"
    return Row(model, seconds, gain(lanes), gain(auto), chosen, taken(auto), rounds)


def others_seconds(processes: Sequence[BaseProcess]) -> float:
    """Of all cores, that went to none of these processes, their children, and this."""
    line = Path("/proc/stat").read_text("ascii").partition("\n")[0].split()
    user, nice, system, _, _, irq, soft = map(int, line[1:8])
    own = [os.getpid(), *(process.pid for process in processes)]
    own += [int(c) for pid in own[1:] for c in child_ids(pid)]
    ticks = user + nice + system + irq + soft
    for pid in own:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        ticks -= int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def child_ids(pid: int | None) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()


def lanes_of(package: Path) -> dict[str, Any]:
    report = json.loads((package / "report.json").read_text("utf-8"))
    return dict(report["lanes"])


def taken(lanes: dict[str, Any]) -> str:
    by = "measured" if "measured_seconds" in lanes else "predicted"
    return f"{'lanes' if lanes['count'] > 1 else 'one lane'}, {by}"


def gain(lanes: dict[str, Any]) -> float:
    return float(lanes["predicted_seconds_without"] / lanes["predicted_seconds"])


# ------------------------------------------------------------------------------- table


def table(rows: Sequence[Row]) -> str:
    heads = ["model", *(f"{name}, ms" for name in VARIANTS), "predicted", "measured"]
    heads += ["--lanes 2 takes", "auto predicts", "measured", "beside the engine"]
    heads += ["auto takes", "rounds"]
    lines = [heads]
    for row in rows:
        took = [row.seconds.get(name) for name in VARIANTS]
        cells = [row.model, *("-" if s is None else f"{1e3 * s:.1f}" for s in took)]
        cells += [*map(two_digits, (row.predicted, row.gain(ONE))), row.two]
        gains = row.auto, row.gain(TWO), row.gain(ENGINE)
        lines.append([*cells, *map(two_digits, gains), row.chosen, str(row.rounds)])
    text = pages.table(lines)
    both = [row for row in rows if LANES in row.seconds]
    if len(both) > 2:
        first = correlation([(row.predicted, row.gain(ONE)) for row in both])
        second = correlation([(row.auto, row.gain(TWO)) for row in both])
        text += (
            "\nSpearman's rank correlation of predicted and measured gains:"
            f" {first:.2f} for lanes of one thread, {second:.2f} for auto.\n"
        )
    return text


def two_digits(gain: float | None) -> str:
    return "-" if gain is None else f"{gain:.2f}"


def correlation(pairs: Sequence[tuple[float, float | None]]) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(*zip(*pairs, strict=True)).statistic)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--packages", type=Path, required=True, metavar="DIR")
    parser.add_argument("--compile", action="store_true", help="write the packages")
    parser.add_argument("--seconds", type=float, help="to measure each model for")
    parser.add_argument("--write", action="store_true", help="into docs/lanes.md")
    options = parser.parse_args()
    rows = []
    for path in options.models:
        model = path.name.removesuffix(".onnx")
        folder = options.packages / model
        if options.compile:
            prepare(path, folder)
        if options.seconds is not None:
            row = measure(model, folder, options.seconds)
            (folder / "times.json").write_text(json.dumps(asdict(row)), "utf-8")
        if (folder / "times.json").exists():
            known = json.loads((folder / "times.json").read_text("utf-8"))
            rows.append(Row(**known))
        else:
            rows.append(row_of(model, folder, {}, 0))
    text = table(rows)
    print(text, flush=True)
    if options.write:
        pages.write(pages.DOCS / "lanes.md", {"measured": text})


if __name__ == "__main__":
    main()
