"""Equal large constants become one, so that a module called twice shows as one."""

from __future__ import annotations

import hashlib

import numpy as np
import onnx_ir as ir

# Equal vectors say little: every norm starts with ones. Equal matrices are one.
_SMALLEST = 1 << 16
_SAMPLE = 1 << 12


def merge_constants(model: ir.Model) -> int:
    """Keep the first of equal initializers of two or more axes; returns how many went.

    Bits are compared, after a sample of them, so distinct weights are hardly read.
    """
    groups: dict[object, list[ir.Value]] = {}
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is None or len(tensor.shape) < 2 or tensor.nbytes < _SMALLEST:
            continue
        array = tensor.numpy()
        if not any(array.strides):
            continue  # one element in the guise of many: nothing to save
        groups.setdefault((tensor.dtype, array.shape, _digest(array)), []).append(value)
    merged = 0
    for first, *others in groups.values():
        for other in others:
            if other.is_graph_output() or not _same_bits(first, other):
                continue
            other.replace_all_uses_with(first)
            del model.graph.initializers[other.name or ""]
            merged += 1
    return merged


def _digest(array: np.ndarray) -> bytes:
    rows = array.reshape(array.shape[0], -1)
    step = max(1, rows.shape[0] // 8)
    sample = np.ascontiguousarray(rows[::step][:8, : _SAMPLE // 8])
    return hashlib.sha256(sample.tobytes()).digest()


def _same_bits(a: ir.Value, b: ir.Value) -> bool:
    assert a.const_value is not None and b.const_value is not None
    left = np.ascontiguousarray(a.const_value.numpy()).view(np.uint8)
    right = np.ascontiguousarray(b.const_value.numpy()).view(np.uint8)
    return bool(np.array_equal(left, right))
