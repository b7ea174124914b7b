"""Which denotation an operator of the laws has.

A meaning takes the context, a tensor per input (None where one is left out) and the
parameters by the names of the vocabulary: an Int as an integer, an Fn, Perm, Axes or
Sizes as functions of the position, a Real as a scalar, words as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ..kernel.scalars import Op
from ..kernel.tensors import Context, Tensor
from . import elementwise

Meaning: TypeAlias = Callable[..., Any]

MEANINGS: dict[str, Meaning] = {}


def means(*names: str) -> Callable[[Meaning], Meaning]:
    """Enter a function as the meaning of an operator."""

    def register(meaning: Meaning) -> Meaning:
        for name in names:
            if name in MEANINGS:
                raise ValueError(f"{name} has two meanings")
            MEANINGS[name] = meaning
        return meaning

    return register


def _named(name: str) -> Meaning:
    return lambda context, *tensors: elementwise.pointwise(context, name, *tensors)


for _name in elementwise.POINTWISE:
    MEANINGS[_name] = _named(_name)


def _where(context: Context, *tensors: Tensor) -> Tensor:
    """A condition that reads x != x holds nowhere: no real differs from itself."""

    def pick(c: Any, a: Any, b: Any) -> Any:
        if isinstance(c, Op) and c.name == "not" and isinstance(c.args[0], Op):
            test = c.args[0]
            if test.name == "equal" and test.args[0] is test.args[1]:
                return b
        return Op("where", c, a, b)

    return elementwise.elementwise(context, pick, *tensors)


MEANINGS["Where"] = _where


@means("pointwise")
def _pointwise(context: Context, *tensors: Tensor, f: Any) -> Tensor:
    """Any function, the same one wherever the law names it; f(0) = 0 in one family."""
    head = f"sigma:{f.name}"
    if f.family == "zero":
        apply = lambda *x: x[0] * Op(head, *x)  # noqa: E731  0 times anything real is 0
    else:
        apply = lambda *x: Op(head, *x)  # noqa: E731
    return elementwise.elementwise(context, apply, *tensors)


# Which operators a chain may consist of.
CHAINS: dict[str, Meaning] = {
    name: MEANINGS[name] for name in ("Add", "Mul", "Max", "Min", "And", "Or")
}
