"""Whether constants that a change computes are still what its law says of them.

Over the reals two constants may always become one. Floats end: c * d may be infinite,
or 0, where (x * c) * d is neither. And (x + c) - c rounds x to the places that c leaves
it, which is how quantisers round without an operator for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import onnx_ir as ir

from ...analysis.graph.weight_access import glance, note_read
from ..language.operators.read_write import Draft, Input, NewConstant, Output

Numbers = np.ndarray | None  # floats, of a constant
_COMPUTED: dict[str, Callable[..., np.ndarray]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
}
_FLOATS = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
_TYPES = frozenset(map(np.dtype, _FLOATS))
_MOVED = frozenset("Expand Reshape Squeeze Transpose Unsqueeze".split())
_LARGE = 4096  # elements, from which on a tensor is taken for a weight: about 1
_DEPTH = 8  # of constants that weren't folded yet


class ConstantNumbers:
    """What the constants of a graph come to, each computed once."""

    def __init__(self, is_constant: Callable[[ir.Value], bool]) -> None:
        self._is_constant = is_constant
        self._known: dict[ir.Value, np.ndarray] = {}
        self._noted: set[ir.Value] = set()

    def lost(self, drafts: Sequence[Draft]) -> str:
        """What planned nodes that compute a constant of floats lose; '' if nothing."""
        planned: dict[int, Numbers] = {}
        for draft in drafts:
            given = [
                planned.get(id(x.draft)) if isinstance(x, Output) else self._numbers(x)
                for x in draft.inputs
            ]
            wide = _wide(draft.op_type, given)
            planned[id(draft)] = _result(draft.op_type, given, wide)
            reason = _lost(draft.op_type, given, wide)
            if reason:
                self._note(drafts)
                return reason
        return ""

    def _numbers(self, x: Input, depth: int = _DEPTH) -> Numbers:
        if isinstance(x, NewConstant):
            return _floats(x.array)
        if not isinstance(x, ir.Value):
            return None
        known = self._known.get(x)
        if known is None and depth and self._is_constant(x):
            known = self._computed(x, depth)
            if known is not None:
                self._known[x] = known
        return known

    def _computed(self, x: ir.Value, depth: int) -> Numbers:
        node = x.producer()
        if node is not None:
            given = [self._numbers(y, depth - 1) for y in node.inputs]
            return _result(node.op_type, given, _wide(node.op_type, given))
        if x.const_value is None:
            return None
        if x.const_value.size > _LARGE:
            known = x.dtype is not None and x.dtype.is_floating_point()
            return np.ones((), x.dtype.numpy()) if known and x.dtype else None
        return _floats(glance(x.const_value))

    def _note(self, drafts: Sequence[Draft]) -> None:
        """A refusal holds for these numbers: for other weights, unless those are odd,
        there is none."""
        stack = [x for draft in drafts for x in draft.inputs]
        while stack:
            x = stack.pop()
            if not isinstance(x, ir.Value) or x in self._noted:
                continue
            if not self._is_constant(x):
                continue
            self._noted.add(x)
            node, tensor = x.producer(), x.const_value
            stack += node.inputs if node is not None else ()
            if tensor is not None and tensor.size <= _LARGE:
                note_read(tensor)


def _floats(array: Numbers) -> Numbers:
    known = array is not None and array.dtype in _TYPES
    return array if known else None


def _result(op: str, given: list[Numbers], wide: Numbers) -> Numbers:
    """What a node computes; of what is only moved, the largest of its numbers."""
    first = given[0] if given else None
    if first is None or (wide is None and op not in _MOVED):
        return None
    with np.errstate(all="ignore"):
        if wide is None:
            return np.array(np.max(np.abs(first), initial=0), first.dtype)
        return wide.astype(first.dtype)


def _wide(op: str, given: list[Numbers]) -> Numbers:
    """The result with more places, and larger and smaller numbers."""
    known = [x for x in given if x is not None]
    if op not in _COMPUTED or len(known) != 2:
        return None
    with np.errstate(all="ignore"):
        return _COMPUTED[op](*(x.astype(np.longdouble) for x in known))


def _lost(op: str, given: list[Numbers], result: Numbers) -> str:
    if result is None or not result.size:
        return ""
    a, b = given
    assert a is not None and b is not None
    limits = ml_dtypes.finfo(a.dtype)  # type: ignore[no-untyped-call]
    a, b, size = (np.abs(x.astype(np.longdouble, copy=False)) for x in (a, b, result))
    finite = np.isfinite(a) & np.isfinite(b)
    if np.any(finite & ~(size <= limits.max)):
        return "the constants are finite, and what they come to is not"
    if op in ("Mul", "Div"):
        least = a.any() and b.any() and size.max() < limits.smallest_normal
        return "the constants aren't 0, and what they come to is" if least else ""
    places = 2 ** ((limits.nmant + 1) // 2)
    larger = np.maximum(a, b)
    if np.any(finite & (larger >= places) & (size * places < larger)):
        return "adding the one constant and taking away the other rounds"
    return ""
