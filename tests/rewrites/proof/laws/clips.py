"""Clip, which is min(max(x, low), high) whether or not low <= high."""

from __future__ import annotations

from functools import partial

from fairhand.rewrites.language.operators.elementwise import (
    Clip,
    Erf,
    Max,
    Min,
    Neg,
    Relu,
    Sigmoid,
    Tanh,
)
from fairhand.rewrites.language.pattern import Term
from fairhand.rewrites.language.rule import Law, rule
from fairhand.rewrites.rules.law_table import equation, number

law_of = partial(equation, family="clips")


def higher(a: Term | None, b: Term | None) -> Term | None:
    """The larger of two bounds; one that is left out doesn't bind."""
    return a or b if a is None or b is None else Max(a, b)


def lower(a: Term | None, b: Term | None) -> Term | None:
    """The smaller of two bounds."""
    return a or b if a is None or b is None else Min(a, b)


def clip_clip(inner: str, outer: str) -> object:
    """Clip(Clip(x, a, b), c, d) = Clip(x, max(a, c), min(max(b, c), d)).

    `inner` and `outer` are the bounds that are there, of a and b, and of c and d.
    """

    def bounds(terms: tuple[Term, ...]) -> list[Term | None]:
        named = dict(zip(inner + outer, terms, strict=True))
        return [named.get(name) for name in "abcd"]

    def left(x: Term, *terms: Term) -> Term:
        a, b, c, d = bounds(terms)
        return Clip(Clip(x, a, b), c, d)

    def right(x: Term, *terms: Term) -> Term:
        a, b, c, d = bounds(terms)
        raised = b if b is None else higher(b, c)
        return Clip(x, higher(a, c), lower(raised, d))

    def spelled(given: str, both: str) -> str:
        return ", ".join(name if name in given else "-" for name in both)

    statement = (
        f"Clip(Clip(x, {spelled(inner, 'ab')}), {spelled(outer, 'cd')}) is one Clip"
    )
    return law_of(
        statement,
        " ".join(["float x", *(f"{name}:scalar" for name in inner + outer)]),
        left,
        right,
        wrong={"inner": lambda x, *terms: Clip(x, *bounds(terms)[:2])},
        name=f"clip_clip_{inner}_{outer}",
    )


CLIPS = [clip_clip(a, b) for a in ("ab", "a", "b") for b in ("cd", "c", "d")]

RELUS = [
    law_of(
        "Clip(x, 0, -) = Relu(x)",
        "float x zero:0",
        lambda x, zero: Clip(x, zero, None),
        lambda x, zero: Relu(x),
        wrong={"none": lambda x, zero: x},
        name="clip_at_zero",
        contained=["zero"],
        measure="flops",
    ),
    law_of(
        "Relu(Clip(x, a, b)) = Clip(x, max(a, 0), max(b, 0))",
        "float x a:scalar b:scalar",
        lambda x, a, b: Relu(Clip(x, a, b)),
        lambda x, a, b: Clip(x, Relu(a), Relu(b)),
        wrong={"upper_bound": lambda x, a, b: Clip(x, Relu(a), b)},
        name="relu_clip",
    ),
    law_of(
        "Relu(Clip(x, a, -)) = Clip(x, max(a, 0), -)",
        "float x a:scalar",
        lambda x, a: Relu(Clip(x, a, None)),
        lambda x, a: Clip(x, Relu(a), None),
        wrong={"bound": lambda x, a: Clip(x, a, None)},
        name="relu_clip_below",
    ),
    law_of(
        "Relu(Clip(x, -, b)) = Clip(x, 0, max(b, 0))",
        "float x b:scalar",
        lambda x, b: Relu(Clip(x, None, b)),
        lambda x, b: Clip(x, number(0), Relu(b)),
        wrong={"bound": lambda x, b: Clip(x, number(0), b)},
        name="relu_clip_above",
    ),
    law_of(
        "Clip(Relu(x), a, b) = Clip(x, max(a, 0), b)",
        "float x a:scalar b:scalar",
        lambda x, a, b: Clip(Relu(x), a, b),
        lambda x, a, b: Clip(x, Relu(a), b),
        wrong={"bound": Clip},
        name="clip_relu",
    ),
    law_of(
        "Clip(Relu(x), a, -) = Clip(x, max(a, 0), -)",
        "float x a:scalar",
        lambda x, a: Clip(Relu(x), a, None),
        lambda x, a: Clip(x, Relu(a), None),
        wrong={"bound": lambda x, a: Clip(x, a, None)},
        name="clip_relu_below",
    ),
    law_of(
        "Clip(Relu(x), -, b) = Clip(x, 0, b)",
        "float x b:scalar",
        lambda x, b: Clip(Relu(x), None, b),
        lambda x, b: Clip(x, number(0), b),
        wrong={"bound": lambda x, b: Clip(x, None, b)},
        name="clip_relu_above",
    ),
]

BOUNDS = [
    law_of(
        "Min(Max(x, a), b) = Clip(x, a, b)",
        "float x:tensor a:scalar b:scalar",
        lambda x, a, b: Min(Max(x, a), b),
        Clip,
        wrong={"swapped": lambda x, a, b: Clip(x, b, a)},
        name="min_max_is_clip",
    ),
    law_of(
        "Max(Min(x, b), a) = Clip(x, a, max(a, b))",
        "float x:tensor a:scalar b:scalar",
        lambda x, a, b: Max(Min(x, b), a),
        lambda x, a, b: Clip(x, a, Max(a, b)),
        wrong={"bounds_may_cross": Clip},
        name="max_min_is_clip",
    ),
    law_of(
        "Max(Clip(x, a, b), c) = Clip(x, max(a, c), max(b, c))",
        "float x:tensor a:scalar b:scalar c:scalar",
        lambda x, a, b, c: Max(Clip(x, a, b), c),
        lambda x, a, b, c: Clip(x, Max(a, c), Max(b, c)),
        wrong={"upper_bound": lambda x, a, b, c: Clip(x, Max(a, c), b)},
        name="max_of_clip",
    ),
    law_of(
        "Min(Clip(x, a, b), d) = Clip(x, a, min(b, d))",
        "float x:tensor a:scalar b:scalar d:scalar",
        lambda x, a, b, d: Min(Clip(x, a, b), d),
        lambda x, a, b, d: Clip(x, a, Min(b, d)),
        wrong={"bound": lambda x, a, b, d: Clip(x, a, b)},
        name="min_of_clip",
    ),
    law_of(
        "Clip(Max(x, k), c, d) = Clip(x, max(k, c), d)",
        "float x:tensor k:scalar c:scalar d:scalar",
        lambda x, k, c, d: Clip(Max(x, k), c, d),
        lambda x, k, c, d: Clip(x, Max(k, c), d),
        wrong={"bound": lambda x, k, c, d: Clip(x, k, d)},
        name="clip_of_max",
    ),
    law_of(
        "Clip(Min(x, k), c, d) = Clip(x, c, min(max(k, c), d))",
        "float x:tensor k:scalar c:scalar d:scalar",
        lambda x, k, c, d: Clip(Min(x, k), c, d),
        lambda x, k, c, d: Clip(x, c, Min(Max(k, c), d)),
        wrong={"bound": lambda x, k, c, d: Clip(x, c, Min(k, d))},
        name="clip_of_min",
    ),
    law_of(
        "-Clip(-x, a, b) = Clip(x, -b, -a), where a <= b",
        "float x a:scalar b:scalar",
        lambda x, a, b: Neg(Clip(Neg(x), a, b)),
        lambda x, a, b: Clip(x, Neg(b), Neg(a)),
        wrong={"order": lambda x, a, b: Clip(x, Neg(a), Neg(b))},
        require=(lambda x, a, b: a.value <= b.value, "the bounds cross"),
        sample=dict(a=-0.5, b=0.75),
        name="neg_clip_neg",
    ),
]

# Functions with values between two numbers.
BOUNDED = [
    law_of(
        f"Clip({inner}(x), a, b) = {inner}(x), where a <= {least} and b >= 1",
        "float x a:scalar b:scalar",
        lambda x, a, b, inner=inner: Clip(inner(x), a, b),
        lambda x, a, b, inner=inner: inner(x),
        wrong={"none": lambda x, a, b: x},
        require=(
            lambda x, a, b, least=least: (a.value <= least) & (b.value >= 1),
            "the bounds cut something off",
        ),
        sample=dict(a=-1.0, b=1.0),
        name=f"clip_of_{inner}".lower(),
    )
    for inner, least in ((Sigmoid, 0), (Tanh, -1), (Erf, -1))
]


@rule("clips", samples=[dict(r=2, x=[2, 3])])
def clip_without_bounds(law: Law) -> None:
    """Clip(x) = x"""
    x = law.tensor("x", law.rank())
    law.rewrite(Clip(x, None, None), Neg(x) if law.mutant("negated") else x)


RULES = [*RELUS, *CLIPS, *BOUNDS, *BOUNDED, clip_without_bounds]

# Published rules that are wrong.
