"""ONNX Runtime's layers that carry a state: as ONNX has them, and an LSTM in 8 bits."""

from __future__ import annotations

from typing import Any

from ..facts import sizes_windows
from ..helpers import recurrent as helpers
from ..node_view import NodeView
from ..onnx.recurrent import options_of
from ..operands import present, wanted
from ..registry import DOMAIN, MANY_TO_MANY, operator
from .attributes import check_attributes
from .linear_attention import causal_conv, linear_attention


def _linear_attention(t: Any, n: NodeView, *operands: Any) -> Any:
    ints = "chunk_size kv_num_heads q_num_heads state_window"
    check_attributes(n, ints, "scale", "update_rule", needs=range(3))
    if n.attr("state_window", 0):
        n.refuse("LinearAttention with states of several times is not supported")
    heads, kept = (n.attr(f"{part}_num_heads", 1) for part in ("q", "kv"))
    if max(heads, kept) % min(heads, kept):
        n.refuse("LinearAttention with heads that queries and values can't share")
    return linear_attention(t, n, *operands)


def _causal_conv(t: Any, n: NodeView, *operands: Any) -> Any:
    ints = "channels_last dilation ndim state_window"
    check_attributes(n, ints, strings="activation", needs=range(2))
    if n.attr("ndim", 1) != 1 or n.attr("channels_last", 0):
        n.refuse("CausalConvWithState over other than the last axis of 3")
    if n.attr("dilation", 1) != 1 or n.attr("state_window", 0):
        n.refuse("CausalConvWithState with gaps, or states of several times")
    return causal_conv(t, n, *operands)


for _name, _spelling, _shape in (
    ("LinearAttention", _linear_attention, sizes_windows.linear_attention),
    ("CausalConvWithState", _causal_conv, sizes_windows.causal_conv),
):
    operator(_name, since=1, domain=DOMAIN, mapping=MANY_TO_MANY, shape=_shape)(
        _spelling
    )


# ---- the LSTM that ONNX Runtime's dynamic quantisation writes


@operator("DynamicQuantizeLSTM", since=1, domain=DOMAIN, mapping=MANY_TO_MANY)
def _quantized_lstm(t: Any, n: NodeView, x: Any, w: Any, r: Any, *more: Any) -> Any:
    bias, lengths, h, c, peepholes, *numbers = more
    options = present(bias=bias, lengths=lengths, h=h, c=c, peepholes=peepholes)
    options |= options_of(n)
    w_numbers, r_numbers = tuple(numbers[:2]), tuple(numbers[2:])
    made = t.helper(helpers.run_dynamic_quantized_lstm)(
        x, w, r, w_numbers, r_numbers, **options
    )
    return wanted(n, made, 3)
