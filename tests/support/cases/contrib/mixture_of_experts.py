"""Cases of analysis/ops/contrib/mixture_of_experts.py."""

from __future__ import annotations

import numpy as np
from support.operator_cases import case, cases

from fairhand.analysis.ops.registry import DOMAIN

_TOKENS = ([2, 3, 8], [6, 4])
_UP, _DOWN, _WIDE = [4, 16, 8], [4, 8, 16], [4, 32, 8]
cases(
    "MoE",
    case(*_TOKENS, _UP, None, _DOWN),
    case(*_TOKENS, _UP, [4, 16], _DOWN, [4, 8], k=2, activation_type="silu"),
    case([6, 8], [6, 4], _UP, None, _DOWN, k=4, activation_type="gelu"),
    case(*_TOKENS, _UP, None, _DOWN, k=2, normalize_routing_weights=1),
    case(*_TOKENS, _UP, None, _DOWN, activation_type="identity"),
    case(
        *_TOKENS,
        _WIDE,
        [4, 32],
        _DOWN,
        [4, 8],
        k=2,
        activation_type="swiglu",
        activation_alpha=1.702,
        activation_beta=1.0,
        swiglu_fusion=1,
        swiglu_limit=2.0,
    ),
    domain=DOMAIN,
)


def _bytes(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, shape).astype(np.uint8)


def _scales(*shape: int) -> np.ndarray:
    return np.random.default_rng(6).uniform(0.01, 0.1, shape).astype(np.float32)


_MANY = ([2, 3, 32], [6, 4])
cases(
    "QMoE",
    case(
        *_MANY,
        _bytes(4, 32, 16),
        _scales(4, 32),
        None,
        _bytes(4, 32, 16),
        _scales(4, 32),
        constants=(2, 3, 5, 6),
        k=2,
        activation_type="silu",
    ),
    case(
        *_MANY,
        _bytes(4, 32, 32),
        _scales(4, 32),
        [4, 32],
        _bytes(4, 32, 32),
        _scales(4, 32),
        [4, 32],
        constants=(2, 3, 5, 6),
        k=2,
        expert_weight_bits=8,
    ),
    case(
        *_MANY,
        _bytes(4, 32, 16),
        _scales(4, 32, 2),
        None,
        _bytes(4, 32, 16),
        _scales(4, 32, 2),
        constants=(2, 3, 5, 6),
        k=1,
        block_size=16,
    ),
    *(
        case(
            *_MANY,
            _bytes(4, 32, 32 * bits // 8),
            _scales(4, 32, 2) / bits,
            None,
            _bytes(4, 32, 32 * bits // 8),
            _scales(4, 32, 2) / bits,
            constants=(2, 3, 5, 6),
            k=2,
            activation_type="silu",
            expert_weight_bits=bits,
            block_size=16,
        )
        for bits in (2, 8)
    ),
    domain=DOMAIN,
)
