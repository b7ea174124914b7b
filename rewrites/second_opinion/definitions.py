"""Operators that ONNX defines by others: what they compute is what it says there."""

from __future__ import annotations

from functools import partial
from typing import Any

import onnx
import onnx_ir as ir

from ..adapters.cleanup import bind_attributes, constant_tensor
from ..adapters.function_operators import definition
from ..adapters.opset_adapters import TARGET_OPSET
from . import movements  # noqa: F401  it enters operators that these are made of
from .operators import OPERATORS, Attributes, Inputs, apply
from .places import Kind, Tensor, Unknown, stored

_DEFINED = (
    "Attention CastLike Clip Elu Gelu GroupNormalization HardSigmoid HardSwish"
    " LayerNormalization LeakyRelu LogSoftmax Mish ReduceL1 ReduceL2"
    " ReduceSumSquare RMSNormalization Selu Softmax Softplus Softsign Swish"
    " ThresholdedRelu"
).split()
_REAL = onnx.defs.OpSchema.AttrType.FLOAT


def _defined(op: str, inputs: Inputs, a: Attributes) -> list[Any]:
    schema = onnx.defs.get_schema(op, TARGET_OPSET)
    real = {k for k, x in schema.attributes.items() if x.type == _REAL}
    own = {k: float(value) if k in real else value for k, value in a.items() if k}
    given = [*map(_typed, inputs)]
    taken = (
        f"tensor({given[0].dtype.name.lower()})" if given[0] and given[0].dtype else ""
    )
    if taken not in schema.inputs[0].types:
        raise Unknown(f"{op} of this type")
    node = ir.node(op, given, own, num_outputs=a[""])
    node.version = TARGET_OPSET
    for i, value in enumerate(node.outputs):
        value.name = f"y{i}"
    body = definition(node)
    if body is None:
        raise Unknown(f"{op} of this form")
    del body.output[a[""] :]  # the others may not be computed
    function = ir.serde.deserialize_function(body)
    defaults = [each.default_value for each in schema.attributes.values()]
    attributes = {d.name: ir.serde.deserialize_attribute(d) for d in defaults if d.name}
    attributes.update(node.attributes)
    known: dict[ir.Value | None, Any] = dict.fromkeys(function.inputs)
    known[None] = None
    known.update(zip(function.inputs, inputs, strict=False))
    for step in function:
        bind_attributes(step, attributes)
        if step.op_type == "Constant":
            tensor = constant_tensor(step, None)
            found = [stored(tensor.numpy(), Kind.of(tensor.dtype))]
        else:
            operands = [known[x] for x in step.inputs]
            values = {name: each.value for name, each in step.attributes.items()}
            found = apply(step.op_type, operands, values, len(step.outputs))
        known.update(zip(step.outputs, found, strict=False))
    return [known[x] for x in function.outputs]


def _typed(t: Tensor | None) -> ir.Value | None:
    """What a definition may ask of an operand: its type and sizes."""
    if t is None:
        return None
    name = f"{t.kind.name}{t.kind.bits or ''}".upper()
    return ir.val("x", ir.DataType[name], ir.Shape(t.shape))


OPERATORS.update({op: partial(_defined, op) for op in _DEFINED})
