"""Lines, classes and instances of the emitted modules of a folder of models.

    python benchmarks/structure.py MODELS [--write docs/structure.md]

For each file the lines of model.py, its classes with the number of their instances, and
the same for the model with all names and metadata stripped. Nothing is run.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import onnx_ir as ir
import pages

from fairhand.codegen import pipeline
from fairhand.codegen.classes.module_classes import ClassTable
from fairhand.codegen.emit.model_file import model_text
from fairhand.codegen.ir.identifiers import class_name
from fairhand.codegen.load.read_model import load
from fairhand.codegen.plan.make_plan import source_plan
from fairhand.codegen.request.options import CompileOptions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    rows = [["model", "lines", "classes x instances", "stripped"]]
    for path in sorted(arguments.models.glob("*.onnx")):
        lines, classes = measured(path, stripped=False)
        _, without = measured(path, stripped=True)
        rows.append([path.stem, str(lines), classes, without])
        print(*rows[-1], sep="\t", flush=True)
    if arguments.write is not None:
        pages.write(arguments.write, {"structure": pages.table(rows, (0, 2, 3))})


def measured(path: Path, stripped: bool) -> tuple[int, str]:
    loaded = load(path)
    if stripped:
        strip(loaded.model)
    seen: list[ClassTable] = []

    class Noted(ClassTable):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            seen.append(self)

    pipeline.ClassTable = Noted  # type: ignore[misc]
    try:
        options, title = CompileOptions(), class_name(path.stem)
        plan = pipeline.lower(loaded, options, source_plan(loaded), title).plan
    finally:
        pipeline.ClassTable = ClassTable  # type: ignore[misc]
    (kinds,) = seen
    counts = Counter(kind.name for kind in kinds.of.values() if not kind.chain)
    many = [(name, n) for name, n in counts.most_common() if n > 1][:4]
    lines = model_text(plan).count("\n")
    return lines, ", ".join(f"{name} x{n}" for name, n in many)


def strip(model: ir.Model) -> None:
    """Forget every name but those of inputs and outputs, and all metadata."""
    graph = model.graph
    kept = {*graph.inputs, *graph.outputs}
    for i, value in enumerate(list(graph.initializers.values())):
        if value in kept:
            continue
        del graph.initializers[value.name or ""]
        value.name = f"w{i}"
        if value.const_value is not None:
            value.const_value.name = value.name
        graph.initializers[value.name] = value
        value.metadata_props.clear()
    for i, node in enumerate(graph):
        node.name, node.doc_string = f"n{i}", None
        node.metadata_props.clear()
        for j, output in enumerate(node.outputs):
            output.metadata_props.clear()
            if output not in kept:
                output.name = f"v{i}_{j}"
    model.metadata_props.clear()


if __name__ == "__main__":
    main()
