"""Session: model.py's network with the interface of onnxruntime.InferenceSession.

The same names, NumPy in and out, and the same feeds accepted and refused; one that does
not fit is a ValueError or a TypeError that names the input. No line here depends on the
model: what does is in model.py and report.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .model import INPUTS, OUTPUTS, WEIGHTS, load

REPORT = Path(__file__).with_name("report.json")
ONNX_TYPES = {"float32": "float", "float64": "double"}
AS_BITS = ("bfloat16", "float8")  # NumPy has no such numbers
# Fewer than 8 bits: the type of such values in NumPy, and here. A feed of 4-bit numbers
# is an array of the package ml_dtypes.
NARROW = {
    "int2": ("int8", "int8"),
    "int4": ("int8", "int8"),
    "uint2": ("uint8", "uint8"),
    "uint4": ("uint8", "uint8"),
    "float4_e2m1fn": ("float32", "float8_e4m3fn"),
    "float6_e2m3fn": ("float32", "float8_e4m3fn"),
    "float6_e3m2fn": ("float32", "float8_e4m3fn"),
}


class NodeArg(NamedTuple):
    name: str
    type: str
    shape: list[int | str | None]


class Session:
    """Stands in for onnxruntime.InferenceSession."""

    def __init__(self, weights: str | Path = WEIGHTS, device: str = "cpu"):
        self.model = load(weights, device)
        self.device = torch.device(device)

    @torch.inference_mode()
    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: object = None,
    ) -> list[np.ndarray]:
        """The outputs of these names, all of them for None or an empty list."""
        if isinstance(output_names, str):
            raise TypeError(f"output_names must be a list, got {output_names!r}")
        names = list(output_names or OUTPUTS)
        if missing := [name for name in INPUTS if name not in input_feed]:
            raise ValueError(f"inputs {missing} are missing from {list(input_feed)}")
        if unknown := [name for name in input_feed if name not in INPUTS]:
            raise ValueError(f"no inputs {unknown}, the inputs are {list(INPUTS)}")
        if unknown := [name for name in names if name not in OUTPUTS]:
            raise ValueError(f"no outputs {unknown}, the outputs are {list(OUTPUTS)}")
        feeds = [to_tensor(name, input_feed[name]).to(self.device) for name in INPUTS]
        results = self.model(*feeds)
        if isinstance(results, Tensor):
            results = (results,)
        outputs = dict(zip(OUTPUTS, results, strict=True))
        return [to_array(name, outputs[name]) for name in names]

    def get_inputs(self) -> list[NodeArg]:
        return node_args(INPUTS)

    def get_outputs(self) -> list[NodeArg]:
        return node_args(OUTPUTS)

    def get_modelmeta(self) -> SimpleNamespace:
        """Of the ONNX file: producer_name, graph_name, version and so on."""
        return SimpleNamespace(**json.loads(REPORT.read_text("utf-8"))["meta"])

    def get_providers(self) -> list[str]:
        gpu = ["CUDAExecutionProvider"] if self.device.type == "cuda" else []
        return [*gpu, "CPUExecutionProvider"]


def node_args(table: Mapping[str, tuple]) -> list[NodeArg]:
    args = []
    for name, (dtype, shape) in table.items():
        plain = dtype.replace("_", "").removesuffix("fnu")
        plain = plain if dtype.startswith("float8") else plain.removesuffix("fn")
        kind = ONNX_TYPES.get(dtype, plain)
        args.append(NodeArg(name, f"tensor({kind})", list(shape or ())))
    return args


def to_tensor(name: str, value: Any) -> Tensor:
    """What was fed to input `name`, in memory of its own."""
    dtype, shape = INPUTS[name]
    if isinstance(value, list):  # lists are converted, scalars and tuples are not
        value = np.array(value, dtype)
    if not isinstance(value, np.ndarray):
        raise TypeError(f"input {name!r} must be an array, got {type(value).__name__}")
    if value.dtype.name != dtype:
        raise TypeError(f"input {name!r} must be {dtype}, got {value.dtype}")
    if shape and not fits(value.shape, shape):  # a scalar, or no rank: any shape
        raise ValueError(
            f"input {name!r} must have shape {list(shape)}, got {list(value.shape)}"
        )
    if dtype in NARROW:
        plain, held = NARROW[dtype]
        return torch.from_numpy(value.astype(plain)).to(getattr(torch, held))
    # The copy is contiguous and in native bytes, whatever the caller's array is.
    array = np.array(value, dtype=value.dtype.newbyteorder("="), order="C")
    if dtype.startswith(AS_BITS):
        array = array.view(f"uint{8 * array.itemsize}")
    return torch.from_numpy(array).view(getattr(torch, dtype))


def fits(sizes: Sequence[int], shape: Sequence[int | str | None]) -> bool:
    """Sizes that have a name, or none, are free: they need not even agree."""
    return len(sizes) == len(shape) and all(
        size == wanted or not isinstance(wanted, int)
        for size, wanted in zip(sizes, shape, strict=True)
    )


def to_array(name: str, tensor: Tensor) -> np.ndarray:
    """A copy: writing to it changes no parameter and no other output."""
    dtype, _ = OUTPUTS[name]
    if dtype in NARROW:
        tensor = tensor.to(getattr(torch, NARROW[dtype][0]))
    elif dtype.startswith(AS_BITS):
        tensor = tensor.view(getattr(torch, f"uint{8 * tensor.itemsize}"))
    return np.array(tensor.numpy(force=True), order="C")
