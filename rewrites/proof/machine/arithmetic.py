"""Scalar terms read as machine arithmetic: element types, then z3 terms.

Sound as long as two leaves get one variable only if they are the same element, and
every unknown (a choice, an arbitrary number, a condition on indices) is either new or
belongs to the same condition or function application.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import z3

from ..kernel.scalars import (
    All,
    Const,
    Element,
    FromInt,
    Guard,
    Ite,
    NegInf,
    NegZero,
    Op,
    Opaque,
    Red,
    Scalar,
    Symbol,
)
from ..kernel.smt import Integer
from .element_types import BOOLEAN, Format, Refused, constant, convert, format_named
from .operators import COMPARISONS, compare, of_floats, of_integers, select

Same: TypeAlias = Callable[[Scalar, Scalar], bool]

LEAVES = (Element, Symbol, FromInt, Red, Opaque)
LOGICAL = frozenset("not and or xor".split())
# Known only to give equal results for equal arguments.
FUNCTIONS = frozenset(
    "sqrt rsqrt exp log pow sin cos tan sinh cosh tanh asin acos atan erf sigmoid "
    "softplus".split()
)

_POSITION = z3.FreshInt("position")


def _key(leaf: Scalar) -> tuple[Any, ...]:
    """What tells leaves apart. A sum is equal to itself alone."""
    if isinstance(leaf, Symbol):
        return "symbol", leaf.name
    if isinstance(leaf, FromInt):
        return "integer", _simple(leaf.value)
    if not isinstance(leaf, Element):
        return "term", id(leaf)
    index = _at_positions(leaf.rank, leaf.index)
    return "element", leaf.tensor, _simple(leaf.member), *index


def _at_positions(rank: Integer, each: Callable[[Integer], Any]) -> tuple[Any, ...]:
    """The rank, and the values of a function of the axis position."""
    positions = range(rank) if isinstance(rank, int) else [_POSITION]
    return _simple(rank), *(_simple(each(k)) for k in positions)


def _simple(x: Any) -> Any:
    return z3.simplify(x) if z3.is_expr(x) else x


def _alike(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(map(_identical, a, b))


def _identical(a: Any, b: Any) -> bool:
    if z3.is_expr(a) or z3.is_expr(b):
        return z3.is_expr(a) and z3.is_expr(b) and bool(a.eq(b))
    return bool(a == b)


def same_leaf(a: Scalar, b: Scalar) -> bool:
    """The same element by name and index expression, or the same term itself."""
    return _alike(_key(a), _key(b))


def _cast(term: Op) -> tuple[Format, Format] | None:
    """The element types of Op("cast:<from>:<to>", x)."""
    if not term.name.startswith("cast:"):
        return None
    if term.name.count(":") != 2 or len(term.args) != 1:
        raise Refused(term.name)
    _, source, target = term.name.split(":")
    return format_named(source), format_named(target)


class Types:
    """The element type of every leaf; None where the law leaves it open."""

    def __init__(self, same: Same) -> None:
        self._same = same
        self.leaves: list[Scalar] = []
        self.known: list[Format | None] = []

    def number(self, leaf: Scalar) -> int:
        """The number of a leaf among the different ones."""
        for number, other in enumerate(self.leaves):
            if other is leaf or self._same(other, leaf):
                return number
        self.leaves.append(leaf)
        self.known.append(None)
        return len(self.leaves) - 1

    def infer(self, left: Scalar, right: Scalar, facts: Sequence[Scalar]) -> None:
        """Spread the types that casts, comparisons and conditions ask for."""
        before = None
        while before != self.known:
            before = list(self.known)
            common = self.common(left, right)
            self.demand(left, common)
            self.demand(right, common)
            for fact in facts:
                self.demand(fact, BOOLEAN)

    def common(self, *terms: Scalar) -> Format | None:
        """The type of the first of these terms that has one."""
        found = (self.of(term) for term in terms)
        return next((element for element in found if element), None)

    def of(self, term: Scalar) -> Format | None:
        """The type of a term; None where terms of any type are meant."""
        if isinstance(term, LEAVES):
            return self.known[self.number(term)]
        if isinstance(term, Ite):
            return self.common(term.a, term.b)
        if not isinstance(term, Op):
            return None
        if cast := _cast(term):
            return cast[1]
        if term.name in COMPARISONS:
            return BOOLEAN
        return self.common(*(term.args[1:] if term.name == "where" else term.args))

    def demand(self, term: Scalar, element: Format | None) -> None:
        """Take note that a term is of this type; refused if it is of another."""
        if isinstance(term, LEAVES):
            number = self.number(term)
            self.known[number] = self.known[number] or element
            _agree(self.known[number], element, term)
        elif isinstance(term, Ite):
            for branch in (term.a, term.b):
                self.demand(branch, element or self.of(term))
        elif isinstance(term, Op):
            for argument, wanted in zip(
                term.args, self.wanted(term, element), strict=True
            ):
                self.demand(argument, wanted)

    def wanted(self, term: Op, element: Format | None) -> list[Format | None]:
        """The types of an operator's arguments if the result is of this type."""
        _agree(self.of(term), element, term)
        if cast := _cast(term):
            return [cast[0]]
        if term.name in COMPARISONS:
            return [self.common(*term.args)] * len(term.args)
        wanted = [element or self.of(term)] * len(term.args)
        if term.name == "where":
            wanted[0] = BOOLEAN
        return wanted


def _agree(a: Format | None, b: Format | None, term: Scalar) -> None:
    if a and b and a != b:
        raise Refused(f"{_name(term)} is both {a.name} and {b.name}")


def _name(term: Scalar) -> str:
    if isinstance(term, Element):
        return str(term.tensor)
    if isinstance(term, Op | Symbol):
        return str(term.name)
    return type(term).__name__


class Reading:
    """The two sides of a law and its facts as z3 terms, for one element type.

    `default` is the type of what the law leaves open; `uses_default` whether it leaves
    anything open. `formats` are the types in it, `variables` the leaves' values.
    """

    def __init__(
        self,
        sides: tuple[Scalar, Scalar],
        facts: Sequence[Scalar],
        same: Same,
        default: Format,
    ) -> None:
        self._default = default
        self._types = Types(same)
        self._types.infer(*sides, facts)
        self._conditions: list[tuple[tuple[Any, ...], z3.BoolRef]] = []
        self._applications: list[tuple[str, list[z3.ExprRef], z3.ExprRef]] = []
        self._unknowns = 0
        self.uses_default = False
        self.variables: dict[int, tuple[str, Format, z3.ExprRef]] = {}
        self.hypotheses: list[z3.BoolRef] = []
        self.result = self._settle(None, *sides)
        self.left, self.right = (self._read(side, self.result) for side in sides)
        self.hypotheses += [self._read(fact, BOOLEAN) for fact in facts]

    @property
    def formats(self) -> tuple[str, ...]:
        """The names of the types that the terms were read in."""
        if self.uses_default:
            return (self._default.name,)
        found = [element.name for _, element, _ in self.variables.values()]
        return tuple(dict.fromkeys([*found, self.result.name]))

    def _settle(self, element: Format | None, *terms: Scalar) -> Format:
        """The type of these terms: known, or the default."""
        found = element or self._types.common(*terms)
        if found is None and any(_is_boolean(t, self._default) for t in terms):
            return BOOLEAN
        self.uses_default |= found is None
        return found or self._default

    def _unknown(self, element: Format) -> z3.ExprRef:
        self._unknowns += 1
        return z3.Const(f"unknown!{self._unknowns}", element.sort)

    def _choice(self) -> z3.BoolRef:
        return self._unknown(BOOLEAN)

    def _read(self, term: Scalar, element: Format) -> z3.ExprRef:
        """A term of this element type."""
        if isinstance(term, FromInt) and isinstance(term.value, int):
            return constant(Fraction(term.value), element)
        if isinstance(term, LEAVES):
            return self._variable(term, element)
        if isinstance(term, Const):
            return constant(term.value, element)
        if isinstance(term, NegZero) and element.kind == "float":
            return z3.fpMinusZero(element.sort)
        if isinstance(term, NegInf) and element.kind == "float":
            return z3.fpMinusInfinity(element.sort)
        if isinstance(term, Ite):
            condition = self._condition(term.condition)
            return z3.If(
                condition, self._read(term.a, element), self._read(term.b, element)
            )
        if isinstance(term, Op):
            return self._operator(term, element)
        raise Refused(f"{_name(term)} as {element.name}")

    def _variable(self, leaf: Scalar, element: Format) -> z3.ExprRef:
        number = self._types.number(leaf)
        if number not in self.variables:
            taken = sum(_name(leaf) == name for name, *_ in self.variables.values())
            variable = z3.Const(f"element!{number}", element.sort)
            self.variables[number] = _name(leaf) + "'" * taken, element, variable
        _agree(self.variables[number][1], element, leaf)
        return self.variables[number][2]

    def _condition(self, condition: Guard) -> z3.BoolRef:
        """An unknown per condition on indices: independent ones, whatever they say."""
        if isinstance(condition, bool):
            return z3.BoolVal(condition)
        key: tuple[Any, ...]
        if isinstance(condition, All):
            key = "all", *_at_positions(condition.rank, condition.cond)
        else:
            if z3.is_not(condition):
                return z3.Not(self._condition(condition.arg(0)))
            key = "condition", _simple(condition)
        for other, unknown in self._conditions:
            if _alike(other, key):
                return unknown
        self._conditions.append((key, self._choice()))
        return self._conditions[-1][1]

    def _operator(self, term: Op, element: Format) -> z3.ExprRef:
        name = term.name
        if cast := _cast(term):
            _agree(cast[1], element, term)
            return convert(self._read(term.args[0], cast[0]), *cast, self._unknown)
        if name in COMPARISONS:
            return self._comparison(term, element)
        if name == "where" and len(term.args) == 3:
            condition = self._read(term.args[0], BOOLEAN)
            a, b = (self._read(argument, element) for argument in term.args[1:])
            if element.kind == "float":
                return select(condition, a, b, self._choice)
            return z3.If(condition, a, b)
        args = [self._read(argument, element) for argument in term.args]
        if element.is_integer:
            return of_integers(name, args, element, self._unknown)
        if element.kind == "bool":
            return _logic(name, args)
        if name in FUNCTIONS or name.startswith(("sigma", "kernel:")):
            return self._apply(name, args, element)
        return of_floats(name, args, element, self._choice, self._unknown)

    def _comparison(self, term: Op, element: Format) -> z3.BoolRef:
        _agree(BOOLEAN, element, term)
        if len(term.args) != 2:
            raise Refused(f"{term.name} of {len(term.args)}")
        common = self._settle(None, *term.args)
        a, b = (self._read(argument, common) for argument in term.args)
        if common.kind == "float":
            return compare(term.name, a, b)
        if common.kind == "bool":
            return _logic(term.name, [a, b])
        return of_integers(term.name, [a, b], common, self._unknown)

    def _apply(self, name: str, args: list[z3.ExprRef], element: Format) -> z3.ExprRef:
        result = self._unknown(element)
        for other, others, value in self._applications:
            if (other, len(others), value.sort()) == (name, len(args), result.sort()):
                equal = z3.And(*(a == b for a, b in zip(args, others, strict=True)))
                self.hypotheses.append(z3.Implies(equal, value == result))
        self._applications.append((name, args, result))
        return result


def _is_boolean(term: Scalar, default: Format) -> bool:
    """Whether a term of open type is a truth value: `not` and the like."""
    logical = isinstance(term, Op) and term.name in LOGICAL
    return logical and default.kind == "float"


def _logic(name: str, args: Sequence[z3.BoolRef]) -> z3.BoolRef:
    table: dict[tuple[str, int], Callable[..., z3.BoolRef]] = {
        ("not", 1): z3.Not,
        ("and", 2): z3.And,
        ("or", 2): z3.Or,
        ("xor", 2): z3.Xor,
        ("equal", 2): lambda a, b: a == b,
    }
    try:
        return table[name, len(args)](*args)
    except KeyError:
        raise Refused(f"{name} of {len(args)} truth values") from None
