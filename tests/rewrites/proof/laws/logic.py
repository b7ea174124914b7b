"""Truth values and comparisons."""

from __future__ import annotations

from functools import partial

from fairhand.rewrites.language.operators.elementwise import (
    And,
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Neg,
    Not,
    Or,
    Sub,
    Xor,
)
from fairhand.rewrites.language.operators.movement import Expand
from fairhand.rewrites.language.pattern import Term
from fairhand.rewrites.language.terms import sizes_of
from fairhand.rewrites.rules.law_table import equation, fits, number

law_of = partial(equation, family="logic")

TWICE = [
    law_of(
        "And(a, a) = a",
        "bool a",
        lambda a: And(a, a),
        lambda a: a,
        wrong={"not": Not},
        name="and_self",
    ),
    law_of(
        "Or(a, a) = a",
        "bool a",
        lambda a: Or(a, a),
        lambda a: a,
        wrong={"not": Not},
        name="or_self",
    ),
    law_of(
        "And(a, Or(a, b)) = a",
        "bool a b",
        lambda a, b: And(a, Or(a, b)),
        lambda a, b: a,
        wrong={"other": lambda a, b: Not(a)},
        name="and_absorbs_or",
    ),
    law_of(
        "Or(a, And(a, b)) = a",
        "bool a b",
        lambda a, b: Or(a, And(a, b)),
        lambda a, b: a,
        wrong={"other": lambda a, b: Not(a)},
        name="or_absorbs_and",
    ),
    law_of(
        "And(And(a, b), b) = And(a, b)",
        "bool a b",
        lambda a, b: And(And(a, b), b),
        And,
        wrong={"or": Or},
        name="and_repeated",
    ),
    law_of(
        "Or(Or(a, b), b) = Or(a, b)",
        "bool a b",
        lambda a, b: Or(Or(a, b), b),
        Or,
        wrong={"and": And},
        name="or_repeated",
    ),
    law_of(
        "Xor(Xor(a, b), b) = a",
        "bool a b",
        lambda a, b: Xor(Xor(a, b), b),
        lambda a, b: a,
        wrong={"not": lambda a, b: Not(a)},
        name="xor_twice",
    ),
]

KNOWN = [
    law_of(
        "And(a, true) = a",
        "bool a yes:1",
        And,
        lambda a, yes: a,
        wrong={"not": lambda a, yes: Not(a)},
        name="and_true",
    ),
    law_of(
        "And(a, false) = false",
        "bool a no:0",
        And,
        lambda a, no: Expand(no, shape=sizes_of(a)),
        wrong={"operand": Or},
        require=(lambda a, no: fits(no, a, a.rank), "the constant enlarges a"),
        sample=dict(a=[2, 3]),
        name="and_false",
    ),
    law_of(
        "Or(a, false) = a",
        "bool a no:0",
        Or,
        lambda a, no: a,
        wrong={"not": lambda a, no: Not(a)},
        name="or_false",
    ),
    law_of(
        "Xor(a, false) = a",
        "bool a no:0",
        Xor,
        lambda a, no: a,
        wrong={"not": lambda a, no: Not(a)},
        name="xor_false",
    ),
    law_of(
        "Xor(a, true) = Not(a)",
        "bool a yes:1",
        Xor,
        lambda a, yes: Not(a),
        wrong={"operand": lambda a, yes: a},
        name="xor_true",
        measure="flops",
    ),
]

NEGATED = [
    law_of(
        "And(Not(a), Not(b)) = Not(Or(a, b))",
        "bool a b",
        lambda a, b: And(Not(a), Not(b)),
        lambda a, b: Not(Or(a, b)),
        wrong={"and": lambda a, b: Not(And(a, b))},
        name="and_of_negated",
    ),
    law_of(
        "Or(Not(a), Not(b)) = Not(And(a, b))",
        "bool a b",
        lambda a, b: Or(Not(a), Not(b)),
        lambda a, b: Not(And(a, b)),
        wrong={"or": lambda a, b: Not(Or(a, b))},
        name="or_of_negated",
    ),
    law_of(
        "Xor(Not(a), Not(b)) = Xor(a, b)",
        "bool a b",
        lambda a, b: Xor(Not(a), Not(b)),
        Xor,
        wrong={"or": Or},
        name="xor_of_negated",
    ),
    law_of(
        "Or(a, And(Not(a), b)) = Or(a, b)",
        "bool a b",
        lambda a, b: Or(a, And(Not(a), b)),
        Or,
        wrong={"and": And},
        name="or_without_overlap",
    ),
    law_of(
        "And(a, Or(Not(a), b)) = And(a, b)",
        "bool a b",
        lambda a, b: And(a, Or(Not(a), b)),
        And,
        wrong={"or": Or},
        name="and_without_overlap",
    ),
    law_of(
        "Or(And(a, c), And(b, c)) = And(Or(a, b), c)",
        "bool a b c",
        lambda a, b, c: Or(And(a, c), And(b, c)),
        lambda a, b, c: And(Or(a, b), c),
        wrong={"and": lambda a, b, c: And(And(a, b), c)},
        name="or_of_ands",
    ),
    law_of(
        "And(Or(a, c), Or(b, c)) = Or(And(a, b), c)",
        "bool a b c",
        lambda a, b, c: And(Or(a, c), Or(b, c)),
        lambda a, b, c: Or(And(a, b), c),
        wrong={"or": lambda a, b, c: Or(Or(a, b), c)},
        name="and_of_ors",
    ),
]

# NaN is neither less nor equal nor greater, so these hold for numbers alone.
OPPOSITE = [
    law_of(
        f"Not({comparison}(a, b)) = {opposite}(a, b)",
        "a b",
        lambda a, b, comparison=comparison: Not(comparison(a, b)),
        opposite,
        wrong={"same": comparison},
        name=f"not_{comparison}".lower(),
    )
    for comparison, opposite in (
        (Less, GreaterOrEqual),
        (LessOrEqual, Greater),
        (Greater, LessOrEqual),
        (GreaterOrEqual, Less),
    )
]

JOINED = [
    law_of(
        f"{join}({first}(a, b), {second}(a, b)) = {both}(a, b)",
        "a b",
        lambda a, b, join=join, first=first, second=second: join(
            first(a, b), second(a, b)
        ),
        both,
        wrong={"first": first},
        name=f"{join}_{first}_{second}".lower(),
    )
    for join, first, second, both in (
        (Or, Less, Equal, LessOrEqual),
        (Or, Greater, Equal, GreaterOrEqual),
        (And, LessOrEqual, GreaterOrEqual, Equal),
    )
]

UNEQUAL = law_of(
    "Or(Less(a, b), Greater(a, b)) = Not(Equal(a, b))",
    "a b",
    lambda a, b: Or(Less(a, b), Greater(a, b)),
    lambda a, b: Not(Equal(a, b)),
    wrong={"equal": Equal},
    name="or_less_greater",
)

TURNED = [
    law_of(
        f"{comparison}(-a, -b) = {opposite}(a, b)",
        "float a b",
        lambda a, b, comparison=comparison: comparison(Neg(a), Neg(b)),
        opposite,
        wrong={"same": comparison},
        name=f"{comparison}_of_negated".lower(),
    )
    for comparison, opposite in (
        (Less, Greater),
        (LessOrEqual, GreaterOrEqual),
        (Greater, Less),
        (GreaterOrEqual, LessOrEqual),
    )
]

DIFFERENCES = [
    law_of(
        f"{comparison}(a - b, 0) = {comparison}(a, b)",
        "float a b zero:0",
        lambda a, b, zero, comparison=comparison: comparison(Sub(a, b), zero),
        lambda a, b, zero, comparison=comparison: comparison(a, b),
        wrong={"swapped": lambda a, b, zero, other=other: other(a, b)},
        name=f"{comparison}_of_difference".lower(),
    )
    for comparison, other in (
        (Less, LessOrEqual),
        (LessOrEqual, Less),
        (Greater, GreaterOrEqual),
        (GreaterOrEqual, Greater),
        (Equal, Less),
    )
]


def truth_value(x: Term, value: bool) -> Term:
    """A tensor of the shape of x that is true, or false, throughout."""
    comparison = Equal if value else Less
    return Expand(comparison(number(0), number(0)), shape=sizes_of(x))


# Not of floats where it would be true: x == x is how NaN is found.
SAME = [
    law_of(
        f"{comparison}(x, x) = {str(value).lower()}",
        "int x" if value else "x",
        lambda x, comparison=comparison: comparison(x, x),
        lambda x, value=value: truth_value(x, value),
        wrong={"opposite": lambda x, value=value: truth_value(x, not value)},
        name=f"{comparison}_self".lower(),
    )
    for comparison, value in (
        (Equal, True),
        (Less, False),
        (LessOrEqual, True),
        (Greater, False),
        (GreaterOrEqual, True),
    )
]

RULES = [
    *TWICE,
    *KNOWN,
    *NEGATED,
    *OPPOSITE,
    *JOINED,
    UNEQUAL,
    *TURNED,
    *DIFFERENCES,
    *SAME,
]
