"""Speed on a GPU: packages with Triton kernels beside PyTorch's own ways to run them.

    python benchmarks/gpu.py models/ --page docs/performance_gpu.md

Each model, at each batch size that it allows and in each type of --types, is measured
in a process of its own. What PyTorch runs is the plain package of the same model: as it
stands (`eager`), replayed as a CUDA graph (`graphed`), by torch.compile (`compile`),
that replayed (`compile graphed`, its mode "reduce-overhead"), and with --modes its
mode "max-autotune" (`autotune`). Ours is the package with kernels, called (`kernels`)
and replayed (`kernels graphed`). All take tensors on the GPU; times are medians with a
cold cache. Beside them stand the launches of a call, the largest difference from ONNX
Runtime in float32 on a CPU, and for each kernel its difference from its twin and its
share of what bounds it: of the measured bandwidth of a copy, or for a product of the
speed of cuBLAS or cuDNN on it alone.

--jobs so many processes set up at once, which takes most of the time; then one after
the other times what it has, with the machine to itself. --profile chooses kernels and
their launches by measurement. Results are kept in --results: a run that was stopped
goes on where it was. Without a GPU nothing is done.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
import torch.nn.functional as F

import fairhand
from fairhand.codegen.load.read_model import load
from fairhand.codegen.verify.input_sizes import dynamic_sizes
from fairhand.codegen.verify.inputs import make_inputs

THEIRS = ("eager", "graphed", "compile", "compile graphed", "autotune")
OURS = ("kernels", "kernels graphed")
SHOWN = ("eager", "compile", "kernels")
KINDS = {"plain": [], "fused": ["--target", "triton"]}
MODES: dict[str, dict[str, Any]] = {
    "compile": {},
    "compile graphed": {"mode": "reduce-overhead"},
    "autotune": {"mode": "max-autotune"},
}
COPIED = 2**30  # bytes of the copy whose bandwidth is measured
WARM_UP = 3
READY = "ready to be timed\n"
PAGE = """\
# Speed on a GPU

<!-- Written by benchmarks/gpu.py; don't edit. -->

{machine}

{tables}"""

Call = Callable[[], object]
Row = dict[str, Any]
Make = Callable[[Sequence[str]], str]  # a package: why it can't be, or nothing


class Card:
    """A GPU and its clock."""

    device = "cuda"

    def seconds(self, call: Call) -> float:
        from triton.testing import do_bench

        return float(do_bench(call, return_mode="median")) / 1e3

    def replayed(self, call: Call) -> float:
        """Of a graph of many calls: what the card takes, however long a launch does."""
        from triton.testing import do_bench_cudagraph

        return float(do_bench_cudagraph(call, return_mode="median")) / 1e3

    def graphed(self, call: Call) -> Call:
        """Replays what a call launches."""
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                call()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph, stream=stream):
            results = call()

        def replay(inputs: Call = call) -> object:  # it holds what is read
            graph.replay()
            return results

        return replay

    def launches(self, call: Call) -> int:
        """Kernels of one call: copies and fills of memory are none."""
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as found:
            call()
            torch.cuda.synchronize()
        names = [e.name for e in found.events() if e.device_type.name == "CUDA"]
        return sum(not name.startswith(("Memcpy", "Memset")) for name in names)

    @cached_property
    def copy_rate(self) -> float:
        """Bytes per second that a copy reads and writes."""
        x = torch.empty(COPIED, dtype=torch.uint8, device=self.device)
        y = torch.empty_like(x)
        return 2 * COPIED / self.seconds(lambda: y.copy_(x))

    def name(self) -> str:
        return torch.cuda.get_device_name()


# ---- one process: one model, one batch size


class Package:
    """An emitted package, with the inputs of its forward."""

    def __init__(self, folder: Path, feed: Mapping[str, np.ndarray], card: Card):
        sys.path.insert(0, str(folder.parent))
        self.name, self.card, self.feed = folder.name, card, feed
        self.has_kernels = (folder / "kernels.py").exists()
        importlib.import_module(folder.name)
        self.model, self.session = (
            importlib.import_module(f"{folder.name}.{part}")
            for part in ("model", "session")
        )

    def call(
        self, dtype: str = "float32", compiler: dict[str, Any] | None = None
    ) -> Call:
        """Its forward on tensors of the card, those of floats in this type."""
        kind = getattr(torch, dtype)
        network = self.model.load(device=self.card.device).to(kind)
        if compiler is not None:
            network = torch.compile(network, **compiler)
        tensors = {}
        for name in self.model.INPUTS:
            array = np.ascontiguousarray(self.feed[name])
            x = torch.from_numpy(array).to(self.card.device)
            tensors[name] = x.to(kind) if x.dtype == torch.float32 else x
        if hasattr(self.model, "NESTED"):
            network = self.session.flat_network(network)

        def call() -> object:
            with torch.inference_mode():
                return network(*tensors.values())

        return call

    def results(self, made: Any) -> list[np.ndarray]:
        """In the order of the ONNX outputs."""
        return [numbers_of(x) for x in flat(made)]


def flat(made: Any) -> tuple[Any, ...]:
    return tuple(made) if isinstance(made, tuple | list) else (made,)


def numbers_of(x: torch.Tensor) -> np.ndarray:
    return (x.float() if x.is_floating_point() else x).cpu().numpy()


@dataclass(frozen=True)
class Job:
    """What one process measures: a model at one batch size in one type."""

    model: str
    packages: str  # the folder of both of its packages
    batch: int
    dtype: str
    sizes: Mapping[str, int]  # of dimensions by name
    modes: Sequence[str]

    @property
    def name(self) -> str:
        return Path(self.model).stem

    @property
    def table(self) -> str:
        return f"{self.dtype}, batch {self.batch}"


def measure(job: Job, card: Card) -> Iterator[Row]:
    """Sets all up, for an empty row; then measures it."""
    model, packages, dtype = Path(job.model), Path(job.packages), job.dtype
    loaded = load(model).model
    sizes = {**dynamic_sizes(loaded)[0], **job.sizes, "batch": job.batch}
    feed = dict(make_inputs(loaded, 0, sizes))
    beside = model.with_suffix(".npz")
    if job.batch == 1 and not job.sizes and beside.exists():
        with np.load(beside) as file:
            feed = {name: file[f"in:{name}"] for name in feed}
    options = ort.SessionOptions()
    options.log_severity_level = 4
    reference = ort.InferenceSession(model, options, ["CPUExecutionProvider"])
    wanted = reference.run(None, feed)
    plain = Package(packages / "plain", feed, card)
    ours = Package(packages / "fused", feed, card)
    makers: dict[str, Callable[[], Call]] = {
        "eager": partial(plain.call, dtype),
        "graphed": lambda: card.graphed(plain.call(dtype)),
        **{name: partial(plain.call, dtype, MODES[name]) for name in job.modes},
        "kernels": partial(ours.call, dtype),
        "kernels graphed": lambda: card.graphed(ours.call(dtype)),
    }
    row: Row = {"seconds": {}, "launches": {}, "errors": {}, "failed": {}}
    calls: dict[str, Call] = {}
    for name, make in makers.items():
        try:
            call = make()
            for _ in range(WARM_UP):
                found = call()
            package = ours if name in OURS else plain
            row["errors"][name] = error_of(package.results(found), wanted)
            calls[name] = call
        except Exception as error:  # what can't be captured or compiled is a result
            row["failed"][name] = f"{type(error).__name__}: {error}"[:300]
    kernels = list(kernels_of(ours, dtype)) if ours.has_kernels else []
    yield {}
    for name, call in calls.items():
        row["seconds"][name] = card.seconds(call)
        row["launches"][name] = card.launches(call)
    row["kernels"] = [timed(kernel, card) for kernel in kernels]
    yield row


def error_of(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """The largest difference, relative to the largest element of each output."""
    return max(
        float(np.abs(np.subtract(a, b, dtype=np.float64)).max())
        / max(1e-3, float(np.abs(b).max()))
        for a, b in zip(found, wanted, strict=True)
    )


@dataclass
class Kernel:
    """One of a package's, with what it is given at its first place."""

    name: str
    places: int
    calls: tuple[Call, Call]  # it and its twin
    alone: Call | None  # its product
    bytes: int
    error: float


def kernels_of(package: Package, dtype: str) -> Iterator[Kernel]:
    kernels = importlib.import_module(f"{package.name}.kernels")
    names = [n.removesuffix("_reference") for n in vars(kernels) if "_reference" in n]
    first: dict[str, tuple[tuple, dict]] = {}
    places: Counter[str] = Counter()

    def recording(name: str) -> Callable[..., Any]:
        function = getattr(kernels, name)

        def recorded(*given: Any, **numbers: Any) -> Any:
            first.setdefault(name, (given, numbers))
            places[name] += 1
            return function(*given, **numbers)

        return recorded

    for name in (n for n in names if hasattr(package.model, n)):
        setattr(package.model, name, recording(name))
    package.call(dtype)()
    for name, (given, numbers) in first.items():
        kernel, twin = (
            partial(getattr(kernels, name + end), *given, **numbers)
            for end in ("", "_reference")
        )
        with torch.inference_mode():
            made, wanted = flat(kernel()), flat(twin())
            alone = product_alone(given)
            if alone is not None:
                alone()
        tensors = [*given, *made]
        size = sum(x.nbytes for x in tensors if isinstance(x, torch.Tensor))
        error = max(
            error_of([numbers_of(a)], [numbers_of(b)])
            for a, b in zip(made, wanted, strict=True)
        )
        yield Kernel(name, places[name], (kernel, twin), alone, size, error)


def timed(kernel: Kernel, card: Card) -> Row:
    """Its time, its twin's, and its share of a bound: replayed, without launches."""
    with torch.inference_mode():
        seconds, twin = map(card.replayed, kernel.calls)
        alone = kernel.alone
        bound = card.replayed(alone) if alone else kernel.bytes / card.copy_rate
    row = {"name": kernel.name, "places": kernel.places, "bytes": kernel.bytes}
    row |= {"seconds": seconds, "twin": twin, "error": kernel.error}
    return row | {"bound": "product" if alone else "copy", "share": bound / seconds}


def product_alone(given: Sequence[Any]) -> Call | None:
    """What cuBLAS or cuDNN computes of a kernel's arguments, if it has a product."""
    for x, weight in pairwise(t for t in given if isinstance(t, torch.Tensor)):
        if x.dim() < 2 or x.dtype != weight.dtype or not x.is_floating_point():
            continue
        if weight.dim() == 2 and weight.shape[1] == x.shape[-1]:
            return partial(F.linear, x, weight)
        if weight.dim() == x.dim() == 4 and weight.shape[1:] == (x.shape[1], 1, 1):
            return partial(F.conv2d, x, weight)
    return None


# ---- all of them


def compiled(model: Path, options: argparse.Namespace, make: Make) -> str:
    """Makes the package without kernels, and the one with them, unless they are there;
    says why where it can't be done."""
    for kind, besides in KINDS.items():
        folder = options.packages.resolve() / model.stem / kind
        if (folder / "report.json").exists():
            continue
        flags = ["--profile"] if options.profile and besides else []
        flags += ["--no-verify"] if options.no_verify else []
        command = ["compile", model, "-o", folder, "--engine", "eager"]
        if why := make([*map(str, command), *besides, *flags]):
            return why
    return ""


def by_command(arguments: Sequence[str]) -> str:
    command = [sys.executable, "-m", "fairhand", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stderr.strip() or "crashed")[-300:] if done.returncode else ""


def in_processes(jobs: Sequence[Job]) -> Iterator[Row]:
    """All set up at once; each waits for its turn."""
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    if len(jobs) > 1:
        environment.setdefault("OMP_NUM_THREADS", "1")
    logs = [tempfile.TemporaryFile("w+") for _ in jobs]  # noqa: SIM115
    running = [
        subprocess.Popen(
            [sys.executable, __file__, "--child", json.dumps(asdict(job))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            text=True,
        )
        for job, log in zip(jobs, logs, strict=True)
    ]
    with ThreadPoolExecutor(len(jobs)) as pool:
        ready = list(pool.map(is_ready, running))
    for child, waits, log in zip(running, ready, logs, strict=True):
        found, _ = child.communicate("go\n" if waits else None)
        lines = found.strip().splitlines()
        log.seek(0)
        why = (log.read().strip().splitlines() or ["crashed"])[-1][:300]
        yield json.loads(lines[-1]) if lines else {"broken": why}


def is_ready(child: subprocess.Popen[str]) -> bool:
    """Once it is set up; False if it ended instead."""
    return any(line == READY for line in child.stdout or ())


def jobs_of(model: Path, options: argparse.Namespace) -> Iterator[Job]:
    folder = str(options.packages.resolve() / model.stem)
    sizes = {name: int(n) for name, _, n in (s.partition("=") for s in options.size)}
    for batch in batches_of(model, options.batches):
        for dtype in options.types:
            yield Job(str(model), folder, batch, dtype, sizes, options.modes)


def batches_of(model: Path, wanted: Sequence[int]) -> list[int]:
    """Those that its inputs allow: one where they have no dimension of that name."""
    try:
        sizes = dynamic_sizes(load(model).model)
    except fairhand.FairhandError:  # as a row of the results will say
        return [1]
    return list(wanted) if sizes and "batch" in sizes[0] else [1]


def page(results: Mapping[str, Any]) -> str:
    tables = "".join(
        f"## {name}\n\n{table(rows)}\n"
        for name, rows in sorted(results["tables"].items())
    )
    return PAGE.format(machine=results["machine"], tables=tables)


def table(rows: Mapping[str, Row]) -> str:
    found = {c for row in rows.values() for c in row.get("seconds", ())}
    columns = [c for c in (*THEIRS, *OURS) if c in found]
    shown = [c for c in SHOWN if c in found]
    heads = ["model", *(f"{c}, ms" for c in columns), "launches", "errors"]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    good = {name: row for name, row in sorted(rows.items()) if "seconds" in row}
    for name, row in good.items():
        times = [row["seconds"].get(c) for c in columns]
        cells = [name, *("-" if s is None else f"{1e3 * s:.3f}" for s in times)]
        cells.append(" / ".join(str(row["launches"].get(c, "-")) for c in shown))
        cells.append(" / ".join(f"{row['errors'].get(c, math.nan):.0e}" for c in shown))
        lines.append(cells)
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    text += f"\nLaunches and errors are those of {' / '.join(shown)}.\n"
    for mine in OURS:
        for other in THEIRS:
            pairs = [row["seconds"] for row in good.values()]
            ratios = [p[other] / p[mine] for p in pairs if {other, mine} <= p.keys()]
            if ratios:
                mean = math.exp(statistics.fmean(map(math.log, ratios)))
                text += f"\nGeometric mean of {other} / {mine}: {mean:.2f}, least"
                text += f" {min(ratios):.2f} ({len(ratios)} networks).\n"
    text += f"\n{kernel_table(good)}"
    for name, row in sorted(rows.items()):
        failed = row.get("failed", {"": row.get("broken")})
        text += "".join(f"\n{name} {what}: {why}\n" for what, why in failed.items())
    return text.rstrip() + "\n"


def kernel_table(rows: Mapping[str, Row]) -> str:
    lines = [
        "| kernel | model | places | us | PyTorch, us | share | of | error |",
        "|---|---|---:|---:|---:|---:|---|---:|",
    ]
    for name, row in rows.items():
        for k in row["kernels"]:
            times = f"{1e6 * k['seconds']:.1f} | {1e6 * k['twin']:.1f}"
            share = f"{k['share']:.2f} | {k['bound']} | {k['error']:.0e}"
            lines.append(
                f"| {k['name']} | {name} | {k['places']} | {times} | {share} |"
            )
    return "\n".join(lines) + "\n"


def models(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.glob("*.onnx")) if path.is_dir() else [path]


def machine(card: Card) -> str:
    return (
        f"{card.name()}; PyTorch {torch.__version__}, CUDA {torch.version.cuda}. A copy"
        f" on it moves {card.copy_rate / 1e9:.0f} GB/s."
    )


def main(
    arguments: Sequence[str],
    card: Card | None = None,
    run: Callable[[Sequence[Job]], Iterable[Row]] = in_processes,
    make: Make = by_command,
) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path, help=".onnx files or folders")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--types", nargs="+", default=["float32", "float16"])
    parser.add_argument("--size", nargs="+", default=[], metavar="NAME=N")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=[*MODES][:2])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--packages", type=Path, default=Path("build/gpu_packages"))
    parser.add_argument("--results", type=Path, default=Path("build/gpu.json"))
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    if card is None and not torch.cuda.is_available():
        print("no GPU that PyTorch can use here: nothing was measured", file=sys.stderr)
        return 1
    card = card or Card()
    results: dict[str, Any] = {"tables": {}}
    if options.results.exists():
        results = json.loads(options.results.read_text("utf-8"))
    results["machine"] = machine(card)
    found = list(map(Path.resolve, models(options.models)))
    with ThreadPoolExecutor(options.jobs) as pool:
        made = pool.map(partial(compiled, options=options, make=make), found)
        refused = dict(zip(found, made, strict=True))
    jobs = [job for model in found for job in jobs_of(model, options)]
    left = [j for j in jobs if j.name not in results["tables"].get(j.table, {})]
    for start in range(0, len(left), options.jobs):
        part = left[start : start + options.jobs]
        good = [job for job in part if not refused[Path(job.model)]]
        rows = iter(run(good)) if good else iter(())
        for job in part:
            why = refused[Path(job.model)]
            row = {"broken": why} if why else next(rows)
            results["tables"].setdefault(job.table, {})[job.name] = row
            print(job.table, job.name, row.get("seconds", row), file=sys.stderr)
            options.results.parent.mkdir(parents=True, exist_ok=True)
            options.results.write_text(json.dumps(results, indent=1), "utf-8")
    text = page(results)
    options.page.write_text(text, "utf-8") if options.page else print(text)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        steps = measure(Job(**json.loads(sys.argv[2])), Card())
        next(steps)
        print(READY, end="", flush=True)
        sys.stdin.readline()
        print(json.dumps(next(steps)))
    else:
        sys.exit(main(sys.argv[1:]))
