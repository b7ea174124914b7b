"""Models of ONNX Runtime's own operators, run by it and as emitted code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import helper, numpy_helper
from support.emitted import imported

import fairhand
from fairhand.analysis.oracle.int8_overflow import without_overflow
from fairhand.codegen.verify.tolerances import compare

RNG = np.random.default_rng(7)
Arrays = dict[str, np.ndarray]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def call(
    op: str,
    inputs: str,
    outputs: str = "y",
    domain: str = "com.microsoft",
    **attrs: Any,
) -> onnx.NodeProto:
    """A node; "_" stands for an input or output that is left out."""
    names = [["" if n == "_" else n for n in x.split()] for x in (inputs, outputs)]
    return helper.make_node(
        op,
        *names,
        name=f"{op}_{outputs.split()[0]}",
        domain=domain,
        **{k: v for k, v in attrs.items() if v != []},
    )


def model(
    nodes: list[onnx.NodeProto],
    feeds: Arrays,
    weights: Arrays | None = None,
    outputs: str = "y",
    opset: int = 20,
    shapes: dict[str, list[Any]] | None = None,
) -> onnx.ModelProto:
    """The graph of some nodes; `shapes` names the sizes of inputs that are dynamic."""
    inputs = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(x.dtype),
            (shapes or {}).get(name, x.shape),
        )
        for name, x in feeds.items()
    ]
    graph = helper.make_graph(
        nodes,
        "contrib",
        inputs,
        [onnx.ValueInfoProto(name=name) for name in outputs.split()],
        [numpy_helper.from_array(x, name) for name, x in (weights or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def session(proto: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    exact = without_overflow(ir.from_proto(proto)) or proto.SerializeToString()
    return ort.InferenceSession(exact, options, providers=["CPUExecutionProvider"])


def emitted(proto: onnx.ModelProto, folder: Path) -> tuple[Any, str]:
    """A session of the emitted package, and the text of its module."""
    fairhand.compile(proto, folder / "net", verify=False)
    text = (folder / "net" / "model.py").read_text(encoding="utf-8")
    return imported(folder / "net").Session(), text


def assert_close(
    got: list[np.ndarray], wanted: list[np.ndarray], whole_model: bool = False
) -> None:
    for actual, right in zip(got, wanted, strict=True):
        found = compare(np.asarray(actual), np.asarray(right), whole_model)
        assert found, found.reason


def check(
    proto: onnx.ModelProto,
    feeds: Arrays,
    folder: Path,
    wanted: list[np.ndarray] | None = None,
) -> str:
    """Compare the emitted code with ONNX Runtime, or with `wanted`; give its text."""
    made, text = emitted(proto, folder)
    if wanted is None:
        wanted = session(proto).run(None, feeds)
    assert_close(made.run(None, feeds), wanted)
    return text
