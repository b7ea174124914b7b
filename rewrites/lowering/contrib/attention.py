"""Attention as ONNX Runtime fuses it, spelled as ONNX's Attention."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ....analysis.graph.traversal import bodies
from ....analysis.ops.node_view import sizes_option
from ...adapters.opset_adapters import AdapterSite, extension

_FILTER = -10000.0  # what a masked score is lowered by, unless the node says otherwise

# ---- MultiHeadAttention


@extension(
    "MultiHeadAttention", attrs="mask_filter_value num_heads scale unidirectional"
)
def multi_head_attention(site: AdapterSite) -> None:
    """Queries, keys and values in one of four packings, with a bias for all three."""
    for index in (8, 9):
        if site.input(index) is not None:
            raise site.unsupported("a cache that is shared or reordered")
    if site.wants(3):
        raise site.unsupported("its scores as an output are not supported")
    site.node.resize_outputs(min(3, len(site.node.outputs)))
    heads = _head_count(site)
    in_heads = (key := site.input(1)) is not None and site.rank(key) == 4
    packed = 1 if in_heads else 3  # of query, key and value
    unidirectional = site.node.attributes.get_int("unidirectional", 0)
    if key is not None and unidirectional and site.input(6) is None:
        _see_ahead(site, key, 2 if in_heads else 1)
    q, k, v = _operands(site)
    if site.input(3) is not None:
        q, k, v = _biased(site, (q, k, v), packed)
    qkv = _in_heads(site, (q, k, v), heads, packed)
    masks = [site.input(5)]
    if (mask := site.input(4)) is not None:
        total = _total(site, k, site.input(6), axis=-2 if in_heads else 1)
        masks.insert(0, _mask_bias(site, mask, total))
    past = [site.input(6), site.input(7)]
    _attend(site, qkv, _sum(site, masks), past)


def _see_ahead(site: AdapterSite, key: ir.Value, axis: int) -> None:
    """Of the keys behind its queries ONNX Runtime hides none from the last query."""
    queries, keys = (site.data.shape or [0, 0])[1], (key.shape or [0] * 3)[axis]
    if isinstance(queries, int) and isinstance(keys, int) and queries < keys:
        if queries > 1:
            raise site.unsupported("unidirectional with more keys than queries")
        site.take("unidirectional")


def _operands(site: AdapterSite) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Query, key and value on 3 axes, or key and value on 4."""
    query, key, value = site.data, site.input(1), site.input(2)
    if site.rank(query) == 5:
        return tuple(_unpacked(site, query, ("query", "key", "value")))  # type: ignore[return-value]
    if key is None:
        raise site.unsupported("input 1 is missing")
    if site.rank(key) == 5:
        key, value = _unpacked(site, key, ("key", "value"))
    if value is None:
        raise site.unsupported("input 2 is missing")
    return query, key, value


def _unpacked(site: AdapterSite, x: ir.Value, names: Sequence[str]) -> list[ir.Value]:
    """[batch, time, heads, parts, size] as parts of [batch, time, heads * size]."""
    suffixes = [f"{name}_part" for name in names]
    parts = site.parts("Split", [x], suffixes, axis=3, num_outputs=len(names))
    shape = site.ints(f"{names[0]}_shape", [0, 0, -1])
    return [
        site.before("Reshape", [part, shape], name)
        for part, name in zip(parts, names, strict=True)
    ]


def _biased(
    site: AdapterSite, qkv: tuple[ir.Value, ir.Value, ir.Value], count: int
) -> list[ir.Value]:
    """The first `count` with their parts of the bias, which stand in a row."""
    bias = site.need(3)
    length = last_size(site, bias)
    packed = site.rank(site.data) == 5
    width = length // 3 if packed else last_size(site, site.data)
    sizes = site.ints("bias_sizes", [width, width, length - 2 * width])
    names = ("query_bias", "key_bias", "value_bias")
    parts = site.parts("Split", [bias, sizes], names, axis=0)
    return [
        site.before("Add", [x, part], f"{name}ed") if i < count else x
        for i, (x, part, name) in enumerate(zip(qkv, parts, names, strict=True))
    ]


def last_size(site: AdapterSite, x: ir.Value) -> int:
    """The size of the last axis. Raises Unsupported where it is no number.

    The tables of long contexts come of an If, whose branches say how wide they are.
    """
    node, place = x.producer(), x.index() or 0
    branches = bodies(node) if node is not None and node.op_type == "If" else []
    made = [x, *(body.outputs[place] for body in branches)]
    sizes = {v.shape[-1] for v in made if v.shape is not None and len(v.shape)}
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) != 1:
        option = sizes_option(site.graph.inputs)
        raise site.unsupported(
            f"the size of the last axis of {x.name!r} is unknown",
            f"fix sizes with --shape {option}" if option else "",
        )
    return known[0]


def _in_heads(
    site: AdapterSite, qkv: Sequence[ir.Value], heads: int, count: int = 3
) -> list[ir.Value]:
    """The first `count` with an axis of heads, as the others have one."""
    found = list(qkv)
    for i, name in enumerate(("query", "key", "value")[:count]):
        shape = site.ints(f"{name}_heads", [0, 0, heads, -1])
        split = site.before("Reshape", [qkv[i], shape], f"{name}_by_head")
        found[i] = site.before("Transpose", [split], f"{name}_heads", perm=[0, 2, 1, 3])
    return found


# ---- what both share


def _attend(
    site: AdapterSite,
    qkv: Sequence[ir.Value],
    mask: ir.Value | None,
    past: Sequence[ir.Value | None],
) -> None:
    """Make the node ONNX's Attention on heads; its result has none."""
    site.become("Attention", [*qkv, mask, *past], **_options(site))
    shape = site.ints("flat", [0, 0, -1])
    site.after("Reshape", lambda y: [y, shape], "by_head")
    site.after("Transpose", lambda y: [y], "heads_first", perm=[0, 2, 1, 3])


def _head_count(site: AdapterSite) -> int:
    heads = site.take_int("num_heads", 0)
    if heads < 1:
        raise site.unsupported("it needs a positive number of heads")
    return heads


def _options(site: AdapterSite) -> dict[str, object]:
    options: dict[str, object] = {}
    if scale := site.take_float("scale", 0.0):
        options["scale"] = scale
    if site.take_int("unidirectional", 0):
        options["is_causal"] = 1
    return options


def _total(
    site: AdapterSite, k: ir.Value, past: ir.Value | None, axis: int
) -> ir.Value:
    """The number of keys, those of the past included, of shape [1]."""
    end = {} if axis == -1 else {"end": axis + 1}
    length = site.before("Shape", [k], "keys", start=axis, **end)
    if past is None:
        return length
    before = site.before("Shape", [past], "past_keys", start=-2, end=-1)
    return site.before("Add", [length, before], "all_keys")


def _mask_bias(site: AdapterSite, mask: ir.Value, total: ir.Value) -> ir.Value:
    """What the mask adds to scores of [batch, heads, queries, keys]: 0, or the filter.

    Masks of 2 to 4 axes are 1 where a key counts. One axis holds each sample's end, and
    perhaps each sample's start after that.
    """
    rank = site.rank(mask)
    if rank == 1:
        keep = _within(site, mask, total)
    else:
        keep = site.before("Cast", [mask], "kept", to=int(ir.DataType.BOOL))
    axes = {1: [1, 2], 2: [1, 2], 3: [1]}.get(rank)
    if axes is None:
        raise site.unsupported(f"a mask of {rank} axes is not supported")
    keep = site.before("Unsqueeze", [keep, site.ints("axes", axes)], "mask")
    filter_ = site.take_float("mask_filter_value", _FILTER)
    dtype = site.data.dtype
    if dtype is None or not dtype.is_floating_point():
        dtype = ir.DataType.FLOAT
    zero, low = (
        site.constant(name, np.array(x, dtype.numpy()))
        for name, x in (("kept_score", 0.0), ("masked_score", filter_))
    )
    return site.before("Where", [keep, zero, low], "mask_bias")


def _within(site: AdapterSite, mask: ir.Value, total: ir.Value) -> ir.Value:
    """Which keys lie before each sample's end, and not before its start."""
    batch = site.data.shape[0] if site.data.shape is not None else None
    size = mask.shape[0] if mask.shape is not None else None
    as_long = site.before("Cast", [mask], "bounds", to=int(ir.DataType.INT64))
    scalar = site.before("Reshape", [total, site.ints("scalar", [])], "key_count")
    bounds = [site.ints("first_key", 0), scalar, site.ints("step", 1)]
    keys = site.before("Range", bounds, "key_places")
    column = site.ints("column", [-1, 1])
    declared = {dim for value in site.graph.inputs for dim in value.shape or ()}
    free = batch not in declared and not isinstance(batch, int | None)
    # A size that onnx named itself is the one that is needed.
    if size is not None and (size == batch or free):
        ends = site.before("Reshape", [as_long, column], "ends")
        return site.before("Less", [keys, ends], "kept")
    if not (isinstance(batch, int) and size == 2 * batch):
        if isinstance(batch, int) and isinstance(size, int):
            raise site.unsupported(f"a mask of {size} bounds is not supported")
        as_long = _with_starts(site, as_long)
    ends, starts = site.parts("Split", [as_long], ("ends", "starts"), num_outputs=2)
    ends, starts = (
        site.before("Reshape", [x, column], f"{name}_column")
        for x, name in ((ends, "ends"), (starts, "starts"))
    )
    return site.before(
        "And",
        [
            site.before("Less", [keys, ends], "before_end"),
            site.before("GreaterOrEqual", [keys, starts], "from_start"),
        ],
        "kept",
    )


def _with_starts(site: AdapterSite, bounds: ir.Value) -> ir.Value:
    """Ends and starts of samples, where there may be ends alone: they start at 0."""
    batch = site.before("Shape", [site.data], "samples", end=1)
    none = site.ints("none", [0])
    room = site.before("Concat", [none, batch], "room", axis=0)
    longer = site.before("Pad", [bounds, room], "with_zeros")
    both = site.before("Mul", [batch, site.ints("two", [2])], "both")
    return site.before("Slice", [longer, none, both], "with_starts")


def _sum(site: AdapterSite, masks: Sequence[ir.Value | None]) -> ir.Value | None:
    given = [mask for mask in masks if mask is not None]
    if len(given) == 2:
        return site.before("Add", given, "score_bias")
    return given[0] if given else None


# ---- Attention


@extension(
    "Attention",
    attrs="do_rotary mask_filter_value num_heads past_present_share_buffer "
    "qkv_hidden_sizes rotary_embedding_dim scale unidirectional",
)
def attention(site: AdapterSite) -> None:
    """One product that gives queries, keys and values, and attention over them."""
    if site.take_int("do_rotary", 0):
        raise site.unsupported("rotary embedding inside of it is not supported")
    if site.take_int("past_present_share_buffer", 0) or site.input(6) is not None:
        raise site.unsupported("a shared cache is not supported")
    weights = site.need(1)
    x = site.before("MatMul", [site.data, weights], "product")
    if site.input(2) is not None:
        x = site.before("Add", [x, site.input(2)], "projected")
    attend_packed(site, x, last_size(site, weights), 3, 4, site.input(5))


def attend_packed(
    site: AdapterSite,
    x: ir.Value,
    width: int,
    mask_index: int,
    past_index: int,
    bias: ir.Value | None,
) -> None:
    """Attention over x = [queries, keys, values], `width` wide in all."""
    heads = _head_count(site)
    sizes = site.take_ints("qkv_hidden_sizes") or [width // 3] * 3
    names = ("query", "key", "value")
    qkv = site.parts("Split", [x, site.ints("sizes", sizes)], names, axis=-1)
    qkv = _in_heads(site, qkv, heads)
    past = site.input(past_index)
    masks = [bias]
    if (mask := site.input(mask_index)) is not None:
        total = _total(site, site.data, past, axis=1)
        masks.insert(0, _mask_bias(site, mask, total))
    before = [None, None] if past is None else _halves(site, past)
    mask = _sum(site, masks)
    if not site.wants(1):
        site.node.resize_outputs(1)
        _attend(site, qkv, mask, before)
        return
    results = ("attended", "present_key", "present_value")
    inputs = [*qkv, mask, *before]
    y, *present = site.parts("Attention", inputs, results, **_options(site))
    axis = site.ints("present_axis", [0])
    rows = [
        site.before("Unsqueeze", [x, axis], f"{name}_row")
        for x, name in zip(present, results[1:], strict=True)
    ]
    site.give(1, site.before("Concat", rows, "present", axis=0))
    site.node.resize_outputs(1)
    y = site.before("Transpose", [y], "heads_last", perm=[0, 2, 1, 3])
    site.become("Reshape", [y, site.ints("flat", [0, 0, -1])])


def _halves(site: AdapterSite, past: ir.Value) -> list[ir.Value]:
    """Keys and values of the past, which stand one after the other."""
    return [
        site.before("Gather", [past, site.ints(f"{name}_index", i)], name, axis=0)
        for i, name in enumerate(("past_key", "past_value"))
    ]


# ---- GroupQueryAttention stays one; packed operands and norms are taken out of it


@extension(
    "GroupQueryAttention",
    attrs="causal do_rotary kv_num_heads local_window_size num_heads qk_norm_epsilon "
    "rotary_interleaved scale smooth_softmax softcap "
    # Without a quantised cache, all but the last of these say nothing.
    "k_quant_type kv_cache_bit_width qk_output sliding_window_cache v_quant_type",
)
def _group_query_attention(site: AdapterSite) -> None:
    for name in ("k_quant_type", "v_quant_type"):
        if site.take_string(name, "NONE") != "NONE":
            raise site.unsupported("a quantised cache is not supported")
    if site.take_int("qk_output", 0) or site.wants(3):
        raise site.unsupported("its scores as an output are not supported")
    site.take("kv_cache_bit_width")
    epsilon = site.take_float("qk_norm_epsilon", 1e-6)
    heads, kv_heads = (
        site.node.attributes.get_int(name, 0) for name in ("num_heads", "kv_num_heads")
    )
    if heads < 1 or kv_heads < 1 or heads % kv_heads:
        raise site.unsupported(f"{heads} heads on {kv_heads} keys")
    for index in (5, 6):
        site.need(index)
    inputs = site.inputs
    if inputs[1] is None:
        size = last_size(site, site.data) // (heads + 2 * kv_heads)
        sizes = site.ints("sizes", [size * heads, size * kv_heads, size * kv_heads])
        names = ("query", "key", "value")
        inputs[:3] = site.parts("Split", [site.data, sizes], names, axis=-1)
    for index, weight in ((0, site.input(14)), (1, site.input(15))):
        if weight is not None:
            count = heads if index == 0 else kv_heads
            x = _normed(site, inputs[index], weight, count, epsilon, "qk"[index])
            inputs[index] = x
    inputs[5] = _one_axis(site, inputs[5])
    site.set_inputs(inputs[:12])
    site.node.resize_outputs(min(3, len(site.node.outputs)))


def _one_axis(site: AdapterSite, lengths: ir.Value | None) -> ir.Value | None:
    """One length for each sample; some files have them in a column."""
    if lengths is None or (lengths.shape is not None and len(lengths.shape) == 1):
        return lengths
    return site.before("Reshape", [lengths, site.ints("row", [-1])], "lengths")


def _normed(
    site: AdapterSite,
    x: ir.Value | None,
    weight: ir.Value,
    heads: int,
    epsilon: float,
    name: str,
) -> ir.Value:
    """RMSNormalization of each head by itself."""
    split = site.ints(f"{name}_heads", [0, 0, heads, -1])
    flat = site.ints(f"{name}_flat", [0, 0, -1])
    x = site.before("Reshape", [x, split], f"{name}_by_head")
    x = site.before("RMSNormalization", [x, weight], f"{name}_norm", epsilon=epsilon)
    return site.before("Reshape", [x, flat], f"{name}_normed")


# ---- RotaryEmbedding


@extension(
    "RotaryEmbedding",
    attrs="interleaved is_packed_batching num_heads rotary_embedding_dim scale",
)
def rotary_embedding(site: AdapterSite) -> None:
    """Positions come second here, and may be the first one alone."""
    if site.take_int("is_packed_batching", 0):
        raise site.unsupported("packed batches are not supported")
    if site.take_float("scale", 1.0) != 1:
        raise site.unsupported("a scale other than 1 is not supported")
    x, positions, cos, sin = (site.need(i) for i in range(4))
    heads = site.take_int("num_heads", 0)
    width = site.take_int("rotary_embedding_dim", 0)
    rank = site.rank(x)
    if rank == 3 and not heads:
        size = 2 * last_size(site, cos)
        heads = last_size(site, x) // size
    if site.rank(positions) == 1:
        positions = _counted(site, x, positions, axis=1 if rank == 3 else 2)
    options = {
        "interleaved": site.take_int("interleaved", 0),
        "num_heads": heads if rank == 3 else 0,
        "rotary_embedding_dim": width,
    }
    given = {name: value for name, value in options.items() if value}
    site.become("RotaryEmbedding", [x, cos, sin, positions], **given)


def _counted(site: AdapterSite, x: ir.Value, first: ir.Value, axis: int) -> ir.Value:
    """first, first + 1, ... for each token of each sample."""
    scalar = site.ints("scalar", [])
    length = site.before("Shape", [x], "length", start=axis, end=axis + 1)
    count = site.before("Reshape", [length, scalar], "count")
    bounds = [site.ints("zero", 0), count, site.ints("step", 1)]
    places = site.before("Add", [site.before("Range", bounds, "steps"), first], "place")
    batch = site.before("Shape", [x], "batch", start=0, end=1)
    shape = site.before("Concat", [batch, length], "grid", axis=0)
    return site.before("Expand", [places, shape], "positions")
