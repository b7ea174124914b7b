"""The exactness class of a proven law: found from its proof, never asserted.

struct  the same operations on the same elements: bitwise
comm    the same up to a + b = b + a, which IEEE arithmetic respects
else    the two scalars are put to z3's floating-point theory (ieee.py), which finds
        the strongest class that holds; what it can't tell is RING if the proof used
        ring identities alone, else REAL
A side that adds up or multiplies along an axis is ORDER at best, since operators leave
the order of that to the implementation. A law that names a constant such as sqrt(2),
which a model holds rounded, is ROUNDED.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..exactness import Exactness
from ..pattern import Leaf, Var
from ..rule import Law
from .equality import Equality
from .equality import Verdict as Answer
from .goal import Goal
from .ieee import classify
from .scalars import Ite, Op, Red, Scalar
from .smt import every, fresh, fresh_function, implies, within
from .tensors import Context, Family, Tensor

# For one question to z3. More finds stronger classes for a few laws, in minutes each.
_EFFORT = 1_500_000

_ORDERED = list(Exactness)
_NAMED = {
    "bitwise": Exactness.BITWISE,
    "zero-sign": Exactness.ZERO_SIGN,
    "finite": Exactness.FINITE,
    "finite-zero-sign": Exactness.FINITE_ZERO_SIGN,
}


def exactness(law: Law, question: Goal, answers: Sequence[Answer]) -> Exactness:
    """The weakest class among the results of a proven law."""
    rounded = (Leaf.ABOUT, Leaf.CAUSAL)
    if any(isinstance(s, Var) and s.kind in rounded for s in law.symbols.values()):
        return Exactness.ROUNDED
    # A guard against NaN is nothing over the reals, and something in floats.
    found = Exactness.REAL if "IsNaN(" in law.text() else Exactness.BITWISE
    for (left, right), answer in zip(question.pairs, answers, strict=True):
        found = max(found, _class(answer, left, right, question), key=_ORDERED.index)
    return found


def _class(answer: Answer, left: Tensor, right: Tensor, question: Goal) -> Exactness:
    if isinstance(left, Family) or isinstance(right, Family):
        return Exactness.BITWISE if answer.level == "struct" else Exactness.REAL
    index = fresh_function("i")
    sides = left.at(index), right.at(index)
    least = Exactness.ORDER if any(map(_adds_up, sides)) else Exactness.BITWISE
    if answer.level in ("struct", "comm"):
        return least
    if least is Exactness.ORDER:  # rounding differs, or nothing tells that it doesn't
        return Exactness.RING if answer.level == "ring" else Exactness.REAL
    same = _comparison(left, index, question.context)
    verdict = classify(*sides, question.context.scalar_facts, same, _EFFORT)
    if verdict.name in _NAMED:
        return _NAMED[verdict.name]
    return Exactness.RING if answer.level == "ring" else Exactness.REAL


def _comparison(left: Tensor, index: Any, context: Context) -> Any:
    """Whether two leaves are equal, by the kernel, at any index of the result."""
    equality = Equality(context, 0)  # the lowest level: the same operations

    def in_range(k: Any) -> Any:
        return implies(within(k, left.rank), within(index(k), left.dim(k)))

    k = fresh("k")
    hypotheses = (*context.hypotheses, every(k, in_range(k), index(k)))
    equality.schemas.append(in_range)

    def same(a: Scalar, b: Scalar) -> bool:
        return a is b or bool(equality.equal(a, b, hypotheses))

    return same


def _adds_up(scalar: Scalar) -> bool:
    if isinstance(scalar, Red):
        if scalar.kind in ("sum", "prod"):
            return True
        return _adds_up(scalar.body(fresh_function() if scalar.vec else fresh()))
    if isinstance(scalar, Op):
        return any(map(_adds_up, scalar.args))
    return isinstance(scalar, Ite) and (_adds_up(scalar.a) or _adds_up(scalar.b))
