"""Elements of small integer tensors, followed through the graph.

Exporters compute shapes with Shape, Gather, Concat, Mul and their like. Each function
here repeats one such operator on an array whose elements are sizes (`Dim`), truth
values, or None where unknown. It takes the elements of the leading inputs, and is
called where those are known.

Elements of float tensors are followed too, since some exporters divide sizes as floats:
as a Python float where the number is known, rounded to its type, and as a sympy
expression where it is not, only as long as float32 arithmetic gives it exactly.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import Any

import numpy as np
import onnx_ir as ir
import sympy

from ...graph.dims import (
    Dim,
    Dims,
    at_least,
    floor,
    floordiv,
    maximum,
    minimum,
    product,
    same,
    simplify,
)
from ...graph.shape_facts import (
    FLOATS,
    MAX_CONTENT,
    Content,
    ContentResult,
    NodeFacts,
    elements_of,
)
from .index_maps import IndexMap

ValueRule = Callable[..., ContentResult]


def _pack(elements: Iterable[Any], shape: tuple[int, ...]) -> Content:
    """An object array; NumPy's own constructor would look inside the elements."""
    listed = list(elements)
    result = np.empty(len(listed), dtype=object)
    result[:] = listed
    return result.reshape(shape)


def _output_shape(site: NodeFacts) -> tuple[int, ...] | None:
    """The shape of the first output, if it is all numbers."""
    dims = site.shapes.dims(site.node.outputs[0])
    if dims is None or not all(isinstance(d, int) for d in dims):
        return None
    return tuple(int(d) for d in dims)


def constant_node(site: NodeFacts) -> ContentResult:
    """The attribute that carries the value."""
    for name, value in site.node.attributes.items():
        if name == "value":
            tensor = value.value
            return elements_of(tensor) if tensor.size <= MAX_CONTENT else None
        if name in ("value_int", "value_float"):
            return _pack([value.value], ())
        if name in ("value_ints", "value_floats"):
            return _pack(value.value, (len(value.value),))
    return None


def shape(site: NodeFacts) -> ContentResult:
    """The sizes, from `start` to `end`."""
    dims = site.dims(0)
    if dims is None:
        return None
    chosen: Dims = dims[slice(site.attr("start", 0), site.attr("end"))]
    return _pack(chosen, (len(chosen),))


def size(site: NodeFacts) -> ContentResult:
    """The product of the sizes."""
    dims = site.dims(0)
    if dims is None:
        return None
    return _pack([product(dims)], ())


def followed(index_map: IndexMap) -> ValueRule:
    """The elements of the first operand at the places that are read."""

    def values(site: NodeFacts, x: Content) -> ContentResult:
        found = []
        for value, moved in zip(
            site.node.outputs, site.ask(index_map) or (), strict=False
        ):
            shape, pieces = site.shapes.small(value), moved.pieces
            told = len(pieces) == 1 and pieces[0].is_told and not pieces[0].bounds
            if shape is None or not told:
                return None
            found.append(_pack((x[pieces[0].at(k)] for k in np.ndindex(shape)), shape))
        return found

    return values


def constant_of_shape(site: NodeFacts) -> ContentResult:
    """One element, everywhere."""
    out, value = _output_shape(site), site.attr("value")
    element = 0.0 if value is None else np.asarray(value.numpy()).item()
    return None if out is None else _pack([element] * math.prod(out), out)


def range_(
    site: NodeFacts, start: Content, limit: Content, delta: Content
) -> ContentResult:
    """Known steps from a start that may be symbolic."""
    out, first, step = _output_shape(site), start.item(), delta.item()
    if out is None or first is None or step is None:
        return None
    return _pack([simplify(first + step * i) for i in range(out[0])], out)


def _contents(site: NodeFacts) -> list[Content] | None:
    """The contents of all inputs; None where one isn't known."""
    parts = [site.content(i) for i in range(len(site.node.inputs))]
    known = [part for part in parts if part is not None]
    return known if len(known) == len(parts) else None


def concat(site: NodeFacts) -> ContentResult:
    """Joined along the axis."""
    parts = _contents(site)
    axis = int(site.attr("axis", 0))
    return None if parts is None else np.concatenate(parts, axis=axis)


def gather(site: NodeFacts, x: Content, indices: Content) -> ContentResult:
    """The elements at known places."""
    if not _all_ints(indices):
        return None
    return _array(np.take(x, indices.astype(np.int64), int(site.attr("axis", 0))))


def gather_elements(site: NodeFacts, x: Content, indices: Content) -> ContentResult:
    """One element for each index."""
    if not _all_ints(indices):
        return None
    places: list[Any] = list(np.indices(indices.shape, sparse=True))
    places[site.axis(x.ndim)] = indices.astype(np.int64)
    return _array(x[tuple(places)])


def scatter_nd(
    site: NodeFacts, x: Content, places: Content, new: Content
) -> ContentResult:
    """A copy with the elements at known places replaced."""
    if not _all_ints(places) or site.attr("reduction", "none") != "none":
        return None
    out: Content = x.copy()
    for place in np.ndindex(places.shape[:-1]):
        out[tuple(int(i) for i in places[place])] = new[place]
    return out


def non_zero(site: NodeFacts, x: Content) -> ContentResult:
    """Places of the true elements, if all are decided."""
    if not all(isinstance(element, bool | int) for element in x.flat):
        return None
    return np.asarray(np.nonzero(x.astype(bool)), dtype=np.int64).astype(object)


def _array(result: Any) -> Content:
    """NumPy turns an object array without axes into its element."""
    return result if isinstance(result, np.ndarray) else _pack([result], ())


def _all_ints(content: Content) -> bool:
    return all(isinstance(element, int) for element in content.flat)


# ---- arithmetic


def as_rational(number: Any) -> Dim | None:
    """The number as sympy has it, if a product with a size up to 65536 is exact.

    A float32 has 24 bits: 8 for the factor, zeros at the end not counted, 16 for the
    size.
    """
    if not isinstance(number, float):
        return None if number is None else number
    if not math.isfinite(number):
        return None
    ratio = sympy.Rational(number)
    digits = abs(ratio.p) // (ratio.p & -ratio.p or 1)
    return simplify(ratio) if digits < 256 and ratio.q <= 65536 else None


def _is_exact(expr: Dim) -> bool:
    """Whether float arithmetic may go on from here without a rounding error."""
    if isinstance(expr, int) or expr.is_integer:
        return True
    return all(r.q & (r.q - 1) == 0 for r in expr.atoms(sympy.Rational))


def _map(function: Callable[..., Any], *arrays: Content) -> Content:
    """Apply to broadcast elements; an unknown element gives an unknown one."""
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    flat = [np.broadcast_to(array, shape).flat for array in arrays]
    rows = zip(*flat, strict=True)
    return _pack(
        (None if any(x is None for x in row) else function(*row) for row in rows), shape
    )


def cast(site: NodeFacts, x: Content) -> ContentResult:
    """To the type named: between integers, floats and truth values."""
    target = ir.DataType(site.attr("to"))
    return _map(lambda element: _cast(element, target), x)


def cast_like(site: NodeFacts, x: Content) -> ContentResult:
    """To the type of the second input."""
    target = site.dtype(1)
    return None if target is None else _map(lambda e: _cast(e, target), x)


def _cast(element: Any, target: ir.DataType) -> Any:
    known = isinstance(element, bool | int | float)
    if target in FLOATS:
        return float(FLOATS[target](element)) if known else element
    if target == ir.DataType.BOOL:
        return bool(element) if known else (at_least(element, 1) or None)
    if not target.is_integer() or (known and not math.isfinite(element)):
        return None
    if known:
        return int(element)
    if element.is_integer:
        return element
    return floor(element) if at_least(element, 0) else None


def _arithmetic(
    exact: Callable[[Dim, Dim], Dim | None],
    on_floats: Callable[[Any, Any], float | None] | None = None,
    rational: Callable[[Dim, Dim], Dim | None] | None = None,
) -> ValueRule:
    """`exact` on sizes; on floats rounded as the type rounds, or given up.

    `on_floats` computes in double precision; `rational` is for numbers of which one is
    a size, where no rounding is lost.
    """

    def of_floats(x: Any, y: Any, dtype: ir.DataType) -> Any:
        if isinstance(x, float) and isinstance(y, float):
            # Double, then rounded: for the four operations as rounding once.
            result = None if on_floats is None else on_floats(x, y)
            return None if result is None else float(FLOATS[dtype](result))
        left, right = as_rational(x), as_rational(y)
        if left is None or right is None or rational is None:
            return None
        both = _is_exact(left) and _is_exact(right)
        return rational(left, right) if both else None

    def values(site: NodeFacts, a: Content, b: Content) -> ContentResult:
        dtype = site.dtype(0)
        if dtype in FLOATS:
            return _map(lambda x, y: of_floats(x, y, dtype), a, b)
        return None if site.attr("fmod", 0) else _map(exact, a, b)

    return values


def _sum(a: Dim, b: Dim) -> Dim:
    return simplify(a + b)


def _difference(a: Dim, b: Dim) -> Dim:
    return simplify(a - b)


def _product(a: Dim, b: Dim) -> Dim:
    return simplify(a * b)


def div(site: NodeFacts, a: Content, b: Content) -> ContentResult:
    """The quotient, which ONNX rounds towards zero: floor where both are positive."""
    return _arithmetic(partial(_quotient, site), _divided, _ratio)(site, a, b)


def _quotient(site: NodeFacts, a: Dim, b: Dim) -> Dim | None:
    if isinstance(a, int) and isinstance(b, int):
        return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else None
    positive = at_least(b, 0) and site.shapes.never_negative(a)
    return floordiv(a, b) if positive and b != 0 else None


def _divided(a: float, b: float) -> float | None:
    return a / b if b else None


def _ratio(a: Dim, b: Dim) -> Dim | None:
    """A whole number over a whole number rounds, but never across a whole number."""
    if b == 0 or not isinstance(b, int):
        return None
    return simplify(sympy.sympify(a) / b)


def _remainder(a: Dim, b: Dim) -> Dim | None:
    if isinstance(b, int) and b > 0:
        return simplify(a - b * floordiv(a, b))
    return a % b if isinstance(a, int) and isinstance(b, int) and b else None


add = _arithmetic(_sum, operator.add, _sum)
sub = _arithmetic(_difference, operator.sub, _difference)
mul = _arithmetic(_product, operator.mul, _product)
mod = _arithmetic(_remainder)


def _unary(function: Callable[[Any], Any]) -> ValueRule:
    """On one element at a time."""

    def values(site: NodeFacts, x: Content) -> ContentResult:
        return _map(function, x)

    return values


def _absolute(x: Any) -> Any:
    if isinstance(x, float):
        return abs(x)
    if at_least(x, 0):
        return x
    return simplify(-x) if at_least(0, x) else None


def _sign(x: Dim) -> Dim | None:
    if isinstance(x, int):
        return (x > 0) - (x < 0)
    return 1 if at_least(x, 1) else None


floor_ = _unary(lambda x: float(math.floor(x)) if isinstance(x, float) else floor(x))
neg = _unary(lambda x: -x if isinstance(x, float) else simplify(-x))
ceil_ = _unary(
    lambda x: float(math.ceil(x)) if isinstance(x, float) else simplify(-floor(-x))
)
abs_, sign, not_ = _unary(_absolute), _unary(_sign), _unary(operator.not_)


def _decided(function: Callable[[Any, Any], bool | None]) -> ValueRule:
    """True or False where the answer holds for all sizes."""

    def values(site: NodeFacts, a: Content, b: Content) -> ContentResult:
        return _map(function, a, b)

    return values


def _at_least(a: Any, b: Any) -> bool | None:
    if isinstance(a, float) or isinstance(b, float):
        both = isinstance(a, float) and isinstance(b, float)
        return a >= b if both else None
    return at_least(a, b)


def _above(a: Any, b: Any) -> bool | None:
    below = _at_least(b, a)
    return None if below is None else not below


equal = _decided(lambda a, b: a == b if isinstance(a, float) else same(a, b))
less, greater = _decided(lambda a, b: _above(b, a)), _decided(_above)
less_or_equal = _decided(lambda a, b: _at_least(b, a))
greater_or_equal = _decided(_at_least)
and_ = _decided(lambda a, b: a and b)
or_ = _decided(lambda a, b: a or b)
xor = _decided(operator.ne)


def where(site: NodeFacts, cond: Content, a: Content, b: Content) -> ContentResult:
    """The side that is decided, or both sides if they are the same."""
    shape = np.broadcast_shapes(cond.shape, a.shape, b.shape)
    flat = [np.broadcast_to(array, shape).flat for array in (cond, a, b)]
    return _pack((_choose(*row) for row in zip(*flat, strict=True)), shape)


def _choose(cond: bool | None, a: Any, b: Any) -> Any:
    if cond is None:
        return a if a is not None and a == b else None
    return a if cond else b


def extreme(choose: Callable[[Any, Any], Any]) -> ValueRule:
    """One of the inputs, element by element."""

    def values(site: NodeFacts) -> ContentResult:
        parts = _contents(site)
        found = partial(_map, choose)
        return None if parts is None else reduce(found, parts)

    return values


def _extreme(exact: Callable[[Dim, Dim], Dim], rough: Any) -> Callable[..., Any]:
    def choose(a: Any, b: Any) -> Any:
        if isinstance(a, float) and isinstance(b, float):
            return rough(a, b)
        left, right = as_rational(a), as_rational(b)
        return None if left is None or right is None else exact(left, right)

    return choose


_smaller, _larger = _extreme(minimum, min), _extreme(maximum, max)
min_, max_ = extreme(_smaller), extreme(_larger)


def clip(site: NodeFacts, x: Content) -> ContentResult:
    """No less than the second input, no more than the third."""
    for index, choose in ((1, _larger), (2, _smaller)):
        bound = site.content(index)
        if bound is not None:
            x = _map(choose, x, bound)
        elif site.has(index):
            return None
    return x


def _folded(step: Callable[[Dim, Dim], Dim | None]) -> ValueRule:
    """The elements along the axes given, put together."""

    def values(site: NodeFacts, x: Content) -> ContentResult:
        out = _output_shape(site)
        named = site.axes(1, x.ndim) if site.has(1) or site.attr("axes") else []
        if out is None or named is None or site.dtype(0) in FLOATS:
            return None
        axes = [*dict.fromkeys(named)]  # which may name one twice
        if not axes and not site.attr("noop_with_empty_axes", 0):
            axes = list(range(x.ndim))
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        length = math.prod(x.shape[axis] for axis in axes)
        rows = x.transpose(kept + axes).reshape(math.prod(out), length)
        folded = (
            None if any(e is None for e in row) else reduce(step, row) for row in rows
        )
        return _pack(folded, out) if length else None

    return values


reduce_prod, reduce_sum = _folded(_product), _folded(_sum)
reduce_min, reduce_max = _folded(minimum), _folded(maximum)
