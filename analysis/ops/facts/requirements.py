"""What an operator requires of the elements of an input, beside its type and shape.

Inputs for verification are made to fulfil it (codegen/verify/inputs.py).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Between:
    """low <= element < high: what most models can run with."""

    low: int
    high: int


@dataclass(frozen=True)
class Axes:
    """The first axes of a tensor, each once."""


@dataclass(frozen=True)
class Fraction:
    """From 0 to 1."""


@dataclass(frozen=True)
class Corners:
    """Along the last axis stands a corner of a picture's part, then the far one."""


@dataclass(frozen=True)
class IndexOf:
    """Each element is an index into an axis of input `table`.

    A name is the attribute that gives the axis, 0 where the node has none.
    """

    table: int
    axis: int | str = 0


class Parts(IndexOf):
    """The elements add up to the size of such an axis."""


@dataclass(frozen=True)
class PlaceIn:
    """Along the last axis stand the indices of one place in input `table`."""

    table: int


@dataclass(frozen=True)
class BelowNumber:
    """Each element is less than the one number in an input."""

    limit: int


Requirement: TypeAlias = (
    Axes | Between | Corners | Fraction | IndexOf | PlaceIn | BelowNumber
)

EVERY: Container[int] = range(1 << 31)  # all inputs of an operator
