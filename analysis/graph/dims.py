"""Sizes of tensors: an int where the number is known, a sympy expression where not.

Every symbol is a non-negative integer. Names come from the file and may hold any text,
so nothing here hands a name to sympy's parser.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from itertools import zip_longest
from typing import TypeAlias

import sympy

from ..errors import FairhandError

Dim: TypeAlias = int | sympy.Expr
Dims: TypeAlias = tuple[Dim, ...]

_INFINITE = 2**31 - 1  # exporters write "to the end" as any number from here on
_MAX_OPERATIONS = 40


class Invented(sympy.Symbol):  # type: ignore[misc]  # sympy has no type information
    """A size that no graph input carries, such as the length of NonZero's result."""

    __slots__ = ()


class _Joined(sympy.Dummy):  # type: ignore[misc]
    """What sizes not known to be equal broadcast to; see `broadcast`."""

    __slots__ = ("parts",)
    parts: frozenset[Dim]

    def _sympystr(self, _: object) -> str:
        return str(self.name)


@cache
def symbol(name: str) -> sympy.Symbol:
    """The size called `name`; the same name is always the same symbol."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


def invented(name: str) -> sympy.Symbol:
    """A symbol that broadcasting and `agree` prefer to do without."""
    return Invented(name, integer=True, nonnegative=True)


@cache
def _joined(parts: frozenset[Dim]) -> _Joined:
    found = _Joined(str(_usual(parts)), integer=True, nonnegative=True)
    found.parts = parts
    return found


def _usual(parts: frozenset[Dim]) -> Dim:
    """The one that is never less than the others; else the plainest of all."""
    plainer = sorted(map(plain, parts), key=lambda d: (_plainness(d), str(d)))
    most = (d for d in plainer if all(at_least(d, other) for other in plainer))
    return next(most, plainer[0])


def _parts(size: Dim) -> frozenset[Dim]:
    return size.parts if isinstance(size, _Joined) else frozenset((size,))


@lru_cache(maxsize=65536)
def plain(size: Dim) -> Dim:
    """The size where all that broadcast are equal, as it is usually called."""
    if isinstance(size, int) or not size.has(_Joined):
        return size
    chosen = {joined: _usual(joined.parts) for joined in size.atoms(_Joined)}
    return simplify(size.subs(chosen))


def is_invented(size: Dim) -> bool:
    """Whether a size depends on one that has no name in the file."""
    size = plain(size)
    return not isinstance(size, int) and size.has(Invented)


def simplify(expr: Dim) -> Dim:
    """The canonical form: a sum of products; a known number comes back as int."""
    return expr if isinstance(expr, int) else _expand(expr)


@lru_cache(maxsize=65536)
def _expand(expr: sympy.Expr) -> Dim:
    expr = sympy.expand(expr)
    if expr.is_Add and expr.has(sympy.Max):
        expr = _bounded(expr)
    return int(expr) if expr.is_Integer else expr


def _bounded(expr: sympy.Expr) -> sympy.Expr:
    """Min(x, c) for x - Max(0, x - c): what is left where all but the last c go."""
    for term in expr.args:
        factor, choice = term.as_coeff_Mul()
        above = [*choice.args] if isinstance(choice, sympy.Max) else []
        if factor != -1 or len(above) != 2 or 0 not in above:
            continue
        above.remove(0)
        less, size = above[0].as_coeff_Add()
        parts = {*sympy.Add.make_args(size)}
        if less <= 0 and parts <= {*expr.args}:
            rest = (part for part in expr.args if part not in {*parts, term})
            return sympy.Add(*rest, minimum(size, int(-less)))
    return expr


def product(dims: Iterable[Dim]) -> Dim:
    """The number of elements; 1 for no sizes at all."""
    number, rest = 1, []
    for dim in dims:
        if isinstance(dim, int):
            number *= dim
        else:
            rest.append(dim)
    return _product(number, tuple(rest)) if rest else number


@lru_cache(maxsize=65536)
def _product(number: int, rest: Dims) -> Dim:
    return simplify(sympy.Mul(number, *rest))


def floor(expr: Dim) -> Dim:
    """The largest whole number that is not above `expr`."""
    if isinstance(expr, int):
        return expr
    above, below = expr.as_numer_denom()
    if below.is_Integer:
        return floordiv(simplify(above), int(below))
    return simplify(sympy.floor(expr))


@lru_cache(maxsize=65536)
def floordiv(a: Dim, b: Dim) -> Dim:
    """`a // b` for a positive `b`.

    Sizes stay flat and can be compared, since some spellings are avoided:
    floor((floor(x) + k) / b) is floor((x + k) / b), in chains of strided convolutions;
    floor(-x / b) is -floor((x + b - 1) / b), in padding to a multiple;
    floor((x - 1) / b) is floor((x + b - 1) / b) - 1.
    """
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if isinstance(a, int) or not isinstance(b, int) or not a.is_integer:
        return simplify(sympy.floor(sympy.expand(sympy.sympify(a) / b)))
    whole, rest = _split(a, b)
    terms = sympy.Add.make_args(rest)
    if all(term.is_number or term.as_coeff_Mul()[0] < 0 for term in terms):
        return simplify(whole - floordiv(simplify(b - 1 - rest), b))
    floors = [term for term in terms if isinstance(term, sympy.floor)]
    if len(floors) == 1:
        rest = rest - floors[0] + floors[0].args[0]
    ratio = sympy.expand(rest / b)
    over = sympy.floor(ratio.as_coeff_Add()[0])
    return simplify(whole + over + sympy.floor(ratio - over))


def _split(a: sympy.Expr, b: int) -> tuple[sympy.Expr, sympy.Expr]:
    """(quotient of what `b` divides, remaining terms) of a sum of whole numbers."""
    whole = rest = sympy.Integer(0)
    for term in sympy.Add.make_args(a):
        factor, symbols = term.as_coeff_Mul()
        if not factor.is_Integer or not symbols.is_integer:
            rest += term
            continue
        quotient, remainder = divmod(int(factor), b)
        if remainder == 0 or symbols == 1:
            whole, factor = whole + quotient * symbols, remainder
        rest += factor * symbols
    return whole, rest


@lru_cache(maxsize=65536)
def ceildiv(a: Dim, b: Dim) -> Dim:
    """`a / b` rounded up, for a positive `b`."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return floordiv(simplify(a + b - 1), b)


def quotient(numerator: Iterable[Dim], denominator: Iterable[Dim]) -> Dim | None:
    """The exact quotient of two products of sizes, given that there is one.

    None if it has no closed form, and for a denominator of 0.
    """
    above, below = [], list(denominator)
    for factor in numerator:
        if factor in below:
            below.remove(factor)
        else:
            above.append(factor)
    top, bottom = product(above), product(below)
    if isinstance(bottom, int):
        return floordiv(top, bottom) if bottom else None
    top, bottom = sympy.cancel(top / bottom).as_numer_denom()
    return floordiv(simplify(top), int(bottom)) if bottom.is_Integer else None


@lru_cache(maxsize=65536)
def same(a: Dim, b: Dim) -> bool | None:
    """Are the sizes equal: yes, no, or (None) it depends on the symbols."""
    if a == b:
        return True
    difference = simplify(a - b)
    if isinstance(difference, int):
        return difference == 0
    if difference.is_zero is None:
        return None
    return bool(difference.is_zero)


@lru_cache(maxsize=65536)
def at_least(a: Dim, b: Dim) -> bool | None:
    """Is `a >= b`: yes, no, or (None) it depends on the symbols."""
    difference = simplify(a - b)
    if isinstance(difference, int):
        return difference >= 0
    bounded = (isinstance(b, sympy.Min) and a in b.args) or (
        isinstance(a, sympy.Max) and b in a.args
    )
    if bounded or _never_negative(difference):
        return True
    return False if _never_negative(simplify(-1 - difference)) else None


def reaches(a: Dim, b: Dim) -> bool:
    """Whether `a >= b` but where a size is 0: what broadcasts reaches each part."""
    return at_least(a, b) is True or _parts(b) <= _parts(a)


def _never_negative(expr: sympy.Expr) -> bool:
    """Whether a whole number is at least 0 for all sizes.

    sympy does not see that x - 7 * floor(x / 7) is. Here each floor gives way to its
    bounds, y - (q - 1) / q <= floor(y) <= y for y in steps of 1 / q; above -1 will do.
    """
    for choice in expr.atoms(sympy.Min) if expr.is_integer else ():
        if (expr + choice).has(sympy.Min):
            continue  # not taken away once
        if any(_never_negative(sympy.expand(expr + choice - n)) for n in choice.args):
            return True  # even if it were that large
    for _ in range(4 if expr.is_integer and expr.has(sympy.floor) else 0):
        bound: sympy.Expr = sympy.Integer(0)
        for term in sympy.Add.make_args(expr):
            factor, rest = term.as_coeff_Mul()
            if isinstance(rest, sympy.floor):
                steps = sympy.ilcm(*(r.q for r in rest.atoms(sympy.Rational)), 1)
                term = factor * rest.args[0]
                bound -= max(factor, 0) * sympy.Rational(steps - 1, steps)
            bound += term
        bound = sympy.expand(bound)
        if bound == expr:
            break
        if (bound + 1).is_positive:
            return True
        expr = bound
    return bool(expr.is_nonnegative)


def ones(longer: Dims, shorter: Dims) -> list[int] | None:
    """The axes of 1 without which one list of sizes is the other; None if it isn't."""
    axes, left = [], list(shorter)
    for axis, size in enumerate(longer):
        if left and same(size, left[0]) is True:
            left.pop(0)
        elif size == 1:
            axes.append(axis)
        else:
            return None
    return None if left else axes


def minimum(a: Dim, b: Dim) -> Dim:
    """The smaller size; a `Min` where the symbols decide."""
    if isinstance(b, int) and b >= _INFINITE and not isinstance(a, int):
        return a
    if at_least(b, a):
        return a
    return b if at_least(a, b) else _undecided(sympy.Min, a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    """The larger size; a `Max` where the symbols decide."""
    if at_least(a, b):
        return a
    if at_least(b, a):
        return b
    return _max_by_cases(a, b) or _undecided(sympy.Max, a, b)


def _max_by_cases(a: Dim, b: Dim) -> Dim | None:
    """One expression, if a size for which there is a Min(1, size) is 0 and if not.

    So many elements are left of one element and `size` more, without the first.
    """
    for choice in sympy.sympify(a - b).atoms(sympy.Min):
        ones = [n for n in choice.args if isinstance(n, sympy.Symbol)]
        if len(choice.args) != 2 or 1 not in choice.args or not ones:
            continue
        size, more = ones[0], sympy.Dummy(integer=True, nonnegative=True)
        there, other = (_put(x, size, more + 1) for x in (a, b))
        if at_least(there, other) is not True:
            continue
        found = _put(there, more, size - 1)
        if _put(found, size, 0) == maximum(_put(a, size, 0), _put(b, size, 0)):
            return found
    return None


def _put(expr: Dim, old: sympy.Symbol, new: Dim) -> Dim:
    return expr if isinstance(expr, int) else simplify(expr.subs(old, new))


def _undecided(choice: type[sympy.Min | sympy.Max], a: Dim, b: Dim) -> Dim:
    """Without sympy's own attempt to decide, which is slow and finds no more."""
    parts: set[Dim] = set()
    for part in (a, b):
        parts.update(part.args if isinstance(part, choice) else (part,))
    return choice(*parts, evaluate=False)


def agree(a: Dim, b: Dim) -> Dim:
    """The plainer of two spellings of one size: a number, then fewer operations.

    A size that a graph input carries is plainer than an invented one. Raises
    FairhandError for two different numbers.
    """
    if a == b:
        return a
    if isinstance(a, int) and isinstance(b, int):
        raise FairhandError(f"sizes {a} and {b} do not match")
    return min(a, b, key=_plainness)


@lru_cache(maxsize=65536)
def is_size(element: object) -> bool:
    """Whether it is a whole number that the symbols decide."""
    return isinstance(element, sympy.Expr) and bool(element.is_integer)


def is_bulky(dim: Dim) -> bool:
    """Whether an expression is too long to read, and to go on computing with."""
    if isinstance(dim, int | sympy.Symbol):
        return False
    return _length(dim) > _MAX_OPERATIONS


@lru_cache(maxsize=65536)
def _length(dim: sympy.Expr) -> int:
    return int(sympy.count_ops(dim))


def _plainness(dim: Dim) -> tuple[bool, bool, int]:
    if isinstance(dim, int):
        return (False, False, 0)
    return (True, dim.has(Invented), _length(dim))


def _stretch(a: Dim, b: Dim) -> Dim:
    """The size that `a` and `b` broadcast to; see `broadcast`."""
    if a == b or b == 1 or (isinstance(a, _Joined) and _parts(b) <= a.parts):
        return a
    if isinstance(b, _Joined) and _parts(a) <= b.parts:
        return b
    if isinstance(a, int):
        if a == 1:
            return b
        if isinstance(b, int):
            return agree(a, b)
        return a
    if isinstance(b, int) or at_least(b, 2):
        return b
    if at_least(a, 2) or at_least(a, b):  # the smaller one may be 1
        return a
    return b if at_least(b, a) else agree(a, b)


@lru_cache(maxsize=65536)
def broadcast(*shapes: Dims) -> tuple[Dim, ...]:
    """The shape that `shapes` broadcast to, as NumPy and ONNX do it.

    A number other than 1 wins over a symbol, and a symbol wins over 1: both are
    certain. Between two sizes not known to be equal, one that is at least 2 is certain
    too. Else the result is a size of its own, since either may be 1 where the other is
    not; it is called like the plainer of the two, which it mostly is (see `plain`).
    Raises FairhandError for two numbers that clash.
    """
    result: list[Dim] = []
    try:
        for sizes in zip_longest(*map(reversed, shapes), fillvalue=1):
            out: Dim = 1
            for size in sizes:
                joined = _stretch(out, size)
                unsure = _is_choice(out, size, joined)
                out = _joined(_parts(out) | _parts(size)) if unsure else joined
            result.append(out)
    except FairhandError as error:
        listed = " and ".join(spell(shape) for shape in shapes)
        raise FairhandError(f"shapes {listed} do not broadcast: {error.what}") from None
    return tuple(reversed(result))


def _is_choice(a: Dim, b: Dim, joined: Dim) -> bool:
    """Whether `_stretch(a, b)` had to take two unknown sizes for equal."""
    if isinstance(a, int) or isinstance(b, int) or at_least(joined, 2):
        return False
    if _parts(joined) >= _parts(a) | _parts(b):
        return False
    return not agrees(a, b)


@lru_cache(maxsize=65536)
def agrees(a: Dim, b: Dim) -> bool:
    """Whether two sizes that broadcast are equal, since both are 1 where either is.

    The first s of 512 beside s: 512 beside more don't broadcast.
    """
    return same(a, b) is True or (_is_1_where(a, b) and _is_1_where(b, a))


def _is_1_where(b: Dim, a: Dim) -> bool:
    """Whether `b` is 1 for all sizes for which `a` is."""
    a = sympy.sympify(a)
    choices = [*a.atoms(sympy.Min)]
    if len(choices) == 1:
        cases = (simplify(a.subs(choices[0], one)) for one in choices[0].args)
        return all(case == b or _is_1_where(b, case) for case in cases)
    terms = sympy.Add.make_args(a)
    symbols = [x for x in terms if isinstance(x, sympy.Symbol)]
    number = sympy.Add(*(x for x in terms if not isinstance(x, sympy.Symbol)))
    if not number.is_Integer or number < 0:
        return False  # no plain sum
    if number > 1:
        return True
    zeros = dict.fromkeys(symbols, 0)
    ways = [zeros] if number == 1 else [zeros | {x: 1} for x in symbols]
    return all(sympy.sympify(b).subs(way) == 1 for way in ways)


def slice_range(size: int, start: int, end: int, step: int) -> range:
    """The indices that a slice takes of an axis of `size` elements."""
    if step < 0 and end in (2**31 - 1, 2**63 - 1):
        end = -size - 1  # ONNX Runtime reads the largest numbers as "all the way"
    start += size if start < 0 else 0
    end += size if end < 0 else 0
    if step > 0:
        return range(min(max(start, 0), size), min(max(end, 0), size), step)
    return range(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step)


@lru_cache(maxsize=65536)
def text(dim: Dim) -> str:
    """One size as it is written in shapes, messages and comments."""
    return str(dim)


def spell(dims: Iterable[Dim | None] | None) -> str:
    """A shape for messages and comments: `[batch, 3, floor(h/2)]`, `?` if unknown."""
    if dims is None:
        return "?"
    return "[" + ", ".join("?" if d is None else text(d) for d in dims) + "]"


def parse(text: str, sizes: Mapping[str, Dim]) -> Dim | None:
    """Read an expression over known `sizes`, such as `past + 1`; None if it is not one.

    Exporters write derived sizes so. Only + - * // and integers are read, out of
    Python's own syntax tree: the text is never evaluated.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval") if len(text) <= 200 else None
        return None if tree is None else _read(tree.body, sizes)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _read(node: ast.expr, sizes: Mapping[str, Dim]) -> Dim | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return sizes.get(node.id)
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _read(node.left, sizes), _read(node.right, sizes)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Add):
        return simplify(left + right)
    if isinstance(node.op, ast.Sub):
        return simplify(left - right)
    if isinstance(node.op, ast.Mult):
        return simplify(left * right)
    if isinstance(node.op, ast.FloorDiv) and isinstance(right, int) and right > 0:
        return floordiv(left, right)
    return None
