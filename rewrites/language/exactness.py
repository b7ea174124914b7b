"""How exact a rewrite is: what its proof shows of floating-point results."""

from __future__ import annotations

from enum import Enum


class Exactness(Enum):
    """The classes, from strongest to weakest."""

    BITWISE = "B"  # the same bits for all inputs, NaN and infinities included
    EVALUATED = "E"  # by evaluation of constants
    ZERO_SIGN = "V"  # equal up to the sign of zero
    FINITE = "F"  # the same bits where no operand is infinite or NaN
    FINITE_ZERO_SIGN = "FV"  # both
    # The same operations, but for what an operator leaves open: the order of a sum, and
    # the last place of an elementary function, by where in a vector an element stands.
    ORDER = "O"
    RING = "Z"  # exact over the integers mod 2^n and the reals; floats round elsewhere
    REAL = "R"  # exact over the reals where both sides are defined
    ROUNDED = "A"  # exact over the reals up to a constant's last place


_ORDERED = list(Exactness)
_LEVELS = {
    "bitwise": {Exactness.BITWISE, Exactness.EVALUATED},
    "order": {
        Exactness.BITWISE,
        Exactness.EVALUATED,
        Exactness.ZERO_SIGN,
        Exactness.FINITE,
        Exactness.FINITE_ZERO_SIGN,
        Exactness.ORDER,
    },
    "real": set(Exactness),
}
LEVELS = tuple(_LEVELS)


def weakest(*classes: Exactness) -> Exactness:
    """The class of what is made of parts of these classes."""
    return max(classes, key=_ORDERED.index, default=Exactness.BITWISE)


def allowed(level: str) -> set[Exactness]:
    """The classes that `--exactness level` admits."""
    return _LEVELS[level]
