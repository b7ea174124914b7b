"""Sizes in one way of writing, and which of two is less; for all sizes of two or more.

Ends of slices make sizes of Max and Min, windows of convolutions whole quotients. Each
greater or lesser of two is written by what is above 0 of their difference, unless it is
plain which it is; of a quotient, what divides without a rest stands outside. Conditions
of sizes are told by what they leave of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import sympy
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, PythonMod

Size: TypeAlias = Any  # int or sympy.Expr
_LEAST, _MOST = 2, 2**57  # open size; no memory has an address for more
_GREATER: Any = Max
MIN = Min, sympy.Min
_MAX = Max, sympy.Max
_OTHERS = (*_MAX, *MIN, FloorDiv)  # than sums and products
_DEEPEST = 12  # in each other, of what is decided


@lru_cache(2**16)
def normal(size: Size) -> Size:
    """The same size; equal ones are written alike, as far as that is plain."""
    if isinstance(size, int) or not size.has(*_OTHERS):
        return size
    args = [normal(each) for each in size.args]
    if isinstance(size, FloorDiv):
        return _quotient(*args)
    if not isinstance(size, (*_MAX, *MIN)):
        return sympy.expand(size.func(*args))
    sign = 1 if isinstance(size, _MAX) else -1
    found = args[0]
    for other in args[1:]:  # the greater is one, and what the other is above it
        found = found + sign * _above(sympy.expand(sign * (other - found)))
    return sympy.expand(found)


def _quotient(size: Size, by: Size) -> Size:
    rest = size.as_coeff_Add()[0]
    if not (by.is_Integer and rest.is_Integer):
        return FloorDiv(size, by)
    return FloorDiv(size - rest + rest % by, by) + rest // by


def _above(size: Size) -> Size:
    """What of a size is above 0: itself, or 0."""
    if _is_reached(size):
        return size
    if _is_reached(-size):
        return sympy.S.Zero
    if size.could_extract_minus_sign():
        return _GREATER(0, -size) + size
    return _GREATER(0, size)


@lru_cache(2**16)
def less(a: Size, b: Size) -> bool:
    """Whether a < b, as far as that is plain to see."""
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    return _is_reached(normal(sympy.expand(b - a - 1)))


@lru_cache(2**16)
def _is_reached(size: Size, depth: int = 0) -> bool:
    """Whether a size is 0 or more, as far as that is plain to see."""
    size = sympy.expand(size)
    if size.is_number or depth > _DEEPEST:
        return bool(size.is_number and size >= 0)
    least: dict[Any, Any] = {}
    for part in sorted(size.atoms(*_OTHERS), key=sympy.count_ops, reverse=True):
        times = size.coeff(part)
        if not times.is_Integer or times == 0:
            least[part] = int(_is_reached(part - 1, depth + 1))
            continue
        rest, (one, other) = size - times * part, part.args[:2]
        if isinstance(part, FloorDiv):
            if not other.is_Integer or other <= 0:
                least[part] = 0
                continue
            if times == 1:  # whole numbers go in
                return _is_reached(one + other * rest, depth + 1)
            if times == -1:
                return _is_reached(other * (rest + 1) - 1 - one, depth + 1)
            end = one - other + 1 if times > 0 else one
            return _is_reached(other * rest + times * end, depth + 1)
        ends = (_is_reached(rest + times * end, depth + 1) for end in part.args)
        return all(ends) if (times < 0) == isinstance(part, _MAX) else any(ends)
    return _is_sum_of_such(size, least, depth)


def _is_sum_of_such(size: Size, least: dict[Any, Any], depth: int) -> bool:
    """The same of sums of products, of which parts are 0 or more."""
    for part in least:
        fine = [_is_reached(each, depth + 1) for each in part.args]
        if not (any(fine) if isinstance(part, _MAX) else all(fine)):
            return False
    names = {part: sympy.Dummy() for part in least}
    size = size.xreplace(names)
    symbols = size.free_symbols - set(names.values())
    if not all(symbol.is_positive for symbol in symbols):
        return False  # data decide those
    beyond = {symbol: symbol + _LEAST for symbol in symbols}
    beyond |= {names[part]: names[part] ** 2 + least[part] for part in least}
    found = sympy.expand(size.subs(beyond, simultaneous=True))
    if not found.is_polynomial(*found.free_symbols):
        return False
    terms = found.as_coefficients_dict()
    lowest = terms.pop(sympy.S.One, 0)
    lowest += sum(_MOST * c for term, c in terms.items() if c < 0 and term.is_Symbol)
    return bool(lowest >= 0) and all(c >= 0 or t.is_Symbol for t, c in terms.items())


def in_words(condition: sympy.Basic) -> str:
    """A condition of sizes without the factors that it doesn't hang on: `b*s is a
    multiple of 7` for `Mod(96*b*s, 672) = 0`."""
    if not isinstance(condition, sympy.Eq | sympy.Ne):
        return str(condition)
    holds, (left, right) = isinstance(condition, sympy.Eq), condition.args
    if right == 0:
        left = left.primitive()[1]
        if isinstance(left, sympy.Mod | Mod | PythonMod) and left.args[1].is_Integer:
            factor, size = left.args[0].primitive()
            by = left.args[1] // sympy.gcd(factor, left.args[1])
            return f"{size} is {'a' if holds else 'no'} multiple of {by}"
        if isinstance(left, FloorDiv) and left.args[0].is_nonnegative:
            size, by = left.args
            return f"{size} {'<' if holds else '>='} {by}"
    return f"{left} {'=' if holds else '!='} {right}"


def solved(condition: sympy.Basic) -> sympy.Basic:
    """A linear condition of one size as `size = number` where that is all it leaves,
    and true where it leaves every size; others as they are."""
    found = _solved_alone(condition)
    if found != condition or not isinstance(found, sympy.core.relational.Relational):
        return found
    written = condition.func(normal(condition.lhs), normal(condition.rhs))
    found = _solved_alone(written)
    return condition if found == written and found is not sympy.true else found


def _solved_alone(condition: sympy.Basic) -> sympy.Basic:
    """The same of a condition as it is written."""
    if isinstance(condition, sympy.Eq):
        condition = _bounded(condition)
    symbols = list(condition.free_symbols)
    if not symbols:  # 2 = 2
        return condition.doit()
    if len(symbols) != 1 or not isinstance(condition, sympy.core.relational.Relational):
        return condition
    real = sympy.Symbol("size", real=True)
    alike = condition.xreplace({symbols[0]: real})
    apart = sympy.expand(alike.lhs - alike.rhs)
    slope = None if apart.has(*_OTHERS) else sympy.diff(apart, real)
    if slope is None or not slope.is_number or slope == 0:
        return condition
    zero = -apart.xreplace({real: sympy.S.Zero}) / slope
    is_size = zero.is_Integer and 0 <= zero <= _MOST
    if isinstance(condition, sympy.Eq | sympy.Ne):
        only = is_size and isinstance(condition, sympy.Eq)
        left = isinstance(condition, sympy.Ne) and not is_size
    else:  # what holds of the least size and the largest does of all
        ends = sympy.S.Zero, sympy.Integer(_MOST)
        left = all(alike.xreplace({real: end}) for end in ends)
        only = zero == 0 and not left and bool(alike.xreplace({real: sympy.S.Zero}))
    if only:
        return sympy.Eq(symbols[0], zero, evaluate=False)
    return sympy.true if left else condition


def _bounded(equal: sympy.Eq) -> sympy.Basic:
    """Min(a, b) = b as b <= a; another equation as it is."""
    for least, size in (equal.args, equal.args[::-1]):
        if isinstance(least, MIN) and size in least.args:
            rest = [each for each in least.args if each != size]
            return sympy.Le(size, least.func(*rest))
    return equal


def nothing_above(condition: sympy.Basic) -> sympy.Basic:
    """What an inequality of whole numbers says to be 0 or less; others as they are."""
    if not isinstance(condition, sympy.StrictLessThan | sympy.LessThan):
        if not isinstance(condition, sympy.StrictGreaterThan | sympy.GreaterThan):
            return condition
        condition = condition.reversed
    strict = isinstance(condition, sympy.StrictLessThan)
    return sympy.expand(condition.lhs - condition.rhs + int(strict))
