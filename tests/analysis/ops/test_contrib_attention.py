"""Attention and caches of ONNX Runtime's own operators, and a whole decoder of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.contrib_decoder import LAYERS, decoder, empty_cache
from support.contrib_models import (
    RNG,
    Arrays,
    assert_close,
    call,
    check,
    emitted,
    model,
    normal,
    session,
)
from support.emitted import imported

import fairhand

Q, K, V = normal(2, 3, 16), normal(2, 5, 16), normal(2, 5, 16)
PADDED = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)
LENGTHS, BOUNDS = np.array([3, 4], np.int32), np.array([3, 5, 0, 2], np.int32)
SCATTERED = RNG.integers(0, 2, (2, 3, 5)).astype(np.int32)
BIAS = {"b": normal(48)}
PAST = {"pk": normal(2, 4, 2, 4), "pv": normal(2, 4, 2, 4)}
SELF = {"q": Q, "k": normal(2, 3, 16), "v": normal(2, 3, 16)}
CROSS = {"q": Q, "k": K, "v": V}


def multi_head(
    inputs: str, feeds: Arrays, outputs: str = "y", **attrs: Any
) -> tuple[Any, ...]:
    node = call("MultiHeadAttention", inputs, outputs, num_heads=4, **attrs)
    weights = BIAS if "b" in inputs.split() and "b" not in feeds else {}
    return node, feeds, weights, outputs


X, TOKENS = normal(2, 5, 12), {"w": normal(12, 48) * 0.3, "b": normal(48)}
LONG = np.array([[1] * 6 + [0], [1] * 7], np.int32)
FULL = RNG.integers(0, 2, (2, 5, 5)).astype(np.int32)


def attention(
    inputs: str, outputs: str = "y", weights: Arrays = TOKENS, **rest: Any
) -> tuple[Any, ...]:
    feeds = {"x": X} | {k: v for k, v in rest.items() if isinstance(v, np.ndarray)}
    attrs = {k: v for k, v in rest.items() if k not in feeds}
    node = call("Attention", inputs, outputs, num_heads=4, **attrs)
    return node, feeds, weights, outputs


@pytest.mark.parametrize("size", ["ends", 2, 4])
def test_ends_and_perhaps_starts(size: int | str, tmp_path: Path) -> None:
    """Which of the two a mask of open size holds, it says when it is run."""
    node, feeds, weights, _ = attention("x w b m", m=BOUNDS)
    made = model([node], feeds, weights)
    x, mask = (info.type.tensor_type.shape.dim for info in made.graph.input)
    x[0].dim_param = "batch"
    if isinstance(size, str):
        mask[0].dim_param = size
    else:
        mask[0].dim_value = size
    ours, theirs = emitted(made, tmp_path)[0], session(made)
    for bounds in (BOUNDS, BOUNDS[:2]):
        if size in ("ends", bounds.size):
            fed = {"x": X, "m": bounds}
            assert_close(ours.run(None, fed), theirs.run(None, fed))


ROTARY = {
    "c": np.cos(np.arange(20)[:, None] / np.arange(1, 5)).astype(np.float32),
    "s": np.sin(np.arange(20)[:, None] / np.arange(1, 5)).astype(np.float32),
}
PLACES = np.array([[0, 3, 1], [4, 4, 2]])


def rotary(x: np.ndarray, places: np.ndarray, **attrs: Any) -> tuple[Any, ...]:
    node = call("RotaryEmbedding", "x p c s", **attrs)
    return node, {"x": x, "p": places}, ROTARY, "y"


CASES = {
    "plain": multi_head("q k v", CROSS),
    "bias": multi_head("q k v b", CROSS, scale=0.3),
    "padded": multi_head("q k v b m", CROSS | {"m": PADDED}),
    "padded-filter": multi_head(
        "q k v _ m", CROSS | {"m": PADDED}, mask_filter_value=-2.0
    ),
    "lengths": multi_head("q k v b m", CROSS | {"m": LENGTHS}),
    "mask-of-queries": multi_head("q k v b m", CROSS | {"m": SCATTERED}),
    "score-bias": multi_head(
        "q k v _ m a", CROSS | {"m": PADDED, "a": normal(1, 4, 3, 5)}
    ),
    "causal": multi_head("q k v", SELF, unidirectional=1),
    "past": multi_head("q k v _ _ _ pk pv", SELF | PAST, "y nk nv", unidirectional=1),
    "heads-first": multi_head(
        "q k v b", {"q": Q, "k": normal(2, 4, 5, 4), "v": normal(2, 4, 5, 4)}
    ),
    "wide-values": multi_head(
        "q k v b", {"q": Q, "k": K, "v": normal(2, 5, 24), "b": normal(56)}
    ),
    "packed": attention("x w b"),
    "packed-causal": attention("x w b", unidirectional=1, scale=0.2),
    "packed-padded": attention("x w b m", m=PADDED),
    "packed-lengths": attention("x w b m", m=LENGTHS),
    "packed-bounds": attention("x w b m", m=BOUNDS),
    "packed-mask": attention("x w b m", m=FULL),
    "packed-past": attention(
        "x w b m p", "y n", m=LONG, p=normal(2, 2, 4, 2, 4), unidirectional=1
    ),
    "packed-sizes": attention(
        "x w b",
        weights={"w": normal(12, 40), "b": normal(40)},
        qkv_hidden_sizes=[16, 16, 8],
    ),
    "packed-bias": attention("x w b _ _ r", r=normal(1, 4, 5, 5)),
    "rotary": rotary(normal(2, 3, 32), PLACES),
    "rotary-neighbours": rotary(normal(2, 3, 32), PLACES, num_heads=4, interleaved=1),
    "rotary-heads": rotary(normal(2, 4, 3, 8), PLACES),
    "rotary-part": rotary(
        normal(2, 3, 64), PLACES, num_heads=4, rotary_embedding_dim=8
    ),
    "rotary-first": rotary(normal(2, 3, 32), np.array([5])),
}


@pytest.mark.parametrize("name", CASES)
def test_against_onnx_runtime(name: str, tmp_path: Path) -> None:
    node, feeds, weights, outputs = CASES[name]
    text = check(model([node], feeds, weights, outputs), feeds, tmp_path)
    if node.op_type != "RotaryEmbedding" and "past" not in name:
        assert "F.scaled_dot_product_attention(" in text


def test_dynamic_sizes(tmp_path: Path) -> None:
    node, feeds, weights, outputs = CASES["packed-past"]
    shapes = {"x": ["b", "s", 12], "m": ["b", "t"], "p": [2, "b", 4, "past", 4]}
    made = model([node], feeds, weights, outputs, shapes=shapes)
    check(made, feeds, tmp_path)
    node, feeds, weights, outputs = CASES["rotary-first"]
    made = model([node], feeds, weights, outputs, shapes={"x": ["b", "s", 32]})
    check(made, feeds, tmp_path)


def test_tables_of_an_if(tmp_path: Path) -> None:
    """Of a long context or a short one, as onnxruntime-genai writes them."""

    def branch(rows: int) -> onnx.GraphProto:
        made = [
            onnx.numpy_helper.from_array(ROTARY[n][:rows], f"{n}{rows}") for n in "cs"
        ]
        outs = [onnx.helper.make_tensor_value_info(t.name, 1, t.dims) for t in made]
        nodes = [onnx.helper.make_node("Constant", [], [t.name], value=t) for t in made]
        return onnx.helper.make_graph(nodes, "tables", [], outs)

    chosen = onnx.helper.make_node(
        "If", ["long"], ["c", "s"], then_branch=branch(20), else_branch=branch(10)
    )
    node = call("RotaryEmbedding", "x p c s")
    for long in (True, False):
        feeds = {"x": normal(2, 3, 32), "p": PLACES, "long": np.array(long)}
        made = model([chosen, node], feeds)
        for name in "cs":
            named = onnx.helper.make_tensor_value_info(name, 1, ["rows", "half"])
            made.graph.value_info.append(named)
        check(made, feeds, tmp_path)


# ---- packings that ONNX Runtime has no kernel for, against those that it has


def test_packed_heads(tmp_path: Path) -> None:
    qkv = normal(2, 3, 4, 3, 8)
    parts = [np.ascontiguousarray(qkv[..., i, :]).reshape(2, 3, 32) for i in range(3)]
    plain, feeds, _, _ = multi_head("q k v", dict(zip("qkv", parts, strict=True)))
    wanted = session(model([plain], feeds)).run(None, feeds)
    node = call("MultiHeadAttention", "q", num_heads=4)
    check(model([node], {"q": qkv}), {"q": qkv}, tmp_path, wanted)
    both = {"q": parts[0], "k": np.ascontiguousarray(qkv[..., 1:, :])}
    node = call("MultiHeadAttention", "q k", num_heads=4)
    check(model([node], both), both, tmp_path, wanted)


_SIZES = {"num_heads": 4, "kv_num_heads": 2}
STEP = {
    "q": normal(2, 1, 32),
    "k": normal(2, 1, 16),
    "v": normal(2, 1, 16),
    "pk": normal(2, 2, 3, 8),
    "pv": normal(2, 2, 3, 8),
    "l": np.array([3, 3], np.int32),
    "t": np.array(4, np.int32),
}


def test_packed_queries_keys_and_values(tmp_path: Path) -> None:
    packed = {k: v for k, v in STEP.items() if k not in "qkv"}
    packed["x"] = np.concatenate([STEP[name] for name in "qkv"], axis=2)
    node = call("GroupQueryAttention", "x _ _ pk pv l t", "y nk nv", **_SIZES)
    check(model([node], packed, {}, "y nk nv"), packed, tmp_path)


def test_lengths_in_a_column(tmp_path: Path) -> None:
    """As onnxruntime-genai 0.6 writes them: the sum of a mask that keeps its axis."""
    node = call("GroupQueryAttention", "q k v pk pv l t", "y nk nv", **_SIZES)
    column = STEP | {"l": np.array([[3], [3]], np.int32)}
    check(model([node], column, {}, "y nk nv"), column, tmp_path)


@pytest.mark.parametrize("form", [{}, {"softcap": 2.0}, {"sliding_window_cache": 1}])
def test_what_lies_behind_the_keys_is_not_read(
    form: dict[str, Any], tmp_path: Path
) -> None:
    """ONNX Runtime leaves there what its memory held, as numbers or as NaN."""
    window = {"local_window_size": 4} if "sliding_window_cache" in form else {}
    node = call(
        "GroupQueryAttention", "q k v pk pv l t", "y nk nv", **_SIZES, **form, **window
    )
    past = {name: normal(2, 2, 6, 8) for name in ("pk", "pv")}
    lengths = [3, 1]
    for row, length in enumerate(lengths):
        past["pk"][row, :, length:], past["pv"][row, :, length:] = np.inf, np.nan
    feeds = STEP | past | {"l": np.array(lengths, np.int32)}
    made = model([node], feeds, {}, "y nk nv")
    got = emitted(made, tmp_path)[0].run(None, feeds)
    wanted = session(made).run(None, feeds)
    assert_close(got[:1], wanted[:1])
    for row, length in enumerate(lengths):
        kept = ([x[row, :, : length + 1] for x in side[1:]] for side in (got, wanted))
        assert_close(*kept)


def test_norms_inside_of_attention(tmp_path: Path) -> None:
    """Queries and keys are normalised head by head before they meet."""
    weights = {"gq": normal(8), "gk": normal(8)}
    inputs = "q k v pk pv l t _ _ _ _ _ _ _ gq gk"
    node = call(
        "GroupQueryAttention", inputs, "y nk nv", qk_norm_epsilon=1e-5, **_SIZES
    )
    plain = call("GroupQueryAttention", "q k v pk pv l t", "y nk nv", **_SIZES)

    def normed(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        heads = x.reshape(2, 1, -1, 8)
        root = np.sqrt((heads**2).mean(axis=-1, keepdims=True) + np.float32(1e-5))
        return (heads / root * weight).reshape(x.shape)

    apart = STEP | {n: normed(STEP[n], weights[f"g{n}"]) for n in "qk"}
    wanted = session(model([plain], apart, {}, "y nk nv")).run(None, apart)
    check(model([node], STEP, weights, "y nk nv"), STEP, tmp_path, wanted)


# ---- a decoder


@pytest.mark.parametrize("room", [0, 24], ids=["growing", "with-room"])
@pytest.mark.parametrize("bits", [None, 4, 8])
def test_decoding_with_a_cache(bits: int | None, room: int, tmp_path: Path) -> None:
    """A prompt and 16 steps after it, each side with the cache that it gave itself."""
    proto = decoder(bits)
    oracle = session(proto)
    net, text = emitted(proto, tmp_path)
    names = [output.name for output in oracle.get_outputs()]
    caches = [empty_cache(2, room), empty_cache(2, room)]
    ids, length = np.array([[3, 1, 4, 1], [5, 9, 2, 6]]), 4
    for _ in range(17):
        feed = {"input_ids": ids, "attention_mask": np.ones((2, length), np.int64)}
        sides = zip((oracle, net), caches, strict=True)
        wanted, got = (side.run(None, feed | cache) for side, cache in sides)
        assert_close(got, wanted, whole_model=True)
        caches = [
            {
                n.replace("present", "past"): x
                for n, x in zip(names[1:], made[1:], strict=True)
            }
            for made in (wanted, got)
        ]
        ids, length = wanted[0][:, -1:].argmax(axis=-1), length + 1
    assert caches[1]["past_key_0"].shape[2] == (room or length - 1)
    assert f"nn.ModuleList(Layer() for _ in range({LAYERS}))" in text
    assert ("self.q_proj = PackedLinear(64, 64, 32" in text) == (bits is not None)


@pytest.mark.slow
def test_a_decoder_is_verified(tmp_path: Path) -> None:
    package = fairhand.compile(decoder(), tmp_path / "net")
    found = package.report["verification"]
    assert found["worst_relative_error"] < 1e-5 and len(found["cases"]) >= 2


def test_layers_whose_names_a_quantiser_lost(tmp_path: Path) -> None:
    """The norms kept theirs, which says nothing of the rest."""
    proto = decoder()
    new = {w.name: f"w{i}" for i, w in enumerate(proto.graph.initializer)}
    for weight in proto.graph.initializer:
        weight.name = new[weight.name]
    for i, node in enumerate(proto.graph.node):
        node.input[:] = [new.get(name, name) for name in node.input]
        node.name = node.name if "Norm" in node.op_type else f"n{i}"
    package = fairhand.compile(proto, tmp_path / "net", verify=False)
    text = (package.path / "model.py").read_text(encoding="utf-8")
    classes = re.findall(r"^class (\w+)", text, re.MULTILINE)
    assert classes == ["PackedLinear", "Attention", "Mlp", "Layer", "Decoder"]
    assert "for layer, (past_key, past_value) in zip(self.layers, past" in text
    for name in ("query", "key", "value", "out", "gate", "up", "down"):
        assert f"self.{name} = PackedLinear(" in text
    assert "x, past_key, past_value, counts, cos, sin" in text


def test_a_wrapper_around_the_cached_layers_is_left_out(tmp_path: Path) -> None:
    """It would be handed every layer's keys and values one by one."""
    package = fairhand.compile(decoder(), tmp_path / "net", verify=False)
    text = (package.path / "model.py").read_text(encoding="utf-8")
    assert "for layer, (past_key, past_value) in zip(self.layers, past" in text
    assert "self.lm_head(self.norm(x)), present" in text
    faithful = fairhand.compile(decoder(), tmp_path / "o0", verify=False, level=0)
    state = imported(faithful.path).load().state_dict()
    assert "model.layers.1.post_attention_layernorm.weight" in state


def test_ends_of_samples_whose_number_the_file_does_not_name(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8,
        opset_import: ["": 17, "com.microsoft": 1]>
    net (float[batch, n, 4] x, int64[batch, n] mask) => (float[batch, n, 4] y)
        <int64[3] one = {1, 1, 1}, int64[1] last = {1}> {
        mask_32 = Cast <to = 6> (mask)
        ends = ReduceSum <keepdims = 0> (mask_32, last)
        sizes = Shape (x)  same = Mul (sizes, one)  h = Reshape (x, same)
        y = com.microsoft.Attention <num_heads = 2> (h, w, b, ends)
    }""")
    for name, array in (("w", normal(4, 12)), ("b", normal(12))):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    assert fairhand.compile(proto, tmp_path / "net", cache=False).report["verification"]
