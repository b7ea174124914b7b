"""How often the last bits of float32 results differ from ONNX Runtime's, by operator.

PyTorch's own function stands beside the exact result, rounded once: if even that is
off, ONNX Runtime's kernel rounds on its way, and only the same one would give its bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper

from fairhand.codegen.verify.parity import oracle

Formula = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Share:
    """Shares of numbers whose bits are not those of ONNX Runtime."""

    what: str
    ours: float
    exact: float


def shares() -> list[Share]:
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    rows, gain, shift = normal(512, 768), normal(768), normal(768)
    picture = normal(1, 96, 56, 56)
    found = [
        _share("Sigmoid", "Sigmoid", [rows], torch.sigmoid),
        _share("Tanh", "Tanh", [rows], torch.tanh),
        _share("Erf", "Erf", [rows], torch.erf),
        _share("Softmax", "Softmax", [rows], lambda x: x.softmax(-1), axis=-1),
        _share(
            "LayerNormalization",
            "LayerNormalization",
            [rows, gain, shift],
            lambda x, w, b: F.layer_norm(x, (768,), w, b, 1e-5),
        ),
        _share(
            "GlobalAveragePool",
            "GlobalAveragePool",
            [picture],
            lambda x: x.mean((2, 3), keepdim=True),
        ),
    ]
    for channels, size in ((64, 1), (256, 1), (512, 1), (64, 3)):
        inputs = [normal(1, channels, 28, 28), normal(64, channels, size, size)]
        inputs.append(normal(64))
        what = f"Conv {size}x{size} of {channels} channels"
        found.append(_share(what, "Conv", inputs, F.conv2d))
    return found


def _share(
    what: str, op: str, inputs: list[np.ndarray], formula: Formula, **attrs: Any
) -> Share:
    names = [f"x{i}" for i in range(len(inputs))]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attrs)],
        "g",
        [helper.make_tensor_value_info("x0", 1, inputs[0].shape)],
        [onnx.ValueInfoProto(name="y")],
        [
            numpy_helper.from_array(x, n)
            for x, n in list(zip(inputs, names, strict=True))[1:]
        ],
    )
    opsets = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    (wanted,) = oracle(model.SerializeToString()).run(None, {"x0": inputs[0]})
    tensors = [torch.from_numpy(x) for x in inputs]
    ours = formula(*tensors).numpy()
    exact = formula(*(x.double() for x in tensors)).float().numpy()
    return Share(what, float((ours != wanted).mean()), float((exact != wanted).mean()))
