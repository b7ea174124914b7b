"""Where a float that counts, masks or positions give meets one of the network's type.

A network may be cast to half precision, and its weights, inputs and what is computed
from them with it; what is made of integers stays float32. PyTorch's layers refuse two
types, and its sums become float32 again. So may one of half precision be made anew in
float32: what it computes in float32 becomes the network's type again, not half.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir

from ...analysis.graph.parameters import is_parameter
from ...analysis.graph.traversal import bodies
from ...analysis.graph.weight_access import glance
from ...analysis.ops.registry import ONE_TO_ONE, lookup
from ...analysis.spelling.expr import Expr, Literal, Name, Ref, exchange, uncast

_FLOAT = ir.DataType.FLOAT
_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


class FloatTypes:
    """`fixed` are values of the network's type whatever type the network is cast to.

    That is the half type that weights and inputs have, or float32. One number, as the
    root that scales Gemma's embeddings, makes no type. `idle` are casts whose result is
    cast again, by its only reader, `casts` those to the type of a value at hand.
    """

    def __init__(self, model: ir.Model, scopes: Mapping[ir.Node, Any]) -> None:
        self.fixed: set[ir.Value] = set()
        self.idle: set[ir.Node] = set()
        self._bounds: dict[ir.Node, ir.Value] = {}
        self._like: dict[tuple[ir.Node, int], ir.Value] = {}
        self._settled: set[ir.Node] = set()  # given the network's type at once
        self._known: list[ir.Value] = []  # of the network's type, in order
        self.casts: dict[ir.Node, ir.Value] = {}
        self._scopes = scopes
        self._widened: dict[ir.Value, ir.Node] = {}  # by a cast to float32 before
        stored = (v for v in model.graph.initializers.values() if not _is_scalar(v))
        types = {value.dtype for value in (*stored, *model.graph.inputs)}
        halves = [dtype for dtype in _HALF if dtype in types]
        if len(halves) > 1 or ir.DataType.DOUBLE in types:
            return
        self._type = next(iter(halves), _FLOAT)
        self._known += (v for v in model.graph.inputs if v.dtype == self._type)
        self._places = {node: i for i, node in enumerate(model.graph)}
        for node in model.graph:
            self._visit(node)

    def like(self, node: ir.Node, place: int) -> ir.Value | None:
        """The operand whose type another one has to take; None where it may stay."""
        return self._like.get((node, place))

    def in_bounds(self, node: ir.Node, expr: Expr) -> Expr:
        """An expression whose lowest and largest floats are those of the network's."""
        like = self._bounds.get(node)
        if like is None:
            return expr
        dtype = Ref(like).dtype
        info = Name("torch.finfo")(dtype)

        def replace(part: Expr) -> Expr | None:
            end = self._end(part.label) if isinstance(part, Literal) else ""
            return getattr(info, end) if end else None

        bounded = exchange(expr, replace)
        return uncast(bounded).to(dtype) if node in self._settled else bounded

    def _visit(self, node: ir.Node) -> None:
        for inner in itertools.chain(*bodies(node)):
            self._visit(inner)
        inputs = ((i, v) for i, v in enumerate(node.inputs) if v is not None)
        operands = [(i, v) for i, v in inputs if v.dtype == self._type]
        fixed = [(i, v) for i, v in operands if v in self.fixed]
        moving = [v for _, v in operands if v not in self.fixed and not _is_number(v)]
        if any(_is_number(v) and self._end(_number(v)) for _, v in operands):
            like = next((v for v in moving if v.const_value is None), None)
            if like is None and not moving:
                like = self._alive(node)
                if like is not None:
                    self._settled.add(node)
                    moving.append(like)
            if like is not None:
                self._bounds[node] = like
        tensors = [v for v in moving if isinstance(v.type, ir.TensorType)]
        if tensors and fixed:
            like = next((v for v in tensors if v.const_value is None), tensors[0])
            for i, value in fixed:
                if not _follows(node, i):
                    continue
                self._like[node, i] = like
                self._settled.discard(node)  # by this operand's type
                producer = value.producer()
                alone = len(value.uses()) == 1 and not value.is_graph_output()
                if producer is not None and producer.op_type == "Cast" and alone:
                    self.idle.add(producer)
        is_known = bool(moving) or (node.op_type == "CastLike" and not fixed)
        is_known |= self._type != _FLOAT and self._follow_casts(node, bool(moving))
        made = [list(body.outputs)[-len(node.outputs) :] for body in bodies(node)]
        for i, value in enumerate(node.outputs):
            if made:  # by the branches, or in a body
                is_known = not all(self.fixed.issuperset(m[i : i + 1]) for m in made)
            if value.dtype == self._type:
                self._known += [value] if is_known else []
                self.fixed.update([] if is_known else [value])

    def _follow_casts(self, node: ir.Node, moves: bool) -> bool:
        """Whether a node casts float32 to the network's type, of what is at hand.

        That is what became float32 before, in the same module. What is made of
        positions takes the type of what it meets.
        """
        known = [self._widened[v] for v in node.inputs if v in self._widened]
        late = len(self._places)  # in a body
        widened = max(known, key=lambda n: self._places.get(n, late), default=None)
        if node.op_type == "Cast":
            given = [v and v.dtype for v in node.inputs]
            if moves:
                widened = node
            elif given == [_FLOAT] and node.outputs[0].dtype == self._type:
                apart = widened and self._scopes.get(widened) != self._scopes.get(node)
                like = widened.inputs[0] if widened else self._alive(node)
                if like is not None and not apart:
                    self.casts[node] = like
                return like is not None
        if widened is not None:
            floats = (out for out in node.outputs if out.dtype == _FLOAT)
            self._widened.update(dict.fromkeys(floats, widened))
        return False

    def _end(self, number: object) -> str:
        """min or max, for the ends of the network's type."""
        dtype = self._type.numpy()
        info = ml_dtypes.finfo(dtype)
        ends = {float(info.min): "min", float(info.max): "max"}
        return ends.get(number, "") if isinstance(number, (float, dtype.type)) else ""

    def _alive(self, node: ir.Node) -> ir.Value | None:
        """The first value of the network's type that is there, and read again later.

        The first one is seen where the network is put together: one from inside of a
        layer would make a mask that many layers share that layer's. A cache is one
        layer's too, and what is cut of it: inputs come last.
        """
        here = self._places.get(node)
        if here is None:
            return None  # in a body
        alive = (
            value
            for value in sorted(self._known, key=_is_given)
            if any(self._places.get(user, -1) > here for user, _ in value.uses())
        )
        return next(alive, None)


def _is_given(value: ir.Value) -> bool:
    """Whether a value is an input, or made of one float input and constants."""
    node = value.producer()
    if node is None:
        return value.is_graph_input()
    read = [x for x in node.inputs if x is not None and x.const_value is None]
    return len(read) == 1 and read[0].is_graph_input() and read[0].dtype == _FLOAT


def _is_scalar(value: ir.Value) -> bool:
    tensor = value.const_value
    return tensor is not None and tensor.size == 1


def _is_number(value: ir.Value) -> bool:
    """Whether a constant is spelled as a number, which has no type of its own."""
    return _is_scalar(value) and not is_parameter(value)


def _number(value: ir.Value) -> np.generic:
    assert value.const_value is not None
    number: np.generic = glance(value.const_value).reshape(-1)[0]
    return number


def _follows(node: ir.Node, place: int) -> bool:
    """Whether PyTorch wants an operand of the type that the others have.

    ONNX says so by a type variable, where what is float32 in any network, as the
    scales of Resize are, has its type spelled out.
    """
    op = lookup(node)
    if node.domain != "":
        return op is not None and op.mapping is ONE_TO_ONE
    schema = onnx.defs.get_schema(node.op_type)
    formal = schema.inputs[min(place, len(schema.inputs) - 1)]
    variable = formal.type_str not in formal.types
    return variable and "seq(tensor(float))" not in formal.types
