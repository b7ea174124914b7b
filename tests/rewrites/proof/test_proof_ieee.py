"""Laws about single elements: z3's verdicts, held against three runtimes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import z3
from support.drawn import some
from support.scalar_laws import (
    BITWISE,
    EVERY,
    FINITE,
    FINITE_ZERO_SIGN,
    LAWS,
    SHORT,
    ZERO_SIGN,
    Claim,
    a,
    b,
    equal,
    less,
    op,
    x,
)
from support.scalar_runtimes import (
    DTYPES,
    Apply,
    Array,
    bits,
    evaluate,
    with_numpy,
    with_onnx_runtime,
    with_torch,
)

from fairhand.rewrites.proof.kernel.scalars import (
    All,
    Const,
    Element,
    FromInt,
    Ite,
    NegInf,
    Op,
    Red,
    Scalar,
    Symbol,
)
from fairhand.rewrites.proof.machine import bitwise_decision
from fairhand.rewrites.proof.machine.arithmetic import Reading, same_leaf
from fairhand.rewrites.proof.machine.bitwise_decision import Classification, classify
from fairhand.rewrites.proof.machine.element_types import FLOATS


def found(claim: Claim) -> Classification:
    return classify(claim.left, claim.right, claim.facts)


@pytest.mark.parametrize("name", some(LAWS, 12))
def test_law_is_as_exact_as_claimed(name: str) -> None:
    claim = LAWS[name]
    verdict = found(claim)
    assert verdict.name == claim.exactness, verdict.witness
    if verdict.name:
        assert verdict.formats == claim.formats
    if verdict.name != BITWISE:
        assert "; left " in verdict.witness


RUNTIMES: dict[str, tuple[Apply, tuple[str, ...]]] = {
    "numpy": (with_numpy, EVERY),
    "onnxruntime": (with_onnx_runtime, ("float16", "float32")),
    "torch": (with_torch, EVERY),
}


def special(dtype: Any, count: int) -> Array:
    """Zeros, infinities, NaN, the ends of the ranges, ties, and numbers at random."""
    info = ml_dtypes.finfo(dtype)
    tiny, least, most, eps = (
        float(y)
        for y in (info.smallest_subnormal, info.smallest_normal, info.max, info.eps)
    )
    chosen = [0.0, 1.0, np.inf, tiny, most, 3.0, least, 0.5, 1 + eps, least - tiny]
    chosen += [2.5, 1 - eps / 2, 0.1, 6.0, most / 2, 3 * tiny, 1.5]
    numbers = [np.nan, *(y for number in chosen for y in (number, -number))]
    random = np.random.default_rng(5).integers(
        0, 2 ** (8 * np.dtype(dtype).itemsize), count
    )
    more = random.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)
    return np.concatenate([np.array(numbers).astype(dtype), more])[:count]


def points(names: Sequence[str], dtype: Any) -> dict[str, Array]:
    """Combinations of special values; every value there is of one 16-bit float."""
    if len(names) == 1 and np.dtype(dtype).itemsize == 2:
        return {names[0]: np.arange(2**16, dtype=np.uint16).view(dtype)}
    values = special(dtype, {1: 3000, 2: 40}.get(len(names), 17))
    grid = np.meshgrid(*[values] * len(names))
    return {name: g.ravel() for name, g in zip(names, grid, strict=True)}


def names_in(*terms: Scalar) -> list[str]:
    found: dict[str, None] = {}
    for term in terms:
        if isinstance(term, Element):
            found[term.tensor] = None
        elif isinstance(term, Op):
            found |= dict.fromkeys(names_in(*term.args))
    return list(found)


def differ(left: Array, right: Array, exactness: str) -> Array:
    """Where the claim is wrong, by its definition."""
    nan = np.isnan(left) & np.isnan(right)
    if exactness in (ZERO_SIGN, FINITE_ZERO_SIGN):
        return ~(nan | (left == right))
    return ~(nan | (bits(left) == bits(right)))


def counterexamples(claim: Claim, exactness: str, kind: str, apply: Apply) -> int:
    """At how many points a runtime contradicts a class."""
    names = names_in(claim.left, claim.right)
    dtype = DTYPES[kind]
    values = points(names, dtype)
    # The other side gets its elements at other places of vectors and of their ends.
    turned = {name: np.roll(y, 3) for name, y in values.items()}
    left = evaluate(claim.left, values, dtype, apply)
    right = np.roll(evaluate(claim.right, turned, dtype, apply), -3)
    at = np.ones(len(left), bool)
    for fact in claim.facts:
        at &= evaluate(fact, values, dtype, with_numpy)
    with np.errstate(invalid="ignore"):  # NaN, in ml_dtypes
        if exactness in (FINITE, FINITE_ZERO_SIGN):
            at &= np.all([np.isfinite(y) for y in values.values()], axis=0)
        assert at.any()
        return int((differ(left, right, exactness) & at).sum())


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", [n for n, law in LAWS.items() if law.exactness])
def test_runtimes_keep_the_claim(name: str, runtime: str) -> None:
    claim = LAWS[name]
    apply, kinds = RUNTIMES[runtime]
    for kind in kinds:
        assert counterexamples(claim, str(claim.exactness), kind, apply) == 0, kind


@pytest.mark.parametrize("name", [n for n, law in LAWS.items() if not law.exactness])
def test_what_no_class_holds_of_rounds_differently(name: str) -> None:
    claim = LAWS[name]
    kind = "float16" if "sqrt" not in name else "float32"
    assert counterexamples(claim, FINITE_ZERO_SIGN, kind, with_numpy) > 0


# What a runtime computes for them isn't determined, so they have no truth to compare.
OPEN = frozenset("max min relu clip where sign sqrt sigma".split())


def operators(term: Scalar) -> set[str]:
    if not isinstance(term, Op):
        return set()
    return {term.name}.union(*map(operators, term.args))


def exhausted(claim: Claim) -> str | None:
    """The strongest class by all 16-bit floats."""
    for exactness in bitwise_decision.EXACTNESS:
        wrong = [counterexamples(claim, exactness, k, with_numpy) for k in SHORT]
        if not any(wrong):
            return exactness
    return None


def is_determined(claim: Claim) -> bool:
    sides = claim.left, claim.right
    return len(names_in(*sides)) == 1 and not OPEN & set().union(*map(operators, sides))


@pytest.mark.parametrize("name", [n for n, law in LAWS.items() if is_determined(law)])
def test_class_is_the_strongest_by_exhaustion(name: str) -> None:
    assert exhausted(LAWS[name]) == LAWS[name].exactness


def random_term(random: np.random.Generator, depth: int) -> Scalar:
    if depth == 0:
        constants = [0.0, 1.0, -1.0, 2.0, 0.5, 3.0]
        return x if random.random() < 0.6 else Const(constants[random.integers(6)])
    unary = "neg abs floor ceil round recip square".split()
    binary = "add sub mul div".split()
    if random.random() < 0.4:
        return Op(unary[random.integers(7)], random_term(random, depth - 1))
    sides = random_term(random, depth - 1), random_term(random, 0)
    return Op(binary[random.integers(4)], *sides)


def alike(count: int) -> list[tuple[Scalar, Scalar]]:
    """Pairs of random terms that agree on the ordinary numbers, if nowhere else."""
    random = np.random.default_rng(3)
    values = {"x": np.array([1.0, -2.0, 0.25, 6.5, 0.0], np.float16)}
    found: dict[bytes, list[Scalar]] = {}
    pairs: list[tuple[Scalar, Scalar]] = []
    while len(pairs) < count:
        term = random_term(random, int(random.integers(1, 4)))
        key = (evaluate(term, values, np.float16, with_numpy) + 0).tobytes()
        others = found.setdefault(key, [])
        if others and names_in(term, others[-1]):
            pairs.append((others[-1], term))
        others.append(term)
    return pairs


@pytest.mark.slow
def test_verdicts_on_random_laws_are_the_truth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bitwise_decision, "DECIDED", bitwise_decision.DECIDED[:2])
    ranks = [*bitwise_decision.EXACTNESS, None]
    verdicts = []
    for left, right in alike(50):
        verdict = classify(left, right, limit=2_000_000)
        truth = exhausted(Claim(left, right, None))
        assert ranks.index(verdict.name) >= ranks.index(truth), (left, right)
        if not verdict.witness.startswith("undecided"):
            assert verdict.name == truth, (left, right)
            verdicts.append(verdict.name)
    assert len(verdicts) >= 40
    assert set(verdicts) == set(ranks)


def at(index: Any) -> Element:
    return Element("x", z3.Int("rank"), index)


def test_elements_are_told_apart_by_their_index() -> None:
    begin = z3.Function("begin", z3.IntSort(), z3.IntSort())
    here, there = at(lambda k: begin(k) + 1), at(lambda k: 1 + begin(k))
    assert classify(here - 0, there).name == BITWISE
    assert classify(here - 0, at(lambda k: begin(k) + 2)).name is None
    assert classify(here - 0, at(begin), (), lambda p, q: True).name == BITWISE
    assert (
        classify(Element("x", 1, begin, member=0), Element("x", 1, begin)).name is None
    )


def unknowns(term: z3.ExprRef, seen: dict[int, z3.ExprRef]) -> int:
    """How many different constants occur."""
    if term.get_id() in seen:
        return 0
    seen[term.get_id()] = term
    if z3.is_const(term) and term.decl().kind() == z3.Z3_OP_UNINTERPRETED:
        return 1
    return sum(unknowns(child, seen) for child in term.children())


def test_no_name_makes_two_unknowns_one() -> None:
    """Variables are numbered; had they the elements' names, these would meet."""
    names = ["a", "x1", *"bcdefghij", "x"]  # x1 is number 1, x is number 11
    total: Scalar = Const(0)
    for name in names:
        total = op("max")(total, Symbol(name))
    reading = Reading((total, total), (), same_leaf, FLOATS["float16"])
    # Each side has an unknown per maximum besides: the sign of a zero.
    found = unknowns(reading.left == reading.right, {})
    assert found == len(names) + 2 * len(names)


def test_conditions_on_indices_are_independent_unknowns() -> None:
    i, n = z3.Ints("i n")
    inside = All(n, lambda k: k < n)
    assert classify(Ite(i < n, x, x), x).name == BITWISE
    assert classify(Ite(i < n, x, a), Ite(z3.Not(i < n), a, x)).name == BITWISE
    assert classify(Ite(i < n, x, a), Ite(i < n + 1, x, a)).name is None
    assert (
        classify(Ite(inside, x, a), Ite(All(n, lambda k: k < n), x, a)).name == BITWISE
    )
    assert classify(Ite(inside, x, a), Ite(All(n, lambda k: k < 2), x, a)).name is None
    assert classify(Ite(True, x, a), x).name == BITWISE


def test_sums_are_equal_to_themselves_alone() -> None:
    total, other = (Red("sum", 3, lambda k: x) for _ in range(2))
    assert classify(total * 1, total).name == BITWISE
    assert classify(total * 1, other).name is None
    assert classify(FromInt(2) * x, x + x).name == BITWISE
    assert classify(FromInt(z3.Int("n")) * 1, FromInt(z3.Int("n"))).name == BITWISE


def undecided(left: Scalar, right: Scalar, facts: Sequence[Scalar] = ()) -> str:
    found = classify(left, right, facts)
    assert found.name is None
    assert found.formats == ()
    assert found.witness.startswith("undecided: ")
    return found.witness.removeprefix("undecided: ")


def test_what_is_not_covered_is_refused() -> None:
    third = Const(Fraction(1, 3))
    assert undecided(x * third, x * third) == "1/3 is no float16"
    assert undecided(x * 65536, x * 65536) == "65536 is no float16"
    assert undecided(x + 257, x + 257) == "257 is no bfloat16"
    assert undecided(op("gelu")(x), op("gelu")(x)) == "gelu of 1 floats"
    assert undecided(op("neg")(x, x), op("neg")(x, x)) == "neg of 2 floats"
    assert undecided(op("cast:float16:int4x")(x), x) == "no element type int4x"
    assert undecided(op("cast:float16")(x), x) == "cast:float16"
    assert undecided(less(a, b), a + b) == "less of 2 truth values"
    halves = op("cast:float16:float32")(x), op("cast:bfloat16:float32")(x)
    assert undecided(*halves) == "x is both float16 and bfloat16"
    whole = op("cast:float32:int8")(x)
    assert undecided(op("max")(whole, NegInf()), whole) == "NegInf as int8"


def test_nothing_follows_from_facts_that_never_hold() -> None:
    contradiction = [less(a, b), less(b, a)]
    assert undecided(a + b, a, contradiction) == "the facts hold nowhere"
    assert undecided(a, b, [equal(a, NegInf()), less(b, NegInf())])


def test_running_out_of_resources_decides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bitwise_decision, "FLOAT32_LIMIT", 1000)
    assert classify(x * 1, x) == Classification(BITWISE, SHORT, "undecided for float32")
    undecided = Classification(None, (), "undecided for float16")
    assert classify(x * 1, x, limit=1000) == undecided


def test_a_verdict_does_not_depend_on_earlier_ones() -> None:
    claim = LAWS["x/3 = x*(1/3)"]
    before = found(claim)
    classify(Symbol("y") * 2, Symbol("y") + Symbol("y"))
    assert found(claim) == before


def test_the_witness_is_readable() -> None:
    assert classify(x + 0, x).witness == "float16: x = -0.0; left 0.0, right -0.0"
    two = at(lambda k: z3.IntVal(0)), at(lambda k: z3.IntVal(1))
    assert ", x' = " in classify(*two).witness
