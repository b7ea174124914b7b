"""Of which kind the elements of a value are; one whose type isn't known is of none."""

from __future__ import annotations

import onnx_ir as ir


def is_whole(value: ir.Value) -> bool:
    """Whether it holds whole numbers."""
    return value.dtype is not None and value.dtype.is_integer()


def is_float(value: ir.Value) -> bool:
    """Whether it holds floats."""
    return value.dtype is not None and value.dtype.is_floating_point()
