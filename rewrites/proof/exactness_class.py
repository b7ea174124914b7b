"""The exactness class of a proven law: found from its proof, never asserted.

The class is that of the law as runtimes compute it (runtime_kernels.py):

struct  the same operations on the same elements: bitwise, or what these operations
        leave open
comm    the same up to a + b = b + a, which IEEE arithmetic respects
else    the two scalars are put to z3's floating-point theory (bitwise_decision.py),
which finds
        the strongest class that holds; what it can't tell is RING if the proof used
        ring identities alone, else REAL
A law that makes or takes apart an operator which runtimes don't
compute by its formula is REAL. One that names a constant such as sqrt(2), which a model
holds rounded, is ROUNDED.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..language.exactness import Exactness, weakest
from ..language.pattern import Leaf, Var
from ..language.rule import Law
from .element_kinds import of_floats
from .goal import Goal, goal
from .kernel.equality import Verdict as Answer
from .kernel.equality import prove_equal
from .kernel.smt import fresh, fresh_function
from .kernel.tensors import Family
from .runtime_kernels import RuntimeSemantics, adds_up, at_best, decided_by_bits

_NAMED = {
    "bitwise": Exactness.BITWISE,
    "zero-sign": Exactness.ZERO_SIGN,
    "finite": Exactness.FINITE,
    "finite-zero-sign": Exactness.FINITE_ZERO_SIGN,
}
_STRUCTURAL = ("struct", "comm")


def exactness(law: Law, answers: Sequence[Answer]) -> Exactness:
    """The weakest class among the results of a proven law."""
    if not of_floats(law):
        return Exactness.BITWISE  # or there are no answers, see element_kinds.py
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
        if level in _STRUCTURAL:
            return least
        if isinstance(sides[0], Family) or adds_up(a) or adds_up(b):
            return Exactness.RING if ring else Exactness.REAL
        context = self.question.context
        found = _NAMED.get(decided_by_bits(context, a, b, (left, index)).name or "")
        if found is None:
            return Exactness.RING if ring else Exactness.REAL
        open_ = self.semantics.moves and least in (Exactness.ORDER, Exactness.REAL)
        return weakest(found, Exactness.ORDER) if open_ else found
