"""Plan the nodes of a rule's right side."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ...analysis.graph.dims import Dims
from ...analysis.graph.traversal import trimmed
from ..language.operators.read_write import (
    WORDS,
    CannotWrite,
    Draft,
    Input,
    NewConstant,
    Output,
    whole,
)
from ..language.pattern import Apply, Chain, Leaf, Many, Node, Term, Var
from ..language.terms import Axes, Expr, Fn, Real, Sizes
from .bindings import Binding, Undecided, evaluate
from .match import Match
from .term_sizes import members, sizes

# Their spelling depends on the sizes of the operand.
_SIZED = frozenset({"Slice", "Reshape", "Expand"})
# Which operand's element type a parameter of casts and quantisations says.
_TYPED = {"source": 0, "real": 1, "small": 2}


class Builder:
    """Makes drafts of the right side of one match; raises CannotWrite."""

    def __init__(self, match: Match) -> None:
        self.match = match
        self.drafts: list[Draft] = []
        self._made: dict[tuple[int, Node], Draft] = {}
        self._types: dict[int, dict[str, ir.DataType]] = {}  # of drafts, by variable

    def results(self) -> list[Input]:
        """What replaces each of the matched results."""
        law = self.match.rule.law
        try:
            return [self._term(term, self.match.binding) for term in law.right]
        except Undecided as reason:
            raise CannotWrite(str(reason)) from None

    def _term(self, term: Term | None, at: Binding) -> Input:
        if term is None:
            return None
        if isinstance(term, Var):
            return self._leaf(term, at)
        if isinstance(term, Chain):
            first, *rest = (self._term(part, at) for part in term.parts)
            for part in rest:
                first = Output(self._add(Draft(term.head.name, [first, part])))
            return first
        assert isinstance(term, Apply)
        if term.node in at.nodes:
            return at.value_of(term)
        key = (id(at), term.node)
        if key not in self._made:
            self._made[key] = self._node(term.node, at)
        return Output(self._made[key], term.output)

    def _leaf(self, leaf: Var, at: Binding) -> Input:
        if leaf.kind is not Leaf.NUMBER:
            return at.value_of(leaf)
        number = evaluate(leaf.number, at)
        dtype = self._element_type(leaf.kinds).numpy()
        shape = () if leaf.shape is None else whole(evaluate(leaf.shape, at))
        return NewConstant(np.full(shape, _stored(number, dtype)))

    def _element_type(self, kind: str = "") -> ir.DataType:
        """Of the numbers that a law adds: that of its first operand of their kind."""
        for value in self.match.binding.values.values():
            dtype = value.dtype
            if dtype is None or dtype == ir.DataType.BOOL:
                continue
            if kind in ("", "float" if dtype.is_floating_point() else "int"):
                return dtype
        if kind in ("int", "bool"):
            return ir.DataType.INT64 if kind == "int" else ir.DataType.BOOL
        raise CannotWrite("no operand has a known element type")

    def _node(self, node: Node, at: Binding) -> Draft:
        inputs: list[Input] = []
        for term in node.inputs:
            if isinstance(term, Many):
                inputs += [
                    self._term(term.form, member) for member in members(term, at)
                ]
            else:
                inputs.append(self._term(term, at))
        if node.operator.name == "pointwise":
            return self._add(_applied(at.symbols[node.parameters["f"].name], inputs))
        parameters = {k: concrete(v, at) for k, v in node.parameters.items()}
        self._check_places(node, parameters)
        for word in _TYPED.keys() & parameters.keys():
            if self._type(inputs[_TYPED[word]]) != ir.DataType[parameters[word]]:
                raise CannotWrite(f"an operand is no {parameters[word]}")
        if node.operator.name in _SIZED:
            parameters["sizes"] = _sizes(node.inputs[0], at)
        given = trimmed(inputs)
        try:
            draft = WORDS[node.operator.name].write(given, parameters)
        except CannotWrite:
            target = self._target_of(node.operator.name, parameters)
            if target is None:
                raise
            draft = Draft(node.operator.name, [*given, target])
        return self._add(draft)

    def _target_of(self, operator: str, parameters: dict[str, Any]) -> Input:
        """What tells a matched Expand of equal operand and result its sizes.

        Two that only a run tells are no constant.
        """
        if operator != "Expand" or parameters["sizes"] is None:
            return None
        dims = self.match.binding.facts.dims
        wanted = parameters["sizes"], parameters["shape"]
        for node in self.match.nodes():
            x = node.inputs[0] if node.op_type == operator else None
            if x is not None and (dims(x), dims(node.outputs[0])) == wanted:
                return node.inputs[1]
        return None

    def _check_places(self, node: Node, parameters: dict[str, Any]) -> None:
        """Refuse to round a number of doubles: attributes are float32."""
        for name, said in node.parameters.items():
            if not isinstance(said, Real) or said.head == "symbol":
                continue
            rounded = float(np.float32(parameters[name])) != parameters[name]
            if rounded and self._element_type() == ir.DataType.DOUBLE:
                raise CannotWrite(f"{name} would have fewer places than DOUBLE")

    def _add(self, draft: Draft) -> Draft:
        types = self._types[id(draft)] = {}
        for place, x in enumerate(draft.inputs):
            dtype = self._type(x)
            variable, taken = _types_taken(draft.op_type, place)
            if dtype is None or not taken:
                continue
            other = types.setdefault(variable, dtype)
            if other != dtype or f"tensor({dtype.name.lower()})" not in taken:
                beside = "" if other == dtype else f" beside {other}"
                raise CannotWrite(f"{draft.op_type} takes no {dtype}{beside}")
        self.drafts.append(draft)
        return draft

    def _type(self, x: Input) -> ir.DataType | None:
        """The element type of an operand; None if it isn't known."""
        if isinstance(x, NewConstant):
            return ir.DataType.from_numpy(x.array.dtype)
        if not isinstance(x, Output):
            return None if x is None else x.dtype
        if "to" in x.draft.attributes:
            return ir.DataType(x.draft.attributes["to"])
        outputs = onnx.defs.get_schema(x.draft.op_type).outputs
        found = outputs[min(x.index, len(outputs) - 1)]
        if len(found.types) == 1:
            return ir.DataType[min(found.types)[len("tensor(") : -1].upper()]
        return self._types[id(x.draft)].get(found.type_str)


@cache
def _types_taken(operator: str, place: int) -> tuple[str, frozenset[str]]:
    """The variable for the type of an input, and what ONNX lets it be; nothing if it
    has no such input.
    """
    inputs = onnx.defs.get_schema(operator).inputs
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    if place >= len(inputs) and inputs[-1].option != variadic:
        return "", frozenset()
    found = inputs[min(place, len(inputs) - 1)]
    return found.type_str, frozenset(found.types)


def _stored(number: Fraction | float | int, dtype: np.dtype[Any]) -> np.ndarray:
    """A number as an element of that type, which has it, of floats up to places."""
    if dtype.kind not in "iub":
        with np.errstate(over="ignore"):
            found: np.ndarray = np.float64(number).astype(dtype)
        if number and math.isfinite(number) and not (np.isfinite(found) and found):
            raise CannotWrite(f"{number} is no {dtype}")
        return found
    low, high = (0, 1) if dtype.kind == "b" else _range(dtype)
    if number != int(number) or not low <= number <= high:
        raise CannotWrite(f"{number} is no {dtype}")
    return np.array(int(number), dtype)


def _range(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _sizes(term: Term | Many | None, at: Binding) -> Dims | None:
    """Of what a term stands for, which may be planned; None where they aren't known."""
    try:
        return None if isinstance(term, Many) else sizes(term, at)
    except Undecided:
        return None


def _applied(function: ir.Node, inputs: list[Input]) -> Draft:
    """The same elementwise function of other operands."""
    others: list[Input] = list(trimmed(function.inputs)[len(inputs) :])
    attributes = {name: a.value for name, a in function.attributes.items()}
    return Draft(function.op_type, [*inputs, *others], attributes)


def concrete(parameter: Any, at: Binding) -> Any:
    """A parameter as numbers; reals become Python floats."""
    if not isinstance(parameter, Expr | Fn | Axes | Sizes):
        return parameter
    found = evaluate(parameter, at)
    return float(found) if isinstance(found, Fraction) else found
