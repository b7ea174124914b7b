"""Sizes that turn out to be numbers decide more of a graph, until nothing follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import onnx_ir as ir

from ...analysis.errors import FairhandError
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.graph.traversal import all_nodes, bodies
from ...analysis.shapes.infer import infer
from .constant_branches import take, take_branches
from .constant_folding import fold_constants
from .proven_values import (
    drop_no_bias,
    read_in_order,
    settle_types,
    store_kept_sizes,
    store_known_sizes,
    take_decided,
    take_numbers,
)

_MOST_TRIED = 32  # undecided Ifs

_Choice = Callable[[ir.Model, ShapeFacts], bool]


def settle(
    model: ir.Model, shapes: ShapeFacts, level: int = 2
) -> tuple[int, ShapeFacts]:
    """Fold, and take branches, by what sizes say: how many nodes folded, and the sizes.

    Of branches that give different ranks, that one is taken without which nothing that
    reads them can run. `level` says what may be folded, see `fold_constants`. Raises
    FairhandError for a node whose inputs can't fit each other.
    """
    return _settled(model, shapes, level, _take_fitting)


def _settled(
    model: ir.Model, shapes: ShapeFacts, level: int, choose: _Choice
) -> tuple[int, ShapeFacts]:
    folded = 0
    while True:
        known = store_known_sizes(model, shapes, level == 0)
        known += settle_types(model) + take_decided(model, shapes)
        known += take_numbers(model, shapes)
        known += store_kept_sizes(model, shapes) if level else 0
        if known + read_in_order(model, shapes):
            folded += fold_constants(model, level)
            shapes = infer(model, shapes)
        drop_no_bias(model)
        if not take_branches(model) and not choose(model, shapes):
            return folded, shapes
        folded += fold_constants(model, level)
        shapes = infer(model, shapes)


def _take_fitting(model: ir.Model, shapes: ShapeFacts) -> bool:
    """Decide the first If of which one branch alone fits; False if there is none."""
    for place, node in islice(_of_two_ranks(model, shapes), _MOST_TRIED):
        fitting = [truth for truth in (True, False) if _fits(model, place, truth)]
        if len(fitting) == 1:
            take(node, fitting[0])
            return True
    return False


def _of_two_ranks(model: ir.Model, shapes: ShapeFacts) -> Iterator[tuple[int, ir.Node]]:
    """The Ifs whose branches give results of different ranks, by their places."""
    for place, node in enumerate(all_nodes(model.graph)):
        if node.op_type == "If" and not node.domain:
            rows = ([shapes.rank(v) for v in body.outputs] for body in bodies(node))
            pairs = zip(*rows, strict=False)
            if any(None not in (a, b) and a != b for a, b in pairs):
                yield place, node


def _fits(model: ir.Model, place: int, truth: bool) -> bool:
    """Whether what surely runs beside an If can, were its condition this one."""
    copy = model.clone()
    nodes = list(all_nodes(copy.graph))
    held = (body for node in nodes for body in bodies(node))
    around = {body for body in held if nodes[place] in all_nodes(body)}
    take(nodes[place], truth)
    try:
        shapes = _settled(copy, infer(copy), False, lambda *_: False)[1]
    except FairhandError:
        return False
    return around.isdisjoint(shapes.unfit)
