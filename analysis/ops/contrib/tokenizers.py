"""ONNX Runtime's operators that look words up: hashes, characters, n-grams."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..case_arrays import f32, i32, i64
from ..helpers import hashes as helpers
from ..helpers import strings as string_helpers
from ..node_view import NodeView
from ..onnx.strings import python_pattern, text
from ..operands import wanted
from ..registry import DOMAIN, MANY_TO_MANY, ONE_TO_ONE, OPAQUE, OpDef, case, define
from .attributes import check_attributes


def _murmur(t: Any, n: NodeView, x: Any) -> Any:
    words = n.value(0).dtype == ir.DataType.STRING
    check_attributes(n, "positive seed")
    seed = n.attr("seed", 0) & 0xFFFFFFFF
    options = {"seed": seed} if seed else {}
    if words:
        found = t.helper(helpers.murmur_hash_strings)(x, t.device, **options)
    else:
        if n.dtype(0).bitwidth < 32:
            n.refuse("MurmurHash3 of less than 32 bits is not supported")
        found = t.helper(helpers.murmur_hash)(x, **options)
    return found.to(t.dtype(n.out_dtype()))


_WORDS = np.array(["", "a", "abcd", "abcde", "d\u00e9j\u00e0 vu"], object)
define(
    OpDef(
        "MurmurHash3",
        since=1,
        domain=DOMAIN,
        mapping=ONE_TO_ONE,
        torch=_murmur,
        strings=_murmur,
        cases=[
            case([2, 3]),
            case(np.array([1.5, -2])),
            case(i32([0, 1, -1, 2**31 - 1])),
            case(i64([[0, 1], [-1, 2**62]]), seed=42),
            case(np.array([1, 2**32 - 1], np.uint32), positive=0),
            case(np.array([1, 2**64 - 1], np.uint64), positive=0, seed=7),
            case(i32(5)),
            case(_WORDS),
            case(_WORDS, positive=0, seed=2**31 + 1),
        ],
    )
)


def _ngrams(
    t: Any,
    n: NodeView,
    ids: Any,
    multipliers: Any,
    sizes: Any,
    past: Any = None,
    offsets: Any = None,
    end: Any = None,
    segments: Any = None,
) -> Any:
    names = "max_ngram_size n_head_per_ngram pad_id reset_on_eos"
    check_attributes(n, names, needs=range(3))
    longest, heads = n.attr("max_ngram_size", 0), n.attr("n_head_per_ngram", 0)
    if longest < 2 or heads < 1:
        n.refuse("NGramHashMapping without two words, or without hashes")
    known = n.const(5) if end is not None else None
    if end is not None:
        end = end.reshape(()) if known is None else int(known.reshape(-1)[0])
    options = {
        "longest": longest,
        "heads": heads,
        "missing": n.attr("pad_id", 0) if end is None else end,
        "past": past,
        "offsets": offsets,
        "segments": segments,
        "end": end if n.attr("reset_on_eos", 0) else None,
    }
    given = {name: x for name, x in options.items() if x is not None}
    found = t.helper(helpers.ngram_hashes)(ids, multipliers, sizes, **given)
    return wanted(n, found, 2)


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
define(
    OpDef(
        "NGramHashMapping",
        since=1,
        domain=DOMAIN,
        mapping=MANY_TO_MANY,
        torch=_ngrams,
        cases=[
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
        ],
    )
)


def _embed(t: Any, n: NodeView, words: Any, weight: Any, bias: Any, table: Any) -> Any:
    check_attributes(
        n, "char_embedding_size conv_window_size embedding_size", needs=range(4)
    )
    if (n.rank(0), n.rank(1)) != (2, 4):
        n.refuse("WordConvEmbedding of other than rows of characters")
    return t.helper(helpers.word_embedding)(words, weight, bias, table)


# Of a word without characters ONNX Runtime gives whatever its memory held.
_LETTERS = i32([[1, 2, 3, 0], [1, 0, 0, 0], [1, 0, 2, 3], [5, 4, 3, 2]])
_TABLE = f32(np.linspace(-1, 1, 24).reshape(6, 4) ** 3)
define(
    OpDef(
        "WordConvEmbedding",
        since=1,
        domain=DOMAIN,
        mapping=MANY_TO_MANY,
        torch=_embed,
        cases=[
            case(_LETTERS, [3, 1, 2, 4], [3], _TABLE),
            case(_LETTERS, [2, 1, 4, 4], [2], _TABLE, conv_window_size=4),
        ],
    )
)


def _bifurcation(
    t: Any, n: NodeView, source: Any, tokens: Any, start: Any, predicted: Any = None
) -> Any:
    check_attributes(n, "max_ngram_size min_ngram_size", needs=range(3))
    shortest, longest = n.attr("min_ngram_size", 1), n.attr("max_ngram_size", 3)
    if not 1 <= shortest <= longest:
        n.refuse("BifurcationDetector of such n-grams")
    helper = t.helper(helpers.join_at_suffix)
    return wanted(n, helper(source, tokens, start, predicted, shortest, longest), 2)


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
define(
    OpDef(
        "BifurcationDetector",
        since=1,
        domain=DOMAIN,
        mapping=MANY_TO_MANY,
        torch=_bifurcation,
        cases=[
            case(_SOURCE, i64(tokens), i64([at]), predicted, outputs=2, **sizes)
            for tokens, at, predicted, sizes in _FOUND
        ],
    )
)


def _tokenize(t: Any, n: NodeView, words: Any) -> Any:
    """As sklearn-onnx writes it for text."""
    pattern, separators = n.attr("tokenexp", ""), n.attr("separators", [])
    if bool(pattern) == bool(separators):
        n.refuse("Tokenizer needs separators, or an expression for tokens")
    pattern = python_pattern(n, pattern)
    separators = [python_pattern(n, separator) for separator in separators]
    least, pad = n.attr("mincharnum", 1), n.attr("pad_value", "")
    marks = bool(n.attr("mark", 0))
    if separators == [""]:
        pattern, separators = "(?s:.)", []
    helper = t.helper(string_helpers.tokenize)
    return helper(words, pattern, separators, least, pad, marks)


_TEXTS = text("a bb  ccc", "d", "e, f")
define(
    OpDef(
        "Tokenizer",
        since=1,
        domain=DOMAIN,
        mapping=OPAQUE,
        strings=_tokenize,
        inlines=False,
        cases=[
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
    )
)
