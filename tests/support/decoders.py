"""Small decoders with caches in the forms that exporters write, weights at random."""

from __future__ import annotations

import re

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

VOCABULARY, PLACES = 23, 160

_HEAD = '<ir_version: 9, opset_import: ["": 18, "com.microsoft": 1]>\n'
_TOKENS = """
  x = Gather(table, ids)
"""
_PLACED = """
  embedded = Gather(table, ids)
  placed = Gather(places, position_ids)
  x = Add(embedded, placed)
"""
# By axes of an image, as multimodal decoders have places; of text all are the same.
_PLACED_BY_AXES = _PLACED.replace("placed =", "parts =").replace(
    "  x =",
    "  axis = Constant<value_ints=[0]>()\n"
    "  placed = ReduceMean<keepdims=0>(parts, axis)\n  x =",
)
_HEADS = """
  split = Constant<value_ints=[0, 0, 2, 4]>()
  q0 = MatMul(x, wq)
  q1 = Reshape(q0, split)
  q = Transpose<perm=[0, 2, 1, 3]>(q1)
  k0 = MatMul(x, wk)
  k1 = Reshape(k0, split)
  k = Transpose<perm=[0, 2, 1, 3]>(k1)
  v0 = MatMul(x, wv)
  v1 = Reshape(v0, split)
  v = Transpose<perm=[0, 2, 1, 3]>(v1)
"""
_CAUSAL = """
  zero = Constant<value_int=0>()
  one = Constant<value_int=1>()
  two = Constant<value_int=2>()
  three = Constant<value_int=3>()
  ids_shape = Shape(ids)
  count = Gather(ids_shape, one)
  keys_shape = Shape(keys)
  total_size = Gather(keys_shape, two)
  past_size = Sub(total_size, count)
  key_places = Range(zero, total_size, one)
  query_places = Range(past_size, total_size, one)
  ones = Constant<value_ints=[1]>()
  queries = Unsqueeze(query_places, ones)
  causal = LessOrEqual(key_places, queries)
"""
_MASKED = """
  on = Cast<to=9>(attention_mask)
  axes = Constant<value_ints=[1, 2]>()
  wide = Unsqueeze(on, axes)
  visible = And(causal, wide)
"""
_ATTEND = """
  turned = Transpose<perm=[0, 1, 3, 2]>(keys)
  products = MatMul(q, turned)
  nothing = Constant<value_float=-3e38>()
  scores = Where(visible, products, nothing)
  shares = Softmax<axis=-1>(scores)
  taken = MatMul(shares, values)
  ordered = Transpose<perm=[0, 2, 1, 3]>(taken)
  joined = Constant<value_ints=[0, 0, 8]>()
  y = Reshape(ordered, joined)
  z = Add(x, y)
  logits = MatMul(z, head)
"""
_PAST = "float[batch, 2, past, 4]"
_LATER = "float[batch, 2, total, 4]"
_IDS = "int64[batch, new] ids"
_MASK = "int64[batch, total] attention_mask"
_LOGITS = f"float[batch, new, {VOCABULARY}] logits"
_JOINED = """
  keys = Concat<axis=2>(past_k, k)
  values = Concat<axis=2>(past_v, v)
  present_k = Identity(keys)
  present_v = Identity(values)
"""
_PAIR = f"{_PAST} past_k, {_PAST} past_v"
_NEXT = f"{_LATER} present_k, {_LATER} present_v"
_CROSSED = (
    """
  embedded = Gather(table, ids)
  middle = Constant<value_ints=[1]>()
  mean = ReduceMean(crossing, middle)
  x = Add(embedded, mean)
"""
    + _HEADS
    + """
  keys = Concat<axis=2>(past_decoder_k0, k)
  values = Concat<axis=2>(past_decoder_v0, v)
"""
    + _CAUSAL
    + _ATTEND.replace("Where(visible", "Where(causal").replace("logits", "scored")
)
_BODY_OUTPUTS = (
    f"float[a, b, {VOCABULARY}] scored, float[a, 2, c, 4] keys,"
    " float[a, 2, c, 4] values, float[d, e, 8] encoder_k0"
)
# What its caches are called -> inputs, outputs, nodes.
FORMS = {
    "masked": (
        f"{_IDS}, {_MASK}, int64[3, batch, new] position_ids, {_PAIR}",
        f"{_LOGITS}, {_NEXT}",
        _PLACED_BY_AXES + _HEADS + _JOINED + _CAUSAL + _MASKED + _ATTEND,
    ),
    "one row of places": (
        f"{_IDS}, int64[new] cache_position, {_PAIR}",
        f"{_LOGITS}, {_NEXT}",
        _PLACED.replace("position_ids", "cache_position")
        + _HEADS
        + _JOINED
        + _CAUSAL
        + _ATTEND.replace("visible", "causal"),
    ),
    "by length": (  # positions are counted from the past's size
        f"{_IDS}, {_MASK}, {_PAIR}",
        f"{_LOGITS}, {_NEXT}",
        _TOKENS.replace("x =", "embedded =")
        + _CAUSAL.replace("keys_shape = Shape(keys)", "before = Shape(past_k)")
        .replace("Gather(keys_shape, two)", "Add(past_size, count)")
        .replace("past_size = Sub(total_size, count)", "")
        .replace("total_size =", "past_size = Gather(before, two)\n  total_size =")
        + "  placed = Gather(places, query_places)\n  x = Add(embedded, placed)\n"
        + _HEADS
        + _JOINED
        + _MASKED
        + _ATTEND,
    ),
    "stacked": (
        f"{_IDS}, {_MASK}, int64[batch, new] position_ids,"
        " float[2, batch, 2, past, 4] past",
        f"{_LOGITS}, float[2, batch, 2, total, 4] present",
        _PLACED + _HEADS + """
  axis0 = Constant<value_ints=[0]>()
  kk = Unsqueeze(k, axis0)
  vv = Unsqueeze(v, axis0)
  both = Concat<axis=0>(kk, vv)
  present = Concat<axis=3>(past, both)
  keys_place = Constant<value_int=0>()
  values_place = Constant<value_int=1>()
  keys = Gather<axis=0>(present, keys_place)
  values = Gather<axis=0>(present, values_place)
""" + _CAUSAL + _MASKED + _ATTEND,
    ),
    "grouped": (
        f"{_IDS}, {_MASK}, {_PAIR}".replace("4]", "8]"),
        f"{_LOGITS}, {_NEXT}".replace("4]", "8]"),
        """
  x = Gather(table, ids)
  axes = Constant<value_ints=[1]>()
  one = Constant<value_int=1>()
  summed = ReduceSum<keepdims=0>(attention_mask, axes)
  lowered = Sub(summed, one)
  last = Cast<to=6>(lowered)
  mask_shape = Shape(attention_mask)
  columns = Gather(mask_shape, one)
  longest = Cast<to=6>(columns)
  q = MatMul(x, wide_q)
  k = MatMul(x, wide_k)
  v = MatMul(x, wide_v)
  y, present_k, present_v = com.microsoft.GroupQueryAttention
    <num_heads=2, kv_num_heads=2>
    (q, k, v, past_k, past_v, last, longest)
  narrow = MatMul(y, wo)
  z = Add(x, narrow)
  logits = MatMul(z, head)
""",
    ),
    "biased": (  # a mask that is added, of each new token's places
        f"{_IDS}, float[batch, 1, new, total] attention_mask,"
        f" int64[batch, new] position_ids, {_PAIR}",
        f"{_LOGITS}, {_NEXT}",
        _PLACED
        + _HEADS
        + _JOINED
        + _ATTEND.replace(
            "Where(visible, products, nothing)", "Add(seen, products)"
        ).replace(
            "  nothing = Constant<value_float=-3e38>()",
            "  half = Constant<value_float=0.5>()\n  seen = Mul(attention_mask, half)",
        ),
    ),
    "placed": (  # buffers that are written behind so many places
        f"{_IDS}, bool[batch, 1, new, total] attention_mask, int64[batch, new]"
        f" position_ids, int64 past_length, {_PAIR}".replace("past,", "total,"),
        f"{_LOGITS}, {_NEXT}",
        _PLACED + _HEADS + """
  shape = Shape(k)
  zero = Constant<value_int=0>()
  one = Constant<value_int=1>()
  two = Constant<value_int=2>()
  count = Gather(shape, two)
  each = Range(zero, count, one)
  new_places = Add(each, past_length)
  last = Constant<value_ints=[-1]>()
  column = Unsqueeze(new_places, last)
  index = Expand(column, shape)
  keys = ScatterElements<axis=2>(past_k, index, k)
  values = ScatterElements<axis=2>(past_v, index, v)
  present_k = Identity(keys)
  present_v = Identity(values)
""" + _ATTEND.replace("visible", "attention_mask"),
    ),
    "state": (  # a sum that fades: neither keys nor places
        f"{_IDS}, float[batch, 8] state",
        f"{_LOGITS}, float[batch, 8] next",
        """
  x = Gather(table, ids)
  by_time = Transpose<perm=[1, 0, 2]>(x)
  next, rows = Scan<num_scan_inputs=1, body=step (float[batch, 8] h, float[batch, 8] t)
    => (float[batch, 8] after, float[batch, 8] row) {
      half = Constant<value_float=0.5>()
      less = Mul(h, half)
      after = Add(less, t)
      row = Identity(after)
  }>(state, by_time)
  z = Transpose<perm=[1, 0, 2]>(rows)
  logits = MatMul(z, head)
""",
    ),
    "merged": (  # what is computed from the encoder comes from the first step
        f"{_IDS}, float[batch, source, 8] encoder_hidden_states,"
        " float[batch, 2, past, 4] past_decoder_k0,"
        " float[batch, 2, past, 4] past_decoder_v0,"
        " float[batch, source, 8] past_encoder_k0, bool[1] use_cache_branch",
        f"{_LOGITS}, {_LATER} present_decoder_k0, {_LATER} present_decoder_v0,"
        " float[kept, source_kept, 8] present_encoder_k0",
        f"""
  logits, present_decoder_k0, present_decoder_v0, present_encoder_k0 = If<
    then_branch=cached () => ({_BODY_OUTPUTS}) {{
      crossing = Identity(past_encoder_k0)
      encoder_k0 = Constant<value=float[1, 1, 8] {{0, 0, 0, 0, 0, 0, 0, 0}}>()
      {_CROSSED}
    }}, else_branch=fresh () => ({_BODY_OUTPUTS}) {{
      crossing = MatMul(encoder_hidden_states, wk)
      encoder_k0 = Identity(crossing)
      {_CROSSED}
    }}>(use_cache_branch)
""",
    ),
}


def _masked(old: str, new: str) -> tuple[str, str, str]:
    inputs, outputs, nodes = FORMS["masked"]
    assert old in nodes
    return inputs, outputs, nodes.replace(old, new)


def _dropping(count: int) -> tuple[str, str, str]:
    """All but the last places, as an exporter of windows writes it."""
    inputs, outputs, nodes = FORMS["one row of places"]
    nodes = re.sub("(Concat<axis=2>.past)", r"\1_last", nodes)
    for part in "kv":
        nodes = f"  past_last_{part} = Slice(past_{part}, kept, end, along)\n" + nodes
    nodes = re.sub(
        "(present_.) = Identity(.*).", r"\1 = Slice\2, kept, end, along)", nodes
    )
    constants = f"""
  kept = Constant<value_ints=[-{count}]>()
  end = Constant<value_ints=[9223372036854775807]>()
  along = Constant<value_ints=[2]>()
"""
    return inputs, outputs, constants + nodes


_KEPT = (  # a state of the last tokens, as many as it has, of which three are read
    f"{_IDS}, float[batch, 8, kept] state",
    f"{_LOGITS}, float[batch, 8, kept] next",
    """
  x = Gather(table, ids)
  turned = Transpose<perm=[0, 2, 1]>(x)
  joined = Concat<axis=2>(state, turned)
  filtered = Conv<group=8>(joined, taps)
  ids_shape = Shape(ids)
  state_shape = Shape(state)
  one = Constant<value_ints=[1]>()
  two = Constant<value_ints=[2]>()
  count = Gather(ids_shape, one)
  size = Gather(state_shape, two)
  newest = Neg(count)
  start = Neg(size)
  end = Constant<value_ints=[9223372036854775807]>()
  read = Slice(filtered, newest, end, two)
  next = Slice(joined, start, end, two)
  y = Transpose<perm=[0, 2, 1]>(read)
  logits = MatMul(y, head)
""",
)
# Those that keep to fewer laws, by which one they don't, or whose batches are limited.
ODD = {
    "rows of a table": (
        FORMS["state"][0],
        FORMS["state"][1],
        FORMS["state"][2].replace("logits", "scored") + """
  sizes = Shape(state)
  first = Constant<value_int=0>()
  one = Constant<value_int=1>()
  batch = Gather(sizes, first)
  each = Range(first, batch, one)
  own = Gather(head_rows, each)
  axis = Constant<value_ints=[1]>()
  added = Unsqueeze(own, axis)
  logits = Add(scored, added)
""",
    ),
    "window": (  # 250 places before the last: wider than a trial is long
        f"{_IDS}, {_PAIR}",
        f"{_LOGITS}, {_NEXT}",
        _TOKENS
        + _HEADS
        + _JOINED
        + _CAUSAL
        + """
  start = Constant<value_ints=[-250]>()
  end = Constant<value_ints=[9223372036854775807]>()
  last = Constant<value_ints=[-1]>()
  along = Constant<value_ints=[2]>()
  near = Slice(keys, start, end, along)
  near_values = Slice(values, start, end, along)
  near_visible = Slice(causal, start, end, last)
"""
        + _ATTEND.replace("(keys)", "(near)")
        .replace("(visible", "(near_visible")
        .replace(", values)", ", near_values)"),
    ),
    "any size": _KEPT,
    "some size": (
        *_KEPT[:2],
        _KEPT[2]
        .replace("y = Transpose", "row = Transpose")
        .replace(
            "  logits",
            "  mean = ReduceMean(joined, two)\n"
            "  flat = Transpose<perm=[0, 2, 1]>(mean)\n  y = Add(row, flat)\n  logits",
        ),
    ),
    "drops": _dropping(9),
    "wide window": _dropping(150),
    "one behind others": _masked(  # several come behind none: others don't fit
        "visible = And(causal, wide)",
        """new_places = Range(zero, count, one)
  new_queries = Unsqueeze(new_places, ones)
  square = LessOrEqual(new_places, new_queries)
  first = Constant<value_ints=[0]>()
  width = Unsqueeze(count, first)
  length = Unsqueeze(total_size, first)
  sizes = Concat<axis=0>(width, length)
  stretched = Expand(square, sizes)
  visible = And(stretched, wide)""",
    ),
    "in parts": _masked(
        "z = Add(x, y)",
        "tokens = Constant<value_ints=[1]>()\n  mean = ReduceMean(x, tokens)\n"
        "  both = Add(x, mean)\n  z = Add(both, y)",
    ),
    "by rows": _masked(
        "z = Add(x, y)",
        "everything = Constant<value_ints=[0, 1]>()\n"
        "  mean = ReduceMean(x, everything)\n"
        "  both = Add(x, mean)\n  z = Add(both, y)",
    ),
    "in place": _masked(
        "keys = Concat<axis=2>(past_k, k)\n  values = Concat<axis=2>(past_v, v)",
        "keys = Concat<axis=2>(k, past_k)\n  values = Concat<axis=2>(v, past_v)",
    ),
}


def decoder(form: str, seed: int = 0) -> onnx.ModelProto:
    """A decoder whose caches have this form, or that is odd in this way."""
    inputs, outputs, nodes = (FORMS | ODD)[form]
    text = f"{_HEAD}decoder ({inputs}) => ({outputs})\n{{{nodes}}}"
    model = parser.parse_model(text)
    draw = np.random.default_rng(seed)
    weights = {
        "table": draw.normal(size=(VOCABULARY, 8)),
        "places": draw.normal(size=(PLACES, 8)),
        "head": draw.normal(size=(8, VOCABULARY)),
        "wo": draw.normal(size=(16, 8)) / 4,
        **{f"wide_{part}": draw.normal(size=(8, 16)) / 2 for part in "qkv"},
        **{name: draw.normal(size=(8, 8)) / 2 for name in ("wq", "wk", "wv")},
        "taps": draw.normal(size=(8, 1, 3)),
        "head_rows": draw.normal(size=(5, VOCABULARY)),
    }
    read = set(re.findall(r"\w+", nodes))
    model.graph.initializer.extend(
        numpy_helper.from_array(array.astype(np.float32), name)
        for name, array in weights.items()
        if name in read
    )
    onnx.checker.check_model(model)
    return model


def projected(form: str = "masked") -> onnx.ModelProto:
    """A decoder's step with caches, and a projection behind its attention."""
    model = decoder(form)
    nodes = list(model.graph.node)
    place = next(i for i, node in enumerate(nodes) if "y" in node.input)
    nodes[place].input[1] = "p"
    model.graph.node.insert(place, helper.make_node("MatMul", ["y", "wo"], ["p"]))
    turned = np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(turned, "wo"))
    return model


def experts(added: str = "ReduceSum") -> onnx.ModelProto:
    """Four experts in one tensor, each of which takes every token, by its share."""

    def numbers(dims: str, count: int) -> str:
        listed = ", ".join(str((7 * i % 11 - 5) / 8) for i in range(count))
        return f"Constant<value = float[{dims}] {{{listed}}}>()"

    text = (
        '<ir_version: 10, opset_import: ["" : 21]> g (float[N, 8] x) => (float[N, 8] z)'
        f"{{ up = {numbers('4, 8, 6', 192)} bias = {numbers('4, 1, 6', 24)}"
        f" down = {numbers('4, 6, 8', 192)} gate = {numbers('8, 4', 32)}"
        " first = Constant<value_ints = [0]>() last = Constant<value_ints = [-1]>()"
        " g0 = MatMul(x, gate) g1 = Softmax(g0) g2 = Transpose(g1)"
        " shares = Unsqueeze(g2, last)"
        ' ["/experts/MatMul"] a = MatMul(x, up) ["/experts/Add"] b = Add(a, bias)'
        ' c = Relu(b) ["/experts/MatMul_1"] d = MatMul(c, down) e = Mul(d, shares)'
        f" y = {added}<keepdims = 0>(e, first) z = Add(x, y) }}"
    )
    return onnx.parser.parse_model(text)
