"""`fairhand inspect`: what a model holds, before anything is written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir
from rich.console import Console, JustifyMethod
from rich.table import Table

from ...analysis.errors import Unsupported
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.graph.traversal import all_nodes
from ...analysis.literals import one_line
from ...analysis.ops.registry import lookup
from ...rewrites.simplify import simplify
from ..ir.control_flow import laid_out
from ..ir.package_plan import shape_text
from ..lanes.plan_json import plan_data
from ..load.read_model import Loaded, load
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
    So it is with `wanted` plans, or as a `page` to write. `as_json` is for programs.
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
            out.print(json.dumps(plan_data(plans)), soft_wrap=True)
        else:
            show_plans(plans, out)
        return
    found, refused = _facts(loaded, model, shapes)
    if as_json:
        out.print(json.dumps(found), soft_wrap=True)
    else:
        _show(found, out)
    if refused is not None:
        raise refused


def _facts(
    loaded: Loaded, model: ir.Model, shapes: ShapeFacts
) -> tuple[dict[str, Any], Unsupported | None]:
    """What a model holds, as docs/schemas/inspect.json says; the error if a part of it
    can't be compiled."""
    refused, steps = None, []
    try:
        steps = list(laid_out(make_steps(model, shapes)))
    except Unsupported as error:
        refused = error
    layers = Counter(s.form.layer for s in steps if s.form is not None)
    values = {"inputs": model.graph.inputs, "outputs": model.graph.outputs}
    found: dict[str, Any] = {
        "file": loaded.file,
        "opset": loaded.opset,
        "nodes": loaded.node_count,
        "rewritten": model.graph.num_nodes(),
        "operators": _operators(model, refused.nodes if refused is not None else ()),
        "operations": None if refused is not None else len(steps),
        "layers": dict(sorted(layers.items())),
    }
    for side, of in values.items():
        found[side] = [
            {
                "name": value.name or "?",
                "dtype": value.dtype.name.lower() if value.dtype is not None else "?",
                "shape": shape_text(shapes.dims(value)),
            }
            for value in of
        ]
    return found, refused


def _show(found: Mapping[str, Any], out: Console) -> None:
    out.print(
        f"{one_line(found['file'])}: opset {found['opset']}, {found['nodes']} nodes, "
        f"{found['rewritten']} after rewriting",
        soft_wrap=True,
    )
    for side in ("input", "output"):
        for value in found[f"{side}s"]:
            name = one_line(value["name"])
            out.print(
                f"  {side:6} {name} {value['dtype']} {value['shape']}", soft_wrap=True
            )
    table = Table(box=None, pad_edge=False)
    for column in ("operator", "count", "mapping type", "supported"):
        side_of: JustifyMethod = "right" if column == "count" else "left"
        table.add_column(column, justify=side_of, overflow="fold")
    for row in found["operators"]:
        label, count, known = one_line(row["operator"]), row["count"], row["supported"]
        part = f"{known} of {count}" if known else "no"
        table.add_row(
            label, str(count), row["mapping"], "yes" if known == count else part
        )
    out.print(table)
    if found["operations"] is not None:
        text = ", ".join(f"{n} {layer}" for layer, n in found["layers"].items())
        of_them = f", of them {text}" if text else ""
        out.print(f"{found['operations']} operations to emit{of_them}", soft_wrap=True)


def _operators(model: ir.Model, refused: Collection[ir.Node]) -> list[dict[str, Any]]:
    """An entry for each operator; `refused` are the nodes that can't be compiled."""
    kinds: dict[tuple[str, str], list[ir.Node]] = {}
    for node in all_nodes(model.graph):
        kinds.setdefault((node.domain, node.op_type), []).append(node)
    found = []
    for (domain, name), nodes in sorted(
        kinds.items(), key=lambda i: (-len(i[1]), i[0])
    ):
        op = lookup(nodes[0])
        found.append(
            {
                "operator": f"{domain}.{name}" if domain else name,
                "count": len(nodes),
                "mapping": op.mapping.value if op is not None else "Opaque",
                "supported": sum(node not in refused for node in nodes),
            }
        )
    return found
