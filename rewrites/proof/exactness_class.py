"""The exactness class of a proven law: found from its proof, never asserted.

The class is that of the law as runtimes compute it (runtime_kernels.py):

struct  the same operations on the same elements: bitwise, or what these operations
        leave open
comm    the same up to a + b = b + a, which IEEE arithmetic respects
else    the two scalars are put to z3's floating-point theory (bitwise_decision.py),
which finds
        the strongest class that holds; what it can't tell is RING if the proof used
        ring identities alone, else REAL
What jumps where numbers are rounded refuses the law (outright.py).

A law that makes or takes apart an operator which runtimes don't
compute by its formula is REAL. One that names a constant such as sqrt(2), which a model
holds rounded, is ROUNDED.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..language.exactness import Exactness, weakest
from ..language.pattern import Leaf, Var
from ..language.rule import Law
from .element_kinds import of_floats
from .goal import Goal, goal
from .kernel.equality import Equality, prove_equal
from .kernel.equality import Verdict as Answer
from .kernel.scalars import Element, Scalar
from .kernel.smt import fresh, fresh_function
from .kernel.tensors import Family
from .outright import Edges, refuse_jumps, unrounded
from .runtime_kernels import RuntimeSemantics, adds_up, at_best, decided_by_bits

_NAMED = {
    "bitwise": Exactness.BITWISE,
    "zero-sign": Exactness.ZERO_SIGN,
    "finite": Exactness.FINITE,
    "finite-zero-sign": Exactness.FINITE_ZERO_SIGN,
}
_STRUCTURAL = ("struct", "comm")
_OPEN = (Exactness.ORDER, Exactness.REAL)


def exactness(law: Law, answers: Sequence[Answer]) -> Exactness:
    """The weakest class among the results of a proven law.

    Raises Outright if a rounding may change one outright.
    """
    if not of_floats(law):
        return Exactness.BITWISE  # or there are no answers, see element_kinds.py
    found = _Class(law)
    pairs = zip(found.question.pairs, answers, strict=True)
    classes = [found.of(pair, answer) for pair, answer in pairs]
    return Exactness.ROUNDED if found.rounded else weakest(*classes)


class _Class:
    """The law as runtimes compute it."""

    def __init__(self, law: Law) -> None:
        self.semantics = RuntimeSemantics(law)
        self.question: Goal = goal(law, self.semantics)
        leaves = [s for s in law.symbols.values() if isinstance(s, Var)]
        self.rounded = any(x.kind is Leaf.ABOUT for x in leaves)

    def of(self, sides: tuple[Any, Any], answer: Answer) -> Exactness:
        level = answer.level
        if self.semantics.differs:
            context = self.question.context
            level = prove_equal(*sides, context, _STRUCTURAL).level
        j, index = fresh("j"), fresh_function("i")
        left, right = (t.member(j) if isinstance(t, Family) else t for t in sides)
        elements = a, b = left.at(index), right.at(index)
        least = weakest(*map(self.at_best, elements))
        if level in _STRUCTURAL:
            self.refuse_jumps(elements, self.settled)
            return least
        found = None
        if not (isinstance(sides[0], Family) or adds_up(a) or adds_up(b)):
            context = self.question.context
            found = _NAMED.get(decided_by_bits(context, a, b, (left, index)).name or "")
        if found is None:
            exact = _is_element if self.rounded else unrounded
            self.refuse_jumps(elements, exact)
            Edges(Equality(self.question.context, 0)).refuse(a, b)
            return Exactness.RING if level == "ring" else Exactness.REAL
        if self.semantics.moves and least in _OPEN:
            self.refuse_jumps(elements, self.settled)
            return weakest(found, Exactness.ORDER)
        return found

    def at_best(self, term: Scalar) -> Exactness:
        return at_best(term, self.semantics.moves)

    def settled(self, term: Scalar) -> bool:
        """Whether runtimes are left no choice but that of a zero."""
        return self.at_best(term) not in _OPEN

    def refuse_jumps(
        self, elements: tuple[Scalar, Scalar], settled: Callable[[Scalar], bool]
    ) -> None:
        for term in elements:
            refuse_jumps(term, settled)


def _is_element(term: Scalar) -> bool:
    return isinstance(term, Element)
