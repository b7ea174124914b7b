"""One node at an older opset, as a model, and the same brought to the newest opset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from fairhand.codegen.load.read_model import load
from fairhand.rewrites.normalise import normalise

from .handmade import RNG, node, save
from .stages import save_stage

Attributes = Mapping[str, object]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def scalar(value: object) -> np.ndarray:
    return np.array(value)


@dataclass(frozen=True)
class Case:
    """One node at one opset; None stands for an input that is left out.

    Inputs in `constant`, by position, are initializers. `symbolic` hides the sizes of
    the first input, `rankless` its rank.
    """

    op: str
    opset: int
    inputs: tuple[np.ndarray | None, ...]
    attributes: Attributes = field(default_factory=dict)
    outputs: int = 1
    constant: tuple[int, ...] = ()
    symbolic: bool = False
    rankless: bool = False

    def __str__(self) -> str:
        shown = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        flags = ",".join(f for f in ("symbolic", "rankless") if getattr(self, f))
        return f"{self.op}-{self.opset}({shown})x{len(self.inputs)}{flags}"

    def model(self) -> onnx.ModelProto:
        names = ["" if a is None else f"x{i}" for i, a in enumerate(self.inputs)]
        outputs = [f"y{i}" for i in range(self.outputs)]
        made = node(self.op, "", "", name="one", **self.attributes)
        made.input.extend(names)
        made.output.extend(outputs)
        infos, weights = [], []
        for i, array in enumerate(self.inputs):
            if array is None:
                continue
            if i in self.constant:
                weights.append(numpy_helper.from_array(array, names[i]))
                continue
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            shape: list[int | str] | None = list(array.shape)
            if i == 0 and self.symbolic:
                shape = [f"d{k}" for k in range(array.ndim)]
            if i == 0 and self.rankless:
                shape = None
            infos.append(helper.make_tensor_value_info(names[i], kind, shape))
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph([made], "g", infos, results, weights)
        opset = helper.make_opsetid("", self.opset)
        ir_version = helper.find_min_ir_version_for([opset])
        return helper.make_model(
            graph, opset_imports=[opset], ir_version=max(4, ir_version)
        )


def run(path: Path, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options)
    assert {i.name for i in session.get_inputs()} == set(inputs)
    return session.run(None, inputs)


def normalised(case: Case, folder: Path) -> tuple[Path, Path]:
    """The model before and after, as files."""
    before = save(case.model(), folder, "before.onnx")
    model = normalise(load(before).model)
    assert "one" in {n.name for n in model.graph}, "the node keeps its name"
    save_stage(model, folder / "after.onnx")
    return before, folder / "after.onnx"
