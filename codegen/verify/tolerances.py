"""How far a result may be from the expected one: stated here, once, for every check.

The error of two arrays is max |actual - expected| / max(FLOOR, max |expected|) over the
finite elements. It is relative to the largest element, because rounding of a sum is
relative to its terms: an element that is small by cancellation has no more digits than
its neighbours. NaN and infinities must stand at the same places, with the same sign;
shapes, element types, integers, booleans and 8-bit floats must be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from ...rewrites.adapters.cleanup import inlined
from ..load.random_outputs import inner_nodes

# Arrays smaller than this throughout are compared by absolute error: they may be zero
# but for rounding. Probabilities over a thousand classes are still above it.
FLOOR = 1e-3

# One operator, by the name of the NumPy dtype; in brackets the largest error of the
# operator tests. float32: two good implementations of exp or tanh differ by a few units
# in the last place (1.2e-7), sums in another order by a few more (1.3e-6). float64: the
# same share of its digits (4e-16), with room for longer sums. float16 and bfloat16:
# both sides round nearly the same float32 number, so one unit in the last place (5.5e-4
# and 5.2e-3).
OPERATOR_TOLERANCES: Mapping[str, float] = {
    "float64": 1e-13,
    "float32": 4e-6,
    "float16": 1e-3,
    "bfloat16": 8e-3,
    "complex64": 4e-6,
    "complex128": 1e-13,
}

# A whole network: each layer passes on the errors of those before it. Measured in
# float32: 6e-7 for ResNet-50, 3e-6 for a small BERT. A wrong operator, even a GELU
# taken for its approximation, gives 1e-4 and more.
TOLERANCES: Mapping[str, float] = {
    "float64": 1e-10,
    "float32": 5e-5,
    "float16": 2e-2,
    "bfloat16": 1e-1,
    "complex64": 5e-5,
    "complex128": 1e-10,
}

# What --precision computes a network of float32 in. int8: 1.5e-2 for DistilBERT, 4e-2
# for BERT, 4.6e-2 for ViT, which ONNX Runtime's own dynamic quantisation differs by.
COARSE: Mapping[str, float] = {
    "bf16": TOLERANCES["bfloat16"],
    "fp16": TOLERANCES["float16"],
    "int8": 1e-1,
}


class _Comparison(NamedTuple):
    """True if the arrays agree; else `reason` says why not.

    `error` is inf where it has no meaning: other shapes, other types, misplaced NaN.
    """

    error: float
    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason


def tolerance(dtype: ir.DataType | np.dtype | None) -> float:
    """What a whole network is allowed; 0 for types that must be equal."""
    if isinstance(dtype, ir.DataType):
        dtype = None if dtype == ir.DataType.STRING else dtype.numpy()
    return 0.0 if dtype is None else TOLERANCES.get(dtype.name, 0.0)


def compare(
    actual: np.ndarray, expected: np.ndarray, whole_model: bool = True
) -> _Comparison:
    """Compare by the rules above; `whole_model=False` is for a single operator."""
    tolerances = TOLERANCES if whole_model else OPERATOR_TOLERANCES
    name = expected.dtype.name
    if actual.dtype != expected.dtype:
        return _different(f"type {actual.dtype.name}, expected {name}")
    if actual.shape != expected.shape:
        return _different(
            f"shape {list(actual.shape)}, expected {list(expected.shape)}"
        )
    if name in tolerances or name.startswith("float"):
        return _close(actual, expected, tolerances.get(name, 0.0))
    wrong = np.asarray(actual != expected)
    if wrong.any():
        return _different(_first("different elements", wrong, actual, expected))
    return _Comparison(0.0)


def compare_values(actual: Any, expected: Any) -> _Comparison:
    """Compare two results of a model: arrays, or lists and maps of the like.

    The numbers of a list of maps are one array, whose type Python has forgotten.
    """
    if not isinstance(expected, list | dict):
        return compare(np.asarray(actual), np.asarray(expected))
    if type(actual) is not type(expected) or len(actual) != len(expected):
        return _different(f"{_kind(actual)}, expected {_kind(expected)}")
    if isinstance(expected, dict):
        actual, expected = [actual], [expected]
    if expected and isinstance(expected[0], dict):
        for one, other in zip(actual, expected, strict=True):
            if list(one) != list(other):
                return _different(f"keys {list(one)[:9]}, expected {list(other)[:9]}")
        return compare(_numbers(actual), _numbers(expected))
    found = [compare_values(a, e) for a, e in zip(actual, expected, strict=True)]
    return next((c for c in found if not c), max(found, default=_Comparison(0.0)))


def _numbers(maps: list[dict[Any, Any]]) -> np.ndarray:
    array = np.array([value for entry in maps for value in entry.values()])
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _kind(value: Any) -> str:
    size = f" of {len(value)}" if isinstance(value, list | dict) else ""
    return f"{type(value).__name__}{size}"


def _close(actual: np.ndarray, expected: np.ndarray, allowed: float) -> _Comparison:
    wide = np.complex128 if actual.dtype.kind == "c" else np.float64
    a, b = actual.astype(wide), expected.astype(wide)
    finite = np.isfinite(b)
    odd = (np.isnan(a) != np.isnan(b)) | (np.isfinite(a) != finite)
    odd |= np.isinf(b) & (a != b)
    if odd.any():
        return _different(_first("NaN or infinity misplaced", odd, actual, expected))
    if not finite.any():
        return _Comparison(0.0)
    distance = np.abs(np.where(finite, a, 0) - np.where(finite, b, 0))
    error = float(distance.max()) / max(FLOOR, float(np.abs(b[finite]).max()))
    if error <= allowed:
        return _Comparison(error)
    note = f"error {error:.1e}, allowed {allowed:.1e}"
    worst = distance == distance.max()
    return _Comparison(error, _first(note, worst, actual, expected))


def _different(reason: str) -> _Comparison:
    return _Comparison(float("inf"), reason)


def _first(
    note: str, wrong: np.ndarray, actual: np.ndarray, expected: np.ndarray
) -> str:
    """`different elements (3 of 24), first at [0, 2]: 1.5, expected 2.0`."""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    count = f"{int(np.count_nonzero(wrong))} of {wrong.size}"
    place = f"first at {list(at)}: {actual[at]}, expected {expected[at]}"
    return f"{note} ({count}), {place}"


_SINGLE = ir.DataType.FLOAT
_NARROW = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16, _SINGLE})


def coarsest(model: ir.Model) -> dict[str, float]:
    """What each output may be off for the narrowest type on the way to it.

    A network in half precision that gives float32, as converters make it that keep the
    types of inputs and outputs, is no closer for that; nor is float64 of float32. 0 for
    an output of which nothing is computed in less than its own type.
    """
    model = inlined(model)
    allowed = dict[ir.Value | None, float](dict.fromkeys(model.graph.inputs, 0.0))
    dtypes: dict[ir.Value | None, ir.DataType | None] = {}
    for node in model.graph:
        whole = (*inner_nodes(node), node)
        read = [allowed[x] for each in whole for x in each.inputs if x in allowed]
        made = [value for each in whole for value in each.outputs]
        for value in made:
            dtypes[value] = _dtype(value, dtypes)
        if read:  # else it is a constant
            own = (tolerance(dtypes[v]) for v in made if dtypes[v] in _NARROW)
            allowed.update(dict.fromkeys(node.outputs, max(*read, *own, 0.0)))
    least = {v: tolerance(v.dtype) or tolerance(_SINGLE) for v in model.graph.outputs}
    found = {v: allowed.get(v, 0.0) for v in least}
    return {str(v.name): x if x > least[v] else 0.0 for v, x in found.items()}


def _dtype(
    value: ir.Value, known: dict[ir.Value | None, ir.DataType | None]
) -> ir.DataType | None:
    """As declared, or as the type of its operator's operands has it."""
    node = value.producer()
    if value.dtype is not None or node is None:
        return value.dtype
    if node.op_type == "Cast":
        return ir.DataType(node.attributes.get_int("to", ir.DataType.FLOAT))
    given = (known.get(x) or x.dtype for x in node.inputs if x is not None)
    return next((d for d in given if d is not None and d.is_floating_point()), None)
