"""Cases of analysis/ops/contrib/tokenizers.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases, f32, i32, i64, text

from fairhand.analysis.ops.registry import (
    DOMAIN,
)

_WORDS = np.array(["", "a", "abcd", "abcde", "d\u00e9j\u00e0 vu"], object)
cases(
    "MurmurHash3",
    case([2, 3]),
    case(np.array([1.5, -2])),
    case(i32([0, 1, -1, 2**31 - 1])),
    case(i64([[0, 1], [-1, 2**62]]), seed=42),
    case(np.array([1, 2**32 - 1], np.uint32), positive=0),
    case(np.array([1, 2**64 - 1], np.uint64), positive=0, seed=7),
    case(i32(5)),
    case(_WORDS),
    case(_WORDS, positive=0, seed=2**31 + 1),
    domain=DOMAIN,
)

_IDS = i64([[5, 2, 7, 3, 9, 1], [1, 2, 3, 2, 5, 6]])
_SIZES = (i64([3, 5, 7]), i64([11, 13, 17, 19]))
_PAST, _OFFSETS = i64([[4, 2], [8, 9]]), i64([0, 11, 24, 41])
_SEGMENTS = i32([[0, 0, 1, 1, 1, 2], [5, 5, 5, 5, 4, 4]])
_TWO: dict[str, Any] = {
    "max_ngram_size": 3,
    "n_head_per_ngram": 2,
    "pad_id": 1,
    "outputs": 2,
}
cases(
    "NGramHashMapping",
    case(_IDS, *_SIZES, **_TWO),
    case(-_IDS * 2**60, *_SIZES, **_TWO),
    case(_IDS, *_SIZES, _PAST, _OFFSETS, **_TWO),
    case(_IDS, *_SIZES, None, None, i64(2), **_TWO),
    case(_IDS, *_SIZES, None, None, i64(2), reset_on_eos=1, **_TWO),
    case(_IDS, *_SIZES, _PAST, None, i64(2), reset_on_eos=1, **_TWO),
    case(
        _IDS,
        *_SIZES,
        _PAST,
        None,
        i64(2),
        _SEGMENTS,
        reset_on_eos=1,
        constants=(5,),
        **_TWO,
    ),
    case(_IDS, *_SIZES, None, None, None, _SEGMENTS, **_TWO),
    case(
        i32([[2**30, 5, 6]]),
        i32([3, 5]),
        i32([7]),
        max_ngram_size=2,
        n_head_per_ngram=1,
        pad_id=0,
    ),
    domain=DOMAIN,
)

# Of a word without characters ONNX Runtime gives whatever its memory held.
_LETTERS = i32([[1, 2, 3, 0], [1, 0, 0, 0], [1, 0, 2, 3], [5, 4, 3, 2]])
_TABLE = f32(np.linspace(-1, 1, 24).reshape(6, 4) ** 3)
cases(
    "WordConvEmbedding",
    case(_LETTERS, [3, 1, 2, 4], [3], _TABLE),
    case(_LETTERS, [2, 1, 4, 4], [2], _TABLE, conv_window_size=4),
    domain=DOMAIN,
)

_SOURCE = i64([1, 5, 3, 4, 2, 5, 3, 6])
_FOUND: list[tuple[list[int], int, Any, dict[str, Any]]] = [
    ([2], 0, None, {}),
    ([7], 0, None, {}),
    ([5, 3], 0, None, {}),
    ([4, 2], 5, i64([5, 3, 9, 8]), {}),
    ([4, 2], 5, i64([9, 3, 9, 8]), {}),
    ([4, 2], 5, i64([5, 3, 6, 8]), {}),
    ([1, 5, 3], 0, None, {"min_ngram_size": 2, "max_ngram_size": 4}),
    ([9, 5], 0, None, {"max_ngram_size": 1}),
    ([5, 3, 6], 0, None, {}),
]
cases(
    "BifurcationDetector",
    *[
        case(_SOURCE, i64(tokens), i64([at]), predicted, outputs=2, **sizes)
        for tokens, at, predicted, sizes in _FOUND
    ],
    domain=DOMAIN,
)

_TEXTS = text("a bb  ccc", "d", "e, f")
cases(
    "Tokenizer",
    *[
        case(x, mark=mark, mincharnum=least, pad_value="#", **how)
        for x in (_TEXTS, _TEXTS[None])
        for mark, least in ((0, 1), (1, 2))
        for how in (
            {"tokenexp": "[a-z]+"},
            {"separators": [" "]},
            {"separators": ["[ ,]", "b"]},
        )
    ]
    + [case(_TEXTS, mark=0, mincharnum=1, pad_value="#", separators=[""])],
    domain=DOMAIN,
)
