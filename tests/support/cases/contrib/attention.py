"""Cases of analysis/ops/contrib/attention.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases, i32

from fairhand.analysis.ops.registry import DOMAIN

_NEW = ([2, 1, 64], [2, 1, 32], [2, 1, 32])
_CACHE = ([2, 2, 5, 16], [2, 2, 5, 16])
_HEADS: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2}
_ANGLES = np.arange(12)[:, None] / 3.0 ** np.arange(8)
_ROTARY = (np.cos(_ANGLES).astype(np.float32), np.sin(_ANGLES).astype(np.float32))
_PROMPT = ([2, 4, 64], [2, 4, 32], [2, 4, 32], None, None, i32([3, 3]), i32(4))
_STEP = (*_NEW, *_CACHE, i32([5, 5]), i32(6))
_RAGGED = (*_NEW, *_CACHE, i32([3, 5]), i32(6))
_ROOMY = (*_NEW, [2, 2, 9, 16], [2, 2, 9, 16], i32([5, 5]), i32(6))

# A cache with room for 3 or 5 keys, of which a word sees 3. What lies behind the keys
# that it holds is open, so that it is full in each case.
_WINDOW: dict[str, Any] = {
    **_HEADS,
    "local_window_size": 3,
    "sliding_window_cache": 1,
    "do_rotary": 1,
}
_FULL, _SLACK = ([2, 2, 3, 16],) * 2, ([1, 2, 5, 16],) * 2
_LATE = ([1, 4, 64], [1, 4, 32], [1, 4, 32], *_SLACK, i32([7]), i32(8), *_ROTARY)
_DROPPED: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((*_PROMPT[:3], *_FULL, i32([3, 3]), i32(4), *_ROTARY), {}),
    ((*_PROMPT[:3], *_FULL, i32([3, 3]), i32(4), *_ROTARY), {"softcap": 2.0}),
    ((*_NEW, *_FULL, i32([5, 3]), i32(6), *_ROTARY), {}),
    ((*_NEW, *_FULL, i32([9, 9]), i32(10), *_ROTARY, None, None, [4]), {}),
    (_LATE, {"scale": 0.3}),
    ((*_LATE, None, [1, 1, 4, 8]), {}),
)
cases(
    "GroupQueryAttention",
    case(*_PROMPT, outputs=3, **_HEADS),
    case(*_PROMPT, *_ROTARY, outputs=3, do_rotary=1, **_HEADS),
    case(*_PROMPT[:5], i32([1, 3]), i32(4), outputs=3, **_HEADS),
    case(*_STEP, constants=(6,), outputs=3, **_HEADS),
    case(*_STEP, *_ROTARY, outputs=3, do_rotary=1, **_HEADS),
    case(*_RAGGED, *_ROTARY, outputs=3, do_rotary=1, **_HEADS),
    case(*_ROOMY, *_ROTARY, outputs=3, do_rotary=1, **_HEADS),
    case(*_STEP, *_ROTARY, outputs=3, do_rotary=1, rotary_interleaved=1, **_HEADS),
    case(
        [1, 3, 64],
        [1, 3, 32],
        [1, 3, 32],
        [1, 2, 4, 16],
        [1, 2, 4, 16],
        i32([6]),
        i32(7),
        *_ROTARY,
        outputs=3,
        do_rotary=1,
        **_HEADS,
    ),
    case(*_PROMPT, outputs=3, local_window_size=2, **_HEADS),
    case(*_STEP, outputs=3, local_window_size=3, scale=0.5, **_HEADS),
    case(*_STEP, outputs=3, softcap=2.0, **_HEADS),
    case(*_STEP, outputs=3, smooth_softmax=1, **_HEADS),
    case(*_STEP, None, None, None, [2, 4, 1, 6], outputs=3, **_HEADS),
    case(*_STEP, None, None, None, None, [4], outputs=3, **_HEADS),
    case(*_STEP, *_ROTARY, np.array([[7], [5]]), outputs=3, do_rotary=1, **_HEADS),
    case(*_PROMPT, outputs=3, causal=0, **_HEADS),
    *(case(*inputs, outputs=3, **_WINDOW, **more) for inputs, more in _DROPPED),
    domain=DOMAIN,
)

_BUFFERS = (np.zeros((2, 2, 64, 16), np.float32),) * 2
_FILLED = ([2, 2, 64, 16], [2, 2, 64, 16])

# Two layouts of 4 rows of blocks: each itself, and the first or the one before.
_ROWS = i32([[0, 1, 3, 5, 7], [0, 1, 3, 5, 7]])
_COLUMNS = i32([[0, 0, 1, 0, 2, 0, 3], [0, 0, 1, 1, 2, 2, 3]])
_LONG = ([2, 40, 64], [2, 40, 32], [2, 40, 32])
_SPARSE: dict[str, Any] = {**_HEADS, "sparse_block_size": 16}
_LATER = (*_NEW, *_FILLED, _ROWS, _COLUMNS, i32(53), i32([53, 53]))
_FAR = np.arange(64)[:, None] / 3.0 ** np.arange(8)
_TURNS = (np.cos(_FAR).astype(np.float32), np.sin(_FAR).astype(np.float32))
cases(
    "SparseAttention",
    case(
        *(*_LONG, *_BUFFERS, _ROWS, _COLUMNS, i32(40), i32([40, 40])),
        outputs=3,
        **_SPARSE,
    ),
    case(*_LATER, outputs=3, **_SPARSE),
    case(*_LATER, constants=(5, 6, 7), outputs=3, **_SPARSE, scale=0.5),
    case(*_LATER, *_TURNS, outputs=3, **_SPARSE, do_rotary=1),
    case(
        *(*_LATER, *_TURNS),
        outputs=3,
        **_SPARSE,
        do_rotary=1,
        rotary_interleaved=1,
    ),
    domain=DOMAIN,
)

_BUFFER: dict[str, Any] = {"num_heads": 2, "past_present_share_buffer": 1}
_WORD, _CACHE, _AT = ([4, 1, 8],) * 3, ([4, 2, 8, 4],) * 2, i32([3])
_SEEN = i32([[1, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1]])
_CAME = np.random.default_rng(0).integers(0, 2, (2, 2, 8)).astype(np.int32)
cases(
    "DecoderMaskedMultiHeadAttention",
    case(*_WORD, None, None, *_CACHE, _AT, outputs=3, **_BUFFER),
    case(*_WORD, None, None, *_CACHE, _AT, outputs=3, scale=0.3, **_BUFFER),
    case(*_WORD, _SEEN, None, *_CACHE, _AT, outputs=3, **_BUFFER),
    case(
        *_WORD,
        _SEEN,
        [1, 2, 1, 4],
        *_CACHE,
        _AT,
        constants=(7,),
        outputs=3,
        mask_filter_value=-3.0,
        **_BUFFER,
    ),
    case(
        *(*_WORD, None, None, *_CACHE, _AT, i32([2]), _CAME),
        outputs=3,
        **_BUFFER,
    ),
    case(
        *(*_WORD, None, None, *_CACHE, _AT, i32([2]), _CAME, [24]),
        constants=(8,),
        outputs=3,
        **_BUFFER,
    ),
    case([4, 1, 8], [4, 2, 5, 4], [4, 2, 5, 4], num_heads=2),
    case([4, 1, 8], [4, 2, 5, 4], [4, 2, 5, 4], num_heads=2, scale=0.3),
    domain=DOMAIN,
)
