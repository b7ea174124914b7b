"""Elements of integer and truth tensors of any size; see place_rules.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from ..graph.dims import Dims, same
from .node_facts import ShapeSite
from .place_rules import RULES, Count, Found, Natural, constant, moved
from .shape_facts import ShapeFacts

DEPTH = 64  # operators between a tensor and the sizes that it comes from


class Places:
    """What is known so of the values of a graph. A value's elements never change."""

    def __init__(self, shapes: ShapeFacts) -> None:
        self.shapes = shapes
        self._known: dict[ir.Value, Found] = {}
        self._depth = 0

    def of(self, value: ir.Value | None) -> Found:
        """None if nothing is known."""
        if value is None or not _is_whole(value):
            return None
        if value not in self._known:
            if self._depth == DEPTH:
                return None  # not remembered: from nearer by there may be more to say
            self._depth += 1
            self._known[value] = self._found(value)
            self._depth -= 1
        return self._known[value]

    def _found(self, value: ir.Value) -> Found:
        dims, node = self.shapes.dims(value), value.producer()
        if dims is None:
            return None
        content = self.shapes.content(value)
        if content is not None and content.size and len(set(content.flat)) == 1:
            element = content.flat[0]
            return element if isinstance(element, bool) else constant(element, dims)
        if node is None or node.domain or len(node.outputs) != 1:
            return None
        function = RULES.get(node.op_type)
        found = (
            None if function is None else function(self, ShapeSite(node, self.shapes))
        )
        return _along(found, dims)

    def aligned(
        self, value: ir.Value | None, out: Dims, beside: Sequence[Dims] = ()
    ) -> Found:
        """The element as a function of the place in what `value` is broadcast to.

        `beside` are the sizes that it is broadcast with. Two that are merely taken for
        equal (dims.broadcast) say nothing: one may be 1.
        """
        found = self.of(value)
        dims = None if value is None else self.shapes.dims(value)
        if dims is None:
            return None
        shift = len(out) - len(dims)

        def move(count: Count) -> Count | None:
            for step, n, wide in zip(count.steps, dims, out[shift:], strict=True):
                if step and same(n, wide) is not True:
                    return None
            for sizes in beside:
                steps = zip(
                    reversed(count.steps), reversed(dims), reversed(sizes), strict=False
                )
                if any(
                    s and n != 1 and m != 1 and same(n, m) is not True
                    for s, n, m in steps
                ):
                    return None
            return Count(count.first, (0,) * shift + count.steps)

        return moved(found, move)


def _is_whole(value: ir.Value) -> bool:
    """Unsigned numbers are left out: their differences wrap around."""
    return value.dtype in (ir.DataType.BOOL, ir.DataType.INT32, ir.DataType.INT64)


def _along(found: Found, dims: Dims) -> Found:
    """Without steps along axes of size 1."""
    if not isinstance(found, Count | Natural):
        return found

    def move(count: Count) -> Count:
        steps = zip(count.steps, dims, strict=True)
        return replace(count, steps=tuple(0 if n == 1 else s for s, n in steps))

    return moved(found, move)
