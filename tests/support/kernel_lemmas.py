"""Lemmas about integers, rounding and casts that the prover's steps rest on.

Each is put to z3 as it is read here, and each has false variants that z3 must refute
with a counterexample: a lemma that could be weakened without notice would be worthless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import z3

from fairhand.rewrites.proof.kernel.scalars import Op, Scalar, Symbol
from fairhand.rewrites.proof.machine.bitwise_decision import (
    RESOURCE_LIMIT,
    Classification,
    classify,
)
from fairhand.rewrites.proof.machine.element_types import format_named

# The largest relative error of one rounding, to nearest.
ROUNDING_UNITS = {
    "float32": Fraction(1, 2**24),
    "float16": Fraction(1, 2**11),
    "bfloat16": Fraction(1, 2**8),
}
# The widths of the types of BitShift.
WIDTHS = (8, 16, 32, 64)


def classify_integers(
    left: Scalar,
    right: Scalar,
    width: int,
    facts: Sequence[Scalar] = (),
    signed: bool = True,
) -> Classification:
    """Whether left = right holds for whole numbers that wrap around, `width` bits wide.

    The result is "bitwise" or None.
    """
    element = format_named(f"{'int' if signed else 'uint'}{width}")
    return classify(left, right, facts, formats=(element,))


@dataclass(frozen=True)
class Lemma:
    """A statement; `holds()` is None where z3 doesn't know."""

    name: str
    valid: bool
    holds: Callable[[], bool | None]


def lemmas() -> list[tuple[str, bool]]:
    """Every lemma by name, and whether z3 proves it."""
    return [(lemma.name, lemma.holds() is True) for lemma in _all() if lemma.valid]


def false_variants() -> list[tuple[str, bool]]:
    """Every false variant by name, and whether z3 finds a counterexample."""
    return [(lemma.name, lemma.holds() is False) for lemma in _all() if not lemma.valid]


def _all() -> Iterator[Lemma]:
    yield from _division()
    yield from _rounding()
    yield from _shifts()
    yield from _wrapping()
    yield from _casts()


def _follows(hypotheses: list[Any], goal: Any) -> bool | None:
    context = z3.Context()
    solver = z3.Solver(ctx=context)
    solver.set("rlimit", RESOURCE_LIMIT)
    solver.add(*(x.translate(context) for x in [*hypotheses, z3.Not(goal)]))
    answer = solver.check()
    return None if answer == z3.unknown else bool(answer == z3.unsat)


def _division() -> Iterator[Lemma]:
    """u * b + v holds the pair (u, v), as a row-major offset does."""
    u, v, b, n, q, r, m = z3.Ints("u v b n q r m")

    def lemma(name: str, valid: bool, hypotheses: list[Any], goal: Any) -> Lemma:
        return Lemma(name, valid, partial(_follows, hypotheses, goal))

    digit = [v >= 0, v < b]
    split = z3.And((u * b + v) / b == u, (u * b + v) % b == v)
    yield lemma("0 <= v < b: (u*b + v) div b = u, mod b = v", True, digit, split)
    yield lemma("(u*b + v) div b = u for any v >= 0", False, [v >= 0, b > 0], split)

    both = [*digit, r >= 0, u * b + v == q * b + r]
    equal = z3.And(u == q, v == r)
    yield lemma("u*b + v = q*b + r: u = q, v = r", True, [*both, r < b], equal)
    yield lemma("u*b + v = q*b + r: u = q for any r >= 0", False, both, equal)

    inside = z3.And(u * b + v >= 0, u * b + v < n * b)
    range_of_u = [u >= 0, u < n]
    yield lemma("u < n, v < b: u*b + v < n*b", True, range_of_u + digit, inside)
    yield lemma("u <= n, v < b: u*b + v < n*b", False, [u >= 0, u <= n, *digit], inside)

    # Row-major numbers, axis by axis: h before an axis of size b becomes h*b + v.
    yield lemma("b = 1, v = 0: u*b + v = u", True, [b == 1, v == 0], u * b + v == u)
    yield lemma("v = 0: u*b + v = u", False, [v == 0], u * b + v == u)

    onto = z3.And(m / b >= 0, m / b < n, m % b >= 0, m % b < b, m / b * b + m % b == m)
    below = [m >= 0, b > 0]
    yield lemma(
        "m < n*b: (m div b, m mod b) is in range", True, [*below, m < n * b], onto
    )
    yield lemma("m <= n*b: m div b < n", False, [*below, m <= n * b], onto)


def _rounding() -> Iterator[Lemma]:
    """Quantising what was dequantised: round((d * s) / s) = d for |d| <= 255.

    By the standard model of rounding, which asks that d * s neither overflows nor is
    subnormal. Three roundings where the kernel multiplies by a rounded 1 / s.
    """
    d = z3.Real("d")
    errors = z3.Reals("e1 e2 e3")
    for count, sides in ((2, "(d*s)/s"), (3, "(d*s)*(1/s)")):
        product = d
        for error in errors[:count]:
            product = product * (1 + error)
        goal = z3.And(product - d < z3.Q(1, 2), d - product < z3.Q(1, 2))
        for name, unit in ROUNDING_UNITS.items():
            bound = z3.Q(unit.numerator, unit.denominator)
            close = [z3.And(e <= bound, -e <= bound) for e in errors[:count]]
            hypotheses = [d <= 255, -d <= 255, *close]
            yield Lemma(
                f"{name}: |d| <= 255: |{sides} - d| < 1/2",
                name != "bfloat16",
                partial(_follows, hypotheses, goal),
            )


def _exactly(name: str | None, witness: str) -> bool | None:
    if name == "bitwise":
        return True
    return None if not witness or witness.startswith("undecided") else False


def _bits(
    name: str,
    valid: bool,
    left: Scalar,
    right: Scalar,
    width: int,
    facts: tuple[Scalar, ...] = (),
) -> Lemma:
    def holds() -> bool | None:
        found = classify_integers(left, right, width, facts, signed=False)
        return _exactly(found.name, found.witness)

    return Lemma(f"uint{width}: {name}", valid, holds)


def _shifts() -> Iterator[Lemma]:
    """A shift to the left multiplies, so that it is linear; to the right it isn't."""
    x, a, b, s = map(Symbol, "xabs")
    for width in WIDTHS:
        short = (Op("less", s, width),)
        power = Op("shl", 1, s)
        yield _bits("x << s = x * (1 << s)", True, Op("shl", x, s), x * power, width)
        left, right = Op("shl", a + b, s), Op("shl", a, s) + Op("shl", b, s)
        yield _bits("(a + b) << s = (a << s) + (b << s)", True, left, right, width)
        left, right = Op("shr", a + b, s), Op("shr", a, s) + Op("shr", b, s)
        yield _bits(
            "(a + b) >> s = (a >> s) + (b >> s)", False, left, right, width, short
        )
        yield _bits(
            "(x << s) >> s = x", False, Op("shr", Op("shl", x, s), s), x, width, short
        )


def _wrapping() -> Iterator[Lemma]:
    """Numbers that wrap around are a ring; division and order are not preserved."""
    a, b, d = map(Symbol, "abd")
    for width in WIDTHS:
        yield _bits("(a+b)*d = a*d + b*d", True, (a + b) * d, a * d + b * d, width)
        yield _bits("(a*b)*d = a*(b*d)", True, (a * b) * d, a * (b * d), width)
        yield _bits("(a+b)+d = a+(b+d)", True, (a + b) + d, a + (b + d), width)
        yield _bits("(a-b)-d = a-(b-d)", False, (a - b) - d, a - (b - d), width)
    not_zero = (Op("less", 0, d),)
    yield _bits("a/d + b/d = (a+b)/d", False, a / d + b / d, (a + b) / d, 8, not_zero)
    larger, shifted = Op("max", a, b) + d, Op("max", a + d, b + d)
    yield _bits("max(a, b) + d = max(a + d, b + d)", False, larger, shifted, 8)


def _casts() -> Iterator[Lemma]:
    """Which chains of casts lose nothing."""
    chains = """
        float16 float32 float16 +
        bfloat16 float32 bfloat16 +
        float32 float64 float32 +
        float16 float32 float64 +
        float32 float16 float32 -
        float16 bfloat16 float32 -
        float64 float32 float16 -
        int8 int32 int8 +
        int8 float16 int8 +
        int8 bfloat16 int8 +
        int32 float64 int32 +
        int32 int8 int32 -
        int32 float32 int32 -
        int32 float16 int32 -
        float16 int32 float16 -
    """
    for chain in chains.strip().splitlines():
        first, second, third, valid = chain.split()
        yield _chain(first, second, third, valid == "+")


def _chain(first: str, second: str, third: str, valid: bool) -> Lemma:
    x = Symbol("x")
    there = Op(f"cast:{first}:{second}", x)
    back = Op(f"cast:{second}:{third}", there)
    direct = Op(f"cast:{first}:{third}", x) if first != third else x

    def holds() -> bool | None:
        found = classify(back, direct)
        return _exactly(found.name, found.witness)

    shown = "x" if first == third else f"{third}(x)"
    return Lemma(f"x {first}: {third}({second}(x)) = {shown}", valid, holds)
