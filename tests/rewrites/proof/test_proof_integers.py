"""Whole numbers that wrap around, casts, exact constants, and the prover's lemmas."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
import z3
from support import kernel_lemmas
from support.kernel_lemmas import classify_integers
from support.scalar_laws import (
    BITWISE,
    a,
    absolute,
    b,
    cast,
    d,
    less,
    maximum,
    minimum,
    op,
    x,
)
from support.scalar_runtimes import (
    DTYPES,
    bits,
    evaluate,
    with_numpy,
    with_onnx_runtime,
    with_torch,
)

from fairhand.rewrites.proof.kernel.scalars import Const, Element, Op, Scalar
from fairhand.rewrites.proof.machine.bitwise_decision import classify
from fairhand.rewrites.proof.machine.element_types import (
    FLOATS,
    Refused,
    constant,
    float_of,
)

shl, shr, both, either, unlike, flip = map(op, "shl shr and or xor not".split())
where, clip, relu, square = map(op, "where clip relu square".split())

# A law, and the boolean facts it needs.
LAWS: dict[str, tuple[Scalar, Scalar, Sequence[Scalar]]] = {
    "x+0": (x + 0, x, ()),
    "x*0": (x * 0, Const(0), ()),
    "x-x": (x - x, Const(0), ()),
    "neg": (-x, flip(x) + 1, ()),
    "abs": (absolute(-x), absolute(x), ()),
    "abs is max": (absolute(x), maximum(x, -x), ()),
    "max": (maximum(a, b), maximum(b, a), ()),
    "min": (minimum(a, b), -maximum(-a, -b), ()),
    "min of not": (minimum(a, b), flip(maximum(flip(a), flip(b))), ()),
    "clip": (clip(x, a, b), minimum(maximum(x, a), b), ()),
    "relu": (relu(x), maximum(x, 0), ()),
    "square": (square(x), x * x, ()),
    "distribute": ((a + b) * d, a * d + b * d, ()),
    "associate": ((a * b) * d, a * (b * d), ()),
    "de morgan": (flip(both(a, b)), either(flip(a), flip(b)), ()),
    "xor": (unlike(a, b), either(both(a, flip(b)), both(flip(a), b)), ()),
    "shift": (shl(x, a), x * shl(1, a), ()),
    "shift of sum": (shl(a + b, d), shl(a, d) + shl(b, d), ()),
    "shift back": (shr(shl(x, a), a), x, ()),
    "unshift of sum": (shr(a + b, d), shr(a, d) + shr(b, d), ()),
    "max of sum": (maximum(a, b) + d, maximum(a + d, b + d), ()),
    "less": (where(less(a, b), a, b), minimum(a, b), ()),
    "less of sum": (less(a + d, b + d), less(a, b), ()),
    "not less": (flip(less(a, b)), op("greater_equal")(a, b), ()),
    "x/x": (x / x, Const(1), [less(0, x)]),
    "x/1": (x / 1, x, ()),
    "x/-1": (x / -1, -x, [less(0, x)]),
    "sum of quotients": (a / d + b / d, (a + b) / d, [less(0, d)]),
    "clip the other way": (clip(x, a, b), maximum(minimum(x, b), a), ()),
    "ordered clip": (clip(x, a, b), maximum(minimum(x, b), a), [less(a, b)]),
}
WIDTH = 3


class Machine:
    """A second definition of the operators: Python's integers, wrapped."""

    def __init__(self, signed: bool) -> None:
        self.least = -(2 ** (WIDTH - 1)) if signed else 0
        self.numbers = range(self.least, self.least + 2**WIDTH)

    def wrap(self, number: int) -> int:
        return (number - self.least) % 2**WIDTH + self.least

    def run(self, term: Scalar, values: Mapping[str, int]) -> Any:
        if isinstance(term, Element):
            return values[term.tensor]
        if isinstance(term, Const):
            return int(term.value)
        assert isinstance(term, Op)
        args = [self.run(argument, values) for argument in term.args]
        result = self.table[term.name](*args)
        return result if isinstance(result, bool) else self.wrap(result)

    table: Mapping[str, Callable[..., Any]] = {
        "add": lambda p, q: p + q,
        "sub": lambda p, q: p - q,
        "mul": lambda p, q: p * q,
        "div": lambda p, q: abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1),
        "neg": lambda p: -p,
        "square": lambda p: p * p,
        "abs": abs,
        "max": max,
        "min": min,
        "relu": lambda p: max(p, 0),
        "clip": lambda p, low, high: min(max(p, low), high),
        "where": lambda c, p, q: p if c else q,
        "less": lambda p, q: p < q,
        "greater_equal": lambda p, q: p >= q,
        "not": lambda p: not p if isinstance(p, bool) else ~p,
        "and": lambda p, q: p & q,
        "or": lambda p, q: p | q,
        "xor": lambda p, q: p ^ q,
        "shl": lambda p, q: p << (q % 2**WIDTH),
        "shr": lambda p, q: (p % 2**WIDTH) >> (q % 2**WIDTH),
    }


def truth(name: str, signed: bool) -> bool:
    """Whether the law holds of all numbers there are."""
    left, right, facts = LAWS[name]
    machine = Machine(signed)
    for numbers in itertools.product(machine.numbers, repeat=4):
        values = dict(zip("xabd", numbers, strict=True))
        if all(machine.run(fact, values) for fact in facts):
            p, q = machine.run(left, values), machine.run(right, values)
            if p != q:
                return False
    return True


# -1 is no unsigned number.
UNSIGNED = [name for name in LAWS if name != "x/-1"]


@pytest.mark.parametrize(
    ("name", "signed"), [(n, True) for n in LAWS] + [(n, False) for n in UNSIGNED]
)
def test_verdict_on_integers_is_the_truth(name: str, signed: bool) -> None:
    left, right, facts = LAWS[name]
    verdict = classify_integers(left, right, WIDTH, facts, signed)
    assert verdict.name == (BITWISE if truth(name, signed) else None)
    assert not verdict.witness.startswith("undecided")


def test_undefined_results_are_any_number() -> None:
    assert classify_integers(x / b, x / b, 8).name is None
    assert classify_integers(x / b, x / b, 8, [less(0, b)]).name == BITWISE
    refused = classify_integers(op("sqrt")(x), op("sqrt")(x), 8)
    assert refused.witness == "undecided: sqrt of 1 whole numbers"
    assert classify_integers(x + 128, x, 8).witness == "undecided: 128 is no int8"


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_runtimes_wrap_around(dtype: Any) -> None:
    least = np.full(19, np.iinfo(dtype).min, dtype)
    for apply in (with_onnx_runtime, with_torch):
        for name in ("neg", "abs"):
            assert (apply(name, [least]) == least).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
def test_runtimes_shift_everything_out(dtype: Any) -> None:
    width = np.iinfo(dtype).bits
    for shift in (width, width + 1, 2 * width - 1):
        for name in ("shl", "shr"):
            args = [np.full(19, 5, dtype), np.full(19, shift, dtype)]
            assert (with_onnx_runtime(name, args) == 0).all()
    shifts = torch.full((19,), 8, dtype=torch.uint8)
    assert ((torch.full((19,), 5, dtype=torch.uint8) << shifts) == 0).all()


@pytest.mark.parametrize("name", list(FLOATS))
def test_constants_are_exact(name: str) -> None:
    element = FLOATS[name]
    random = np.random.default_rng(2)
    for pattern in [0, 1, *(int(p) for p in random.integers(0, 2**63, 300))]:
        pattern %= 2**element.bits
        number = float_of(pattern, element)
        if not np.isfinite(number) or pattern == 1 << element.bits - 1:
            continue
        stored = z3.simplify(z3.fpToIEEEBV(constant(Fraction(number), element)))
        assert stored.as_long() == pattern
        if name in ("float16", "float32"):
            assert bits(np.array(number, DTYPES[name])) == pattern
        with pytest.raises(Refused, match=f"is no {name}"):
            constant(Fraction(number) / 3 + Fraction(1, 3**60), element)


def test_casts_of_whole_numbers() -> None:
    whole = cast("float32", "int8", x)
    inside = [less(-129, x), less(x, 128)]
    assert classify(cast("int8", "float32", whole), op("floor")(x)).name is None
    there_and_back = cast("int8", "float32", cast("float32", "int8", op("round")(x)))
    assert classify(there_and_back, op("round")(x), inside).name is None
    inside = [less(-128.5, x), less(x, 127.5)]
    assert classify(there_and_back, op("round")(x), inside).name == "zero-sign"
    flag = cast("float32", "bool", x)
    flags = cast("bool", "float32", flag)
    assert classify(cast("float32", "bool", flags), flag).name == BITWISE
    assert classify(flags, op("abs")(op("sign")(x))).name == "finite"


def test_runtimes_cut_off_fractions_and_take_nan_for_true() -> None:
    numbers = np.array([1.9, -1.9, 127.9, -128.9, -0.0], np.float32)
    for apply in (with_onnx_runtime, with_torch):
        whole = apply("cast:float32:int8", [numbers])
        assert whole.tolist() == [1, -1, 127, -128, 0]
        flags = apply(
            "cast:float32:bool", [np.array([np.nan, -0.0, 1e-45], np.float32)]
        )
        assert flags.tolist() == [True, False, True]
        cut = apply("cast:int32:int8", [np.array([200, -200, 300], np.int32)])
        assert cut.tolist() == [-56, 56, 44]


CHAIN = cast("float32", "float16", cast("float64", "float32", x))


def test_runtimes_round_a_double_twice() -> None:
    """So that neither side of this law has a value of its own: it isn't claimed."""
    values = {"x": np.array([-28584.000000003725, 1 + 2**-11 + 2**-40, 1 / 3])}
    direct = cast("float64", "float16", x)
    standard = evaluate(direct, values, np.float16, with_numpy)
    for apply in (with_onnx_runtime, with_torch):
        chained = evaluate(CHAIN, values, np.float16, apply)
        assert (evaluate(direct, values, np.float16, apply) == chained).all()
        assert (chained != standard).tolist() == [True, True, False]
    assert classify(CHAIN, direct).name is None


def test_every_lemma_is_proved() -> None:
    found = kernel_lemmas.lemmas()
    assert [name for name, proved in found if not proved] == []
    assert len(found) > 30


def test_every_false_variant_is_refuted() -> None:
    found = kernel_lemmas.false_variants()
    assert [name for name, refuted in found if not refuted] == []
    assert len(found) > 20
