"""Small ONNX models, whole or broken, for the tests of loading and rewriting."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)
BIG = RNG.standard_normal((64, 64)).astype(np.float32)


def node(op: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    name = attributes.pop("name", f"the_{op}")
    made = helper.make_node(op, inputs.split(), outputs.split(), str(name))
    made.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
    return made


def floats(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model(
    *nodes: onnx.NodeProto,
    inputs: tuple[onnx.ValueInfoProto, ...] = (),
    weights: dict[str, np.ndarray] | None = None,
    output: str = "y",
    opset: int = 18,
    ir_version: int = 9,
) -> onnx.ModelProto:
    """A model of one input x [2, 64], unless told otherwise, and one output."""
    graph = helper.make_graph(
        nodes or (node("MatMul", "x w", "y"),),
        "g",
        inputs or (floats("x", 2, 64),),
        [helper.make_empty_tensor_value_info(output)],
        [numpy_helper.from_array(v, k) for k, v in (weights or {"w": BIG}).items()],
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def external(folder: Path, **notes: object) -> Path:
    """A model in `folder` whose weight lies in weights.bin, after 4 other bytes."""
    (folder / "weights.bin").write_bytes(b"head" + BIG.tobytes())
    made = model()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entries = {"location": "weights.bin", "offset": 4, "length": BIG.nbytes, **notes}
    for key, value in entries.items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def save(made: onnx.ModelProto | bytes, folder: Path, name: str = "model.onnx") -> Path:
    data = made if isinstance(made, bytes) else made.SerializeToString()
    (folder / name).write_bytes(data)
    return folder / name


def weight(loaded: ir.Model, name: str = "w") -> np.ndarray:
    tensor = loaded.graph.initializers[name].const_value
    assert tensor is not None
    return tensor.numpy()
