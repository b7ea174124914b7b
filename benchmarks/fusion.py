"""How many groups a model's operators come to, by each way of fusing them.

    python benchmarks/export_decomposed.py build/decomposed
    python benchmarks/fusion.py --table5 build/decomposed models/ --write

The .onnx files of the folder after --table5 stand beside DNNFusion's Table 5, those of
the other folders in a table of their own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir
from fusion_baselines import tvm
from pages import DOCS, table, write

from fairhand.analysis.dataflow.dataflow import Dataflow, dataflow
from fairhand.analysis.fusion.dnnfusion import FusionPlan, dnnfusion
from fairhand.analysis.graph.shape_facts import ShapeFacts
from fairhand.analysis.shapes.infer import infer
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.normalise import normalise
from fairhand.rewrites.simplify import simplify

# DNNFusion's Table 5: operators, then groups after TVM (where it ran) and DNNFusion.
TABLE_5: dict[str, tuple[int, int | None, int]] = {
    "efficientnet_b0": (309, 195, 97),
    "vgg16": (51, 22, 17),
    "unet": (292, 232, 82),
    "distilbert": (457, 416, 109),
    "albert": (936, 746, 225),
    "bert_base": (976, 760, 216),
    "mobilebert": (2387, 1678, 510),
    "gpt2": (2533, 2047, 254),
}
BELOW = "†"


@dataclass(frozen=True)
class Counts:
    """One graph under each way of fusing."""

    operators: int
    tvm: int
    table3: int
    intensive: int
    bytes_before: int
    bytes_after: int


def count(model: ir.Model, shapes: ShapeFacts) -> Counts:
    flow: Dataflow = dataflow(model, shapes)
    plan: FusionPlan = dnnfusion(flow)
    return Counts(
        len(flow.operators),
        len(tvm(flow).groups),
        len(dnnfusion(flow, intensive=False).groups),
        len(plan.groups),
        plan.bytes_before,
        plan.bytes_after,
    )


def as_exported(path: Path) -> Counts:
    model = load(path).model.clone()
    normalise(model)
    return count(model, infer(model))


def rewritten(path: Path) -> Counts:
    model = load(path).model.clone()
    return count(model, simplify(model).shapes)


Row = tuple[str, Counts, Counts]


def measured(folders: list[Path]) -> Iterator[Row]:
    paths = [path for folder in folders for path in folder.glob("*.onnx")]
    for path in sorted(paths, key=lambda path: path.name):
        row = (path.name.removesuffix(".onnx"), as_exported(path), rewritten(path))
        print(*row, file=sys.stderr, flush=True)
        yield row


def ours(plain: Counts, small: Counts) -> list[str]:
    def megabytes(found: Counts) -> str:
        return f"{found.bytes_before / 1e6:.0f} -> {found.bytes_after / 1e6:.0f}"

    groups = [str(n) for n in (plain.tvm, plain.table3, plain.intensive)]
    after = [str(n) for n in (small.tvm, small.table3, small.intensive)]
    return [
        *(str(plain.operators), *groups, megabytes(plain)),
        *(str(small.operators), *after, megabytes(small)),
    ]


OURS = [
    *("operators", "tvm", "table 3", "intensive", "MB"),
    *("rewritten", "tvm", "table 3", "intensive", "MB"),
]


def table5_rows(rows: list[Row]) -> Iterator[list[str]]:
    for name, plain, small in rows:
        operators, by_tvm, groups = TABLE_5[name]
        paper = operators / groups
        rates = [
            f"{rate:.2f}{BELOW if rate < paper else ''}"
            for rate in (
                plain.operators / plain.table3,
                plain.operators / plain.intensive,
                plain.operators / small.intensive,
            )
        ]
        their = [str(operators), str(by_tvm or "-"), str(groups), f"{paper:.2f}"]
        yield [name, *their, *ours(plain, small), *rates]


def parts(table5: list[Row], others: list[Row]) -> dict[str, str]:
    head = ["model", "paper: operators", "TVM", "DNNFusion", "rate", *OURS]
    head += ["rate, table 3", "rate, intensive", "rate, rewritten too"]
    rest = ([name, *ours(plain, small)] for name, plain, small in others)
    return {
        "table 5": table([head, *table5_rows(table5)]),
        "other models": table([["model", *OURS], *rest]),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="folder")
    parser.add_argument("--table5", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help="into docs/fusion.md")
    options = parser.parse_args(arguments)
    found = parts(list(measured([options.table5])), list(measured(options.folders)))
    print(*found.values(), sep="\n")
    if options.write:
        write(DOCS / "fusion.md", found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
