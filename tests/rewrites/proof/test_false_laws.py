"""Laws that are false, each as a prover of this design might take it for true.

Each is also proved with its left side on both sides: what is refused is the falsehood,
not an operator or a form that the prover doesn't know.

pytest -m "" tests/rewrites/proof/test_false_laws.py     all, when the prover changes
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from support.drawn import drawn
from support.false_law_table import FILE, law_of, laws_in

from fairhand.analysis.graph.shape_facts import ShapeFacts
from fairhand.rewrites.engine.bindings import Binding, Undecided, evaluate
from fairhand.rewrites.language.exactness import Exactness
from fairhand.rewrites.language.facts import Facts
from fairhand.rewrites.language.operators.elementwise import Add
from fairhand.rewrites.language.rule import Law
from fairhand.rewrites.language.terms import (
    Axes,
    Bool,
    Perm,
    Real,
    eq,
    forall,
    integer,
    real,
    real_eq,
)
from fairhand.rewrites.proof.exactness_class import exactness
from fairhand.rewrites.proof.prove import NO_MEANING, answer, judge, kinds_proved

LAWS = list(laws_in())
ORDINARY = list(laws_in(FILE.with_name("ordinary_laws.txt")))
CONTRADICTORY = """
    pre_reversed_range pre_more_than_itself pre_odd_and_even pre_negative_size
    pre_negative_rank pre_axis_of_scalar pre_too_many_axes pre_sizes_both
    pre_double_is_odd pre_number_both_signs pre_number_is_two pre_empty_interval
    pre_one_and_not_one pre_member_and_not pre_permutation_leaves
    pre_permutation_repeats pre_square_less pre_no_matmul
    pre_no_concat
""".split()
MEANINGLESS = [
    "float x | Gelu(x, approximate='None') | Gelu(x, approximate='tanh')",
    "any n#1 x<1,8,n,n> | DepthToSpace(x, blocksize=2, mode='dcr')"
    " | DepthToSpace(x, blocksize=2, mode='CRD')",
    "any n#1 x<n> | Expand(x, shape=Sizes(2, fixed([n, n])))"
    " | Einsum(x, equation='a->aa')",
    "float x A{} | ReduceSum(x, axes=A, keepdims=2) | ReduceSum(x, axes=A, keepdims=1)",
    "float x p% | Transpose(x, perm=p) | x"
    " | forall(r, lambda k: eq(first(r, lambda j: eq(j, k)), k))",
]
ROOT = Real("sqrt", real(2))
# `fairhand prove --check` has all mutants of the shipped laws refused beside these.
SOME = [pytest.param(*law, id=law[0], marks=drawn(law[0], 24)) for law in LAWS]


def test_there_are_enough() -> None:
    names = [name for name, _ in LAWS]
    assert len(names) == len(set(names)) >= 1500


@pytest.mark.parametrize(("name", "said"), SOME)
def test_a_false_law_is_refused(name: str, said: str) -> None:
    answers, _, why = judge(law_of(said), Counter())
    assert not answers
    assert why and not why.startswith(NO_MEANING)


@pytest.mark.parametrize(("name", "said"), SOME)
def test_what_is_refused_is_the_falsehood(name: str, said: str) -> None:
    law = law_of(said, identity=True)
    answers, why = answer(law)
    assert answers or why in (
        "the preconditions contradict",
        "a fraction is no whole number",
        "not shown: the axes that operands add",  # whose axes an operator counts
        "not shown: an entry for each axis",  # of an operand that adds some
    )


def test_a_set_of_axes_that_is_a_range_has_no_other_axes() -> None:
    """Prover and builder read the one, whatever else the law says."""
    found = Axes(3, lambda k: eq(k, 2), (integer(0), integer(1)))
    assert evaluate(found, Binding(Facts(ShapeFacts()))) == {0}


def test_a_permutation_that_a_law_defines_has_its_inverse() -> None:
    with pytest.raises(ValueError, match="needs its inverse"):
        Perm(2, lambda k: k).inverse(0)


def test_a_guard_by_comparisons_is_one_for_finite_numbers() -> None:
    """Over the reals its condition is true; NaN is what the class leaves out."""
    guard = "Where(Or(Less(x, zero), GreaterOrEqual(x, zero)), x, zero)"
    law = law_of(f"float x zero=0 | {guard} | x")
    answers, _ = answer(law)
    assert exactness(law, answers) is Exactness.FINITE_ZERO_SIGN


@pytest.mark.parametrize(
    "said",
    [
        # Each takes seconds, as false ones don't: a few of them every time.
        pytest.param(said, id=name, marks=[pytest.mark.slow] if i % 6 else [])
        for i, (name, said) in enumerate(ORDINARY)
    ],
)
def test_a_law_as_a_user_brings_it_is_proved(said: str) -> None:
    answers, _, why = judge(law_of(said), Counter())
    assert answers, why


def test_a_law_of_any_elements_may_divide_floats_alone() -> None:
    """A quotient that isn't chosen is NaN of floats, and ends the process of others."""
    law = law_of("any x y | Where(Equal(y, x), x, x) | Where(Less(Div(x, y), y), x, x)")
    assert "int" not in kinds_proved(law, bool(answer(law)[0]))


@pytest.mark.parametrize("said", MEANINGLESS)
def test_what_no_operator_says_has_no_meaning(said: str) -> None:
    with pytest.raises(ValueError, match=r" as |first position|axis twice"):
        answer(law_of(said))


def test_a_symbol_has_a_name_that_nothing_else_has() -> None:
    """What is made of symbols, and bound positions, are called as no symbol can be."""
    position = forall(2, lambda k: eq(k, 0)).args[1].args[0]
    for name in (position, "p:inverse", ":pi", "x, y", "number(2)"):
        with pytest.raises(ValueError, match="no name for a symbol"):
            Law().tensor(name, 2)


def test_leaves_of_one_number_are_told_apart_in_the_text_of_a_law() -> None:
    """Or the verdict of a law would be that of another."""
    texts = []
    for order in (0, 1):
        law = Law()
        both = [law.full("a", 0, 2, kinds="int"), law.full("b", 0, 2, kinds="float")]
        law.rewrite(Add(both[order], both[1 - order]), both[0])
        texts.append(law.text())
    assert texts[0] != texts[1]


@pytest.mark.parametrize(
    "condition",
    [  # 0 of floats alone, infinite of floats alone, and beyond all of them
        real_eq(ROOT * real(Fraction(1, 10**400)), 0),
        real_eq(ROOT * real(10**300) * real(10**300), ROOT * real(10**305) * ROOT),
        real_eq(ROOT * real(10**400), 0),
        real_eq((ROOT + real(10**30)) - real(10**30), 0),
    ],
)
def test_a_rounded_number_decides_nothing(condition: Bool) -> None:
    with pytest.raises(Undecided):
        evaluate(condition, Binding(Facts(ShapeFacts())))


@pytest.mark.parametrize("name", CONTRADICTORY)
def test_contradictory_preconditions_are_an_error(name: str) -> None:
    answers, why = answer(law_of(dict(LAWS)[name], identity=True))
    assert not answers
    assert why == "the preconditions contradict"
