"""ONNX Runtime's attention over a cache of keys and values."""

from __future__ import annotations

from typing import Any

from ..facts import fitting_sizes, sizes_windows
from ..helpers import cache as helpers
from ..node_view import NodeView
from ..onnx.attention import scale_of
from ..operands import number, present, wanted
from ..registry import DOMAIN, MANY_TO_MANY, operator
from .attributes import check_attributes

_PAST, _TOTAL, _COS = 3, 6, 7


def _block(n: NodeView) -> int:
    block, heads = n.attr("sparse_block_size"), n.attr("num_heads")
    if not isinstance(block, int) or block < 1:
        n.refuse("SparseAttention without the size of its blocks")
    layouts = n.dims(5)[0]
    if not isinstance(heads, int) or not isinstance(layouts, int) or heads % layouts:
        n.refuse(f"SparseAttention of {layouts} layouts for {heads} heads")
    return block


@operator(
    "GroupQueryAttention",
    since=1,
    domain=DOMAIN,
    mapping=MANY_TO_MANY,
    fits=fitting_sizes.grouped_query_attention,
    shape=sizes_windows.grouped_query_attention,
    result="attended",
)
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
    given = present(
        rotary=(cos, sin) if n.attr("do_rotary", 0) else None,
        positions=positions if n.attr("do_rotary", 0) else None,
        interleaved=bool(n.attr("rotary_interleaved", 0)) or None,
        causal=None if n.attr("causal", 1) else False,
        window=window if window >= 0 else None,
        bias=bias,
        scale=scale_of(n, n.attr("num_heads")) or None,
        softcap=number(n, "softcap", 0.0) or None,
        sink=0.0 if sink is None and smooth else sink,
    )
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


@operator(
    "SparseAttention", since=1, domain=DOMAIN, mapping=MANY_TO_MANY, result="attended"
)
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
    given = present(
        rotary=tuple(inputs[9:11]) if n.attr("do_rotary", 0) else None,
        interleaved=bool(n.attr("rotary_interleaved", 0)) or None,
        scale=number(n, "scale", 0.0) or None,
    )
    total = known[0] if known else total.item()
    helper = t.helper(helpers.sparse_attention)
    return wanted(n, helper(*operands, total, lengths, heads, block, **given), 3)


# ---- one new word over a cache that has room for it

_BEAMS = 8


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


@operator(
    "DecoderMaskedMultiHeadAttention", since=1, domain=DOMAIN, mapping=MANY_TO_MANY
)
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
    given = present(
        mask=mask,
        bias=bias,
        source=source,
        lowered=None if lowered == -10000 else lowered,
    )
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
