"""Operands of one operator in a better order; DNNFusion's associative laws."""

from __future__ import annotations

from functools import partial

from ..language.operators.elementwise import (
    Abs,
    Add,
    And,
    Max,
    Min,
    Mul,
    Or,
    Reciprocal,
    Sqrt,
)
from ..language.pattern import Chain, Operator, Term
from ..language.rule import Law, Rule, rule
from ..language.terms import Bool, forall
from .law_table import equation

law_of = partial(equation, family="associative", when="search")


def smaller(small: Term, large: Term) -> Bool:
    """Whether one operand broadcasts into the other's shape, which is another."""
    inside = forall(small.rank, lambda k: small.dim(k) <= large.dim(k))
    return inside & ~forall(small.rank, lambda k: large.dim(k) <= small.dim(k))


WORTH = "neither operand is smaller"


def _twice(root: Term, *others: Term) -> Chain:
    return Chain(Mul, (root, root, *others))


def _small_first(op: Operator, kind: str, name: str) -> Rule:
    """Small operands meet first, so that fewer operations are of the large size."""
    return law_of(
        f"{op}({op}(s, m), t) = {op}({op}(s, t), m)",
        f"{kind} s t m",
        lambda s, t, m: op(op(s, m), t),
        lambda s, t, m: op(op(s, t), m),
        wrong={"twice": lambda s, t, m: op(op(s, s), m)},
        worthwhile=(lambda s, t, m: smaller(s, m) & smaller(t, m), WORTH),
        name=name,
        measure="flops",
        sample=dict(s=[3], t=[3], m=[2, 3]),
    )


def _small_apart(op: Operator, name: str) -> Rule:
    return law_of(
        f"{op}({op}(s, m), {op}(t, n)) = {op}({op}(s, t), {op}(m, n))",
        " s t m n",
        lambda s, t, m, n: op(op(s, m), op(t, n)),
        lambda s, t, m, n: op(op(s, t), op(m, n)),
        wrong={"twice": lambda s, t, m, n: op(op(s, s), op(m, n))},
        worthwhile=(lambda s, t, m, n: smaller(s, m) & smaller(t, m), WORTH),
        name=name,
        when="asked",
        measure="flops",
        sample=dict(s=[3], t=[3], m=[2, 3]),
    )


SMALL_FIRST = [
    _small_first(Add, "", "add_small_first"),
    _small_apart(Add, "add_small_apart"),
    _small_first(Mul, "", "mul_small_first"),
    _small_apart(Mul, "mul_small_apart"),
    _small_first(Max, "", "max_small_first"),
    _small_first(Min, "", "min_small_first"),
    _small_first(And, "bool", "and_small_first"),
    _small_first(Or, "bool", "or_small_first"),
]

# The associative rows of DNNFusion's table of rewrites.
PUBLISHED = [
    law_of(
        "Reciprocal(a) * Reciprocal(a * b) = Reciprocal((a * a) * b)",
        "float a b",
        lambda a, b: Mul(Reciprocal(a), Reciprocal(Mul(a, b))),
        lambda a, b: Reciprocal(Mul(Mul(a, a), b)),
        wrong={"once": lambda a, b: Reciprocal(Mul(a, b))},
        name="reciprocal_assoc",
        sample=dict(positive=["a", "b"]),
    ),
    law_of(
        "(a * Sqrt(b)) * (Sqrt(b) * c) = (a * b) * c, where b >= 0",
        "float a b c",
        lambda a, b, c: _twice(Sqrt(b), a, c),
        lambda a, b, c: Mul(Mul(a, b), c),
        wrong={"square": lambda a, b, c: Mul(Mul(a, Mul(b, b)), c)},
        name="sqrt_assoc",
        sample=dict(positive=["b"]),
    ),
    law_of(
        "(a * Sqrt(b)) * Sqrt(b) = a * b, where b >= 0",
        "float a b",
        lambda a, b: _twice(Sqrt(b), a),
        Mul,
        wrong={"square": lambda a, b: Mul(a, Mul(b, b))},
        name="product_with_square_root",
        sample=dict(positive=["b"]),
    ),
    law_of(
        "Abs(a) * Abs(b) = Abs(a * b)",
        "float a b",
        lambda a, b: Mul(Abs(a), Abs(b)),
        lambda a, b: Abs(Mul(a, b)),
        wrong={"signed": Mul},
        name="product_of_abs",
    ),
    law_of(
        "Abs(a) * b * Abs(c) = Abs(a * c) * b",
        "float a b c",
        lambda a, b, c: Chain(Mul, (Abs(a), b, Abs(c))),
        lambda a, b, c: Mul(Abs(Mul(a, c)), b),
        wrong={"inside": lambda a, b, c: Abs(Mul(Mul(a, c), b))},
        name="abs_assoc",
    ),
]


RULES = [*SMALL_FIRST, *PUBLISHED]

# DNNFusion's table as a survey prints it: the second factor lost its reciprocal.
FALSE_RULES = [
    law_of(
        "Reciprocal(a) * Reciprocal(a * b) = Reciprocal(a)**2 * b",
        "float a b",
        lambda a, b: Mul(Reciprocal(a), Reciprocal(Mul(a, b))),
        lambda a, b: Mul(Mul(Reciprocal(a), Reciprocal(a)), b),
        wrong={},
        name="reciprocal_assoc_as_published",
        false=True,
    ),
]


def _shared(op: Operator, name: str) -> Rule:
    """Equal nodes are one anyway, with their operands in either order
    (graph_editor.py); here the two sums have no node in common.
    """

    @rule(
        "horizontal",
        name=name,
        statement=f"{op}({op}(a, b), c), {op}({op}(a, c), b) = the first, twice",
        samples=[dict(r=2, a=[2, 3], b=[2, 3], c=[3])],
    )
    def build(law: Law) -> None:
        r = law.rank()
        a, b, c = (law.operand(name, r) for name in "abc")
        first = op(op(a, b), c)
        other = op(op(a, c), a if law.mutant("repeated") else b)
        law.rewrite((first, other), (first, first))

    return build


# Sums of the same three operands in another order are one.
SHARED = [_shared(Add, "add_shared"), _shared(Mul, "mul_shared")]
