"""Softmax and the normalisations of rows by what they compute, whatever their spelling.

The normal forms are those of scalars, with means along a row as further atoms: a mean
is linear, and what is the same along the row leaves it. So every order of centring,
squaring, scaling and dividing comes to the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import onnx_ir as ir

from ...analysis.graph.dims import Dim, Dims
from ...analysis.graph.parameters import is_parameter
from ..language.facts import Facts
from ..language.operators.normalization import (
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    RMSNormalization,
)
from ..language.operators.read_write import (
    WORDS,
    CannotWrite,
    Draft,
    Input,
    NewConstant,
    Output,
    ints,
)
from .algebra import ONE, Algebra, Beyond, Monomial, Operators, Polynomial, Quotient
from .denotation import Term, value_of
from .regions import NORMS, Region

STATEMENTS = {
    "row_sum": "sum x, as a product with ones or a multiple of the mean",
    "row_mean": "sum x / n, where n is the number of elements",
    "row_sum_square": "sum x^2",
    "row_l1": "sum |x|",
    "row_l2": "sqrt(sum x^2)",
    "row_log_sum_exp": "log(sum(exp(x))), whatever x is shifted by",
    "softmax": "exp(x) / sum exp(x), whatever x is shifted by",
    "log_softmax": "x - log(sum exp(x)), whatever x is shifted by",
    "layer_norm": "(x - mean x) / sqrt(mean x^2 - (mean x)^2 + e) s + b",
    "instance_norm": "the same over each channel, s and b one number per channel",
    "rms_norm": "x / sqrt(mean x^2 + e) s",
    "l2_norm": "x / max(sqrt(sum x^2), e)",
}


@dataclass(frozen=True)
class Row:
    """An operator along rows, and the drafts of it."""

    name: str
    drafts: tuple[Draft, ...]
    text: str


@dataclass(frozen=True)
class Constant:
    """A constant of several elements: which of a region's it is, and its sizes."""

    place: int
    dims: Dims | None


# A sum of products of a region's constants, each product with its number.
Combination = tuple[tuple[tuple[Constant, ...], float], ...]


@dataclass(frozen=True)
class _Proved:
    """The operator along rows that a term is, whatever its constants are."""

    name: str
    parameters: tuple[tuple[str, Any], ...]
    operands: tuple[Combination | None, ...] = ()  # beside x
    behind: tuple[Combination, ...] = ()  # what it is multiplied by, and what is added


class Rows(Operators):
    """Operators on normal forms of the elements of rows."""

    def __init__(self, algebra: Algebra, axes: frozenset[int], dims: Dims) -> None:
        super().__init__(algebra)
        self.axes, self.dims = axes, dims
        self.sizes = tuple(dims[k] for k in sorted(axes))
        self.constants: dict[int, Constant] = {}  # by atom
        self.sqrt = algebra.sqrt
        self.count = self._count()

    @property
    def of_images(self) -> bool:
        """Whether a row is all of a channel of an image, or all of its channels."""
        rank = len(self.dims)
        return rank > 2 and self.axes in (
            frozenset(range(2, rank)),
            frozenset(range(1, rank)),
        )

    def _count(self) -> Quotient:
        found = self.algebra.constant(1.0)
        for n in self.sizes:
            size = (
                self.algebra.constant(float(n))
                if isinstance(n, int)
                else self.algebra.single(self.algebra.atom("size", n))
            )
            found = self.mul(found, size)
        if not found:
            raise Beyond("rows without elements")
        return found

    def constant(self, value: Constant) -> Quotient:
        """A constant that is one for all rows, a number per channel, or any other."""
        dims = value.dims
        rank = len(self.dims)
        if dims is None or len(dims) > rank:
            raise Beyond("a constant of unknown sizes")
        filled: tuple[Dim, ...] = (1,) * (rank - len(dims)) + dims
        if self.of_images and filled == (1, self.dims[1], *[1] * (rank - 2)):
            atom = self.algebra.atom("channels", value)
            self.constants[atom] = value
            return self.algebra.single(atom)
        row = tuple(n if k in self.axes else 1 for k, n in enumerate(self.dims))
        atom = self.algebra.atom("constant" if filled == row else "other", value)
        self.constants[atom] = value
        return self.algebra.single(atom)

    def div(self, a: Quotient, b: Quotient) -> Quotient:
        """Not by a constant of several elements, of which one may be 0."""
        if not self.constants.keys().isdisjoint(k for m in b.above for k, _ in m):
            raise Beyond("a constant divides")
        return super().div(a, b)

    def less(self, a: Quotient, b: Quotient) -> tuple[Quotient, Quotient]:
        """A condition that no row decides: its two sides."""
        return a, b

    def choose(
        self,
        asked: tuple[Quotient, Quotient] | Quotient,
        then: Callable[[], Quotient],
        other: Callable[[], Quotient],
    ) -> Quotient:
        """The larger of two that are the same along the row; no other choice."""
        if isinstance(asked, Quotient):
            raise Beyond("a stored condition")
        (a, b), chosen, left = asked, then(), other()
        same = self.algebra.same
        if not b and same(left, a) and same(chosen, self.sub(b, a)):  # |a|
            return self.sqrt(self.mul(a, a))
        if not (self.algebra.same(chosen, b) and self.algebra.same(left, a)):
            raise Beyond("a condition on rows")
        return self.larger(a, b)

    def larger(self, a: Quotient, b: Quotient) -> Quotient:
        """max(a, b), of numbers that are the same along the row."""
        if any(self._varies(m) for q in (a, b) for p in (q.above, q.below) for m in p):
            raise Beyond("a condition on rows")
        for least, sum_ in ((a, b), (b, a)):
            number = self.algebra.number_of(least)
            if number is None:
                continue
            if number <= 1 and self._is_over_1(sum_):
                return sum_
            if number <= 0 and self.algebra.same(sum_, self.variance()):
                return sum_
        keys = sorted((self.key(q.above), self.key(q.below)) for q in (a, b))
        return self.algebra.single(self.algebra.atom("larger", *keys))

    def variance(self) -> Quotient:
        """The mean of squares of what a row's elements are from their mean."""
        centred = self.sub(self.operand, self.mean(self.operand))
        return self.mean(self.mul(centred, centred))

    def _is_over_1(self, a: Quotient) -> bool:
        """Whether it is the sum of exp(x - largest x), of which one is 1, or of
        exp(x - mean x), of which the mean is at least the exponential of 0."""
        return any(
            self.algebra.same(a, self.total(self.exp(self.sub(self.operand, shift))))
            for shift in (self.largest(self.operand), self.mean(self.operand))
        )

    def positive(self, a: Quotient) -> Quotient:
        """What is a sum of exponentials, whose absolute value it is."""
        names = self.algebra.names
        for p in filter(None, (a.above, a.below)):
            atoms = {atom for monomial in p for atom, _ in monomial}
            if min(p.values()) <= 0 or any(names[k][0] != "exp" for k in atoms):
                raise Beyond("an absolute value")
        return a

    def negated(self, asked: Any) -> Any:
        """No other condition than less."""
        raise Beyond("a condition on rows")

    both = negated

    # ---- along a row

    def mean(self, a: Quotient) -> Quotient:
        """Linear; what is the same along the row leaves it."""
        if any(self._varies(m) for m in a.below):
            raise Beyond("the mean of a quotient")
        out = self.algebra.constant(0.0)
        for monomial, number in a.above.items():
            inner = tuple(f for f in monomial if self._atom_varies(f[0]))
            outer = tuple(f for f in monomial if f not in inner)
            term = Quotient({outer: number}, {ONE: 1.0})
            if inner:
                atom = self.algebra.atom("mean", inner)
                term = self.mul(term, self.algebra.single(atom))
            out = self.add(out, term)
        return self.div(out, Quotient(a.below, {ONE: 1.0}))

    def total(self, a: Quotient) -> Quotient:
        """The mean times the number of elements."""
        return self.mul(self.count, self.mean(a))

    def largest(self, a: Quotient) -> Quotient:
        """A number of which nothing is known but that it is one of the row."""
        keys = tuple(map(self.key, (a.above, a.below)))
        return self.algebra.single(self.algebra.atom("largest", *keys))

    def _varies(self, monomial: Monomial) -> bool:
        return any(self._atom_varies(atom) for atom, _ in monomial)

    def _atom_varies(self, atom: int) -> bool:
        kind, *rest = self.algebra.names[atom]
        if kind in ("mean", "largest", "larger", "size"):
            return False
        if kind == "other":
            sizes: Dims = (1,) * len(self.dims) + (self.constants[atom].dims or ())
            return any(sizes[k - len(self.dims)] != 1 for k in self.axes)
        if kind in ("x", "constant", "channels"):
            return kind != "channels" or 1 in self.axes
        inside: Any = rest[0]
        monomials = [inside] if kind == "exp" else [m for m, _ in inside]
        return any(map(self._varies, monomials))


OPERATORS = {
    "softmax": "Softmax",
    "log_softmax": "LogSoftmax",
    "layer_norm": LayerNormalization.name,
    "rms_norm": RMSNormalization.name,
    "instance_norm": InstanceNormalization.name,
    "group_norm": GroupNormalization.name,
}
_SUMS = {
    "row_sum": "ReduceSum",
    "row_mean": "ReduceMean",
    "row_sum_square": "ReduceSumSquare",
    "row_l1": "ReduceL1",
    "row_l2": "ReduceL2",
    "row_log_sum_exp": "ReduceLogSumExp",
}
_BY_CHANNEL = (InstanceNormalization.name, GroupNormalization.name)
_TELLING = frozenset(
    "Exp ReduceLogSumExp Softmax LogSoftmax Sqrt Pow ReduceL2 LayerNormalization "
    "RMSNormalization InstanceNormalization".split()
)


def normalised_sum(region: Region, places: int, facts: Facts) -> Row | None:
    """The operator along rows that a region is, proved; None if none is known."""
    dims, dtype = facts.dims(region.base), region.base.dtype
    if dims is None or dtype is None or not region.axes:
        return None
    known: dict[ir.Value, Constant] = {}

    def constant(value: ir.Value) -> Constant:
        return known.setdefault(value, Constant(len(known), facts.dims(value)))

    sizes, term = facts.dims(region.root), region.term.over(constant)
    found = _proved(term, places, region.axes, dims, sizes != dims)
    if found is None:
        return None
    if found.name == "l2_norm":
        return _l2_row(region, found, dtype)
    if found.name in _SUMS:
        kept = {"keepdims": int(len(sizes or ()) == len(dims))}
        operator, axes = _SUMS[found.name], ints(sorted(region.axes))
        drafts = (Draft(operator, [region.base, axes], kept),)
        return Row(found.name, drafts, f"{operator}(x)")
    # A number behind a norm stays there: nobody would train a row of it.
    lone = {x for x in found.operands if x and not any(of for of, _ in x)}
    if lone - {(((), 1.0),)} and not {*NORMS}.isdisjoint(region.term.operators):
        return None
    if any(map(is_parameter, known)):
        found = _with_number_behind(found)
    operator = OPERATORS[found.name]
    along = {1} if operator in _BY_CHANNEL else region.axes
    writer, row = _Writer(list(known), dtype), tuple(dims[k] for k in sorted(along))
    others = [k for k in range(len(dims)) if k not in region.axes]
    perm = [*others, *sorted(region.axes)]
    turned = bool(found.operands) and perm != sorted(perm)
    try:
        inputs = [None if x is None else writer.sum(x, row) for x in found.operands]
    except CannotWrite:
        return None
    x = writer.turned(region.base, perm) if turned else region.base
    last = WORDS[operator].write([x, *inputs], dict(found.parameters))
    writer.drafts.append(last)
    if turned:
        writer.turned(Output(last), [perm.index(k) for k in range(len(perm))])
    for op, given in zip(("Mul", "Add"), found.behind, strict=False):
        if given not in ((), (((), 1.0),)):
            normal = Output(writer.drafts[-1])
            writer.add(Draft(op, [normal, writer.sum(given)]))
    operands = "(x)" if not inputs else "(x, s, b)"
    return Row(found.name, tuple(writer.drafts), f"{operator}{operands}")


def _with_number_behind(found: _Proved) -> _Proved:
    """A norm whose weights are as the network trained them, and what they are times."""
    products = [product for x in found.operands for product in x or ()]
    numbers = {number for of, number in products if of} or {1.0}
    if found.behind or len(numbers) > 1 or not all(of for of, _ in products):
        return found
    trained = [x and tuple((of, 1.0) for of, _ in x) for x in found.operands]
    return replace(found, operands=(*trained,), behind=((((), numbers.pop()),),))


@lru_cache(maxsize=1024)
def _proved(
    term: Term, places: int, axes: frozenset[int], dims: Dims, by_row: bool
) -> _Proved | None:
    """What a term along these axes is, a number of each row or of each element: the
    same in every block of a network."""
    if not by_row and _TELLING.isdisjoint(term.operators):
        return None
    try:
        rows = Rows(Algebra(places - 3), axes, dims)
        found = value_of(term, rows)
        for candidate in (_sum,) if by_row else _OF_ELEMENTS:
            row = candidate(rows, found)
            if row is not None:
                sums = chain.from_iterable(filter(None, (*row.operands, *row.behind)))
                kept = {constant for factors, _ in sums for constant in factors}
                # One that falls out may be infinite, or NaN, or drown the others.
                return row if kept.issuperset(rows.constants.values()) else None
    except (Beyond, ArithmeticError):
        return None
    return None


def _sum(rows: Rows, found: Quotient) -> _Proved | None:
    x = rows.operand
    square = rows.mul(x, x)
    known = {
        "row_sum": lambda: rows.total(x),
        "row_mean": lambda: rows.mean(x),
        "row_sum_square": lambda: rows.total(square),
        "row_l1": lambda: rows.total(rows.sqrt(square)),
        "row_l2": lambda: rows.sqrt(rows.total(square)),
        "row_log_sum_exp": lambda: rows.log(rows.total(rows.exp(x))),
    }
    same = (name for name in known if rows.algebra.same(found, known[name]()))
    name = next(same, None)
    return None if name is None else _Proved(name, ())


def _softmax(rows: Rows, found: Quotient) -> _Proved | None:
    power = rows.exp(rows.operand)
    return _along(rows, found, "softmax", rows.div(power, rows.total(power)))


def _log_softmax(rows: Rows, found: Quotient) -> _Proved | None:
    total = rows.log(rows.total(rows.exp(rows.operand)))
    return _along(rows, found, "log_softmax", rows.sub(rows.operand, total))


def _along(rows: Rows, found: Quotient, name: str, right: Quotient) -> _Proved | None:
    if len(rows.axes) != 1 or not rows.algebra.same(found, right):
        return None
    (axis,) = rows.axes
    return _Proved(name, (("axis", axis),))


def _l2_row(region: Region, found: _Proved, dtype: ir.DataType) -> Row:
    """x over its length, which is bounded from below by a number."""
    axes = ints(sorted(region.axes or ()))
    length = Draft("ReduceL2", [region.base, axes])
    drafts = [length]
    for _, least in found.parameters:
        bound = NewConstant(np.array(least, dtype.numpy()))
        drafts.append(Draft("Clip", [Output(length), bound]))
    drafts.append(Draft("Div", [region.base, Output(drafts[-1])]))
    return Row(found.name, tuple(drafts), "x / max(ReduceL2(x), e)")


def _l2_norm(rows: Rows, found: Quotient) -> _Proved | None:
    square = rows.total(rows.mul(rows.operand, rows.operand))
    length = rows.sqrt(square)
    if rows.algebra.same(found, rows.div(rows.operand, length)):
        return _Proved("l2_norm", ())
    for name in list(rows.algebra.names):
        if name[0] != "larger":
            continue
        sides: Any = name[1:]
        for above, _ in sides:
            least = rows.algebra.number_of(Quotient(dict(above), {ONE: 1.0}))
            if least is None or not least > 0:
                continue
            bounded = rows.larger(length, rows.number(least))
            if rows.algebra.same(found, rows.div(rows.operand, bounded)):
                return _Proved("l2_norm", (("least", least),))
            bounded = rows.sqrt(rows.larger(square, rows.number(least)))
            if rows.algebra.same(found, rows.div(rows.operand, bounded)):
                return _Proved("l2_norm", (("least", math.sqrt(least)),))
    return None


def _channel_norm(rows: Rows, found: Quotient) -> _Proved | None:
    if not rows.of_images or not isinstance(rows.dims[1], int):
        return None
    return _layer_norm(rows, found, "group_norm" if 1 in rows.axes else "instance_norm")


def _layer_norm(
    rows: Rows, found: Quotient, name: str = "layer_norm"
) -> _Proved | None:
    centred = rows.sub(rows.operand, rows.mean(rows.operand))
    return _normal(rows, found, name, centred, rows.variance())


def _rms_norm(rows: Rows, found: Quotient) -> _Proved | None:
    square = rows.mean(rows.mul(rows.operand, rows.operand))
    return _normal(rows, found, "rms_norm", rows.operand, square)


def _normal(
    rows: Rows, found: Quotient, name: str, above: Quotient, variance: Quotient
) -> _Proved | None:
    """above / sqrt(variance + e) s + b, for an e, s and b that are read off."""
    by_channel = OPERATORS[name] in _BY_CHANNEL
    for epsilon in _epsilons(rows, variance):
        core = rows.div(above, rows.sqrt(rows.add(variance, rows.number(epsilon))))
        scale = _scale(rows, found, core)
        if scale is None:
            continue
        bias = _bias(rows, rows.sub(found, rows.mul(scale, core)))
        if bias is None or (bias and name == "rms_norm"):
            continue
        if not rows.algebra.same(found, rows.add(rows.mul(scale, core), bias)):
            continue
        kinds = {rows.algebra.names[a][0] for a in _constants(rows, scale, bias)}
        behind = kinds == {"other"} and not by_channel
        if not behind and not kinds <= {"channels" if by_channel else "constant"}:
            continue
        if by_channel and not kinds and (1 in rows.axes or len(rows.axes) == 1):
            continue  # a row of numbers is one of the last axis, too
        applied = tuple(_combination(rows, q) for q in (scale, bias))
        if behind:
            scale, bias = rows.number(1.0), Quotient({}, {ONE: 1.0})
        operands: list[Combination | None] = [_combination(rows, scale)]
        given: tuple[tuple[str, Any], ...] = (("epsilon", float(np.float32(epsilon))),)
        if name == "group_norm":
            given = (("groups", 1), *given)
        elif not by_channel:
            given = (("axis", len(rows.dims) - len(rows.axes)), *given)
        if name != "rms_norm":
            operands.append(_combination(rows, bias) if bias or by_channel else None)
        return _Proved(name, given, tuple(operands), applied if behind else ())
    return None


def _epsilons(rows: Rows, variance: Quotient) -> Iterator[float]:
    """What a root in the term has beside a multiple of the variance."""
    algebra = rows.algebra
    square = max(variance.above, key=len, default=ONE)
    leading = next(
        (m for m, n in variance.above.items() if len(m) == 1 and n == 1.0), square
    )
    for atom, name in enumerate(list(algebra.names)):
        if name[0] != "sqrt":
            continue
        inside = algebra.inside(atom)
        if leading in inside and ONE in inside:
            epsilon = algebra.number(inside[ONE] / inside[leading])
            if 0 < epsilon < 1:
                yield epsilon


def _scale(rows: Rows, found: Quotient, core: Quotient) -> Quotient | None:
    """What stands with the root times x, constants alone."""
    root, x = _root_of(rows, core), rows._x
    if root is None:
        return None
    over = _collected(rows, found.above, ((x, 1.0), (root, 1.0)))
    under = _collected(rows, core.above, ((x, 1.0), (root, 1.0)))
    if not over or not under:
        return None
    ratio = rows.div(Quotient(over, found.below), Quotient(under, core.below))
    if len(ratio.below) > 1:  # the divisors are multiples of each other
        key = min(core.below)
        if key not in found.below:
            return None
        factor = core.below[key] / found.below[key]
        scaled = rows.algebra.times(over, {ONE: factor})
        ratio = rows.div(Quotient(scaled, {ONE: 1.0}), Quotient(under, {ONE: 1.0}))
    return ratio if _is_constant(rows, ratio) else None


def _root_of(rows: Rows, core: Quotient) -> int | None:
    names = rows.algebra.names
    atoms = {a for p in (core.above, core.below) for m in p for a, _ in m}
    return next((a for a in sorted(atoms) if names[a][0] == "sqrt"), None)


def _collected(rows: Rows, p: Polynomial, factors: Monomial) -> Polynomial:
    """The terms with exactly these factors and constants besides, without them."""
    out: Polynomial = {}
    for monomial, number in p.items():
        rest = tuple(f for f in monomial if f not in factors)
        bare = all(atom in rows.constants for atom, _ in rest)
        if bare and len(monomial) - len(rest) == len(factors):
            out[rest] = number
    return out


def _bias(rows: Rows, rest: Quotient) -> Quotient | None:
    """The rest as constants alone, its divisor cancelled."""
    if not rest or _is_constant(rows, rest):
        return rest
    key = min(rest.below, key=lambda m: (len(m) == 0, m))
    over = _collected(rows, rest.above, key)
    return Quotient({m: n / rest.below[key] for m, n in over.items()}, {ONE: 1.0})


def _is_constant(rows: Rows, q: Quotient) -> bool:
    return q.below == {ONE: 1.0} and all(
        atom in rows.constants and n == 1 for m in q.above for atom, n in m
    )


def _constants(rows: Rows, *terms: Quotient) -> set[int]:
    return {atom for q in terms for m in q.above for atom, _ in m}


def _combination(rows: Rows, q: Quotient) -> Combination:
    return tuple(
        (tuple(rows.constants[atom] for atom, _ in monomial), number)
        for monomial, number in sorted(q.above.items())
    )


_OF_ELEMENTS = (
    *(_softmax, _log_softmax),
    *(_channel_norm, _layer_norm, _rms_norm, _l2_norm),
)


class _Writer:
    """Sums of products of constants as drafts, of the sizes of a row if it is given."""

    def __init__(self, values: list[ir.Value], dtype: ir.DataType) -> None:
        self._values, self._dtype = values, dtype
        self.drafts: list[Draft] = []

    def turned(self, x: Input, perm: list[int]) -> Input:
        """With its axes in another order."""
        return self.add(Draft("Transpose", [x], {"perm": perm}))

    def sum(self, given: Combination, sizes: Dims | None = None) -> Input:
        """Of exactly these sizes, if any. Raises CannotWrite."""
        terms = [self._term(factors, number, sizes) for factors, number in given]
        return self._folded("Add", terms or [self._number(0.0, sizes)])

    def _term(
        self, constants: tuple[Constant, ...], number: float, sizes: Dims | None
    ) -> Input:
        factors = [self._shaped(constant, sizes) for constant in constants]
        if number != 1.0 or not factors:
            factors.append(self._number(number, sizes))
        return self._folded("Mul", factors)

    def _folded(self, op: str, inputs: list[Input]) -> Input:
        first, *others = inputs
        for other in others:
            first = self.add(Draft(op, [first, other]))
        return first

    def _shaped(self, constant: Constant, sizes: Dims | None) -> Input:
        value = self._values[constant.place]
        if sizes is None or constant.dims == sizes:
            return value
        return self.add(Draft("Reshape", [value, ints(sizes)]))

    def _number(self, x: float, sizes: Dims | None) -> Input:
        known = tuple(n for n in sizes or () if isinstance(n, int))
        if len(known) != len(sizes or ()):
            raise CannotWrite("a size is known only at run time")
        return NewConstant(np.full(known, x).astype(self._dtype.numpy()))

    def add(self, draft: Draft) -> Output:
        """What one more draft gives."""
        self.drafts.append(draft)
        return Output(draft)
