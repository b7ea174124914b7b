"""Operations that change nothing, or whose result is known."""

from __future__ import annotations

from functools import partial

from ..language.operators.elementwise import Mul
from ..language.operators.movement import Expand
from ..language.rule import Law, rule
from ..language.terms import sizes_of
from .law_table import equation

neutral = partial(equation, family="identity", wrong="-x")

identity_node = neutral("Identity(x) = x", "x:tensor", name="identity_node")
mul_one = neutral("x * 1 = x", "x one:1", name="mul_one")
div_one = neutral("x / 1 = x", "float x one:1", name="div_one")
add_zero = neutral("x + 0 = x", "x zero:0", name="add_zero")
add_negative_zero = neutral("x + (-0) = x", "float x zero:-0", name="add_negative_zero")
sub_zero = neutral("x - 0 = x", "x zero:0", name="sub_zero")
pow_one = neutral("Pow(x, 1) = x", "float x one:1:any", name="pow_one")


@rule("identity", when="asked", samples=[dict(r=2, x=[2, 3])])
def mul_zero(law: Law) -> None:
    """x * 0 = 0

    In floats only where x is finite, so that it isn't done unasked.
    """
    r = law.rank()
    x, zero = law.operand("x", r), law.filled("zero", r, 0)
    product = Mul(x, zero)
    number = law.number(1 if law.mutant("one") else 0)
    law.rewrite(product, Expand(number, shape=sizes_of(product)))
