"""What the plans of fusion gain where they are emitted: a table for docs/fusion.md.

    python benchmarks/fused.py --packages DIR --seconds 60 MODEL.onnx ...
    python benchmarks/fused.py --packages DIR --write MODEL.onnx ...

Each model is compiled twice: without groups, and with DNNFusion's. The
packages take turns call by call in one process, with one thread, on each engine. The
table has the fastest calls, and the bytes of values between groups beside. DIR keeps
packages and times, so that each model can have a quiet moment of its own: measure once
for no time to have the packages, then again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fusion_baselines import unfused
from pages import DOCS, table, write

import fairhand
from fairhand.analysis.dataflow.dataflow import dataflow
from fairhand.analysis.fusion.dnnfusion import dnnfusion
from fairhand.codegen.load.read_model import load
from fairhand.codegen.profile.package_times import times
from fairhand.codegen.verify.feeds import first_feed
from fairhand.rewrites.simplify import simplify

PLANS = {"none": unfused, "dnnfusion": dnnfusion}


@dataclass(frozen=True)
class Row:
    """By plan: groups, bytes between them, methods that they became, milliseconds."""

    model: str
    groups: dict[str, int]
    bytes_between: dict[str, int]
    methods: dict[str, int]
    ms: dict[str, dict[str, float]]  # by engine


def measure(path: Path, folder: Path, engines: Sequence[str], seconds: float) -> Row:
    loaded = load(path)
    model = loaded.model.clone()
    flow = dataflow(model, simplify(model).shapes)
    plans = {name: plan(flow) for name, plan in PLANS.items()}
    methods = {}
    for name in PLANS:
        fusion = None if name == "none" else name
        if not (folder / name).exists():
            fairhand.compile(path, folder / name, verify=False, fusion=fusion)
        text = (folder / name / "model.py").read_text("utf-8")
        methods[name] = text.count("    def ") - text.count("    def __init__")
    feed = first_feed(loaded.model, None)
    ms = {}
    for engine in engines:
        candidates = [(folder / name, engine, 1) for name in PLANS]
        rows = times(candidates, feed, seconds / len(engines))
        ms[engine] = {n: row["fastest_ms"] for n, row in zip(PLANS, rows, strict=True)}
    return Row(
        path.name.removesuffix(".onnx"),
        {name: len(plan.groups) for name, plan in plans.items()},
        {name: plan.bytes_after for name, plan in plans.items()},
        {name: count - methods["none"] for name, count in methods.items()},
        ms,
    )


def cells_of(rows: Sequence[Row]) -> Iterator[list[str]]:
    engines = list(dict.fromkeys(engine for row in rows for engine in row.ms))
    heads = ["model", *(f"{name}: groups, MB between" for name in PLANS)]
    heads += [f"methods of {name}" for name in list(PLANS)[1:]]
    for engine in engines:
        heads.append(f"{engine}, ms")
        heads += [f"gain of {name}" for name in list(PLANS)[1:]]
    yield heads
    for row in rows:
        cells = [row.model]
        for name in PLANS:
            cells.append(f"{row.groups[name]}, {row.bytes_between[name] / 1e6:.0f}")
        cells += [str(row.methods[name]) for name in list(PLANS)[1:]]
        for engine in engines:
            ms = row.ms[engine]
            cells.append(f"{ms['none']:.1f}")
            cells += [f"{ms['none'] / ms[name]:.2f}" for name in list(PLANS)[1:]]
        yield cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--packages", type=Path, required=True, metavar="DIR")
    parser.add_argument("--seconds", type=float, help="to measure each model for")
    parser.add_argument("--engines", nargs="+", default=["eager", "onednn"])
    parser.add_argument("--write", action="store_true", help="into docs/fusion.md")
    options = parser.parse_args()
    rows = []
    for path in options.models:
        folder = options.packages / path.name.removesuffix(".onnx")
        kept = folder / "times.json"
        if options.seconds is not None:
            row = measure(path, folder, options.engines, options.seconds)
            kept.write_text(json.dumps(asdict(row)), "utf-8")
        rows.append(Row(**json.loads(kept.read_text("utf-8"))))
    text = table(cells_of(rows))
    print(text)
    if options.write:
        write(DOCS / "fusion.md", {"fused": text})


if __name__ == "__main__":
    main()
