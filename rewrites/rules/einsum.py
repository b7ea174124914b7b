"""Einsum, written out as the product, the sum or the movement that it is.

A rule for each equation that exporters write; the vocabulary letters its axes in order
of appearance. Where the result needs movements too, it is no heavier than an Einsum.
"""

from __future__ import annotations

from collections.abc import Callable

from ..language.operators.contraction import Einsum, MatMul
from ..language.operators.elementwise import Mul
from ..language.operators.movement import Transpose
from ..language.operators.reduction import ReduceSum
from ..language.pattern import Term
from ..language.rule import Law, Rule, rule
from ..language.terms import Perm, axis_range, fixed

Result = Callable[[Term, Term], Term]


def _moved(x: Term, *perm: int) -> Term:
    inverse = [perm.index(k) for k in range(len(perm))]
    there, back = fixed(perm), fixed(inverse)
    return Transpose(x, perm=Perm(len(perm), there, back))


def _turned(x: Term, rank: int) -> Term:
    """The matrices transposed."""
    return _moved(x, *range(rank - 2), rank - 1, rank - 2)


def _last_sum(x: Term, rank: int) -> Term:
    return ReduceSum(x, axes=axis_range(rank, rank - 1, rank), keepdims=0)


# By name: the equation, and what it is, in words and as a term.
PRODUCTS: dict[str, tuple[str, str, Result]] = {
    "einsum_abc_acd_to_abd": ("abc,acd->abd", "x @ y", MatMul),
    "einsum_abcd_abde_to_abce": ("abcd,abde->abce", "x @ y", MatMul),
    "einsum_abcd_abed_to_abce": (
        "abcd,abed->abce",
        "x @ y.T",
        lambda x, y: MatMul(x, _turned(y, 4)),
    ),
    "einsum_abcd_aecd_to_acbe": (
        "abcd,aecd->acbe",
        "scores of heads that stand behind",
        lambda x, y: MatMul(_moved(x, 0, 2, 1, 3), _moved(y, 0, 2, 3, 1)),
    ),
    "einsum_abcd_adbe_to_acbe": (
        "abcd,adbe->acbe",
        "weighted values of heads that stand behind",
        lambda x, y: _moved(MatMul(x, _moved(y, 0, 2, 1, 3)), 0, 2, 1, 3),
    ),
    "einsum_a_a_to_": ("a,a->", "sum(x * y)", lambda x, y: _last_sum(Mul(x, y), 1)),
}
SIZES = dict(a=2, b=3, c=4, d=5, e=6)
# One operand: a movement or a sum.
ALONE: dict[str, tuple[str, str, Callable[[Term], Term]]] = {
    "einsum_ab_to_ba": ("ab->ba", "x.T", lambda x: _turned(x, 2)),
    "einsum_ab_to_a": ("ab->a", "sum(x)", lambda x: _last_sum(x, 2)),
}


def _written_out(equation: str, result: Result) -> Callable[[Law], None]:
    first, second = equation.partition("->")[0].split(",")

    def build(law: Law) -> None:
        x, y = law.tensor("x", len(first)), law.tensor("y", len(second))
        right = result(x, x if law.mutant("first_alone") else y)
        law.rewrite(Einsum(x, y, equation=equation), right)

    return build


def _alone(equation: str, result: Callable[[Term], Term]) -> Callable[[Law], None]:
    def build(law: Law) -> None:
        x = law.tensor("x", len(equation.partition("->")[0]))
        right = x if law.mutant("nothing") else result(x)
        law.rewrite(Einsum(x, equation=equation), right)

    return build


def _sizes(axes: str) -> list[int]:
    return [SIZES[letter] for letter in axes]


def _rules() -> list[Rule]:
    found = []
    for name, (equation, words, result) in PRODUCTS.items():
        first, second = equation.partition("->")[0].split(",")
        shapes = {"x": _sizes(first), "y": _sizes(second)}
        found.append(
            rule(
                "canonical",
                name=name,
                statement=f"Einsum(x, y, '{equation}') = {words}",
                samples=[shapes],
                measure="flops",
            )(_written_out(equation, result))
        )
    for name, (equation, words, alone) in ALONE.items():
        axes = equation.partition("->")[0]
        found.append(
            rule(
                "canonical",
                name=name,
                statement=f"Einsum(x, '{equation}') = {words}",
                samples=[dict(x=_sizes(axes))],
                measure="flops",
            )(_alone(equation, alone))
        )
    return found


RULES: list[Rule] = _rules()
