"""Attention, and the rotation of queries and keys by their positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from ...graph.dims import reaches
from ..facts import sizes_elementwise
from ..facts.requirements import Between, IndexOf
from ..helpers import attention as helpers
from ..helpers import rotary
from ..node_view import NodeView
from ..operands import number, present, wanted
from ..registry import MANY_TO_MANY, operator

_MASK, _PAST_KEY, _LENGTHS = 3, 4, 6

# ---- Attention


def is_plain(n: NodeView) -> bool:
    """Whether F.scaled_dot_product_attention does the same."""
    masked = n.has(_MASK)
    return (
        not any(n.used(j) for j in (1, 2, 3))
        and not n.has(_PAST_KEY)
        and not n.has(_LENGTHS)
        and not (masked and n.attr("is_causal", 0))
        and not number(n, "softcap", 0.0)
        and _window(n) is None
        and n.attr("softmax_precision", 1) in (1, int(n.dtype(0)))
        and (not masked or _covers(n))
    )


def _covers(n: NodeView) -> bool:
    """Whether the mask has an entry for each key; a shorter one would be filled up, and
    a longer one is refused, as is one of none."""
    if not 2 <= n.rank(_MASK) <= 4:
        return False
    keys = n.dims(1)[-2 if n.rank(1) == 4 else 1]
    return reaches(n.dims(_MASK)[-1], keys)


def _window(n: NodeView) -> tuple[int, int] | None:
    sides = (n.attr("left_window_size", -1), n.attr("right_window_size", -1))
    return None if max(sides) < 0 else sides


def _softmax_dtype(t: Any, n: NodeView) -> Any:
    precision = n.attr("softmax_precision")
    if precision is None or precision == int(n.dtype(0)):
        return None
    return t.dtype(ir.DataType(precision))


def _heads(n: NodeView) -> tuple[Any, Any]:
    """How many heads the queries have, and the keys and values: numbers, or as many."""
    if n.rank(0) == 3:
        return n.attr("q_num_heads"), n.attr("kv_num_heads")
    if n.dims(0)[1] == n.dims(1)[1]:
        return n.dims(0)[1], n.dims(1)[1]
    return n.size(0, 1, "number of heads"), n.size(1, 1, "number of heads")


def scale_of(n: NodeView, heads: int = 0) -> float | None:
    """The scale of the scores, unless it is 1 / sqrt(head size). `heads` are side by
    side in a query: by default, as many as ONNX's Attention has."""
    if n.attr("scale") is None:
        return None
    size = n.dims(0)[-1]
    if n.rank(0) == 3 and isinstance(size, int):
        size //= heads or _heads(n)[0]
    scale = number(n, "scale", 0.0)
    usual = isinstance(size, int) and scale == float(
        str(np.float32(1 / math.sqrt(size)))
    )
    return None if usual else scale


def _scaled_dot_product(t: Any, n: NodeView, q: Any, k: Any, v: Any, mask: Any) -> Any:
    heads, kv_heads = _heads(n)
    packed = n.rank(0) == 3 and (heads, kv_heads) != (1, 1)
    if packed:
        q = q.unflatten(2, (heads, -1)).transpose(1, 2)
        k = k.unflatten(2, (kv_heads, -1)).transpose(1, 2)
        v = v.unflatten(2, (kv_heads, -1)).transpose(1, 2)
    elif n.rank(0) == 3 and mask is not None and n.rank(_MASK) == 4:
        mask = mask.squeeze(1)
    options: dict[str, Any] = {} if mask is None else {"attn_mask": mask}
    if n.attr("is_causal", 0):
        options["is_causal"] = True
    if (scale := scale_of(n)) is not None:
        options["scale"] = np.float32(scale)  # which may be written as a root
    if heads != kv_heads:
        options["enable_gqa"] = True
    y = t.F.scaled_dot_product_attention(q, k, v, **options)
    return y.transpose(1, 2).flatten(2) if packed else y


@operator(
    "Attention",
    since=25,
    mapping=MANY_TO_MANY,
    requires={6: Between(1, 2)},
    runs_until=24,
    result="attended",
)
def _attention(
    t: Any,
    n: NodeView,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    lengths: Any = None,
) -> Any:
    if n.rank(0) not in (3, 4):
        n.refuse("Attention on other than 3 or 4 axes is not supported")
    if mask is not None and n.dtype(_MASK) not in (ir.DataType.BOOL, n.dtype(0)):
        n.refuse("Attention with a mask of such a type is not supported")
    if is_plain(n):
        return _scaled_dot_product(t, n, q, k, v, mask)
    given = present(
        mask=mask,
        past_key=past_key,
        past_value=past_value,
        lengths=lengths,
        heads=_heads(n) if n.rank(0) == 3 else None,
        scale=scale_of(n),
        causal=bool(n.attr("is_causal", 0)) or None,
        softcap=number(n, "softcap", 0.0) or None,
        window=_window(n),
        softmax_dtype=_softmax_dtype(t, n),
        scores=n.attr("qk_matmul_output_mode", 0) or None,
    )
    return wanted(n, t.helper(helpers.masked_attention)(q, k, v, **given), 4)


# ---- RotaryEmbedding


@operator(
    "RotaryEmbedding",
    since=23,
    mapping=MANY_TO_MANY,
    shape=sizes_elementwise.like_input,
    requires={3: IndexOf(1)},
)
def _rotary(
    t: Any, n: NodeView, x: Any, cos: Any, sin: Any, positions: Any = None
) -> Any:
    turned = n.attr("rotary_embedding_dim", 0) or n.dims(0)[-1]
    if isinstance(turned, int) and turned % 2:
        n.refuse(f"RotaryEmbedding of {turned} numbers, which are no pairs")
    if positions is not None:
        cos, sin = cos[positions], sin[positions]
    options = {
        "heads": n.attr("num_heads", 0) if n.rank(0) == 3 else 0,
        "width": n.attr("rotary_embedding_dim", 0),
        "interleaved": bool(n.attr("interleaved", 0)),
    }
    given = {name: value for name, value in options.items() if value}
    if n.rank(0) == 4 and not given:
        return t.helper(rotary.apply_half_rotary)(x, cos[:, None], sin[:, None])
    return t.helper(helpers.rotary_embedding)(x, cos, sin, **given)
