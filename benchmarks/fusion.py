"""How many groups a model's operators come to, by each way of fusing them.

    python benchmarks/export_decomposed.py build/decomposed
    python benchmarks/fusion.py --table5 build/decomposed models/ --out docs/fusion.md

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

from fairhand.analysis.dataflow.dataflow import Dataflow, dataflow
from fairhand.analysis.fusion.dnnfusion import FusionPlan, dnnfusion
from fairhand.analysis.fusion.tvm_baseline import tvm
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
PAGE = """\
# Fusion

<!-- Written by benchmarks/fusion.py; don't edit. -->

How many groups a model's operators come to. *tvm* are the rules of TVM's FuseOps, the
baseline. *table 3* is DNNFusion's plan with the breaks of its table as they are;
*intensive* is the plan that `inspect --fusion` shows, in which a break is passed over
where each tile is used up when it has been computed, as in AGO. Costs are
estimates for one core; dynamic sizes are taken for 128, a batch for 1. *operators* are
those of the file in their newest spelling, Constant nodes aside, and *rewritten* those
that fairhand's rules leave. MB are those of intermediate values, before and after the
intensive plan. A rate is that of the operators before rewriting to the groups.

## What a group becomes

Nothing changes in the emitted code unless `compile --fusion dnnfusion` (or `tvm`) asks
for it: a person reads statements more easily than groups. Then each group with three or
more statements in one class becomes a method that is called in their place, named after
its first operators (`conv_relu_concat`); it computes the same bits. A group of two is
one expression anyway, such as `F.relu(self.conv1(x))`. A group is cut where it reaches
into another class, and follows the first instance of its own class.

On a CPU such a method is a name and a boundary, no faster than its statements: PyTorch
runs them one by one, and their intermediate values do go through memory. What PyTorch
has one call for is that call in any package, with or without groups, since a proven
rule recognises it: `F.scaled_dot_product_attention`, `nn.Linear`, `nn.LayerNorm`,
`nn.RMSNorm`, `F.gelu`, `F.silu`, convolutions with their batch norm folded in. Public
calls for a convolution or a linear layer together with an activation don't exist in
PyTorch; those of oneDNN are private and are not emitted. So the MB of the tables below
are what a compiler of kernels could save, not what an emitted package saves on a CPU:
no gain was measured below. On a GPU, `compile --target triton` makes kernels of groups
([triton.md](triton.md)).

In a yellow cell, and where a break is passed over, `inspect --fusion --profile`
measures both sides: the two groups one after the other, and as one, each as it is
emitted for a CPU. That is PyTorch's one call where there is one, and else a function of
statements. Both sides take turns in one thread whose own time counts; what differs by
less than 5 % is as fast, and fuses. Times are kept as those of operators are
([lanes.md](lanes.md#--profile)), by types, attributes, shapes, dtypes, who reads what,
and the machine. After two minutes the rest is estimated; each edge says which it was.
Of the 145 such pairs of Swin-T, 138 were measured to be as fast apart, since they are
the same statements, and six faster as one, most of them products whose bias makes them
a linear layer; one was slower by 6 %, on a machine that had other work.
`compile --fusion` goes by estimates, so it writes the same package on every machine.

## Beside the paper

The models of DNNFusion's Table 5 that benchmarks/export_decomposed.py exports in the
spelling of that time (ONNX opset 11, nothing folded; GPT-2, U-Net and EfficientNet as
libraries then wrote them). The paper's graphs are not public: the counts of operators
show how near ours come to them. † marks rates below the paper's.

{table5}

The strict plan, *table 3*, stays below the paper for VGG-16 and EfficientNet-B0, and no
reading of Table 3 could do otherwise. Many-to-Many into Many-to-Many breaks, so a group
has one such operator at most of those on one path. VGG-16 has 22 on a path (13
convolutions, 3 products, 6 pools), EfficientNet-B0 99 (81 convolutions, 17 pools, one
product), in graphs of exactly as many operators as the paper's. Its 17 and 97 groups
are fewer, so it fuses pools with convolutions across cells that its table has as red.
That is what *intensive* does where it repeats no work, and so comes to 16 and 38.

One class is ours: an operator that follows from sizes alone (Shape, and the Gather,
Concat, Mul ... of what it gives) reads no element of any tensor, and counts as
One-to-One. The paper's Table 2 doesn't name Shape; were it opaque, GPT-2 would come to
682 groups by table 3, 339 of them a Shape, and to a rate of 3.55.

## Measured

What emitted packages take with each plan, by `python benchmarks/fused.py`: the packages
take turns with one thread, and the fastest of their calls counts, since the machine had
other work. *MB* are those of values between groups, and *methods* the groups that
became one: the others are a single expression, or reach into another class. Where a
plan has no methods, its package has the same text as that without groups, so what
differs from 1 there is noise, as much as 0.3 for U-Net. The 0.88 of VGG-16 came twice
and may be real: a method keeps its arguments alive, and their memory is used again
later.

{begin}{measured}{end}

## Other models

{others}
"""
BELOW = "†"
OUT = Path(__file__).parents[1] / "docs" / "fusion.md"
# Around the table that fused.py writes.
BEGIN, END = "<!-- written by benchmarks/fused.py -->\n", "<!-- end -->\n"


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


def markdown(head: list[str], rows: Iterator[list[str]]) -> str:
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


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


def page(table5: list[Row], others: list[Row]) -> str:
    head = ["model", "paper: operators", "TVM", "DNNFusion", "rate", *OURS]
    head += ["rate, table 3", "rate, intensive", "rate, rewritten too"]
    known = OUT.read_text("utf-8")
    return PAGE.format(
        begin=BEGIN,
        measured=known.partition(BEGIN)[2].partition(END)[0],
        end=END.rstrip(),
        table5=markdown(head, table5_rows(table5)),
        others=markdown(["model", *OURS], ([n, *ours(a, b)] for n, a, b in others)),
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="folder")
    parser.add_argument("--table5", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="the Markdown page, else printed")
    options = parser.parse_args(arguments)
    text = page(
        list(measured([options.table5])),
        list(measured(options.folders)),
    )
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
