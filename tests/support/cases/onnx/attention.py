"""Cases of analysis/ops/onnx/attention.py."""

from __future__ import annotations

import numpy as np
from support.operator_cases import case, cases

_4D = ([2, 4, 3, 8], [2, 4, 5, 8], [2, 4, 5, 6])
_3D = ([2, 3, 32], [2, 5, 32], [2, 5, 24])
_BOOL = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], bool)
_PAST = ([2, 4, 2, 8], [2, 4, 2, 6])
_HALF = np.linspace(-1, 1, 96).reshape(2, 4, 3, 4).astype(np.float16)
cases(
    "Attention",
    case(*_4D),
    case(*_4D, scale=0.25),
    case(*_4D, is_causal=1),
    case(*_4D, [3, 5]),
    case(*_4D, _BOOL),
    case(*_4D, [2, 1, 3, 5], is_causal=1),
    case(*_4D, [4, 3, 4]),
    case([2, 4, 3, 8], [2, 2, 5, 8], [2, 2, 5, 6], is_causal=1),
    case(*_3D, q_num_heads=4, kv_num_heads=4),
    case([2, 3, 32], [2, 5, 16], [2, 5, 8], q_num_heads=4, kv_num_heads=2),
    case(*_3D, q_num_heads=1, kv_num_heads=1, scale=1.0),
    case(*_3D[:2], [2, 5, 32], [2, 1, 3, 5], q_num_heads=1, kv_num_heads=1),
    case(*_3D, _BOOL, is_causal=1, q_num_heads=4, kv_num_heads=4),
    case(*_4D, None, *_PAST, outputs=3),
    case(*_4D, None, *_PAST, is_causal=1, outputs=3),
    case(*_4D, [3, 7], *_PAST, outputs=4, qk_matmul_output_mode=2),
    case(*_4D, outputs=4, qk_matmul_output_mode=3, softcap=0.5),
    case(*_4D, None, None, None, np.array([3, 5]), is_causal=1),
    case(*_4D, left_window_size=1, right_window_size=1),
    case(_HALF, _HALF, _HALF),
)

_POSITIONS = np.array([[0, 2, 1], [5, 4, 3]])
cases(
    "RotaryEmbedding",
    case([2, 4, 3, 8], [6, 4], [6, 4], _POSITIONS),
    case([2, 3, 32], [6, 4], [6, 4], _POSITIONS, num_heads=4),
    case([2, 4, 3, 8], [2, 3, 4], [2, 3, 4], interleaved=1),
    case([2, 4, 3, 8], [6, 2], [6, 2], _POSITIONS, rotary_embedding_dim=4),
)
