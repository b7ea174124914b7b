"""Looking into integer expressions: what occurs, and lemmas about what does.

Sound because every lemma is a theorem about integers: a question may be asked with it
as a further hypothesis, whatever the question is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import z3

Substitution: TypeAlias = Sequence[tuple[Any, Any]]

PRODUCTS = 12  # compared at most


def subterms(expressions: Iterable[Any]) -> Iterator[Any]:
    """Every subterm outside quantifiers, once each."""
    return walk(expressions, False)


def all_terms(expression: Any) -> Iterator[Any]:
    """Every subterm, bodies of quantifiers included, once each."""
    return walk([expression], True)


@dataclass(frozen=True, eq=False)
class Seen:
    """An expression that was looked into; kept, since z3 gives out numbers again."""

    expression: Any
    kind: int  # what its head is, as z3 numbers heads; none of a quantifier
    children: list[tuple[int, Any]]  # with their numbers


# Looking into an expression of z3's costs much more than remembering what was there.
SEEN: dict[int, Seen] = {}
QUANTIFIER = -1


def look(number: int, e: Any) -> Seen:
    """What `e` is made of; `number` is its number."""
    found = SEEN.get(number)
    if found is None:
        if z3.is_quantifier(e):
            body = e.body()
            found = Seen(e, QUANTIFIER, [(body.get_id(), body)])
        else:
            kind = e.decl().kind() if z3.is_app(e) else z3.Z3_OP_INTERNAL
            found = Seen(e, kind, [(x.get_id(), x) for x in e.children()])
        SEEN[number] = found
    return found


def walk(expressions: Iterable[Any], into_quantifiers: bool) -> Iterator[Any]:
    """Every subterm once, as an expression of z3."""
    return (found.expression for found in looks(expressions, into_quantifiers))


def looks(expressions: Iterable[Any], into_quantifiers: bool) -> Iterator[Seen]:
    """Every subterm once, quantifiers themselves left out."""
    seen: set[int] = set()
    todo = [(e.get_id(), e) for e in expressions if z3.is_expr(e)]
    while todo:
        number, e = todo.pop()
        if number in seen:
            continue
        seen.add(number)
        found = look(number, e)
        if found.kind != QUANTIFIER:
            yield found
            todo.extend(found.children)
        elif into_quantifiers:
            todo.extend(found.children)


def mentions(expression: Any, symbol: Any) -> bool:
    """Does the symbol (a constant or a function) occur, quantifiers included?"""
    if z3.is_expr(symbol):
        return any(z3.eq(e, symbol) for e in all_terms(expression))
    return any(z3.is_app(e) and e.decl().eq(symbol) for e in all_terms(expression))


def substitute(expression: Any, pairs: Substitution) -> Any:
    """Replace integer constants by integers and functions by index maps, at once.

    The replacements must not mention the symbols replaced: constants go first, then
    functions.
    """
    if not z3.is_expr(expression):
        return expression
    constants = [(a, as_integer(b)) for a, b in pairs if z3.is_expr(a)]
    functions = [
        (a, as_integer(b(z3.Var(0, z3.IntSort()))))
        for a, b in pairs
        if not z3.is_expr(a)
    ]
    if constants:
        expression = z3.substitute(expression, *constants)
    return z3.substitute_funs(expression, *functions) if functions else expression


def as_integer(x: Any) -> Any:
    """An integer as a term of z3."""
    return x if z3.is_expr(x) else z3.IntVal(int(x))


def linear_split(expression: Any, divisor: Any) -> tuple[Any, Any]:
    """(u, v) with expression = u * divisor + v, u as large as the spelling shows."""
    total = z3.simplify(expression, som=True, mul_to_power=False)
    product = factors_of(z3.simplify(divisor, som=True, mul_to_power=False))
    u, v = z3.IntVal(0), z3.IntVal(0)
    for part in total.children() if z3.is_add(total) else [total]:
        rest = factors_of(part)
        for factor in product:
            at = next((j for j, f in enumerate(rest) if z3.eq(f, factor)), None)
            if at is None:
                v = v + part
                break
            del rest[at]
        else:
            u = u + (z3.Product(*rest) if rest else z3.IntVal(1))
    return u, v


def factors_of(expression: Any) -> list[Any]:
    """The factors of a product; of anything else, itself."""
    return list(expression.children()) if z3.is_mul(expression) else [expression]


def division_lemmas(e: Any) -> Iterator[Any]:
    """For e = t div b or t mod b, t = u*b + v: what they are if 0 <= v < b.

    z3 reasons poorly about division by a symbol; the conclusion follows from the
    uniqueness of quotient and remainder.
    """
    t, b = e.children()
    if not z3.is_int_value(b):
        u, v = linear_split(t, b)
        exact = z3.And(t / b == u, t % b == v, t == u * b + v)
        yield z3.Implies(z3.And(v >= 0, v < b), exact)
        bounds = z3.And(t == b * (t / b) + t % b, t % b >= 0, t % b < b)
        yield z3.Implies(b > 0, bounds)


def product_lemmas(terms: Sequence[Any]) -> Iterator[Any]:
    """How integer products with a common factor compare, and quotients by it."""
    products = [e for e in terms if z3.is_mul(e)]
    sides = [(x, w, e) for e in products for x, w in (e.children(), e.children()[::-1])]
    sides = [side for side in sides if not z3.is_int_value(side[1])][:PRODUCTS]
    for x, w, e in sides:
        yield z3.Implies(z3.And(x >= 0, w >= 0), e >= 0)
        for g, other, f in sides:
            if z3.eq(w, other) and not z3.eq(x, g):
                yield z3.Implies(z3.And(w >= 0, x < g), e + w <= f)
        for q in terms:
            if not z3.is_mul(q) and z3.eq(q.arg(1), w):
                yield z3.Implies(z3.And(w > 0, q.arg(0) < e), q < x)
                yield z3.Implies(z3.And(w > 0, q.arg(0) >= 0), q >= 0)


@dataclass(frozen=True, eq=False)
class Scan:
    """What is found in an expression; it is kept, since z3 uses its number again."""

    expression: Any
    lemmas: list[Any]  # about divisions
    products: list[Any]  # of two integers, and quotients
    arguments: list[Any]  # of functions of one integer


def scanned(e: Any) -> Scan:
    """What can be used of an expression: divisions, products, and more."""
    found = Scan(e, [], [], [])
    for seen in looks([e], False):
        x, kind, children = seen.expression, seen.kind, seen.children
        if kind in (z3.Z3_OP_IDIV, z3.Z3_OP_MOD):
            found.lemmas.extend(division_lemmas(x))
        product = kind == z3.Z3_OP_MUL and len(children) == 2 and z3.is_int(x)
        if product or kind == z3.Z3_OP_IDIV:
            found.products.append(x)
        if kind == z3.Z3_OP_UNINTERPRETED and len(children) == 1:
            found.arguments.extend(c for _, c in children if z3.is_int(c))
    return found
