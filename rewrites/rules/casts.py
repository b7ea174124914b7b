"""Casts that do nothing.

Casts in a row are judged by what their types hold: recognition/cast_chains.py.
"""

from __future__ import annotations

from ..language.operators.elementwise import Cast
from ..language.rule import Law, rule


@rule("casts", samples=[dict(r=2, x=[2, 3], t="FLOAT")])
def cast_to_own_type(law: Law) -> None:
    """Cast(x, type of x) = x"""
    x, t = law.tensor("x", law.rank()), law.word("t")
    y = law.tensor("y", law.rank("q")) if law.mutant("other_tensor") else x
    law.rewrite(Cast(x, source=t, to=t), y)
