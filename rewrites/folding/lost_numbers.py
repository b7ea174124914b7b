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
_TYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
_MOVED = frozenset("Expand Reshape Squeeze Transpose Unsqueeze".split())
_LARGE = 4096  # elements, from which on a tensor is taken for a weight: about 1
_DEPTH = 8  # of constants that weren't folded yet


def lost(drafts: Sequence[Draft], is_constant: Callable[[ir.Value], bool]) -> str:
    """What planned nodes that compute a constant of floats lose; '' if nothing."""
    known: dict[int, Numbers] = {}
    seen = list[ir.TensorProtocol]()

    def numbers(x: Input, depth: int = _DEPTH) -> Numbers:
        if isinstance(x, Output):
            return known.get(id(x.draft))
        if isinstance(x, NewConstant):
            return _floats(x.array)
        if x is None or not depth or not is_constant(x):
            return None
        node = x.producer()
        if node is not None:
            return _result(node.op_type, [numbers(y, depth - 1) for y in node.inputs])
        large = x.const_value is not None and x.const_value.size > _LARGE
        if large and x.dtype is not None and x.dtype.is_floating_point():
            return np.ones((), x.dtype.numpy())
        if x.const_value is None or large:
            return None
        seen.append(x.const_value)
        return _floats(glance(x.const_value))

    for draft in drafts:
        given = [numbers(x) for x in draft.inputs]
        known[id(draft)] = _result(draft.op_type, given)
        reason = _lost(draft.op_type, given)
        if reason:
            note_read(*seen)  # else it holds for other weights, unless those are odd
            return reason
    return ""


def _floats(array: Numbers) -> Numbers:
    known = array is not None and array.dtype in _TYPES
    return array if known else None


def _result(op: str, given: list[Numbers]) -> Numbers:
    """What a node computes; of what is only moved, the largest of its numbers."""
    first = given[0] if given else None
    if first is None:
        return None
    with np.errstate(all="ignore"):
        if op in _MOVED:
            return np.array(np.max(np.abs(first), initial=0), first.dtype)
        wide = _wide(op, given)
        return None if wide is None else wide.astype(first.dtype)


def _wide(op: str, given: list[Numbers]) -> Numbers:
    """The result with more places, and larger and smaller numbers."""
    arrays = [x.astype(np.longdouble) for x in given if x is not None]
    if op not in _COMPUTED or len(arrays) != 2:
        return None
    with np.errstate(all="ignore"):
        return _COMPUTED[op](*arrays)


def _lost(op: str, given: list[Numbers]) -> str:
    result = _wide(op, given)
    if result is None or not result.size:
        return ""
    a, b = given
    assert a is not None and b is not None
    limits = ml_dtypes.finfo(a.dtype)  # type: ignore[no-untyped-call]
    a, b, size = (np.abs(x.astype(np.longdouble)) for x in (a, b, result))
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
