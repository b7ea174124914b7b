"""Cases: which condition to split a comparison on, and a scalar in one case.

Sound because a condition on indices and a truth value are each true or false, and a
branch is taken only where the condition is shown equal to the one assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .scalars import Const, Guard, Ite, Op, Red, Scalar

Split: TypeAlias = "Guard | Scalar"
Same: TypeAlias = Callable[["Split", "Split"], bool]


def first_split(e: Scalar) -> Split | None:
    """The condition of an innermost choice outside reductions."""
    if isinstance(e, Ite):
        guard: Split = e.condition
        return guard
    if isinstance(e, Op):
        simple = unfolded(e)
        if not isinstance(simple, Op):
            return first_split(simple)
        for a in simple.args:
            found = first_split(a)
            if found is not None:
                return found
        if simple.name == "where":
            return simple.args[0]
    return None


def unfolded(e: Op) -> Scalar:
    """`where` on a compound truth value as nested ones on simple truth values."""
    while e.name == "where":
        c, a, b = e.args
        if isinstance(c, Const):
            chosen = a if c.value else b
            if not isinstance(chosen, Op):
                return chosen
            e = chosen
        elif isinstance(c, Op) and c.name == "not":
            e = Op("where", c.args[0], b, a)
        elif isinstance(c, Op) and c.name == "and":
            e = Op("where", c.args[0], Op("where", c.args[1], a, b), b)
        elif isinstance(c, Op) and c.name == "or":
            e = Op("where", c.args[0], a, Op("where", c.args[1], a, b))
        else:
            break
    return e


def in_case(e: Scalar, split: Split, value: bool, same: Same) -> Scalar:
    """The scalar where the condition has that value."""
    if isinstance(e, Ite):
        if not isinstance(split, Scalar) and same(e.condition, split):
            return in_case(e.a if value else e.b, split, value, same)
        a, b = (in_case(x, split, value, same) for x in (e.a, e.b))
        return Ite(e.condition, a, b)
    if isinstance(e, Op):
        simple = unfolded(e)
        if not isinstance(simple, Op):
            return in_case(simple, split, value, same)
        if simple.name == "where" and isinstance(split, Scalar):
            c, a, b = simple.args
            if c is split or same(c, split):
                return in_case(a if value else b, split, value, same)
        return Op(simple.name, *(in_case(a, split, value, same) for a in simple.args))
    if isinstance(e, Red) and isinstance(split, Scalar):
        inner = e.body
        return Red(
            e.kind,
            e.size,
            lambda b: in_case(inner(b), split, value, same),
            e.vec,
            e.rank,
            e.sel,
        )
    return e
