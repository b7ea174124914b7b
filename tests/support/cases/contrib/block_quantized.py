"""Cases of analysis/ops/contrib/block_quantized.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases, i32, i64, u8

from fairhand.analysis.ops.registry import DOMAIN


def _bytes(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, shape).astype(np.uint8)


def _scales(*shape: int) -> np.ndarray:
    return np.random.default_rng(4).uniform(0.01, 0.1, shape).astype(np.float32)


_48: dict[str, Any] = {"K": 48, "N": 6, "block_size": 16, "bits": 4}
_W, _S = _bytes(6, 3, 8), _scales(6, 3)
cases(
    "MatMulNBits",
    case([2, 48], _W, _S, constants=(1, 2), **_48),
    case([2, 3, 48], _W, _S.ravel(), constants=(1, 2), **_48),
    case([2, 48], _W, _S, _bytes(6, 2), constants=(1, 2, 3), **_48),
    case([2, 48], _W, _S, constants=(1, 2), accuracy_level=4, **_48),
    *(
        case(
            np.linspace(-1, 1, 96).reshape(2, 48).astype(np.float16),
            _W,
            _S.astype(np.float16),
            constants=(1, 2),
            accuracy_level=level,
            **_48,
        )
        for level in (0, 4)
    ),
    case(
        np.zeros((2, 48), np.float32),
        _W,
        _S,
        constants=(1, 2),
        accuracy_level=4,
        **_48,
    ),
    case([2, 48], _W, _S, _bytes(6, 2), None, [6], constants=(1, 2, 3, 5), **_48),
    case([2, 48], _W, _S, 9 * _scales(6, 3), constants=(1, 2, 3), **_48),
    case([2, 40], _W, _S, _bytes(6, 2), constants=(1, 2, 3), **{**_48, "K": 40}),
    case(
        [2, 48],
        _bytes(6, 3, 16),
        _S,
        _bytes(6, 3),
        constants=(1, 2, 3),
        **{**_48, "bits": 8},
    ),
    case([2, 48], _bytes(6, 3, 4), _S, constants=(1, 2), **{**_48, "bits": 2}),
    case(
        [2, 48],
        _W,
        _S,
        None,
        (np.arange(48) * 7 % 3).astype(np.int32),
        constants=(1, 2, 4),
        **_48,
    ),
    domain=DOMAIN,
)

_BNB: dict[str, Any] = {"K": 32, "N": 6, "block_size": 16}
cases(
    "MatMulBnb4",
    *[
        case(
            shape,
            _bytes(96),
            _scales(12),
            constants=(1, 2),
            quant_type=kind,
            **_BNB,
        )
        for kind in (0, 1)
        for shape in ([2, 32], [2, 3, 32])
    ],
    domain=DOMAIN,
)

_PLACES = i64([[0, 4, -1], [2, 2, 3]])


def _fours(dtype: str, *shape: int) -> np.ndarray:
    low = -8 if dtype == "int4" else 0
    numbers = np.random.default_rng(5).integers(low, low + 16, shape)
    return numbers.astype(dtype)


cases(
    "GatherBlockQuantized",
    *[
        case(
            _bytes(5, 16),
            _PLACES,
            _scales(5, 2),
            zeros,
            constants=(0, 2) if zeros is None else (0, 2, 3),
            block_size=16,
        )
        for zeros in (None, u8([[1], [37], [0], [255], [9]]))
    ]
    + [
        case(
            _bytes(5, 32),
            _PLACES,
            _scales(5, 2),
            constants=(0, 2),
            block_size=16,
            bits=8,
        )
    ]
    + [
        case(
            _fours(dtype, 5, 32, 3),
            _PLACES,
            _scales(*shape),
            _fours(dtype, *shape) if zeros else None,
            constants=(0, 2, 3) if zeros else (0, 2),
            gather_axis=axis,
            quantize_axis=along,
            block_size=16,
        )
        for dtype, zeros, axis, along, shape in (
            ("int4", False, 0, 1, (5, 2, 3)),
            ("uint4", True, 0, 1, (5, 2, 3)),
            ("uint4", False, 2, 1, (5, 2, 3)),
            ("int4", True, 1, 0, (1, 32, 3)),
        )
    ]
    + [
        case(
            _fours("uint4", 5, 32),
            i32(places),
            _scales(5, 2),
            constants=(0, 2),
            block_size=16,
        )
        for places in ([4, -5, 7, 0], 3)
    ],
    domain=DOMAIN,
)
