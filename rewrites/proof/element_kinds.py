"""For which kinds of element a law holds: floats, whole numbers, truth values.

A law whose leaves name no kind is a law of floats, proved over the reals. Whole numbers
wrap around and divide towards 0, truth values know no arithmetic: of these a law is
proved once more, each time as runtimes compute it, by what holds of the kind alone:

struct, comm  the same operations on the same elements
order         comparisons and choices alone, which any total order has
ring          sums and products of whole numbers, modulo 2^n
bits          z3's bit vectors, in all eight types of whole numbers; or truth values
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from ..language.pattern import Leaf, leaves
from ..language.rule import Law
from .goal import goal
from .kernel.equality import Verdict as Answer
from .kernel.equality import prove_equal
from .kernel.scalars import Const, Element, FromInt, Ite, Op, Opaque, Red, Scalar
from .kernel.smt import fresh, fresh_function
from .kernel.tensors import Family, Tensor
from .machine.arithmetic import LOGICAL
from .machine.bitwise_decision import classify_truth, classify_whole
from .machine.operators import COMPARISONS
from .runtime_kernels import RuntimeSemantics, decided_by_bits

SILENT = ("float", "int", "bool")  # what leaves that name no kind may be of

ORDERED = COMPARISONS | LOGICAL | {"max", "min", "where", "relu", "clip"}
_RING = frozenset("add sub mul neg square shl".split())


def kinds_of(law: Law, silent: str) -> dict[str, str]:
    """The kind of each leaf by its name, where those that name none are `silent`."""
    found = leaves([*law.left, *law.right])
    return {x.name: x.kinds or silent for x in found if x.kind is not Leaf.NUMBER}


def is_silent(law: Law) -> bool:
    """Whether a leaf names no kind."""
    return "" in kinds_of(law, "").values()


def of_floats(law: Law) -> bool:
    """Whether the law speaks of floats, if silent leaves do."""
    return "float" in kinds_of(law, "float").values()


def prove_exact(law: Law, silent: str) -> tuple[list[Answer], str]:
    """Answers for each result where no element is rounded; a reason if one is negative.

    `silent`: the kind of leaves that name none.
    """
    kinds = kinds_of(law, silent)
    question = goal(law, RuntimeSemantics(law, whole=True))
    answers = []
    for left, right in question.pairs:
        found = _answer(left, right, question.context, kinds)
        if not found.proved:
            return [], found.why or "the sides differ"
        answers.append(found)
    return answers, ""


def _answer(left: Any, right: Any, context: Any, kinds: dict[str, str]) -> Answer:
    j, index = fresh("j"), fresh_function("i")
    a, b = (
        (t.member(j) if isinstance(t, Family) else t).at(index) for t in (left, right)
    )
    of = set(kinds.values())
    numbers, added = set(_constants(a)), set(_constants(b))
    if any(n.denominator != 1 for n in numbers | added):
        why = "a fraction is no whole number"
        return Answer(False, None, frozenset(), why)
    levels = ["struct", "comm"]
    if _ordered(a) and _ordered(b) and added <= numbers | {0, 1}:
        levels.append("order")
    if of <= {"int", "bool"} and wraps(a) and wraps(b):
        levels.append("ring")

    def decided(result: Tensor, place: Any, x: Scalar, y: Scalar) -> bool:
        if not of <= {"int", "bool"}:
            return False
        by = classify_truth if of == {"bool"} else classify_whole
        return decided_by_bits(context, x, y, (result, place), by).name == "bitwise"

    return prove_equal(left, right, context, tuple(levels), decided)


def _constants(term: Scalar) -> Iterator[Fraction]:
    if isinstance(term, Const):
        yield term.value
    for part in parts(term):
        yield from _constants(part)


def parts(term: Scalar) -> tuple[Scalar, ...]:
    """The terms that it is made of; of a range of them, any one."""
    if isinstance(term, Op):
        return term.args
    if isinstance(term, Ite):
        return (term.a, term.b)
    if isinstance(term, Red):
        return (term.body(fresh_function() if term.vec else fresh()),)
    if isinstance(term, Opaque):
        return tuple(t.at(fresh_function()) for t in term.tensors)
    return ()


def _ordered(term: Scalar) -> bool:
    """Whether elements are compared and chosen, nothing else."""
    if isinstance(term, Op):
        return term.name in ORDERED and all(map(_ordered, term.args))
    if isinstance(term, Ite):
        return _ordered(term.a) and _ordered(term.b)
    return isinstance(term, Const | Element | FromInt)


def wraps(term: Scalar) -> bool:
    """Whether it is computed in the ring of the whole numbers mod 2^n."""
    if isinstance(term, Op):
        return term.name in _RING and all(map(wraps, term.args))
    if isinstance(term, Ite):
        return wraps(term.a) and wraps(term.b)
    if isinstance(term, Red):
        return term.kind in ("sum", "prod") and all(map(wraps, parts(term)))
    whole = isinstance(term, Const) and term.value.denominator == 1
    return whole or isinstance(term, Element | FromInt)


def computes_with_whole(law: Law, term: Scalar) -> bool:
    """Whether a law of floats computes with leaves of whole numbers.

    Compared and chosen they may be, as elements of a total order.
    """
    kinds = kinds_of(law, "float")
    return "int" in kinds.values() and _computes(term, kinds)


def _computes(term: Scalar, kinds: dict[str, str]) -> bool:
    if isinstance(term, Op):
        free = term.name in ORDERED or ":" in term.name  # casts, unknown functions
        if not free and any(_kind(x, kinds) == "int" for x in term.args):
            return True
    added = isinstance(term, Red) and term.kind in ("sum", "prod")
    if added and _kind(term, kinds) == "int":
        return True
    return any(_computes(part, kinds) for part in parts(term))


def _kind(term: Scalar, kinds: dict[str, str]) -> str:
    """The kind of a term; empty if it is one of any kind, such as a constant."""
    if isinstance(term, Element):
        return kinds.get(term.tensor, "")
    if isinstance(term, Op):
        if term.name in COMPARISONS | LOGICAL:
            return "bool"
        if term.name.startswith("cast:"):
            target = term.name.rpartition(":")[2].lower()
            return "int" if "int" in target else "bool" * (target == "bool")
        args = term.args[1:] if term.name == "where" else term.args
        return next(filter(None, (_kind(x, kinds) for x in args)), "")
    return next(filter(None, (_kind(x, kinds) for x in parts(term))), "")
