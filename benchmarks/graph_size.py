"""How much of a model is left after fairhand's rewriting, and after that of others.

    python benchmarks/graph_size.py models/ --cache DIR
    python benchmarks/graph_size.py models/ --cache DIR --write docs/graph_size.md

Counts nodes and arithmetic operations of every .onnx file in the folders: as it is,
after fairhand, and after each other tool with its default settings. Every tool works in
a fresh process with a time limit, one model at a time.

The cache folder keeps one JSON file per model, tool, version of the tool and version of
the cost model, so that after a change of fairhand only its own column is computed
again, and what failed. Delete the folder after a change of the shape rules or of this
file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pages

import fairhand
from fairhand.analysis.cost import graph_cost
from fairhand.analysis.graph import dims
from fairhand.analysis.ops.facts import flop_counts
from fairhand.analysis.shapes import infer
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.simplify import simplify

ORIGINAL, FAIRHAND = "original", "fairhand"
RIVALS = ("onnxslim", "onnxscript")  # of these fairhand should leave no more nodes
BATCH, OTHER = 1, 128  # what dynamic sizes are taken for
MARK = "†"


@dataclass(frozen=True)
class Size:
    """What one tool makes of one model; `error` says why there is no such thing.

    `flops` is None where the cost model can't tell, for the reason `uncounted`.
    """

    nodes: int = 0
    flops: int | None = None
    intermediate_bytes: int | None = None
    uncounted: str = ""
    error: str = ""


# ---- the tools, each from a file to a graph


def original(path: Path, folder: Path) -> ir.Model:
    return load(path).model.clone()


def by_fairhand(path: Path, folder: Path) -> ir.Model:
    model = load(path).model.clone()
    simplify(model)
    return model


def by_onnxslim(path: Path, folder: Path) -> ir.Model:
    import onnxslim

    return ir.from_proto(onnxslim.slim(str(path)))


def by_onnxscript(path: Path, folder: Path) -> ir.Model:
    from onnxscript.optimizer import optimize

    return optimize(ir.load(path))


def by_onnxruntime(level: str) -> Callable[[Path, Path], ir.Model]:
    def optimised(path: Path, folder: Path) -> ir.Model:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}"
        )
        options.optimized_model_filepath = str(folder / "optimised.onnx")
        prefix = "session.optimized_model_external_initializers"
        options.add_session_config_entry(f"{prefix}_file_name", "optimised.data")
        options.add_session_config_entry(f"{prefix}_min_size_in_bytes", "1024")
        onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        return ir.load(folder / "optimised.onnx")

    return optimised


@dataclass(frozen=True)
class Tool:
    """A column of the tables."""

    title: str
    run: Callable[[Path, Path], ir.Model]
    package: str = ""  # whose version counts; "" for what no package decides

    @property
    def version(self) -> str:
        return version(self.package) if self.package else ""


TOOLS = {
    ORIGINAL: Tool("file", original),
    FAIRHAND: Tool("fairhand", by_fairhand),
    "onnxslim": Tool("onnxslim", by_onnxslim, "onnxslim"),
    "onnxscript": Tool("onnxscript", by_onnxscript, "onnxscript"),
    "ort-basic": Tool("ONNX Runtime basic", by_onnxruntime("BASIC"), "onnxruntime"),
    "ort-extended": Tool(
        "ONNX Runtime extended", by_onnxruntime("EXTENDED"), "onnxruntime"
    ),
}


# ---- one measurement


def measure_here(tool: str, path: str, result: str) -> None:
    """The measuring process."""
    with tempfile.TemporaryDirectory() as folder:
        model = TOOLS[tool].run(Path(path), Path(folder))
        Path(result).write_text(json.dumps(asdict(size_of(model))), "utf-8")


def size_of(model: ir.Model) -> Size:
    """Nodes and operations of a graph, whose dynamic sizes become fixed."""
    if model.functions:
        ir.passes.common.InlinePass()(model)
    constant = ("", "Constant")
    nodes = [n for n in model.graph.all_nodes() if (n.domain, n.op_type) != constant]
    foreign = sorted({f"{n.domain}::{n.op_type}" for n in nodes if n.domain})
    if foreign:
        return Size(len(nodes), uncounted=" ".join(foreign))
    try:
        fix_sizes(model.graph)
        found = graph_cost.graph_cost(model, infer.infer(model))
    except fairhand.FairhandError as error:
        return Size(len(nodes), uncounted=str(error))
    if found.unknown or not isinstance(found.flops, int):
        unclear = " ".join(found.unknown) or f"{found.flops} operations"
        return Size(len(nodes), uncounted=unclear)
    held = found.intermediate_bytes
    known = isinstance(held, int) and not found.unsized
    return Size(len(nodes), found.flops, int(held) if known else None)


def fix_sizes(graph: ir.Graph) -> None:
    """Put numbers for the dynamic sizes of a graph's inputs."""
    named: dict[str, int] = {}
    for value in graph.inputs:
        for size in value.shape or ():
            if isinstance(size, ir.SymbolicDim) and (name := size.value):
                is_batch = "batch" in name.lower() or name in {"B", "N", "b", "n"}
                named[name] = BATCH if is_batch else OTHER
    for value in graph.inputs:
        if value.shape is not None:
            sizes = (fixed(d, axis, named) for axis, d in enumerate(value.shape))
            value.shape = ir.Shape(sizes)


def fixed(size: int | ir.SymbolicDim, axis: int, named: dict[str, int]) -> int:
    if isinstance(size, int):
        return size
    if not size.value:
        return BATCH if axis == 0 else OTHER
    others = {name: n for name, n in named.items() if name.isidentifier()}
    derived = dims.parse(size.value, others)  # such as "past + 1"
    return derived if isinstance(derived, int) else named[size.value]


def measure(tool: str, path: Path, seconds: float) -> Size:
    """Run one tool on one model in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        result, said = Path(folder) / "result.json", Path(folder) / "said.txt"
        command = [sys.executable, __file__, "--child", tool, path, result]
        with said.open("wb") as output:
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=seconds,
                )
            except subprocess.TimeoutExpired:
                return Size(error=f"not done in {seconds:.0f} s")
        if done.returncode:
            lines = said.read_text("utf-8", "replace").strip().splitlines()
            last = lines[-1] if lines else ""
            return Size(error=f"exit code {done.returncode}: {last}"[:300])
        return Size(**json.loads(result.read_text("utf-8")))


class Cache:
    """Measurements in a folder; those of fairhand, and failures, are never kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        sources = b"".join(
            Path(str(m.__file__)).read_bytes() for m in (flop_counts, graph_cost)
        )
        self.counting = hashlib.sha256(sources).hexdigest()[:12]

    def measured(self, tool: str, path: Path, sha256: str, seconds: float) -> Size:
        parts = (sha256[:24], tool, TOOLS[tool].version, self.counting)
        file = self.folder / f"{'_'.join(p for p in parts if p)}.json"
        if tool != FAIRHAND and file.exists():
            return Size(**json.loads(file.read_text("utf-8"))["size"])
        size = measure(tool, path, seconds)
        if tool != FAIRHAND and not size.error:
            kept: dict[str, Any] = {"model": path.name, "size": asdict(size)}
            file.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        return size


# ---- the page

Table = dict[str, dict[str, Size]]  # by model, then by tool


def loses(row: dict[str, Size]) -> bool:
    """Whether fairhand leaves more nodes than one of its rivals, or fails alone."""
    own = row[FAIRHAND]
    others = [row[tool] for tool in RIVALS if not row[tool].error]
    return any(own.error or own.nodes > other.nodes for other in others)


def node_cells(name: str, row: dict[str, Size]) -> Iterator[str]:
    yield name
    for tool, size in row.items():
        mark = f" {MARK}" if tool == FAIRHAND and loses(row) else ""
        yield ("fails" if size.error else str(size.nodes)) + mark


def flop_cells(name: str, row: dict[str, Size]) -> Iterator[str]:
    yield name
    for size in row.values():
        known = "-" if size.flops is None else f"{size.flops / 1e6:.2f}"
        yield "fails" if size.error else known


def mean_ratios(table: Table) -> Iterator[str]:
    """Nodes as a share of the file's: geometric means where no tool fails."""
    rows = [r for r in table.values() if not any(s.error for s in r.values())]
    yield f"geometric mean of {len(rows)}, to the file"
    for tool in TOOLS:
        ratios = [math.log(r[tool].nodes / r[ORIGINAL].nodes) for r in rows]
        yield f"{math.exp(math.fsum(ratios) / len(rows)):.3f}" if rows else "-"


def parts(table: Table) -> dict[str, str]:
    names = {tool.package for tool in TOOLS.values() if tool.package}
    versions = [f"{name} {version(name)}" for name in sorted(names)]
    head = ["model", *(tool.title for tool in TOOLS.values())]
    nodes = [node_cells(name, row) for name, row in table.items()]
    flops_of = (flop_cells(name, row) for name, row in table.items())
    return {
        "tools": ", ".join([f"fairhand {fairhand.__version__}", *versions]) + ".",
        "nodes": pages.table([head, *nodes, mean_ratios(table)]),
        "operations": pages.table([head, *flops_of]),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="folder")
    parser.add_argument("--cache", type=Path, required=True, help="folder to keep")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="which has marks")
    parser.add_argument("--timeout", type=float, default=600, help="seconds per run")
    options = parser.parse_args(arguments)
    cache, table = Cache(options.cache), {}
    paths = [file for folder in options.folders for file in folder.glob("*.onnx")]
    for path in sorted(paths, key=lambda path: path.name):
        sha256 = load(path).sha256
        row = {t: cache.measured(t, path, sha256, options.timeout) for t in TOOLS}
        table[path.name.removesuffix(".onnx")] = row
        print(*node_cells(path.name, row), file=sys.stderr, flush=True)
        for tool, size in row.items():
            if size.error:
                print(f"  {tool} fails: {size.error}", file=sys.stderr)
    if options.write is None:
        print(*parts(table).values(), sep="\n")
    else:
        pages.write(options.write, parts(table))
    return 1 if any(row[FAIRHAND].error for row in table.values()) else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        measure_here(*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
