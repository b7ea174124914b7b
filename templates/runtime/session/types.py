"""Where not all values are tensors of NumPy's types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .session import ONNX_TYPES, NodeArg

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


def node_args(table: Mapping[str, tuple[str, Any]]) -> list[NodeArg]:
    return [
        NodeArg(name, onnx_type(dtype), list(shape or ()))
        for name, (dtype, shape) in table.items()
    ]


def onnx_type(dtype: str) -> str:
    """float32 -> tensor(float); the same inside of seq( ) and optional( )."""
    kind, inside, inner = dtype.partition("(")
    if "map(" in dtype:
        return dtype
    if inside:
        return f"{kind}({onnx_type(inner[:-1])})"
    plain = dtype.replace("_", "").removesuffix("fnu")
    plain = plain if dtype.startswith("float8") else plain.removesuffix("fn")
    return f"tensor({ONNX_TYPES.get(dtype, plain)})"


def to_tensor(array: np.ndarray, device: torch.device) -> Tensor:
    # The copy is contiguous and in native bytes, whatever the caller's array is.
    array = array.astype(array.dtype.name, "C", subok=False)
    return torch.from_numpy(array).to(device)


def to_array(dtype: str, tensor: Tensor) -> np.ndarray:
    return np.array(tensor.numpy(force=True), order="C")
