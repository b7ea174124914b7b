"""A law's expressions on the sizes and constants of a real model.

Sizes may be symbolic, so a condition has three values: true, false, and None where it
depends on sizes that only a run tells. A rule needs true.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import onnx_ir as ir
import sympy

from ...analysis.graph.dims import Dim, Dims, at_least, floordiv, same, simplify
from ..language.facts import Facts
from ..language.pattern import Apply, Node, Term, Var
from ..language.terms import Axes, Bool, Fn, Int, Perm, Real, Sizes


class Undecided(Exception):
    """An expression has no value that is known before a run; the text says why."""


@dataclass
class Binding:
    """What the symbols and leaves of a law stand for at one place in a graph."""

    facts: Facts
    values: dict[Var, ir.Value] = field(default_factory=dict)
    symbols: dict[str, Any] = field(default_factory=dict)
    nodes: dict[Node, ir.Node] = field(default_factory=dict)
    members: dict[str, list[Binding]] = field(default_factory=dict)
    chains: list[ir.Node] = field(default_factory=list)  # nodes inside n-ary chains
    reassociated: bool = False  # a chain stood in another order than in the law
    looked: bool = False  # at elements, or results: not at leaves' sizes and symbols

    def copy(self) -> Binding:
        """One that may bind more without this one changing."""
        return Binding(
            self.facts,
            dict(self.values),
            dict(self.symbols),
            dict(self.nodes),
            dict(self.members),
            list(self.chains),
            self.reassociated,
        )

    def value_of(self, term: Term) -> ir.Value:
        """The value that a term of the left side matched."""
        if isinstance(term, Var) and term in self.values:
            return self.values[term]
        if isinstance(term, Apply) and term.node in self.nodes:
            self.looked = True
            return self.nodes[term.node].outputs[term.output]
        raise Undecided(f"{term!r} stands for nothing here")

    def dims(self, term: Term) -> Dims:
        """Its sizes; a leaf with fewer axes is filled up with 1 from the left."""
        dims = self.facts.dims(self.value_of(term))
        if dims is None:
            raise Undecided("the rank of an operand is unknown")
        if isinstance(term, Var) and term.aligned:
            missing = number(evaluate(term.length, self)) - len(dims)
            dims = (1,) * missing + dims
        return dims


def number(x: Any) -> int:
    """An int as it is. Raises Undecided for a size that only run time can tell."""
    if not isinstance(x, int):
        raise Undecided(f"{x} is known only at run time")
    return x


def evaluate(expr: Any, at: Binding) -> Any:
    """An Int as int or sympy expression, a Bool as True, False or None, an Fn as tuple,
    Axes as frozenset, Sizes as tuple. A Real as Fraction; as float what none is: an
    infinity, -0.0, or a root or pi to some places.

    Raises Undecided.
    """
    heads = _HEADS.get(type(expr))
    if heads is not None:
        return heads[expr.head](at, *expr.args)
    if isinstance(expr, Fn):
        return _table(expr, at)
    if isinstance(expr, Axes):
        if expr.name:
            return at.symbols[expr.name]
        count = number(evaluate(expr.length, at))
        has = [decided(expr.has(k), at) for k in range(count)]
        return frozenset(k for k in range(count) if has[k])
    if isinstance(expr, Sizes):
        return _table(expr.dim, at)
    return expr


def _table(fn: Fn, at: Binding) -> tuple[Dim, ...]:
    if fn.name:
        found: tuple[Dim, ...] = at.symbols[fn.name]
        return found
    count = number(evaluate(fn.length, at))
    return tuple(evaluate(fn(k), at) for k in range(count))


def decided(condition: Bool, at: Binding) -> bool:
    """The truth of a condition; raises Undecided where it depends."""
    found = evaluate(condition, at)
    if found is None:
        raise Undecided("a size is known only at run time")
    return bool(found)


def _position(at: Binding, k: Int, count: int) -> int:
    place = number(evaluate(k, at))
    if not 0 <= place < count:
        raise Undecided(f"position {place} of {count}")
    return place


def _dim(at: Binding, term: Term, k: Int) -> Dim:
    dims = at.dims(term)
    return dims[_position(at, k, len(dims))]


def _rank(at: Binding, term: Term) -> int:
    return len(at.dims(term))


def _call(at: Binding, fn: Fn, k: Int) -> Dim:
    listed = at.symbols[fn.name]
    found: Dim = listed[_position(at, k, len(listed))]
    return found


def _call_inverse(at: Binding, perm: Perm, k: Int) -> int:
    listed = at.symbols[perm.name]
    return int(listed.index(_position(at, k, len(listed))))


def _remaining(at: Binding, axes: Axes) -> list[int]:
    inside = evaluate(axes, at)
    return [k for k in range(number(evaluate(axes.length, at))) if k not in inside]


def _rest(at: Binding, axes: Axes, k: Int) -> int:
    remaining = _remaining(at, axes)
    return remaining[_position(at, k, len(remaining))]


def _place(at: Binding, axes: Axes, k: Int) -> int:
    place = number(evaluate(k, at))
    remaining = _remaining(at, axes)
    if place not in remaining:
        raise Undecided(f"axis {place} is in the set")
    return remaining.index(place)


def _choose(at: Binding, condition: Bool, a: Int, b: Int) -> Dim:
    found: Dim = evaluate(a if decided(condition, at) else b, at)
    return found


def _div(at: Binding, a: Int, b: Int) -> Dim:
    divisor = evaluate(b, at)
    if divisor == 0 or at_least(divisor, 1) is not True:
        raise Undecided("a divisor that may be 0")
    return floordiv(evaluate(a, at), divisor)


def _mod(at: Binding, a: Int, b: Int) -> int:
    divisor = number(evaluate(b, at))
    if divisor < 1:
        raise Undecided("a divisor that isn't positive")
    return number(evaluate(a, at)) % divisor


def _bound(at: Binding, name: str) -> Dim:
    found: Dim = at.symbols[name]
    return found


def _symbol(at: Binding, name: str, *bounds: Int | None) -> Any:
    if name not in at.symbols:
        raise Undecided(f"{name} stands for nothing here")
    return at.symbols[name]


def _first(at: Binding, count: Int, k: Int, condition: Bool) -> int:
    positions = range(number(evaluate(count, at)))
    for position in positions:
        at.symbols[k.args[0]] = position
        if decided(condition, at):
            return position
    return len(positions)


def _element(at: Binding, leaf: Var, *place: Int) -> Dim:
    at.looked = True
    elements = at.facts.ints(at.value_of(leaf))
    if elements is None:
        raise Undecided("the elements are known only at run time")
    index = 0
    for k, size in zip(place, at.dims(leaf), strict=True) if place else ():
        index = index * number(size) + _position(at, k, number(size))
    return elements[index]


_INTS: dict[str, Callable[..., Any]] = {
    "first": _first,
    "element": _element,
    "number": lambda at, n: n,
    "symbol": _symbol,
    "bound": _bound,
    "add": lambda at, a, b: simplify(evaluate(a, at) + evaluate(b, at)),
    "sub": lambda at, a, b: simplify(evaluate(a, at) - evaluate(b, at)),
    "mul": lambda at, a, b: simplify(evaluate(a, at) * evaluate(b, at)),
    "div": _div,
    "mod": _mod,
    "choose": _choose,
    "rank": _rank,
    "dim": _dim,
    "call": _call,
    "call_inverse": _call_inverse,
    "count": lambda at, axes: len(evaluate(axes, at)),
    "place": _place,
    "rest": _rest,
}


def _and(at: Binding, a: Bool, b: Bool) -> bool | None:
    left = evaluate(a, at)
    if left is False:
        return False
    right = evaluate(b, at)
    if right is False:
        return False
    return None if left is None or right is None else True


def _not(at: Binding, a: Bool) -> bool | None:
    found = evaluate(a, at)
    return None if found is None else not found


def _or(at: Binding, a: Bool, b: Bool) -> bool | None:
    try:
        left = evaluate(a, at)
    except Undecided:
        left = None
    if left:
        return True
    right = evaluate(b, at)
    if right:
        return True
    return None if left is None or right is None else False


def _forall(at: Binding, count: Int, k: Int, condition: Bool) -> bool | None:
    result: bool | None = True
    name = k.args[0]
    for position in range(number(evaluate(count, at))):
        at.symbols[name] = position
        found = evaluate(condition, at)
        if found is False:
            return False
        result = result if found else None
    return result


def _less(at: Binding, a: Int, b: Int) -> bool | None:
    found = at_least(evaluate(a, at), evaluate(b, at))
    return None if found is None else not found


def _whole(flag: object) -> object:
    return int(flag) if isinstance(flag, bool) else flag


def _equal(at: Binding, a: Int, b: Int) -> bool | None:
    left, right = _whole(evaluate(a, at)), _whole(evaluate(b, at))
    if isinstance(left, int | sympy.Expr) and isinstance(right, int | sympy.Expr):
        return same(left, right)
    return left == right  # words


_BOOLS: dict[str, Callable[..., Any]] = {
    "literal": lambda at, value: value,
    "and": _and,
    "or": _or,
    "not": _not,
    "forall": _forall,
    "less": _less,
    "less_equal": lambda at, a, b: at_least(evaluate(b, at), evaluate(a, at)),
    "equal": _equal,
    "member": lambda at, axes, k: number(evaluate(k, at)) in evaluate(axes, at),
    "real_less": lambda at, a, b: _exact(a, at) < _exact(b, at),
    "real_less_equal": lambda at, a, b: _exact(a, at) <= _exact(b, at),
    "real_equal": lambda at, a, b: _exact(a, at) == _exact(b, at),
}


def _exact(expr: Real, at: Binding) -> Fraction | float:
    """A rational number or an infinity; a root or pi is known to some places only, and
    what is computed of it, though it be 0 or infinite, too."""
    try:
        found = evaluate(expr, at)
    except OverflowError as reason:
        raise Undecided(str(reason)) from None
    if isinstance(found, float) and expr.head not in _NAMED:
        raise Undecided(f"{found} is rounded")
    return found if found == -math.inf else Fraction(found)


_NAMED = ("negative_zero", "negative_infinity")


def _rational(x: float | int) -> Fraction:
    """A stored number; nothing is proved of infinities and NaN."""
    if not math.isfinite(x):
        raise Undecided(f"{x} is no number")
    return Fraction(x)


def _value(at: Binding, leaf: Var) -> Fraction:
    at.looked = True
    value = at.value_of(leaf)
    found = at.facts.uniform(value)
    if found is None:
        raise Undecided(f"the element of {value.name} isn't stored")
    return _rational(found)


def _real_symbol(at: Binding, name: str) -> Fraction:
    return _rational(_symbol(at, name))


def _divide(at: Binding, a: Real, b: Real) -> Any:
    above, below = evaluate(a, at), evaluate(b, at)
    if below == 0:
        raise Undecided("a division by 0")
    return above / below


def _from_int(at: Binding, n: Int) -> Fraction:
    return Fraction(number(evaluate(n, at)))


def _root(at: Binding, a: Real) -> Fraction | float:
    """Exact of squares, else a float."""
    argument = evaluate(a, at)
    if argument < 0:
        raise Undecided("the root of a negative number")
    if isinstance(argument, float):
        return math.sqrt(argument)
    above, below = math.isqrt(argument.numerator), math.isqrt(argument.denominator)
    root = Fraction(above, below)
    return root if root * root == argument else math.sqrt(argument)


_REALS: dict[str, Callable[..., Any]] = {
    "number": lambda at, x: x,
    "pi": lambda at: math.pi,
    "negative_zero": lambda at: -0.0,
    "negative_infinity": lambda at: -math.inf,
    "symbol": _real_symbol,
    "value": _value,
    "from_int": _from_int,
    "add": lambda at, a, b: evaluate(a, at) + evaluate(b, at),
    "sub": lambda at, a, b: evaluate(a, at) - evaluate(b, at),
    "mul": lambda at, a, b: evaluate(a, at) * evaluate(b, at),
    "div": _divide,
    "sqrt": _root,
}


_HEADS: dict[type, dict[str, Callable[..., Any]]] = {
    Int: _INTS,
    Real: _REALS,
    Bool: _BOOLS,
}


@lru_cache(maxsize=1 << 14)
def spelled(expr: Any) -> str:
    """What a law says, for a message; laws are few and messages many."""
    return repr(expr)
