"""Cases of analysis/ops/ml/labels_and_maps.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases, f32, i64, text

_LETTERS = text(["b", "a"], ["?", "c"])
cases(
    "LabelEncoder",
    case(_LETTERS, keys_strings=["a", "b", "c"], values_int64s=[5, 7, -3]),
    case(_LETTERS, keys_strings=["a", "b", "a"], values_floats=[0.5, 7.25, 3.0]),
    case(
        _LETTERS,
        keys_strings=["a", "c"],
        values_strings=["x", "y"],
        default_string="no",
    ),
    case(i64([3, 1, 2, 9]), keys_int64s=[3, 1, 2], values_strings=["c", "a", "b"]),
    case(i64([[3, 1], [2, 9]]), keys_int64s=[3, 1, 2], values_int64s=[30, 10, 20]),
    case(
        i64([3, 25]),
        keys_int64s=list(range(25, 0, -1)),
        values_int64s=list(range(25)),
    ),
    case(
        f32([0.5, np.nan, 2, 7]),
        keys_floats=[2.0, 0.5],
        values_floats=[1.5, 2.5],
    ),
    case(
        f32([0.5, np.nan, 2, 7]),
        keys_floats=[2.0, float("nan"), 0.5],
        values_int64s=[1, 2, 3],
    ),
    case(
        np.array([0.5, 2, 7]),
        keys_tensor=np.array([2.0, 0.5]),
        values_tensor=np.array([1, 0], np.int16),
        default_tensor=np.array([42], np.int16),
    ),
    domain="ai.onnx.ml",
)


_NUMBERS = i64([1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8])
_MODES: list[tuple[str, int, int, dict[str, Any]]] = [
    ("TF", 1, 0, {}),
    ("TF", 2, 5, {}),
    ("IDF", 1, 1, {}),
    ("IDF", 1, 0, {"weights": [0.5, 2, 3, 4, 5, 6, 7.5]}),
    ("TFIDF", 1, 5, {"weights": [0.5, 2, 3, 4, 5, 6, 7.5]}),
]
_POOL: dict[str, Any] = {
    "ngram_counts": [0, 4],
    "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
    "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
}
cases(
    "TfIdfVectorizer",
    *[
        case(
            x,
            mode=mode,
            min_gram_length=low,
            max_gram_length=2,
            max_skip_count=skips,
            **_POOL,
            **weights,
        )
        for x in (_NUMBERS, _NUMBERS.reshape(2, 6).astype(np.int32))
        for mode, low, skips, weights in _MODES
    ]
    + [
        case(
            text(["a", "b", "c"], ["b", "a", "b"]),
            mode="TF",
            min_gram_length=1,
            max_gram_length=2,
            max_skip_count=0,
            ngram_counts=[0, 2],
            ngram_indexes=[1, 0, 3],
            pool_strings=["a", "b", "a", "b"],
        )
    ],
)
