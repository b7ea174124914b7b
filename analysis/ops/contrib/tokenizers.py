"""ONNX Runtime's operators that look words up: hashes, characters, n-grams."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..helpers import hashes as helpers
from ..helpers import strings as string_helpers
from ..node_view import NodeView
from ..onnx.strings import python_pattern
from ..operands import present, wanted
from ..registry import DOMAIN, MANY_TO_MANY, ONE_TO_ONE, OPAQUE, OpDef, define, operator
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


operator("MurmurHash3", since=1, domain=DOMAIN, mapping=ONE_TO_ONE, strings=_murmur)(
    _murmur
)


@operator("NGramHashMapping", since=1, domain=DOMAIN, mapping=MANY_TO_MANY)
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
    given = present(
        longest=longest,
        heads=heads,
        missing=n.attr("pad_id", 0) if end is None else end,
        past=past,
        offsets=offsets,
        segments=segments,
        end=end if n.attr("reset_on_eos", 0) else None,
    )
    found = t.helper(helpers.ngram_hashes)(ids, multipliers, sizes, **given)
    return wanted(n, found, 2)


@operator("WordConvEmbedding", since=1, domain=DOMAIN, mapping=MANY_TO_MANY)
def _embed(t: Any, n: NodeView, words: Any, weight: Any, bias: Any, table: Any) -> Any:
    check_attributes(
        n, "char_embedding_size conv_window_size embedding_size", needs=range(4)
    )
    if (n.rank(0), n.rank(1)) != (2, 4):
        n.refuse("WordConvEmbedding of other than rows of characters")
    return t.helper(helpers.word_embedding)(words, weight, bias, table)


@operator("BifurcationDetector", since=1, domain=DOMAIN, mapping=MANY_TO_MANY)
def _bifurcation(
    t: Any, n: NodeView, source: Any, tokens: Any, start: Any, predicted: Any = None
) -> Any:
    check_attributes(n, "max_ngram_size min_ngram_size", needs=range(3))
    shortest, longest = n.attr("min_ngram_size", 1), n.attr("max_ngram_size", 3)
    if not 1 <= shortest <= longest:
        n.refuse("BifurcationDetector of such n-grams")
    helper = t.helper(helpers.join_at_suffix)
    return wanted(n, helper(source, tokens, start, predicted, shortest, longest), 2)


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


define(
    OpDef(
        "Tokenizer",
        since=1,
        domain=DOMAIN,
        mapping=OPAQUE,
        strings=_tokenize,
        inlines=False,
    )
)
