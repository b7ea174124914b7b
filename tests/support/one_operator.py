"""A case of the operator table as a model of one node."""

from __future__ import annotations

import zlib

import numpy as np
import onnx
from support.operator_cases import Case, cases_of

from fairhand.analysis.ops.registry import OpDef

OPSET, IR_VERSION = 26, 13


def arrays(op: OpDef, index: int) -> list[np.ndarray | None]:
    """The inputs of a case; a list is the shape of normal numbers from a fixed seed."""
    random = np.random.default_rng(zlib.crc32(f"{op.name}-{index}".encode()))
    return [
        random.standard_normal(x).astype(np.float32) if isinstance(x, list) else x
        for x in cases_of(op)[index].inputs
    ]


def one_node(
    op: OpDef, case: Case, inputs: list[np.ndarray | None], opset: int = OPSET
) -> onnx.ModelProto:
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    attrs = {
        name: (
            onnx.numpy_helper.from_array(value)
            if isinstance(value, np.ndarray)
            else value
        )
        for name, value in case.attrs.items()
    }
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = onnx.helper.make_node(
        op.name, names, outputs, name="node", domain=op.domain, **attrs
    )
    typed = {
        name: _info(name, x)
        for name, x in zip(names, inputs, strict=True)
        if x is not None
    }
    constants = [
        onnx.numpy_helper.from_array(np.asarray(inputs[i]), names[i])
        for i in case.constants
    ]
    graph = onnx.helper.make_graph(
        [node],
        "case",
        [
            typed[name]
            for i, name in enumerate(names)
            if i not in case.constants and name
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        constants,
    )
    imports = [onnx.helper.make_opsetid("", max(opset, op.since))]
    if op.domain:
        imports.append(onnx.helper.make_opsetid(op.domain, op.since))
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
    return onnx.shape_inference.infer_shapes(model)


def _info(name: str, x: np.ndarray | tuple[np.ndarray, ...]) -> onnx.ValueInfoProto:
    """A tensor; a sequence where a case gives a tuple of them."""
    if isinstance(x, tuple):
        code = onnx.helper.np_dtype_to_tensor_dtype(x[0].dtype)
        return onnx.helper.make_tensor_sequence_value_info(name, code, None)
    code = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    return onnx.helper.make_tensor_value_info(name, code, x.shape)
