"""A model of bfloat16 as ONNX Runtime can run it: each operator in float32, its
results rounded to bfloat16 behind it, as runtimes compute in bfloat16 on a CPU.

ONNX Runtime has hardly a kernel of bfloat16 there. Float32 has more than twice the
digits, so that rounding its sum, product, quotient or root once more is to round the
exact one.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

_NARROW, _WIDE = TensorProto.BFLOAT16, TensorProto.FLOAT


def is_bfloat16(model: onnx.ModelProto) -> bool:
    """Whether an input or a stored tensor is of bfloat16."""
    graph = model.graph
    given = [x.type.tensor_type.elem_type for x in graph.input]
    return _NARROW in (*given, *(x.data_type for x in graph.initializer))


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float32 in the place of bfloat16, all results rounded.

    Raises onnx.shape_inference.InferenceError if an operator takes no bfloat16.
    """
    typed = shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    known = [*typed.graph.value_info, *typed.graph.output]
    narrow = {x.name for x in known if x.type.tensor_type.elem_type == _NARROW}
    nodes = []
    for node in model.graph.node:
        wide = onnx.NodeProto()
        wide.CopyFrom(node)
        nodes.append(wide)
        for attribute in wide.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                attribute.t.CopyFrom(_wide_tensor(attribute.t))
        casts = node.op_type == "Cast"
        for place, name in enumerate(node.output):
            if name not in narrow:
                continue
            wide.output[place] = f"{name} exact"
            rounded = f"{name} rounded"
            back = helper.make_node("Cast", [rounded], [name], to=_WIDE)
            if casts:
                wide.output[place] = rounded
            else:
                first = [wide.output[place]]
                nodes.append(helper.make_node("Cast", first, [rounded], to=_NARROW))
            nodes.append(back)
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.graph.node[:], found.graph.initializer[:], found.graph.value_info[:]
    found.graph.node.extend(nodes)
    found.graph.initializer.extend(map(_wide_tensor, model.graph.initializer))
    for value in (*found.graph.input, *found.graph.output):
        if value.type.tensor_type.elem_type == _NARROW:
            value.type.tensor_type.elem_type = _WIDE
    return found


def _wide_tensor(tensor: onnx.TensorProto) -> onnx.TensorProto:
    if tensor.data_type != _NARROW:
        return tensor
    array = numpy_helper.to_array(tensor).astype(np.float32)
    return numpy_helper.from_array(array, tensor.name)
