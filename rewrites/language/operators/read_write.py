"""How an operator of the laws stands in an ONNX graph: reading and writing nodes.

A law speaks of semantic parameters: a permutation, a set of axes counted from the
front, a begin and a step per axis. A node spells them as attributes or as small integer
inputs with defaults, negative axes and "to the end". `read` translates a node into the
former and refuses, with a reason, where it can't tell; `write` spells a node. Both are
trusted as the prover's denotations are; tests/test_vocabulary.py runs them on ONNX
Runtime against those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from ....analysis.graph.dims import Dim
from ..facts import Facts
from ..pattern import Operator


class NoReading(Exception):
    """The node can't be described in the terms of the laws; the text says why."""


class CannotWrite(Exception):
    """The result can't be spelled as a node, e.g. a size that only a run tells."""


@dataclass
class Draft:
    """A node that is planned and not yet in the graph."""

    op_type: str
    inputs: list[Input]
    attributes: dict[str, Any] = field(default_factory=dict)
    count: int = 1
    domain: str = ""


@dataclass(frozen=True, eq=False)
class Output:
    """One output of a planned node."""

    draft: Draft
    index: int = 0


@dataclass(frozen=True, eq=False)
class NewConstant:
    """A planned initializer; `typed_like` gives floats their element type."""

    array: np.ndarray


Input: TypeAlias = "ir.Value | Output | NewConstant | None"


@dataclass(frozen=True)
class Reading:
    """A node in the terms of the laws: inputs in their order, parameters by name."""

    inputs: tuple[ir.Value | None, ...]
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Word:
    """One operator of the vocabulary."""

    operator: Operator
    read: Callable[[ir.Node, Facts], Reading]
    write: Callable[[list[Input], dict[str, Any]], Draft]


WORDS: dict[str, Word] = {}


def define(
    operator: Operator,
    read: Callable[[ir.Node, Facts], Reading],
    write: Callable[[list[Input], dict[str, Any]], Draft],
) -> Operator:
    """Enter an operator in the vocabulary."""
    if operator.name in WORDS:
        raise ValueError(f"{operator.name} is defined twice")
    WORDS[operator.name] = Word(operator, read, write)
    return operator


def reading(node: ir.Node, facts: Facts) -> Reading:
    """What the word for a node reads, once for the inputs it has; raises NoReading."""
    known = facts.readings.get(node)
    if known is None or known[0] is not node.inputs:
        known = facts.readings[node] = node.inputs, _reading(node, facts)
    found = known[1]
    if isinstance(found, NoReading):
        raise found.with_traceback(None)
    return found


def _reading(node: ir.Node, facts: Facts) -> Reading | NoReading:
    word = WORDS.get(node.op_type)
    if word is None:
        return NoReading(f"the laws have no word for {node.op_type}")
    try:
        return word.read(node, facts)
    except NoReading as reason:
        return reason


def plain(
    name: str,
    arity: int,
    *,
    commutative: bool = False,
    ignored: Sequence[str] = (),
    **defaults: Any,
) -> Operator:
    """An operator whose parameters are its attributes, with these defaults.

    A node with any other attribute isn't read, unless laws may ignore it.
    """

    def read(node: ir.Node, facts: Facts) -> Reading:
        odd = set(node.attributes) - set(defaults) - set(ignored)
        if odd:
            raise NoReading(f"{name} has the attribute {min(odd)}")
        inputs = trimmed(node.inputs)
        if len(inputs) > arity:
            raise NoReading(f"{name} has {len(inputs)} inputs, not {arity}")
        inputs += [None] * (arity - len(inputs))
        return Reading(
            tuple(inputs), {key: attribute(node, key, d) for key, d in defaults.items()}
        )

    def write(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
        given = {k: v for k, v in parameters.items() if v != defaults[k]}
        return Draft(name, inputs, given)

    operator = Operator(name, tuple(defaults), commutative)
    return define(operator, read, write)


def trimmed(inputs: Sequence[ir.Value | None]) -> list[ir.Value | None]:
    """The inputs without those left out at the end."""
    kept = list(inputs)
    while kept and kept[-1] is None:
        kept.pop()
    return kept


def attribute(node: ir.Node, name: str, default: Any) -> Any:
    """An attribute as int, float, str or tuple; `default` where it isn't given."""
    found = node.attributes.get(name)
    if found is None or found.value is None:
        return default
    value = found.value
    return tuple(value) if isinstance(value, list | tuple) else value


def given(node: ir.Node, index: int) -> ir.Value:
    """An input that the operator requires."""
    inputs = node.inputs
    value = inputs[index] if index < len(inputs) else None
    if value is None:
        raise NoReading(f"{node.op_type} has no input {index}")
    return value


def optional(node: ir.Node, index: int) -> ir.Value | None:
    """The input of a node at this place; None where it is absent."""
    return node.inputs[index] if index < len(node.inputs) else None


def rank_of(value: ir.Value, facts: Facts) -> int:
    """The rank of a value; refuses where it is unknown."""
    dims = facts.dims(value)
    if dims is None:
        raise NoReading(f"the rank of {value.name} is unknown")
    return len(dims)


def dims_of(value: ir.Value, facts: Facts) -> tuple[Dim, ...]:
    """The shape of a value; refuses where its rank is unknown."""
    dims = facts.dims(value)
    if dims is None:
        raise NoReading(f"the shape of {value.name} is unknown")
    return dims


def numbers(value: ir.Value | None, facts: Facts, what: str) -> tuple[int, ...]:
    """The elements of a small integer input, all of them known."""
    found = facts.ints(value)
    if found is None:
        raise NoReading(f"{what} is known only at run time")
    known = tuple(n for n in found if isinstance(n, int))
    if len(known) != len(found):
        raise NoReading(f"{what} depends on sizes known only at run time")
    return known


def from_front(axis: int, rank: int) -> int:
    """An axis counted from the front; refuses one that there isn't."""
    if not -rank <= axis < rank:
        raise NoReading(f"axis {axis} is outside a tensor of rank {rank}")
    return axis % rank


def whole(numbers_: Sequence[Any]) -> list[int]:
    """Sizes that have to be numbers to be written."""
    if not all(isinstance(n, int) for n in numbers_):
        raise CannotWrite("a size is known only at run time")
    return [int(n) for n in numbers_]


def ints(values: Sequence[Any]) -> NewConstant:
    """A new int64 constant."""
    return NewConstant(np.array(whole(values), np.int64))
