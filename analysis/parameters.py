"""Which constants of a file are parameters of the original network, told by name."""

from __future__ import annotations

import re

import onnx_ir as ir

_MADE_UP = re.compile(r"val_\d|onnx|_output_|constant|^node_|^_", re.IGNORECASE)
# Exporters name numbers of their own after the module they are used in.
_BOUNDS = re.compile(r"constant|\b(min|max)_val\b", re.IGNORECASE)


def has_name(value: ir.Value) -> bool:
    """Whether a constant's name is the original program's, not an exporter's."""
    name = value.name or ""
    told = re.fullmatch(r"[A-Za-z][\w.]*", name) and not _MADE_UP.search(name)
    return is_parameter(value) or bool(told)


def is_parameter(value: ir.Value) -> bool:
    """A float constant that the file names like an attribute, e.g. norm.weight."""
    name = value.name or ""
    is_float = value.dtype is not None and value.dtype.is_floating_point()
    if name.startswith(("/", "onnx::")) or _BOUNDS.search(name):
        return False
    return value.const_value is not None and is_float and "." in name
