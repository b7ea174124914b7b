"""Casts in a row: none, or one, where the first of them loses nothing.

A truth's number is 0 where it is false, and 1 where it is true.

An element type is a set of numbers. What the first cast holds exactly is the number it
was, so the second is a cast of that; and one back to the first type gives it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from ..language.operators.read_write import Draft
from .recognition import Recognition
from .regions import Neighbourhoods

STATEMENT = "the cast of a cast that loses nothing"
TRUTH = "whether the number of a truth is 0, or 1 = Not(x), or x"


@dataclass(frozen=True)
class _Type:
    """Whole numbers of so many bits, or floats with them as their digits."""

    digits: int
    least: int = 0  # exponents; 0 and 0 for whole numbers
    most: int = 0
    signed: bool = False

    @property
    def is_float(self) -> bool:
        return self.most > 0

    def holds(self, other: _Type) -> bool:
        """Whether every number of the other type is one of this."""
        if other.is_float:
            return self.is_float and (
                self.digits >= other.digits
                and self.least <= other.least
                and self.most >= other.most
            )
        if self.is_float:
            return self.digits >= other.digits and self.most >= other.digits
        return self.digits >= other.digits and (self.signed or not other.signed)


# The digits of a whole number are those of its size, without the sign.
_TYPES = {
    "BOOL": _Type(1),
    "UINT8": _Type(8),
    "INT8": _Type(7, signed=True),
    "UINT16": _Type(16),
    "INT16": _Type(15, signed=True),
    "INT32": _Type(31, signed=True),
    "INT64": _Type(63, signed=True),
    "FLOAT16": _Type(11, -24, 15),
    "BFLOAT16": _Type(8, -133, 127),
    "FLOAT": _Type(24, -149, 127),
    "DOUBLE": _Type(53, -1074, 1023),
}


def is_one_cast(first: str, second: str, third: str) -> bool:
    """Whether a cast to `second` and on to `third` is the one from `first` to there.

    A number that fits no integer is left out: each runtime may take it for any.
    """
    types = [_TYPES.get(name) for name in (first, second, third)]
    if None in types:
        return False
    source, through, target = (t for t in types if t is not None)
    if not through.holds(source):
        return False
    return first == third or third == "BOOL" or target.is_float or target.holds(source)


def cast_of_cast(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """What is cast in two steps."""
    if node.op_type != "Cast" or node.domain or node.inputs[0] is None:
        return
    inner = node.inputs[0].producer()
    if inner is None or inner.op_type != "Cast" or inner.domain:
        return
    source = inner.inputs[0]
    if source is None or source.dtype is None or inner.graph is not node.graph:
        return
    to = [n.attributes["to"].as_int() for n in (inner, node)]
    names = [ir.DataType(t).name for t in to]
    if is_one_cast(source.dtype.name, *names):
        drafts = (Draft("Cast", [source], {"to": to[1]}),)
        evidence = f"{inner.name} loses nothing of {source.name}"
        gone = source.dtype == to[1]
        found = () if gone else drafts
        yield Recognition("cast_of_cast", (node, inner), found, evidence, source)


def truth_of_cast(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """Whether a truth is equal to a number, as masks are asked for their zeros."""
    facts, known = around.facts, node.op_type == "Equal"
    for x, other in (node.inputs, node.inputs[::-1]) if known else ():
        cast = x.producer() if x is not None else None
        if cast is None or other is None or (cast.op_type, cast.domain) != ("Cast", ""):
            continue
        source, number = cast.inputs[0], facts.uniform(other)
        if source is None or source.dtype != ir.DataType.BOOL or number not in (0, 1):
            continue
        sizes = facts.dims(other)
        if sizes is None or {*sizes} - {1} or cast.graph is not node.graph:
            continue
        if len(sizes) <= len(facts.dims(source) or ()):
            drafts = () if number else (Draft("Not", [source]),)
            evidence = f"{source.name} is true or false"
            yield Recognition("truth_of_cast", (node, cast), drafts, evidence, source)
