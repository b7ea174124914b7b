"""Speed on a GPU: packages with Triton kernels beside PyTorch's own ways to run them.

    python benchmarks/gpu.py models/ --page docs/performance_gpu.md

Each model, at each batch size that it allows, is measured in a process of its own. What
PyTorch runs is the plain package of the same model: as it stands (`eager`), replayed as
a CUDA graph (`graphed`), by torch.compile (`compile`) and by torch.compile with
mode="max-autotune" (`autotune`). Ours is the package with kernels, called (`kernels`)
and replayed (`kernels graphed`). All take tensors on the GPU; times are medians with a
cold cache. Beside them stand the launches of a call, the largest difference from ONNX
Runtime in each type, and for each kernel its share of what bounds it: of the measured
bandwidth of a copy, or for a product of the speed of cuBLAS or cuDNN on it alone.

--profile chooses kernels and their launches by measurement. Results are kept in
--results: a run that was stopped goes on where it was. Without a GPU nothing is done.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
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

THEIRS = ("eager", "graphed", "compile", "autotune")
OURS = ("kernels", "kernels graphed")
TYPES = ("float32", "float16", "bfloat16")
COPIED = 2**30  # bytes of the copy whose bandwidth is measured
WARM_UP = 3
PAGE = """\
# Speed on a GPU

<!-- Written by benchmarks/gpu.py; don't edit. -->

{machine}

{tables}"""

Call = Callable[[], object]
Row = dict[str, Any]


class Card:
    """A GPU and its clock."""

    device = "cuda"

    def seconds(self, call: Call) -> float:
        from triton.testing import do_bench

        return float(do_bench(call, return_mode="median")) / 1e3

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

        def replay() -> object:
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
        for name, array in self.feed.items():
            x = torch.from_numpy(np.ascontiguousarray(array)).to(self.card.device)
            tensors[name] = x.to(kind) if x.dtype == torch.float32 else x
        nested = hasattr(self.model, "NESTED")
        inputs = self.session.arguments(tensors) if nested else list(tensors.values())

        def call() -> object:
            with torch.inference_mode():
                return network(*inputs)

        return call

    def results(self, made: Any) -> list[np.ndarray]:
        """In the order of the ONNX outputs."""
        if hasattr(self.model, "NESTED"):
            found = self.session.named(made)
            made = tuple(found[name] for name in self.model.OUTPUTS)
        flat = made if isinstance(made, tuple) else (made,)
        return [(x.float() if x.is_floating_point() else x).cpu().numpy() for x in flat]


def measure(model: Path, packages: Path, batch: int, card: Card) -> Row:
    loaded = load(model).model
    sizes = {**dynamic_sizes(loaded)[0], "batch": batch}
    feed = dict(make_inputs(loaded, 0, sizes))
    beside = model.with_suffix(".npz")
    if batch == 1 and beside.exists():
        with np.load(beside) as file:
            feed = {name: file[f"in:{name}"] for name in feed}
    options = ort.SessionOptions()
    options.log_severity_level = 4
    reference = ort.InferenceSession(model, options, ["CPUExecutionProvider"])
    wanted = reference.run(None, feed)
    plain = Package(packages / "plain", feed, card)
    ours = Package(packages / "fused", feed, card)
    row: Row = {"seconds": {}, "launches": {}, "errors": {}, "failed": {}}
    makers: dict[str, Callable[[], Call]] = {
        "eager": plain.call,
        "graphed": lambda: card.graphed(plain.call()),
        "compile": lambda: plain.call(compiler={}),
        "autotune": lambda: plain.call(compiler={"mode": "max-autotune"}),
        "kernels": ours.call,
        "kernels graphed": lambda: card.graphed(ours.call()),
    }
    for name, make in makers.items():
        try:
            call = make()
            for _ in range(WARM_UP):
                found = call()
            package = ours if name in OURS else plain
            row["errors"][name] = error_of(package.results(found), wanted)
            row["seconds"][name] = card.seconds(call)
            row["launches"][name] = card.launches(call)
        except Exception as error:  # what can't be captured or compiled is a result
            row["failed"][name] = f"{type(error).__name__}: {error}"[:200]
    for dtype in TYPES:
        try:
            row["errors"][dtype] = error_of(ours.results(ours.call(dtype)()), wanted)
        except Exception as error:
            row["failed"][dtype] = f"{type(error).__name__}: {error}"[:200]
    row["kernels"] = kernels_of(ours, card) if ours.has_kernels else []
    return row


def error_of(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """The largest difference, relative to the largest element of each output."""
    return max(
        float(np.abs(np.subtract(a, b, dtype=np.float64)).max())
        / max(1e-3, float(np.abs(b).max()))
        for a, b in zip(found, wanted, strict=True)
    )


def kernels_of(package: Package, card: Card) -> list[Row]:
    """Each at its first place: its time, its twin's, and its share of a bound."""
    kernels = importlib.import_module(f"{package.name}.kernels")
    names = [n.removesuffix("_reference") for n in vars(kernels) if "_reference" in n]
    first: dict[str, tuple[tuple, dict]] = {}

    def recording(name: str) -> Callable[..., Any]:
        function = getattr(kernels, name)

        def recorded(*given: Any, **numbers: Any) -> Any:
            first.setdefault(name, (given, numbers))
            return function(*given, **numbers)

        return recorded

    for name in (n for n in names if hasattr(package.model, n)):
        setattr(package.model, name, recording(name))
    package.call()()
    rate, rows = card.copy_rate(), []
    for name, (given, numbers) in first.items():
        kernel, twin = (getattr(kernels, name + end) for end in ("", "_reference"))
        made = kernel(*given, **numbers)
        tensors = [*given, *(made if isinstance(made, tuple) else (made,))]
        sizes = [x.nbytes for x in tensors if isinstance(x, torch.Tensor)]
        seconds = card.seconds(partial(kernel, *given, **numbers))
        row: Row = {"name": name, "seconds": seconds, "bytes": sum(sizes)}
        row["twin"] = card.seconds(partial(twin, *given, **numbers))
        alone = product_alone(given)
        share = card.seconds(alone) if alone else sum(sizes) / rate
        row["bound"], row["share"] = "product" if alone else "copy", share / seconds
        rows.append(row)
    return rows


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


def compiled(model: Path, folder: Path, options: argparse.Namespace) -> None:
    """The package without kernels, and the one with them, unless they are there."""
    given = {"verify": not options.no_verify, "engine": "eager"}
    if not (folder / "plain" / "report.json").exists():
        fairhand.compile(model, folder / "plain", **given)
    if not (folder / "fused" / "report.json").exists():
        profile = {"target": "triton", "profile": options.profile}
        fairhand.compile(model, folder / "fused", **given, **profile)


def in_a_process(model: Path, packages: Path, batch: int) -> Row:
    command = [sys.executable, __file__, "--child", model, packages, batch]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        return {"broken": (done.stderr.strip().splitlines() or ["crashed"])[-1][:300]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def batches_of(model: Path, wanted: Sequence[int]) -> list[int]:
    """Those that its inputs allow: one where they have no dimension of that name."""
    try:
        sizes = dynamic_sizes(load(model).model)
    except fairhand.FairhandError:  # as a row of the results will say
        return [1]
    return list(wanted) if sizes and "batch" in sizes[0] else [1]


def page(results: Mapping[str, Any]) -> str:
    tables = "".join(
        f"## Batch {batch}\n\n{table(rows)}\n"
        for batch, rows in sorted(results["batches"].items(), key=lambda b: int(b[0]))
    )
    return PAGE.format(machine=results["machine"], tables=tables)


def table(rows: Mapping[str, Row]) -> str:
    columns = (*THEIRS, *OURS)
    heads = ["model", *(f"{c}, ms" for c in columns), "launches", *TYPES]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    good = {name: row for name, row in sorted(rows.items()) if "seconds" in row}
    for name, row in good.items():
        times = [row["seconds"].get(c) for c in columns]
        launches = [str(row["launches"].get(c, "-")) for c in columns[::2]]
        errors = [row["errors"].get(t) for t in TYPES]
        cells = [name, *("-" if s is None else f"{1e3 * s:.3f}" for s in times)]
        cells.append(" / ".join(launches))
        lines.append([*cells, *("-" if e is None else f"{e:.0e}" for e in errors)])
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    text += f"\nLaunches are those of {' / '.join(columns[::2])}.\n"
    for other in THEIRS:
        pairs = [row["seconds"] for row in good.values()]
        ratios = [p[other] / p[OURS[1]] for p in pairs if {other, OURS[1]} <= p.keys()]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            text += f"\nGeometric mean of {other} / {OURS[1]}: {mean:.2f}."
    text += f"\n\n{kernel_table(good)}"
    for name, row in sorted(rows.items()):
        failed = row.get("failed", {"": row.get("broken")})
        text += "".join(f"\n{name} {what}: {why}" for what, why in failed.items())
    return text.rstrip() + "\n"


def kernel_table(rows: Mapping[str, Row]) -> str:
    lines = [
        "| kernel | model | us | PyTorch, us | share | of |",
        "|---|---|---:|---:|---:|---|",
    ]
    for name, row in rows.items():
        for k in row["kernels"]:
            times = f"{1e6 * k['seconds']:.1f} | {1e6 * k['twin']:.1f}"
            share = f"{k['share']:.2f} | {k['bound']}"
            lines.append(f"| {k['name']} | {name} | {times} | {share} |")
    return "\n".join(lines) + "\n"


def models(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.glob("*.onnx")) if path.is_dir() else [path]


def machine(card: Card) -> str:
    return (
        f"{card.name()}; PyTorch {torch.__version__}, CUDA {torch.version.cuda}. A copy"
        f" on it moves {card.copy_rate() / 1e9:.0f} GB/s."
    )


def main(
    arguments: Sequence[str],
    card: Card | None = None,
    run: Callable[[Path, Path, int], Row] = in_a_process,
) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path, help=".onnx files or folders")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
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
    results: dict[str, Any] = {"batches": {}}
    if options.results.exists():
        results = json.loads(options.results.read_text("utf-8"))
    results["machine"] = machine(card)
    for model in map(Path.resolve, models(options.models)):
        folder = options.packages.resolve() / model.stem
        for batch in batches_of(model, options.batches):
            rows = results["batches"].setdefault(str(batch), {})
            if model.stem in rows:
                continue
            try:
                compiled(model, folder, options)
                rows[model.stem] = run(model, folder, batch)
            except Exception as error:
                rows[model.stem] = {"broken": f"{type(error).__name__}: {error}"[:300]}
            print(model.stem, batch, rows[model.stem].get("seconds"), file=sys.stderr)
            options.results.parent.mkdir(parents=True, exist_ok=True)
            options.results.write_text(json.dumps(results, indent=1), "utf-8")
    text = page(results)
    options.page.write_text(text, "utf-8") if options.page else print(text)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        path_, packages_, batch_ = sys.argv[2:]
        print(json.dumps(measure(Path(path_), Path(packages_), int(batch_), Card())))
    else:
        sys.exit(main(sys.argv[1:]))
