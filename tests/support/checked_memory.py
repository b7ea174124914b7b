"""Triton's interpreter with the memory of a GPU, for all kernels of the tests.

Each address that a launch reads or writes has to be in one of its tensors; and lanes
that a mask leaves out hold garbage where a kernel doesn't say what, not zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

_Builder = interpreter.InterpreterBuilder
_plain_load, _plain_store = _Builder.create_masked_load, _Builder.create_masked_store
_plain_call = interpreter.GridExecutor.__call__
_plain_argument = interpreter._implicit_cvt
_tensors: list[tuple[int, int]] = []  # of the launch: addresses from, to below


def _call(self: Any, *arguments: Any, **options: Any) -> Any:
    _tensors.clear()
    return _plain_call(self, *arguments, **options)


def _argument(value: Any) -> Any:
    if hasattr(value, "data_ptr") and value.numel():
        steps = zip(value.shape, value.stride(), strict=True)
        count = sum((size - 1) * step for size, step in steps) + 1
        start = value.data_ptr()
        _tensors.append((start, start + count * value.element_size()))
    return _plain_argument(value)


def _check(addresses: Any, mask: Any, kind: Any) -> None:
    own = np.broadcast_to(addresses, np.broadcast(addresses, mask).shape)
    own = own[np.broadcast_to(mask, own.shape)].astype(np.uint64)
    size = max(kind.primitive_bitwidth // 8, 1)
    inside = np.zeros(own.shape, bool)
    for start, end in _tensors:
        inside |= (own >= start) & (own <= end - size)
    if not inside.all():
        raise MemoryError(f"{(~inside).sum()} addresses are in no tensor of the launch")


def _load(self: Any, pointers: Any, mask: Any, other: Any, *options: Any) -> Any:
    kind = pointers.get_element_ty()
    _check(pointers.data, mask.data, kind)
    if other is None:
        plain = interpreter._get_np_dtype(kind)
        garbage: Any = np.nan if np.issubdtype(plain, np.floating) else 1
        garbage = 0x7FC0 if kind == tl.bfloat16 else garbage  # NaN, as bits
        filled = np.full_like(pointers.data, garbage, dtype=plain)
        other = interpreter.TensorHandle(filled, kind)
    return _plain_load(self, pointers, mask, other, *options)


def _store(self: Any, pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
    _check(pointers.data, mask.data, pointers.get_element_ty())
    return _plain_store(self, pointers, value, mask, *options)


def check_memory() -> None:
    """For the rest of the process."""
    interpreter.GridExecutor.__call__ = _call
    interpreter._implicit_cvt = _argument
    _Builder.create_masked_load, _Builder.create_masked_store = _load, _store
