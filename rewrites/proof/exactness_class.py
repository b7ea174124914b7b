"""The exactness class of a proven law: found from its proof, never asserted.

The class is that of the law as runtimes compute it (runtime_kernels.py):

struct  the same operations on the same elements: bitwise, or what these operations
        leave open
comm    the same up to a + b = b + a, which IEEE arithmetic respects
else    the two scalars are put to z3's floating-point theory (bitwise_decision.py),
which finds
        the strongest class that holds; what it can't tell is RING if the proof used
        ring identities alone, else REAL
Whole numbers are exact: of them, ring identities are bitwise, and the rest is put to
z3's bit vectors. A law that makes or takes apart an operator which runtimes don't
compute by its formula is REAL. One that names a constant such as sqrt(2), which a model
holds rounded, is ROUNDED.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..language.exactness import Exactness, weakest
from ..language.pattern import Leaf, Var, leaves
from ..language.rule import Law
from .goal import Goal, goal
from .kernel.bitwise_decision import classify, classify_whole
from .kernel.equality import Equality, prove_equal
from .kernel.equality import Verdict as Answer
from .kernel.scalars import Const, Element, FromInt, Ite, Op, Red, Scalar
from .kernel.smt import every, fresh, fresh_function, implies, within
from .kernel.tensors import Family, Tensor
from .runtime_kernels import RuntimeSemantics, adds_up, at_best

# For one question to z3. More finds stronger classes for a few laws, in minutes each.
_EFFORT = 1_500_000

_NAMED = {
    "bitwise": Exactness.BITWISE,
    "zero-sign": Exactness.ZERO_SIGN,
    "finite": Exactness.FINITE,
    "finite-zero-sign": Exactness.FINITE_ZERO_SIGN,
}
_STRUCTURAL = ("struct", "comm")


def exactness(law: Law, answers: Sequence[Answer]) -> Exactness:
    """The weakest class among the results of a proven law."""
    rounded = (Leaf.ABOUT, Leaf.CAUSAL)
    if any(isinstance(s, Var) and s.kind in rounded for s in law.symbols.values()):
        return Exactness.ROUNDED
    found = _Class(law)
    pairs = zip(found.question.pairs, answers, strict=True)
    return weakest(*(found.of(pair, answer) for pair, answer in pairs))


class _Class:
    """The law as runtimes compute it."""

    def __init__(self, law: Law) -> None:
        self.semantics = RuntimeSemantics(law)
        self.question: Goal = goal(law, self.semantics)
        # A number that the right side adds is of the operands' type.
        kinds = {leaf.kinds for leaf in leaves(law.left)}
        self.whole = "int" in kinds and kinds <= {"int", "bool"}

    def of(self, sides: tuple[Any, Any], answer: Answer) -> Exactness:
        level = answer.level
        if self.semantics.differs:
            context = self.question.context
            level = prove_equal(*sides, context, _STRUCTURAL).level
        j, index = fresh("j"), fresh_function("i")
        left, right = (t.member(j) if isinstance(t, Family) else t for t in sides)
        a, b = left.at(index), right.at(index)
        least = weakest(*(at_best(x, self.semantics.moves) for x in (a, b)))
        ring = level == "ring"
        if self.whole and level in (*_STRUCTURAL, "ring") and wraps(a) and wraps(b):
            return Exactness.BITWISE
        if level in _STRUCTURAL:
            return least
        if isinstance(sides[0], Family) or adds_up(a) or adds_up(b):
            return Exactness.RING if ring else Exactness.REAL
        found = self._by_bits(a, b, left, index)
        if found is None:
            return Exactness.RING if ring else Exactness.REAL
        open_ = self.semantics.moves and least in (Exactness.ORDER, Exactness.REAL)
        return weakest(found, Exactness.ORDER) if open_ else found

    def _by_bits(
        self, a: Scalar, b: Scalar, result: Tensor, index: Any
    ) -> Exactness | None:
        """By z3, where it decides it."""
        context = self.question.context
        equality = Equality(context, 0)  # the lowest level: the same operations

        def in_range(k: Any) -> Any:
            return implies(within(k, result.rank), within(index(k), result.dim(k)))

        k = fresh("k")
        hypotheses = (*context.hypotheses, every(k, in_range(k), index(k)))
        equality.schemas.append(in_range)

        def same(x: Scalar, y: Scalar) -> bool:
            return x is y or bool(equality.equal(x, y, hypotheses))

        facts = list(context.scalar_facts)
        for n in (*_integers(a), *_integers(b)):
            if equality.proves(hypotheses, n.value >= 0):
                facts.append(Op("greater_equal", n, Const(0)))
        decide = classify_whole if self.whole else classify
        return _NAMED.get(decide(a, b, facts, same, _EFFORT).name or "")


def _integers(scalar: Scalar) -> Iterator[FromInt]:
    """Sizes and indices among the operands."""
    if isinstance(scalar, FromInt) and not isinstance(scalar.value, int):
        yield scalar
    elif isinstance(scalar, Op):
        for x in scalar.args:
            yield from _integers(x)
    elif isinstance(scalar, Ite):
        yield from _integers(scalar.a)
        yield from _integers(scalar.b)


_RING = frozenset("add sub mul neg square shl".split())


def wraps(scalar: Scalar) -> bool:
    """Whether it is computed in the ring of the whole numbers mod 2^n."""
    if isinstance(scalar, Op):
        return scalar.name in _RING and all(map(wraps, scalar.args))
    if isinstance(scalar, Ite):
        return wraps(scalar.a) and wraps(scalar.b)
    if isinstance(scalar, Red):
        body = scalar.body(fresh_function() if scalar.vec else fresh())
        return scalar.kind in ("sum", "prod") and wraps(body)
    whole = isinstance(scalar, Const) and scalar.value.denominator == 1
    return whole or isinstance(scalar, Element | FromInt)
