"""`fairhand inspect`: what a model holds, before anything is written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import onnx_ir as ir
from rich.console import Console, JustifyMethod
from rich.table import Table

from ...analysis.errors import Unsupported
from ...analysis.graph.traversal import all_nodes
from ...analysis.literals import one_line
from ...analysis.ops.registry import lookup
from ...rewrites.simplify import simplify
from ..ir.control_flow import laid_out
from ..ir.package_plan import shape_text
from ..lanes.plan_json import plan_data
from ..load.read_model import load
from ..statements.from_graph import make_steps
from .inspect_page import write_page
from .inspect_plans import Wanted, make_plans, show_plans
from .rules import why


def inspect_model(
    path: Path,
    out: Console,
    explain: tuple[str, str] | None = None,
    wanted: Wanted | None = None,
    as_json: bool = False,
    page: Path | None = None,
) -> None:
    """Print inputs, outputs and operators; raises Unsupported for what is missing.

    `explain` names a rule and a node: print why it applies there, or why not, instead.
    So it is with `wanted` plans: `as_json` for other programs, or as a `page` to write.
    """
    loaded = load(path)
    model = loaded.model.clone()
    shapes = simplify(model).shapes
    if explain is not None:
        out.print(why(model, shapes, *explain), soft_wrap=True)
        return
    if wanted is not None and wanted.any:
        plans = make_plans(model, shapes, wanted)
        if page is not None:
            write_page(page, one_line(path.name), loaded.model.graph, plans)
            out.print(f"{page} shows the plans", soft_wrap=True)
        elif as_json:
            print(json.dumps(plan_data(plans)), file=out.file)
        else:
            show_plans(plans, out)
        return
    out.print(
        f"{one_line(path.name)}: opset {loaded.opset}, {loaded.node_count} nodes, "
        f"{model.graph.num_nodes()} after rewriting",
        soft_wrap=True,
    )
    for what, values in (
        ("input", model.graph.inputs),
        ("output", model.graph.outputs),
    ):
        for value in values:
            dims = shape_text(shapes.dims(value))
            dtype = value.dtype.name.lower() if value.dtype is not None else "?"
            name = one_line(value.name or "?")
            out.print(f"  {what:6} {name} {dtype} {dims}", soft_wrap=True)
    try:
        steps = list(laid_out(make_steps(model, shapes)))
    except Unsupported as error:
        out.print(_operators(model, error.nodes))
        raise
    out.print(_operators(model))
    layers = Counter(s.form.layer for s in steps if s.form is not None)
    text = ", ".join(f"{n} {layer}" for layer, n in sorted(layers.items()))
    out.print(
        f"{len(steps)} operations to emit" + (f", of them {text}" if text else ""),
        soft_wrap=True,
    )


def _operators(model: ir.Model, refused: Collection[ir.Node] = ()) -> Table:
    """A row for each operator; `refused` are the nodes that can't be compiled."""
    table = Table(box=None, pad_edge=False)
    for column in ("operator", "count", "mapping type", "supported"):
        side: JustifyMethod = "right" if column == "count" else "left"
        table.add_column(column, justify=side, overflow="fold")
    kinds: dict[tuple[str, str], list[ir.Node]] = {}
    for node in all_nodes(model.graph):
        kinds.setdefault((node.domain, node.op_type), []).append(node)
    for (domain, name), nodes in sorted(
        kinds.items(), key=lambda i: (-len(i[1]), i[0])
    ):
        op = lookup(nodes[0])
        label = one_line(f"{domain}.{name}" if domain else name)
        bad = sum(node in refused for node in nodes)
        known = "no" if bad == len(nodes) else f"{len(nodes) - bad} of {len(nodes)}"
        mapping = op.mapping.value if op is not None else "Opaque"
        table.add_row(label, str(len(nodes)), mapping, known if bad else "yes")
    return table
