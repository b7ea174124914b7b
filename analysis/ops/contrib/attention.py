"""ONNX Runtime's attention over a cache of keys and values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case_arrays import i32
from ..facts import fitting_sizes
from ..helpers import cache as helpers
from ..node_view import NodeView
from ..operands import number, wanted
from ..registry import DOMAIN, MANY_TO_MANY, OpDef, case, define
from .attributes import check_attributes

_PAST, _TOTAL, _COS = 3, 6, 7


def _grouped_query(t: Any, n: NodeView, *inputs: Any) -> Any:
    check_attributes(
        n,
        "causal do_rotary kv_num_heads local_window_size num_heads rotary_interleaved "
        "sliding_window_cache smooth_softmax",
        "scale softcap",
        needs=(0, 1, 2, 5, 6),
    )
    q, k, v, past_key, past_value, last, total, *more = inputs
    cos, sin, positions, bias, sink = (*more, *[None] * 5)[:5]
    known = n.ints(_TOTAL)
    smooth = n.attr("smooth_softmax", -1) == 1
    window = n.attr("local_window_size", -1)
    options = {
        "rotary": (cos, sin) if n.attr("do_rotary", 0) else None,
        "positions": positions if n.attr("do_rotary", 0) else None,
        "interleaved": bool(n.attr("rotary_interleaved", 0)) or None,
        "causal": None if n.attr("causal", 1) else False,
        "window": window if window >= 0 else None,
        "bias": bias,
        "scale": number(n, "scale", 0.0) or None,
        "softcap": number(n, "softcap", 0.0) or None,
        "sink": 0.0 if sink is None and smooth else sink,
    }
    given = {name: value for name, value in options.items() if value is not None}
    helper: Any = helpers.grouped_query_attention
    if n.attr("sliding_window_cache", 0):
        if window < 1 or past_key is None or not n.attr("causal", 1):
            n.refuse("GroupQueryAttention drops keys of no window, or of no cache")
        helper = helpers.windowed_query_attention
    elif not given.keys().isdisjoint(("softcap", "sink")):
        helper = helpers.capped_query_attention
    made = t.helper(helper)(
        q,
        k,
        v,
        past_key,
        past_value,
        last,
        known[0] if known else total.item(),
        (n.attr("num_heads"), n.attr("kv_num_heads")),
        **given,
    )
    return wanted(n, made, 3)


def _sparse(t: Any, n: NodeView, *inputs: Any) -> Any:
    check_attributes(
        n,
        "do_rotary kv_num_heads num_heads rotary_interleaved sparse_block_size",
        "scale",
        needs=range(9),
    )
    *operands, total, lengths = inputs[:9]
    heads, block = (n.attr("num_heads"), n.attr("kv_num_heads")), _block(n)
    known = n.ints(7)
    options = {
        "rotary": tuple(inputs[9:11]) if n.attr("do_rotary", 0) else None,
        "interleaved": bool(n.attr("rotary_interleaved", 0)) or None,
        "scale": number(n, "scale", 0.0) or None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    total = known[0] if known else total.item()
    helper = t.helper(helpers.sparse_attention)
    return wanted(n, helper(*operands, total, lengths, heads, block, **given), 3)


def _block(n: NodeView) -> int:
    block, heads = n.attr("sparse_block_size"), n.attr("num_heads")
    if not isinstance(block, int) or block < 1:
        n.refuse("SparseAttention without the size of its blocks")
    layouts = n.dims(5)[0]
    if not isinstance(heads, int) or not isinstance(layouts, int) or heads % layouts:
        n.refuse(f"SparseAttention of {layouts} layouts for {heads} heads")
    return block


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

define(
    OpDef(
        "GroupQueryAttention",
        since=1,
        domain=DOMAIN,
        mapping=MANY_TO_MANY,
        torch=_grouped_query,
        fits=fitting_sizes.grouped_query_attention,
        result="attended",
        cases=[
            case(*_PROMPT, outputs=3, **_HEADS),
            case(*_PROMPT, *_ROTARY, outputs=3, do_rotary=1, **_HEADS),
            case(*_PROMPT[:5], i32([1, 3]), i32(4), outputs=3, **_HEADS),
            case(*_STEP, constants=(6,), outputs=3, **_HEADS),
            case(*_STEP, *_ROTARY, outputs=3, do_rotary=1, **_HEADS),
            case(*_RAGGED, *_ROTARY, outputs=3, do_rotary=1, **_HEADS),
            case(*_ROOMY, *_ROTARY, outputs=3, do_rotary=1, **_HEADS),
            case(
                *_STEP, *_ROTARY, outputs=3, do_rotary=1, rotary_interleaved=1, **_HEADS
            ),
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
            case(
                *_STEP, *_ROTARY, np.array([[7], [5]]), outputs=3, do_rotary=1, **_HEADS
            ),
            case(*_PROMPT, outputs=3, causal=0, **_HEADS),
            *(case(*inputs, outputs=3, **_WINDOW, **more) for inputs, more in _DROPPED),
        ],
    )
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

define(
    OpDef(
        "SparseAttention",
        since=1,
        domain=DOMAIN,
        mapping=MANY_TO_MANY,
        torch=_sparse,
        result="attended",
        cases=[
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
        ],
    )
)


# ---- one new word over a cache that has room for it

_BEAMS = 8


def _masked_decoder(t: Any, n: NodeView, *inputs: Any) -> Any:
    ints = "num_heads output_qk past_present_share_buffer"
    check_attributes(n, ints, "mask_filter_value scale", needs=(0, 1, 2))
    heads = n.attr("num_heads", 0)
    if heads > 0 and n.rank(1) == 4 and not n.used(3):
        return _look_at(t, n, heads, *inputs)
    check_attributes(n, ints, "mask_filter_value scale", needs=(5, 6, 7))
    q, k, v, mask, bias, keys, values, length, *more = inputs
    beams, source, added = (*more, *[None] * 3)[:3]
    if heads < 1 or not n.attr("past_present_share_buffer", 0) or n.used(3):
        n.refuse("DecoderMaskedMultiHeadAttention gives scores, or shares no cache")
    if added is not None:
        width = n.size(0, 2, "width")
        q = q + added[:width]
        k = k + added[width : 2 * width]
        v = v + added[2 * width :]
    lowered = number(n, "mask_filter_value", -10000.0)
    options = {
        "mask": mask,
        "bias": bias,
        "source": source,
        "lowered": None if lowered == -10000 else lowered,
    }
    given = {name: value for name, value in options.items() if value is not None}
    if source is not None and beams is not None:
        known = n.const(_BEAMS)
        given["beams"] = beams.item() if known is None else int(known.flat[0])
    scale = number(n, "scale", 0.0) or n.size(5, 3, "size of a head") ** -0.5
    word = n.ints(7)
    at = word[0] if word else length.item()
    made = t.helper(helpers.attend_over_buffer)(
        (q, k, v), keys, values, at, heads, scale, **given
    )
    return wanted(n, made, 3)


def _look_at(
    t: Any, n: NodeView, heads: int, q: Any, k: Any, v: Any, *more: Any
) -> Any:
    """Attention to what an encoder gave."""
    if any(x is not None for x in more):
        n.refuse("DecoderMaskedMultiHeadAttention to an encoder, with a mask or bias")
    options = {"scale": scale} if (scale := number(n, "scale", 0.0)) else {}
    q = q.unflatten(2, (heads, -1)).transpose(1, 2)
    y = t.F.scaled_dot_product_attention(q, k, v, **options)
    return y.transpose(1, 2).flatten(2)


_BUFFER: dict[str, Any] = {"num_heads": 2, "past_present_share_buffer": 1}
_WORD, _CACHE, _AT = ([4, 1, 8],) * 3, ([4, 2, 8, 4],) * 2, i32([3])
_SEEN = i32([[1, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1]])
_CAME = np.random.default_rng(0).integers(0, 2, (2, 2, 8)).astype(np.int32)

define(
    OpDef(
        "DecoderMaskedMultiHeadAttention",
        since=1,
        domain=DOMAIN,
        mapping=MANY_TO_MANY,
        torch=_masked_decoder,
        cases=[
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
        ],
    )
)
