"""Attention without scores, and the convolution that stands before it."""

from __future__ import annotations

import math
from typing import Any

from ..facts import sizes_windows
from ..helpers import linear_attention as helpers
from ..node_view import NodeView
from ..operands import number, present, wanted
from ..registry import MANY_TO_MANY, operator

# Which inputs an update rule uses: the decay, and the update rate beta.
_RULES = {
    "linear": (False, False),
    "gated": (True, False),
    "delta": (False, True),
    "gated_delta": (True, True),
}


@operator(
    "LinearAttention",
    since=27,
    mapping=MANY_TO_MANY,
    traceable=False,
    shape=sizes_windows.linear_attention,
    result="attended",
)
def linear_attention(
    t: Any,
    n: NodeView,
    q: Any,
    k: Any,
    v: Any,
    state: Any = None,
    decay: Any = None,
    beta: Any = None,
) -> Any:
    """LinearAttention, with the state behind the last step as a second result."""
    rule = n.attr("update_rule", "gated_delta")
    if _RULES.get(rule) != (decay is not None, beta is not None):
        n.refuse("LinearAttention with inputs that do not suit its update rule")
    heads = (n.attr("q_num_heads"), n.attr("kv_num_heads"))
    scale: Any = number(n, "scale", 0.0)
    if not scale:
        scale = 1 / math.sqrt(n.size(0, 2, "size") // heads[0])
    options = present(state=state, decay=decay, beta=beta)
    made = t.helper(helpers.linear_attention)(q, k, v, heads, scale, **options)
    return wanted(n, made, 2)


@operator(
    "CausalConvWithState",
    since=27,
    mapping=MANY_TO_MANY,
    traceable=False,
    shape=sizes_windows.causal_conv,
)
def causal_conv(
    t: Any, n: NodeView, x: Any, weight: Any, bias: Any = None, state: Any = None
) -> Any:
    """A depthwise convolution that looks back alone, and its state."""
    options = present(bias=bias, state=state)
    made = t.helper(helpers.causal_conv1d)(x, weight, **options)
    if n.attr("activation", "none") == "none":
        return wanted(n, made, 2)
    y = t.F.silu(made[0])
    return (y, made[1]) if n.used(1) else y
