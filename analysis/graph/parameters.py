"""Which constants of a file are parameters of the original network, told by name."""

from __future__ import annotations

import re

import onnx_ir as ir

# Exporters name what they fold after the operator, a letter, or a number.
_MADE_UP = re.compile(
    r"val_\d|onnx|_output(_|$)|constant|^node_|^_|^.$|lifted_tensor"
    r"|(^|\.)(add|arange|cat|clone|div|expand|full|index|mul|ones|permute|reshape|select"
    r"|slice|squeeze|stack|sub|transpose|unsqueeze|view|zeros)(_\d+)?$",
    re.IGNORECASE,
)
# Exporters name numbers of their own after the module they are used in.
_BOUNDS = re.compile(r"constant|\b(min|max)_val\b", re.IGNORECASE)


def has_name(value: ir.Value) -> bool:
    """Whether a constant's name is the original program's, not an exporter's."""
    name = value.name or ""
    made_up = _MADE_UP.search(name) or _BOUNDS.search(name)
    return bool(re.fullmatch(r"[A-Za-z][\w.]*", name)) and not made_up


def is_parameter(value: ir.Value) -> bool:
    """A float constant that the file names like an attribute, e.g. norm.weight."""
    name = value.name or ""
    is_float = value.dtype is not None and value.dtype.is_floating_point()
    if name.startswith("/") or _MADE_UP.search(name) or _BOUNDS.search(name):
        return False
    return value.const_value is not None and is_float and "." in name
