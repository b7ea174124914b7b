"""weights.safetensors, written one tensor at a time.

The library's own writer needs every tensor in memory at once; a model's weights may be
most of a machine. The format is a length, a JSON header and the bytes:
https://huggingface.co/docs/safetensors#format
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir

from ...analysis.errors import Unsupported
from ...analysis.spelling.expr import TORCH_DTYPES
from ..classes.stored_parameters import is_filled
from ..ir.package_plan import WeightPlan

# NumPy (and ml_dtypes) names -> safetensors names.
TYPE_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}


PART = 2**25  # bytes of a weight that are laid out at a time


def write_weights(path: Path, weights: list[WeightPlan], sha256: str) -> int:
    """Write the file and return its bytes; a tensor of one value is stored as that."""
    header: dict[str, object] = {"__metadata__": {"model_sha256": sha256}}
    offset = 0
    for weight in weights:
        array = as_stored(weight.array())
        if array.dtype.name not in TYPE_NAMES:
            raise Unsupported(
                f"weights of type {array.dtype.name} are not supported: safetensors has"
                " no such type",
                f"weight {weight.key}",
            )
        end = offset + array.nbytes
        header[weight.key] = {
            "dtype": TYPE_NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format asks for 8-byte alignment
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for weight in weights:
            for part in parts(as_stored(weight.array())):
                array = np.ascontiguousarray(part)
                little = array.astype(array.dtype.newbyteorder("<"), copy=False)
                file.write(little.reshape(-1).view(np.uint8).data)
        return file.tell()


def float_types(path: Path) -> tuple[str, ...]:
    """The types of the floats in a file that was written here, as torch calls them."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    stored = {tensor.get("dtype") for tensor in header.values()}
    names = [name for name, short in TYPE_NAMES.items() if short in stored]
    return tuple(name for name in names if "float" in name)


def parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """Some rows at a time: what is transposed is copied, and may be large."""
    if array.ndim == 0 or array.nbytes <= PART:
        yield array
        return
    rows = max(1, len(array) * PART // array.nbytes)
    for start in range(0, len(array), rows):
        yield array[start : start + rows]


def as_stored(array: np.ndarray) -> np.ndarray:
    """As the file has it: one element for all, a byte for each."""
    if is_filled(array):
        array = array[(slice(0, 1),) * array.ndim]
    held = ir.DataType.from_numpy(array.dtype)
    if held.bitwidth < 8:  # one value in each byte, in the type that the module has
        return array.astype(getattr(ml_dtypes, TORCH_DTYPES[held], TORCH_DTYPES[held]))
    return array
