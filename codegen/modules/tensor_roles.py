"""What a constant tensor is called that the file has no name for: by what reads it."""

from __future__ import annotations

import re
from collections.abc import Callable

import onnx_ir as ir

from ...analysis.graph.parameters import is_parameter
from ...analysis.spelling.expr import Leaf, Ref, render
from ..ir.assignment import Assignment, LayerRef
from ..ir.module_call import ModuleCall
from ..ir.naming import TENSORS, first_name

# By the end of its name, where the rest says nothing of it.
_ENDS = {"bias": "bias", "scale": "scale", "zero_point": "zero_point"}
_ENDS |= {"weight_quantized": "weight"}

# By the expression that reads it: "@" is the tensor, "v" another one, "L" a layer.
_USES = (
    (r"scaled_dot_product_attention\(.*attn_mask=@", "attention_bias"),
    (r"rotary=\(@", "cos"),
    (r"rotary=\(v, @", "sin"),
    (r"\bL\(@\)", "indices"),
    (r"\[@\]|(index_select|gather|take_along_dim)\(.*@", "indices"),
    (r"\bcat\(\[@", "prefix"),
    (r"@ \* |\* @", "scale"),
    (r"@ \+ |\+ @", "bias"),
)


def tensor_role(value: ir.Value, run: ModuleCall) -> str:
    """A word for a tensor of a module: bias, scale, attention_bias, ..."""
    name = value.name or ""
    ends = (role for end, role in _ENDS.items() if re.search(rf"[._]{end}$", name))
    ask: dict[str, Callable[[], str]] = {
        "known word": lambda: str(value.meta.get("word", "")),
        "ending": lambda: next(ends, ""),
        "learned": lambda: "weight" if is_parameter(value) else "",
        "reader": lambda: _read_as(value, run),
    }
    return first_name(TENSORS, ask)


def _read_as(value: ir.Value, run: ModuleCall) -> str:
    reader = next((step for step in run.steps() if value in step.reads()), None)
    if reader is None:
        return "constant"
    role = _used_as(value, reader)
    if role != "bias":
        return role
    made = {out for out in reader.outputs if out is not None}
    after = [step for step in run.steps() if not made.isdisjoint(step.reads())]
    scores = any(re.search(r"softmax\(|attention\(", _text(step)) for step in after)
    return "attention_bias" if scores else _added(value)


def _used_as(value: ir.Value, reader: Assignment) -> str:
    text = _text(reader, value)
    return next((role for use, role in _USES if re.search(use, text)), "constant")


def _text(step: Assignment, value: ir.Value | None = None) -> str:
    def name(leaf: Leaf) -> str:
        if isinstance(leaf, LayerRef):
            return "L"
        return "@" if isinstance(leaf, Ref) and leaf.value is value else "v"

    return render(step.expr, name)


def _added(value: ir.Value) -> str:
    """In a sum: one number per channel, or a vector per position [1, length, width]."""
    assert value.const_value is not None
    if not value.const_value.dtype.is_floating_point():
        return "offset"  # of indices
    dims = value.const_value.shape.numpy()
    if len([size for size in dims if size > 1]) < 2:
        return "bias"
    return "position_embedding" if len(dims) == 3 and dims[0] == 1 else "offset"
