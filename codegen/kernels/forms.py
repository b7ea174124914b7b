"""Attention that a kernel can compute."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ...analysis.ops.attention import is_plain, scale_of
from ...analysis.ops.table import NodeView

ROLES = ("q", "k", "v", "mask")


@dataclass(frozen=True)
class Attention:
    """`scale` is None for 1 / sqrt(head size); `mask` is "added", "kept" or ""."""

    scale: float | None
    causal: bool
    mask: str
    grouped: bool


def attention_of(view: NodeView) -> Attention | None:
    """Of what F.scaled_dot_product_attention computes too, on four axes."""
    node = view.node
    if node.op_type != "Attention" or node.domain or view.rank(0) != 4:
        return None
    if not is_plain(view):
        return None
    mask = ""
    if view.has(3):
        mask = "kept" if view.dtype(3) == ir.DataType.BOOL else "added"
    heads = view.dims(0)[1], view.dims(1)[1]
    if not all(isinstance(h, int) for h in heads):
        return None
    causal = bool(view.attr("is_causal", 0))
    return Attention(scale_of(view), causal, mask, heads[0] != heads[1])
