"""Cases of analysis/ops/contrib/linear_attention.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases

from fairhand.analysis.ops.registry import DOMAIN

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
# Heads of queries and keys that several of values share: Qwen3.5's.
_FEW = ([2, 3, 16], [2, 3, 8], [2, 3, 24], [2, 4, 8, 6])
_FOUR = np.linspace(-2, 0, 24, dtype=np.float32).reshape(2, 3, 4)
FEW_CASES = [
    case(*_FEW[:3], update_rule="linear", outputs=2, q_num_heads=2, kv_num_heads=4),
    case(*_FEW, _FOUR, -_FOUR / 2, outputs=2, q_num_heads=2, kv_num_heads=4),
]
CONV_CASES = [
    case([2, 4, 6], [4, 1, 3], outputs=2),
    case([2, 4, 6], [4, 1, 3], [4], constants=(1, 2), outputs=2),
    case([2, 4, 6], [4, 1, 3], [4], [2, 4, 2], activation="silu", outputs=2),
    case([2, 4, 1], [4, 1, 3], None, [2, 4, 2], activation="swish", outputs=2),
    case([2, 4, 6], [4, 1, 1], outputs=2),
]
for _domain in ("", DOMAIN):
    cases("LinearAttention", *LINEAR_CASES, domain=_domain)
    cases("CausalConvWithState", *CONV_CASES, domain=_domain)
cases("LinearAttention", *FEW_CASES, domain=DOMAIN)
