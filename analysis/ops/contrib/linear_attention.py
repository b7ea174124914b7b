"""Attention without scores, and the convolution that stands before it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..helpers import linear_attention as helpers
from ..node_view import NodeView
from ..operands import number, wanted
from ..registry import MANY_TO_MANY, OpDef, case, define

# Which inputs an update rule uses: the decay, and the update rate beta.
_RULES = {
    "linear": (False, False),
    "gated": (True, False),
    "delta": (False, True),
    "gated_delta": (True, True),
}


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
    given = {"state": state, "decay": decay, "beta": beta}
    options = {name: x for name, x in given.items() if x is not None}
    made = t.helper(helpers.linear_attention)(q, k, v, heads, scale, **options)
    return wanted(n, made, 2)


def causal_conv(
    t: Any, n: NodeView, x: Any, weight: Any, bias: Any = None, state: Any = None
) -> Any:
    """A depthwise convolution that looks back alone, and its state."""
    given = {"bias": bias, "state": state}
    options = {name: operand for name, operand in given.items() if operand is not None}
    made = t.helper(helpers.causal_conv1d)(x, weight, **options)
    if n.attr("activation", "none") == "none":
        return wanted(n, made, 2)
    y = t.F.silu(made[0])
    return (y, made[1]) if n.used(1) else y


_HEADS: dict[str, Any] = {"q_num_heads": 4, "kv_num_heads": 2}
_QKV = ([2, 3, 32], [2, 3, 16], [2, 3, 12])
_STATE = [2, 2, 8, 6]
_FADE = np.linspace(-2, 0, 12, dtype=np.float32).reshape(2, 3, 2)
_FADES = np.linspace(-2, 0, 96, dtype=np.float32).reshape(2, 3, 16)
_RATE = np.linspace(0, 1, 12, dtype=np.float32).reshape(2, 3, 2)

LINEAR_CASES = [
    case(*_QKV, update_rule="linear", outputs=2, **_HEADS),
    case(*_QKV, _STATE, _FADE, update_rule="gated", outputs=2, **_HEADS),
    case(*_QKV, _STATE, _FADES, update_rule="gated", outputs=2, **_HEADS),
    case(*_QKV, None, None, _RATE, update_rule="delta", outputs=2, **_HEADS),
    case(*_QKV, _STATE, _FADE, _RATE[..., :1], outputs=2, **_HEADS),
    case(*_QKV, _STATE, _FADES, _RATE, scale=0.3, outputs=2, **_HEADS),
]
CONV_CASES = [
    case([2, 4, 6], [4, 1, 3], outputs=2),
    case([2, 4, 6], [4, 1, 3], [4], constants=(1, 2), outputs=2),
    case([2, 4, 6], [4, 1, 3], [4], [2, 4, 2], activation="silu", outputs=2),
    case([2, 4, 1], [4, 1, 3], None, [2, 4, 2], activation="swish", outputs=2),
    case([2, 4, 6], [4, 1, 1], outputs=2),
]

define(
    OpDef(
        "LinearAttention",
        since=27,
        mapping=MANY_TO_MANY,
        traceable=False,
        torch=linear_attention,
        result="attended",
        cases=LINEAR_CASES,
    )
)
define(
    OpDef(
        "CausalConvWithState",
        since=27,
        mapping=MANY_TO_MANY,
        traceable=False,
        torch=causal_conv,
        cases=CONV_CASES,
    )
)
