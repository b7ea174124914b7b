"""What formulas in docstrings, and twins, spell where it is read."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from ....analysis.ops.triton.rows import reduced_axes
from ....analysis.spelling.expr import Call, Expr, Ref, leaves
from ..program.program import KernelProgram, Operation

SHORT = 36  # columns of what is spelled where it is read


def is_short(plain: Expr, text: str, inner: Mapping[ir.Value, Expr]) -> bool:
    """Whether it is spelled where it is read: no call of a call is."""
    read = [leaf.value for leaf in leaves(plain) if isinstance(leaf, Ref)]
    nested = isinstance(plain, Call) and any(value in inner for value in read)
    return len(text) <= SHORT and not nested


def over_what(program: KernelProgram, op: Operation) -> str:
    """What a norm of channels goes over, or a reduction of axes apart."""
    if program.columns is not None and program.columns.apart:
        *axes, last = map(str, reduced_axes(op.view) or ())
        return f"axes {', '.join(axes)} and {last}"
    if not program.groups:
        return ""
    if program.groups == 1:
        return "all channels of a sample"
    one_each = program.groups == program.space[1]
    return (
        "each channel" if one_each else f"each of {program.groups} groups of channels"
    )
