"""The page of `fairhand inspect --html`: one file that needs nothing from elsewhere."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import onnx_ir as ir

from ...analysis.dataflow.dataflow import Dataflow
from ...analysis.fusion.dnnfusion import Group
from ...analysis.literals import one_line
from ...analysis.repeats.repeat_counts import stacks
from ..emit.render import environment
from ..lanes.plan_json import Plans, plan_data
from .inspect_plans import fusion_summary, lanes_summary

# What is read further on than this, such as the mask of all layers, does not count for
# the likeness of two nodes.
NEAR = 32

Edges = list[tuple[int, int]]


def write_page(path: Path, title: str, source: ir.Graph, plans: Plans) -> None:
    """The graph as it is in the file, rewritten, and fused; the lanes; the tables."""
    assert plans.fusion is not None and plans.lanes is not None
    flow, groups = plans.flow, plans.fusion.groups
    data = {
        "title": title,
        "summary": [
            fusion_summary(flow, plans.fusion),
            *lanes_summary(plans.lanes).split("\n"),
        ],
        "views": {
            "file": _source_view(source),
            "rewritten": _view([op.kind for op in flow.operators], flow.dag.edges()),
            "fused": _view([_label(flow, g) for g in groups], _between(flow, groups)),
        },
        "plan": plan_data(plans),
    }
    # In a script element only this could end the text; "<" is \u003c in JSON as well.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    template = environment().get_template("inspect_page.html.jinja")
    page = template.render(title=html.escape(title), data=text)
    path.write_text(page, encoding="utf-8", newline="\n")


def _view(labels: Sequence[str], edges: Iterable[tuple[int, int]]) -> dict[str, Any]:
    listed = sorted(edges)
    back: list[list[int]] = [[] for _ in labels]
    reach = [0] * len(labels)
    for first, second in listed:
        back[second].append(second - first)
        reach[first] = max(reach[first], second - first)
    tokens = [
        (label, len(row), tuple(sorted(n for n in row if reach[i - n] <= NEAR)))
        for i, (label, row) in enumerate(zip(labels, back, strict=True))
    ]
    found = [[s.start, s.period, s.count] for s in stacks(tokens, _cuts(back))]
    return {"labels": list(labels), "edges": listed, "stacks": found}


def _cuts(back: list[list[int]]) -> list[int]:
    """How many edges lead over the place before each node."""
    change = [0] * (len(back) + 1)
    for node, row in enumerate(back):
        for length in row:
            change[node - length + 1] += 1
            change[node + 1] -= 1
    return list(accumulate(change[:-1]))


def _source_view(graph: ir.Graph) -> dict[str, Any]:
    nodes = [node for node in graph if node.op_type != "Constant"]
    position = {node: i for i, node in enumerate(nodes)}
    edges = {
        (position[producer], position[node])
        for node in nodes
        for value in node.inputs
        if value is not None and (producer := value.producer()) in position
    }
    view = _view([one_line(node.op_type, 60) for node in nodes], edges)
    return view | {"names": [one_line(node.name or "?", 60) for node in nodes]}


def _label(flow: Dataflow, group: Group) -> str:
    kinds = [flow.operators[i].kind for i in group.operators]
    shown = " ".join(kinds[:4])
    return f"{shown} +{len(kinds) - 4}" if len(kinds) > 4 else shown


def _between(flow: Dataflow, groups: Sequence[Group]) -> Edges:
    home = {i: k for k, group in enumerate(groups) for i in group.operators}
    return sorted(
        {(home[a], home[b]) for a, b in flow.dag.edges() if home[a] != home[b]}
    )
