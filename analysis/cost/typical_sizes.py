"""Numbers for dynamic sizes, where a plan has to compare amounts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir

from ..graph.dims import Dim, plain, product
from ..graph.shape_facts import ShapeFacts

BATCH, OTHER = 1, 128  # what a dynamic size is taken for


class Sizes:
    """Sizes and bytes of values as numbers; `taken` are the assumptions made so far."""

    def __init__(
        self, shapes: ShapeFacts, given: Mapping[str, int] | None = None
    ) -> None:
        self.shapes = shapes
        self.taken = dict(given or {})
        self._known: dict[Dim, int] = {}

    def number(self, dim: Dim) -> int:
        """A size as a number: dynamic ones are given, or assumed and noted."""
        if isinstance(dim, int):
            return dim
        if dim not in self._known:
            usual = plain(dim)
            if isinstance(usual, int):
                return usual
            numbers = {s: self._assume(s.name) for s in usual.free_symbols}
            try:
                self._known[dim] = max(0, int(usual.subs(numbers)))
            except (TypeError, OverflowError):  # no number, such as 1 / (n - 128)
                self._known[dim] = OTHER
        return self._known[dim]

    def dims(self, value: ir.Value) -> tuple[int, ...] | None:
        """None where not even the rank is known."""
        dims = self.shapes.dims(value)
        return None if dims is None else tuple(map(self.number, dims))

    def bytes(self, value: ir.Value, dims: Iterable[int] | None = None) -> int:
        """Of a value, or of a part of it of these sizes; 0 where nothing is known."""
        sizes = self.dims(value) if dims is None else dims
        if sizes is None or value.dtype is None or value.dtype == ir.DataType.STRING:
            return 0
        return -(-self.number(product([value.dtype.bitwidth, *sizes])) // 8)

    def _assume(self, name: str) -> int:
        is_batch = "batch" in name.lower() or name in {"B", "N", "b", "n"}
        return self.taken.setdefault(name, BATCH if is_batch else OTHER)
