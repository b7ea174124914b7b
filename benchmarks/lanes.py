"""How fast lanes are beside what they are chosen instead of: a table for docs/lanes.md.

    python benchmarks/lanes.py --seconds 600 --write MODEL.onnx ...

Each model is compiled without lanes, with two, and with --lanes auto, all by what is
measured on this machine. Five processes then take turns, one forward at a time: one
lane with one thread and with two, two lanes with one thread each, the same two lanes as
two processes (buffers in shared memory, two bytes through a pipe for a hand-off), and
two lanes that divide two threads. The table holds medians, and grows model by model.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import fairhand

PAGE = Path(__file__).parents[1] / "docs" / "lanes.md"
BEGIN, END = "<!-- written by benchmarks/lanes.py -->\n", "<!-- end -->\n"
LEAST = 3  # rounds, whatever the time

# The variants, each with its package and its threads.
VARIANTS = {
    "1 lane, 1 thread": ("serial", 1),
    "1 lane, 2 threads": ("serial", 2),
    "2 lanes, 1 thread each": ("lanes", 1),
    "2 processes": ("lanes", 1),
    "2 lanes, 2 threads divided": ("lanes", 2),
}
ONE, TWO, LANES, PROCESSES, DIVIDED = VARIANTS


@dataclass(frozen=True)
class Row:
    model: str
    seconds: dict[str, float]  # medians
    predicted: float  # of two lanes beside one of one thread
    auto: float  # of lanes that share all threads beside one lane of all
    chosen: bool  # by --lanes auto
    rounds: int

    @property
    def measured(self) -> float:
        return self.seconds[ONE] / self.seconds[LANES]

    @property
    def divided(self) -> float:
        return self.seconds[TWO] / self.seconds[DIVIDED]


# ------------------------------------------------------------------ in other processes


def serve(folder: str, threads: int, in_processes: bool, pipe: Connection) -> None:
    """Run a package's network once for each message; answer with the seconds."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, inputs = loaded(folder)
    with torch.inference_mode():
        wanted = model(*inputs)
        if in_processes:
            beside(folder, model)
        for got in (model(*inputs), model(*inputs)):
            pairs = zip(tuple(got), tuple(wanted), strict=True)
            assert all(torch.equal(a, b) for a, b in pairs)
        with suppress(EOFError):
            while pipe.recv():
                start = time.perf_counter()
                model(*inputs)
                pipe.send(time.perf_counter() - start)


def loaded(folder: str) -> tuple[Any, list[Any]]:
    """The network of a package, and random inputs."""
    import torch

    path = Path(folder)
    sys.path.insert(0, str(path.parent))
    package = importlib.import_module(path.name)
    module = importlib.import_module(f"{path.name}.model")
    sizes = json.loads((path / "report.json").read_text("utf-8"))["sizes"][0]
    inputs = []
    for name, (dtype, shape) in module.INPUTS.items():
        dims = [
            sizes.get(f"{name}#{axis}" if d is None else d, d)
            for axis, d in enumerate(shape)
        ]
        made = torch.zeros(dims, dtype=getattr(torch, dtype))
        inputs.append(made.normal_() if made.is_floating_point() else made)
    return package.load(), inputs


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
    model, _ = loaded(folder)
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


def measure(path: Path, folder: Path, seconds: float) -> Row | str:
    """All variants in turn, for so long; what was predicted, if lanes are declined."""
    end = time.monotonic() + seconds
    options: dict[str, Any] = {"verify": False, "profile": True}
    fairhand.compile(path, folder / "serial", verify=False)
    found = fairhand.compile(path, folder / "lanes", lanes=2, **options)
    lanes = found.report["lanes"]
    if lanes["count"] < 2:
        return str(lanes["reason"])
    auto = fairhand.compile(path, folder / "auto", lanes="auto", **options)
    chosen = auto.report["lanes"]
    context = multiprocessing.get_context("spawn")
    pipes = {}
    processes = []
    for name, (package, threads) in VARIANTS.items():
        pipes[name], other = context.Pipe()
        package_folder = str(folder / package)
        arguments = package_folder, threads, name == PROCESSES, other
        processes.append(context.Process(target=serve, args=arguments))
        processes[-1].start()
        other.close()  # so that an answer that can't come is an EOFError
    times: dict[str, list[float]] = {name: [] for name in VARIANTS}
    rounds = 0
    try:
        while rounds < LEAST or time.monotonic() < end:
            for name, pipe in pipes.items():
                pipe.send(True)
                times[name].append(pipe.recv())
            rounds += 1
    finally:
        for pipe, process in zip(pipes.values(), processes, strict=True):
            pipe.close()
            process.join()
    return Row(
        path.name.removesuffix(".onnx"),
        {name: statistics.median(all_) for name, all_ in times.items()},
        gain(lanes),
        gain(chosen),
        chosen["count"] > 1,
        rounds,
    )


def gain(lanes: dict[str, Any]) -> float:
    return float(lanes["predicted_seconds_without"] / lanes["predicted_seconds"])


# ------------------------------------------------------------------------------- table


def table(rows: Sequence[Row], declined: dict[str, str]) -> str:
    heads = ["model", *(f"{name}, ms" for name in VARIANTS), "predicted", "measured"]
    heads += ["auto predicts", "measured", "auto takes", "rounds"]
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1)]
    for row in rows:
        cells = [row.model, *(f"{1e3 * s:.1f}" for s in row.seconds.values())]
        cells += [f"{row.predicted:.2f}", f"{row.measured:.2f}"]
        cells += [f"{row.auto:.2f}", f"{row.divided:.2f}"]
        lines.append([*cells, "lanes" if row.chosen else "one lane", str(row.rounds)])
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    for model, reason in declined.items():
        text += f"\n{model}: {reason}.\n"
    if len(rows) > 2:
        first = correlation([(row.predicted, row.measured) for row in rows])
        second = correlation([(row.auto, row.divided) for row in rows])
        text += (
            "\nSpearman's rank correlation of predicted and measured gains:"
            f" {first:.2f} for lanes of one thread, {second:.2f} for auto.\n"
        )
    return text


def correlation(pairs: Sequence[tuple[float, float]]) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(*zip(*pairs, strict=True)).statistic)


def write(text: str) -> None:
    page = PAGE.read_text("utf-8")
    before, rest = page.split(BEGIN)
    page = before + BEGIN + "\n" + text + "\n" + END + rest.split(END)[1]
    PAGE.write_text(page, "utf-8", newline="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=300, help="for all models")
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.name}")
    options = parser.parse_args()
    rows, declined = [], {}
    for path in options.models:
        with tempfile.TemporaryDirectory() as folder:
            share = options.seconds / len(options.models)
            try:
                found = measure(path, Path(folder), share)
            except (EOFError, OSError, fairhand.FairhandError) as error:
                found = f"not measured, {type(error).__name__}: {error}"
        if isinstance(found, str):
            declined[path.name.removesuffix(".onnx")] = found
        else:
            rows.append(found)
        text = table(rows, declined)
        print(text, flush=True)
        if options.write:
            write(text)


if __name__ == "__main__":
    main()
