"""Maxima and minima, a lattice over which + and - act."""

from __future__ import annotations

from functools import partial

from fairhand.rewrites.language.operators.elementwise import (
    Abs,
    Add,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Max,
    Min,
    Mul,
    Neg,
    Relu,
    Sub,
    Where,
)
from fairhand.rewrites.rules.law_table import equation

from .merging import no_larger

law_of = partial(equation, family="lattice")

DUALS = ((Max, Min), (Min, Max))

IDEMPOTENT = [
    rule
    for op, other in DUALS
    for rule in (
        law_of(
            f"{op}(x, x) = x",
            "x",
            lambda x, op=op: op(x, x),
            lambda x: x,
            wrong={"negated": Neg},
            name=f"{op}_self".lower(),
        ),
        law_of(
            f"{op}(x, {other}(x, y)) = x",
            "x y",
            lambda x, y, op=op, other=other: op(x, other(x, y)),
            lambda x, y: x,
            wrong={"negated": lambda x, y: Neg(x)},
            name=f"{op}_absorbs_{other}".lower(),
        ),
        law_of(
            f"{op}({op}(x, y), y) = {op}(x, y)",
            "x y",
            lambda x, y, op=op: op(op(x, y), y),
            lambda x, y, op=op: op(x, y),
            wrong={"other": lambda x, y, other=other: other(x, y)},
            name=f"{op}_repeated".lower(),
        ),
        law_of(
            f"{op}({op}(x, c), d) = {op}(x, {op}(c, d))",
            "x c:constant d:constant",
            lambda x, c, d, op=op: op(op(x, c), d),
            lambda x, c, d, op=op: op(x, op(c, d)),
            wrong={"other": lambda x, c, d, op=op, other=other: op(x, other(c, d))},
            worthwhile=(
                lambda x, c, d: no_larger(c, d),
                "one constant for both would be larger",
            ),
            name=f"{op}_constants".lower(),
        ),
    )
]

# The operations that keep the order, or turn it round.
MOVED = [
    rule
    for op, other in DUALS
    for rule in (
        law_of(
            f"{op}(-a, -b) = -{other}(a, b)",
            "float a b",
            lambda a, b, op=op: op(Neg(a), Neg(b)),
            lambda a, b, other=other: Neg(other(a, b)),
            wrong={"same": lambda a, b, op=op: Neg(op(a, b))},
            name=f"{op}_of_negated".lower(),
        ),
        law_of(
            f"{op}(a + c, b + c) = {op}(a, b) + c",
            "float a b c",
            lambda a, b, c, op=op: op(Add(a, c), Add(b, c)),
            lambda a, b, c, op=op: Add(op(a, b), c),
            wrong={"other": lambda a, b, c, other=other: Add(other(a, b), c)},
            name=f"{op}_of_sums".lower(),
        ),
        law_of(
            f"{op}(a * k, b * k) = {op}(a, b) * k, where k >= 0",
            "float a b k:scalar",
            lambda a, b, k, op=op: op(Mul(a, k), Mul(b, k)),
            lambda a, b, k, op=op: Mul(op(a, b), k),
            wrong={"other": lambda a, b, k, other=other: Mul(other(a, b), k)},
            require=(lambda a, b, k: k.value >= 0, "the factor is negative"),
            sample=dict(k=1.5),
            name=f"{op}_of_multiples".lower(),
        ),
        law_of(
            f"{op}({op}(a, c), {op}(b, c)) = {op}({op}(a, b), c)",
            "a b c",
            lambda a, b, c, op=op: op(op(a, c), op(b, c)),
            lambda a, b, c, op=op: op(op(a, b), c),
            wrong={"other": lambda a, b, c, op=op, other=other: op(other(a, b), c)},
            name=f"{op}_shared".lower(),
        ),
        law_of(
            f"{op}({other}(a, c), {other}(b, c)) = {other}({op}(a, b), c)",
            "a b c",
            lambda a, b, c, op=op, other=other: op(other(a, c), other(b, c)),
            lambda a, b, c, op=op, other=other: other(op(a, b), c),
            wrong={"other": lambda a, b, c, other=other: other(other(a, b), c)},
            name=f"{op}_distributes_over_{other}".lower(),
        ),
    )
]

BOTH = [
    law_of(
        "Max(a, b) + Min(a, b) = a + b",
        "float a b",
        lambda a, b: Add(Max(a, b), Min(a, b)),
        Add,
        wrong={"difference": Sub},
        name="max_plus_min",
    ),
    law_of(
        "Max(a, b) - Min(a, b) = Abs(a - b)",
        "float a b",
        lambda a, b: Sub(Max(a, b), Min(a, b)),
        lambda a, b: Abs(Sub(a, b)),
        wrong={"sum": lambda a, b: Abs(Add(a, b))},
        name="max_minus_min",
    ),
    law_of(
        "Relu(a - b) + b = Max(a, b)",
        "float a b",
        lambda a, b: Add(Relu(Sub(a, b)), b),
        Max,
        wrong={"minimum": Min},
        name="relu_of_difference_plus",
    ),
    law_of(
        "a - Relu(a - b) = Min(a, b)",
        "float a b",
        lambda a, b: Sub(a, Relu(Sub(a, b))),
        Min,
        wrong={"maximum": Max},
        name="minus_relu_of_difference",
    ),
]

# where(a < b, a, b) and its seven relatives.
CHOSEN = [
    law_of(
        f"Where({comparison}({', '.join('ab')}), {first}, {second}) = {op}(a, b)",
        "a b",
        lambda a, b, comparison=comparison, swap=swap: Where(
            comparison(a, b), *((b, a) if swap else (a, b))
        ),
        op,
        wrong={"other": Min if op is Max else Max},
        name=f"where_{comparison}_{first}_{second}".lower(),
    )
    for comparison, least in (
        (Less, True),
        (LessOrEqual, True),
        (Greater, False),
        (GreaterOrEqual, False),
    )
    for swap in (False, True)
    for op in (Min if least != swap else Max,)
    for first, second in ("ba" if swap else "ab",)
]

RULES = [*IDEMPOTENT, *MOVED, *BOTH, *CHOSEN]
