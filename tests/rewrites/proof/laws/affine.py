"""Scales and shifts by constants: any two in a row are x * scale + shift."""

from __future__ import annotations

from itertools import product

from fairhand.rewrites.language.operators.elementwise import Add, Div, Mul, Sub
from fairhand.rewrites.language.pattern import Operator, Term
from fairhand.rewrites.language.rule import Rule
from fairhand.rewrites.rules.law_table import equation

from .merging import no_larger

SIGNS = {Add: "+", Sub: "-", Mul: "*", Div: "/"}
OPPOSITE = {Add: Sub, Sub: Add}
SAMPLE = dict(a=(2.0, -0.5, 1.5), b=(0.5, 3.0, -1.25), c=(1.5, 4.0, -2.0))


def spelled(op: Operator, left: str, right: str) -> str:
    return f"{left} {SIGNS[op]} {right}"


def shifted_inside(shift: Operator, scale: Operator, outer: Operator) -> Rule:
    """(x + b) * a + c = x * a + (b * a + c), and with - and /."""

    def left(x: Term, a: Term, b: Term, c: Term) -> Term:
        return outer(scale(shift(x, b), a), c)

    def right(x: Term, a: Term, b: Term, c: Term) -> Term:
        join = outer if shift is Add else OPPOSITE[outer]
        return shift(scale(x, a), join(scale(b, a), c))

    inner = spelled(scale, f"({spelled(shift, 'x', 'b')})", "a")
    return equation(
        f"{spelled(outer, inner, 'c')} = {spelled(scale, 'x', 'a')} + shift",
        "float x a:constant b:constant c:constant",
        left,
        right,
        wrong={"shift": lambda x, a, b, c: outer(scale(x, a), c)},
        worthwhile=(
            lambda x, a, b, c: no_larger(a, b) & no_larger(b, c) & no_larger(a, c),
            "the shift would be larger than the constants",
        ),
        sample=SAMPLE,
        family="affine",
        name=f"affine_{shift}_{scale}_{outer}".lower(),
    )


def scaled_again(scale: Operator, shift: Operator, outer: Operator) -> Rule:
    """(x * a + b) * c = x * (a * c) + b * c, and with - and /."""

    def left(x: Term, a: Term, b: Term, c: Term) -> Term:
        return outer(shift(scale(x, a), b), c)

    def right(x: Term, a: Term, b: Term, c: Term) -> Term:
        if scale is outer is Div:
            scaled = Div(x, Mul(a, c))
        elif scale is Div:
            scaled = Mul(x, Div(c, a))
        else:
            scaled = Mul(x, outer(a, c))
        return shift(scaled, outer(b, c))

    inner = spelled(shift, spelled(scale, "x", "a"), "b")
    return equation(
        f"{spelled(outer, f'({inner})', 'c')} = x * scale {SIGNS[shift]} shift",
        "float x a:constant b:constant c:constant",
        left,
        right,
        wrong={"unscaled": lambda x, a, b, c: shift(scale(x, a), outer(b, c))},
        worthwhile=(
            lambda x, a, b, c: no_larger(a, c) & no_larger(b, c),
            "the constants would get larger",
        ),
        sample=SAMPLE,
        family="affine",
        name=f"affine_{scale}_{shift}_{outer}".lower(),
    )


RULES = [
    *(shifted_inside(*ops) for ops in product((Add, Sub), (Mul, Div), (Add, Sub))),
    *(scaled_again(*ops) for ops in product((Mul, Div), (Add, Sub), (Mul, Div))),
]
