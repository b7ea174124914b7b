"""Attention, and lookups of rows, that a kernel can compute."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ....analysis.graph.shape_facts import ShapeFacts
from ....analysis.ops.node_view import NodeView
from ....analysis.ops.onnx.attention import is_plain, scale_of

MANY_KEYS = 512  # from here on they are divided among programs
ROLES = ("q", "k", "v", "mask")


@dataclass(frozen=True)
class Attention:
    """`scale` is None for 1 / sqrt(head size); `mask` is "added", "kept" or "".

    `group` is how many heads share keys and values; with `decodes` there is one query,
    and keys may be many.
    """

    scale: float | None
    causal: bool
    mask: str
    group: int
    decodes: bool = False


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
    heads, shared = view.dims(0)[1], view.dims(1)[1]
    if not isinstance(heads, int) or not isinstance(shared, int):
        return None
    if not shared or heads % shared:
        return None
    causal = bool(view.attr("is_causal", 0))
    queries, keys = view.dims(0)[2], view.dims(1)[2]
    many = not isinstance(keys, int) or keys >= MANY_KEYS
    decodes = queries == 1 and many and not causal
    return Attention(scale_of(view), causal, mask, heads // shared, decodes)


def is_fused_attention(node: ir.Node, shapes: ShapeFacts) -> bool:
    """Whether F.scaled_dot_product_attention computes the operator."""
    return node.op_type == "Attention" and is_plain(NodeView(node, shapes))


def gathers(view: NodeView) -> bool:
    """Whether an operator takes elements at places that a tensor says at run time."""
    gather = view.node.op_type == "Gather" and not view.node.domain
    return gather and view.ints(1) is None and not is_lookup(view)


def is_lookup(view: NodeView) -> bool:
    """Whether an operator finds rows of a table, as nn.Embedding does."""
    if view.node.op_type != "Gather" or view.node.domain or view.attr("axis", 0) != 0:
        return False
    return view.rank(0) == 2 and view.rank(1) > 0
