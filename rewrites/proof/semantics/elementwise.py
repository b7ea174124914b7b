"""Elementwise operators, with NumPy's broadcasting.

Broadcasting aligns shapes at the last axis. Two sizes meet well if they are equal or
one of them is 1; an index is then 0 along the axes where the operand has size 1.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from ..kernel.scalars import PI, All, Const, Ite, Op, Scalar, lift
from ..kernel.smt import IndexMap, Integer, choose, either
from ..kernel.tensors import Context, Tensor, shape
from .index_maps import Buffer, buffer, larger_rank, same_shape, shape_of, simple
from .table import Meaning, means

Operand: TypeAlias = "Tensor | Scalar | int | float | Fraction"

# ONNX operators that are one scalar function, by the name the prover knows it by.
POINTWISE = {
    "Abs": "abs", "Add": "add", "And": "and", "Ceil": "ceil", "Cos": "cos",
    "Div": "div", "Equal": "equal", "Erf": "erf", "Exp": "exp", "Floor": "floor",
    "Greater": "greater", "GreaterOrEqual": "greater_equal", "Less": "less",
    "LessOrEqual": "less_equal", "Log": "log", "Max": "max", "Min": "min",
    "Mul": "mul", "Neg": "neg", "Not": "not", "Or": "or", "Pow": "pow",
    "Reciprocal": "recip", "Relu": "relu", "Round": "round", "Sigmoid": "sigmoid",
    "Sign": "sign", "Sin": "sin", "Sqrt": "sqrt", "Sub": "sub", "Tan": "tan",
    "Tanh": "tanh", "Where": "where", "Xor": "xor",
}  # fmt: skip


def scalar(value: Operand) -> Tensor:
    """A number as a tensor of rank 0."""
    if isinstance(value, Tensor):
        return value
    return Tensor(0, shape(), lambda index: lift(value))


def full(rank: Integer, dim: IndexMap, value: Scalar | float | Fraction) -> Tensor:
    """A tensor that is one number throughout."""
    return Tensor(rank, dim, lambda index: lift(value))


def elementwise(
    context: Context, f: Callable[..., Scalar], *operands: Operand
) -> Tensor:
    """f of the operands' elements at each index of their broadcast shape."""
    tensors = [scalar(x) for x in operands]
    shaped = [t for t in tensors if not _is_scalar(t)]
    if not shaped:
        return Tensor(0, shape(), lambda i: f(*(t.at(i) for t in tensors)))
    rank, dim = _broadcast(context, shaped)
    projections = [_projection(t, rank, dim) for t in tensors]

    def at(index: IndexMap) -> Scalar:
        pairs = zip(tensors, projections, strict=True)
        return f(*(t.at(project(index)) for t, project in pairs))

    result = Tensor(rank, dim, at)
    return _with_buffer(context, f, tensors, shaped, result)


def _is_scalar(t: Tensor) -> bool:
    return isinstance(t.rank, int) and t.rank == 0


def _same(index: IndexMap) -> IndexMap:
    return index


def _projection(
    t: Tensor, rank: Integer, dim: IndexMap
) -> Callable[[IndexMap], IndexMap]:
    """From an index of the result to one of an operand."""
    if t.dim is dim or _is_scalar(t):
        return _same
    shift = simple(rank - t.rank)

    def project(index: IndexMap) -> IndexMap:
        return lambda k: choose(t.dim(k) == 1, 0, index(k + shift))

    return project


def _broadcast(context: Context, shaped: list[Tensor]) -> tuple[Integer, IndexMap]:
    rank, dim = shape_of(shaped[0])
    for t in shaped[1:]:
        total = larger_rank(context, rank, t.rank)
        a, b = _aligned(dim, total - rank), _aligned(t.dim, total - t.rank)
        if a is not b:
            context.require(All(total, _meets(a, b)), "broadcasting")
            rank, dim = total, _joined(a, b)
    return rank, dim


def _aligned(dim: IndexMap, shift: Integer) -> IndexMap:
    """The sizes counted from an earlier axis; 1 along the axes that aren't there."""
    shift = simple(shift)
    if isinstance(shift, int) and shift == 0:
        return dim
    return lambda k: choose(k < shift, 1, dim(k - shift))


def _meets(a: IndexMap, b: IndexMap) -> Callable[[Integer], Any]:
    return lambda k: either(a(k) == b(k), a(k) == 1, b(k) == 1)


def _joined(a: IndexMap, b: IndexMap) -> IndexMap:
    return lambda k: choose(a(k) == 1, b(k), a(k))


def require_into(context: Context, x: Operand, t: Tensor, what: str) -> None:
    """That x broadcasts into the shape of t: t isn't enlarged."""
    if not isinstance(x, Tensor) or _is_scalar(x):
        return
    shift = simple(t.rank - x.rank)
    if not (isinstance(shift, int) and shift == 0):
        context.require(shift >= 0, what)
    if x.dim is not t.dim:
        fits = All(
            x.rank, lambda k: either(x.dim(k) == 1, x.dim(k) == t.dim(k + shift))
        )
        context.require(fits, what)


def _with_buffer(
    context: Context,
    f: Callable[..., Scalar],
    tensors: list[Tensor],
    shaped: list[Tensor],
    result: Tensor,
) -> Tensor:
    """Elementwise operators of tensors of one shape also work on row-major buffers."""
    if all(t.flat is None for t in shaped):
        return result
    first = shaped[0]
    if not all(same_shape(context, shape_of(first), shape_of(t)) for t in shaped[1:]):
        return result
    numbers = {id(t): t.at(lambda k: 0) for t in tensors if _is_scalar(t)}
    buffers = {id(t): buffer(context, t) for t in shaped}

    def apply(values: Callable[[Tensor], Scalar]) -> Scalar:
        return f(*(numbers.get(id(t)) or values(t) for t in tensors))

    views = [result]
    if all(t is first for t in shaped):
        views = [
            result if view is first else _mapped(apply, view)
            for view in buffers[id(first)].views
        ]
    flat = Buffer(lambda n: apply(lambda t: buffers[id(t)](n)), tuple(views))
    for view in views:
        view.flat = flat
    return result


def _mapped(apply: Callable[..., Scalar], view: Tensor) -> Tensor:
    return Tensor(view.rank, view.dim, lambda i: apply(lambda _: view.at(i)))


def pointwise(context: Context, name: str, *operands: Operand) -> Tensor:
    """An ONNX operator of POINTWISE by its name; Max, Min and the like fold many."""
    head = POINTWISE[name]
    if len(operands) > 2 and name in ("Max", "Min", "Add", "Mul"):
        rest = pointwise(context, name, *operands[:-1])
        return elementwise(context, lambda a, b: Op(head, a, b), rest, operands[-1])
    return elementwise(context, lambda *x: signed(head, *x), *operands)


def signed(head: str, a: Scalar, *others: Scalar) -> Scalar:
    """head(a, others), without signs that make no difference to any number or NaN."""
    if isinstance(a, Op) and head == a.name == "neg":
        return a.args[0]
    if isinstance(a, Op) and head in ("abs", "isnan") and a.name in ("abs", "neg"):
        return signed(head, *a.args)
    return Op(head, a, *others)


def add(context: Context, a: Operand, b: Operand) -> Tensor:
    """a + b, broadcast"""
    return elementwise(context, lambda x, y: x + y, a, b)


def sub(context: Context, a: Operand, b: Operand) -> Tensor:
    """a - b, broadcast"""
    return elementwise(context, lambda x, y: x - y, a, b)


def mul(context: Context, a: Operand, b: Operand) -> Tensor:
    """a * b, broadcast"""
    return elementwise(context, lambda x, y: x * y, a, b)


def div(context: Context, a: Operand, b: Operand) -> Tensor:
    """a / b, broadcast"""
    return elementwise(context, lambda x, y: x / y, a, b)


def where(context: Context, condition: Operand, a: Operand, b: Operand) -> Tensor:
    """a where the condition holds, else b; all broadcast"""
    return pointwise(context, "Where", condition, a, b)


@means("Clip")
def clip(
    context: Context, x: Operand, low: Operand | None, high: Operand | None
) -> Tensor:
    """min(max(x, low), high); an absent bound doesn't bind."""
    context.require_one(low, high)
    if low is not None and high is not None:
        return elementwise(context, lambda *a: Op("clip", *a), x, low, high)
    if low is not None:
        return elementwise(context, lambda *a: Op("max", *a), x, low)
    if high is not None:
        return elementwise(context, lambda *a: Op("min", *a), x, high)
    return scalar(x)


@means("LeakyRelu")
def leaky_relu(context: Context, x: Operand, alpha: Operand) -> Tensor:
    """x where it is positive, else alpha * x"""
    return prelu(context, x, alpha)


@means("PRelu")
def prelu(context: Context, x: Operand, slope: Operand) -> Tensor:
    """x where x >= 0 or NaN, else slope * x; the slope broadcasts into x's shape."""

    def f(a: Scalar, b: Scalar) -> Scalar:
        return Op("where", Op("less", a, Const(0)), b * a, a)

    require_into(context, slope, scalar(x), "the slope's shape")
    return elementwise(context, f, x, slope)


@means("HardSigmoid")
def hard_sigmoid(
    context: Context, x: Operand, alpha: Operand = 0.2, beta: Operand = 0.5
) -> Tensor:
    """max(0, min(1, alpha * x + beta))"""

    def f(a: Scalar, s: Scalar, t: Scalar) -> Scalar:
        return Op("max", Const(0), Op("min", Const(1), s * a + t))

    return elementwise(context, f, x, alpha, beta)


@means("HardSwish")
def hard_swish(context: Context, x: Operand) -> Tensor:
    """x * max(0, min(1, x / 6 + 1 / 2))"""
    gate = hard_sigmoid(context, x, Fraction(1, 6), Fraction(1, 2))
    return mul(context, x, gate)


@means("Swish")
def swish(context: Context, x: Operand, alpha: Operand = 1) -> Tensor:
    """x * sigmoid(alpha * x)"""
    return elementwise(context, lambda a, s: a * Op("sigmoid", s * a), x, alpha)


@means("Softplus")
def softplus(context: Context, x: Operand) -> Tensor:
    """log(exp(x) + 1)"""
    return elementwise(context, lambda a: Op("log", Op("exp", a) + 1), x)


@means("Mish")
def mish(context: Context, x: Operand) -> Tensor:
    """x * tanh(log(exp(x) + 1))"""

    def f(a: Scalar) -> Scalar:
        return a * Op("tanh", Op("log", Op("exp", a) + 1))

    return elementwise(context, f, x)


@means("Elu")
def elu(context: Context, x: Operand, alpha: Operand = 1) -> Tensor:
    """x where it is positive, else alpha * (exp(x) - 1)"""

    def f(a: Scalar, s: Scalar) -> Scalar:
        return Op("where", Op("less", a, Const(0)), s * (Op("exp", a) - 1), a)

    return elementwise(context, f, x, alpha)


@means("Gelu")
def gelu(context: Context, x: Operand, approximate: str = "none") -> Tensor:
    """With erf, or approximated with tanh."""
    half = Const(Fraction(1, 2))

    def exact(a: Scalar) -> Scalar:
        return half * a * (Op("erf", a / Op("sqrt", Const(2))) + 1)

    def rough(a: Scalar) -> Scalar:
        inner = a + Const(Fraction("0.044715")) * (a * a * a)
        factor = Op("sqrt", Const(2) / PI)
        return half * a * (Op("tanh", factor * inner) + 1)

    return elementwise(context, exact if approximate == "none" else rough, x)


def along(
    context: Context, t: Tensor, rank: Integer, axis: Integer, dim: Integer
) -> Tensor:
    """A 1-D tensor as one of `rank` axes, of size 1 everywhere but along `axis`.

    A tensor of one element (rank 0, or a known size 1) stays as it is.
    """
    if _is_scalar(t):
        return t
    context.require(t.rank == 1, "a tensor along an axis has rank 1")
    context.require(t.dim(0) == dim, "the size along an axis")
    return Tensor(
        rank, lambda k: choose(k == axis, dim, 1), lambda i: t.at(lambda k: i(axis))
    )


@means("Trilu")
def trilu(context: Context, x: Tensor, k: Integer = 0, upper: Integer = 1) -> Tensor:
    """The upper (or lower) triangle of the last two axes, 0 elsewhere.

    `upper` is literally 0 or 1: the two are different functions.
    """
    context.require(x.rank >= 2, "a matrix")

    def at(i: IndexMap) -> Scalar:
        distance = i(x.rank - 1) - i(x.rank - 2)
        kept = distance >= k if upper else distance <= k
        return Ite(kept, x.at(i), Const(0))

    return Tensor(x.rank, x.dim, at)


@means("Identity")
def _identity(context: Context, x: Tensor) -> Tensor:
    return x


@means("Softsign")
def _softsign(context: Context, x: Tensor) -> Tensor:
    return elementwise(context, lambda a: a / (1 + Op("abs", a)), x)


@means("BitShift")
def _bit_shift(context: Context, x: Tensor, by: Tensor, direction: str) -> Tensor:
    """To the left by a known number is a multiplication, modulo 2^w."""

    def shifted(a: Scalar, count: Scalar) -> Scalar:
        if direction == "LEFT" and isinstance(count, Const):
            return a * Const(2**count.value)
        return Op({"LEFT": "shl", "RIGHT": "shr"}[direction], a, count)

    return elementwise(context, shifted, x, by)


def _named(name: str) -> Meaning:
    return lambda context, *tensors: pointwise(context, name, *tensors)


for _name in POINTWISE:
    means(_name)(_named(_name))


@means("pointwise")
def _pointwise(context: Context, *tensors: Tensor, f: Any) -> Tensor:
    """Any function, the same one wherever the law names it; f(0) = 0 in one family."""
    head = f"sigma:{f.name}"
    if f.family == "zero":
        apply = lambda *x: x[0] * Op(head, *x)  # noqa: E731  0 times anything real is 0
    else:
        apply = lambda *x: Op(head, *x)  # noqa: E731
    return elementwise(context, apply, *tensors)
