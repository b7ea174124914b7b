"""What a model's operators require of the sizes of its values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import onnx_ir as ir

from ..graph.dims import Dims, plain
from ..graph.shape_facts import NodeFacts, ShapeFacts
from ..graph.traversal import bodies
from ..ops import lookup
from ..ops.facts.fitting_sizes import Fit, Relation


@dataclass(frozen=True)
class Requirements:
    """The sizes of a model's inputs, by their names, and which sizes have to fit."""

    inputs: dict[str, Dims]
    fits: list[Fit]


def requirements(model: ir.Model, shapes: ShapeFacts) -> Requirements:
    """What is required whatever the inputs are."""
    inputs = {str(v.name): shapes.dims(v) or () for v in model.graph.inputs}
    return Requirements(inputs, list(dict.fromkeys(required(model.graph, shapes))))


def required(graph: ir.Graph, shapes: ShapeFacts) -> Iterator[Fit]:
    """Which sizes have to fit each other, as far as they are known."""
    for node in graph:
        yield from _required_by(node, shapes)
        inside = [list(required(body, shapes)) for body in bodies(node)]
        if node.op_type == "If" and inside:  # one of the two runs
            inside = [[fit for fit in inside[0] if fit in inside[-1]]]
        for fits in inside:
            yield from fits


def _required_by(node: ir.Node, shapes: ShapeFacts) -> Iterator[Fit]:
    op = lookup(node)
    if op is None or op.fits is None:
        return
    with suppress(ValueError, TypeError, IndexError, AssertionError):
        for fit in NodeFacts(node, shapes).ask(op.fits) or ():
            fit = Fit(fit.relation, plain(fit.a), plain(fit.b))
            free = fit.relation is Relation.BROADCAST and 1 in (fit.a, fit.b)
            if fit.a != fit.b and not free:
                yield fit
