"""What values are called where neither the file nor their readers say a word."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.traced import Traced

import fairhand
from fairhand.codegen.ir.naming import is_plain, output_names


def text_of(g: Traced, folder: Path, **outputs: str) -> str:
    """The network's source."""
    fairhand.compile(g.model(**outputs), folder / "net", verify=False)
    return (folder / "net" / "model.py").read_text("utf-8")


@pytest.mark.parametrize(
    "names, kept",
    [
        (["logits", "level_0", "level_1"], ["logits", "level_0", "level_1"]),
        (["p2", "p3", "out_1", "out_2"], ["p2", "p3", "out_1", "out_2"]),
        (["layer_norm_4", "linear_9", "boxes"], ["boxes"]),
        (["42", "/model/Add_output_0", "onnx::Add_7"], []),
    ],
)
def test_results_are_called_as_in_the_file_but_by_a_counter(
    names: list[str], kept: list[str]
) -> None:
    x = ir.Value(name="x")
    results = [ir.node("Relu", [x]).outputs[0] for _ in names]
    for value, name in zip(results, names, strict=True):
        value.name = name
    assert [*output_names(results, set()).values()] == kept


@pytest.mark.parametrize("norm", ["norm1", "post_attention_layernorm"])
def test_a_value_beside_another_is_called_after_what_makes_it(
    norm: str, tmp_path: Path
) -> None:
    g = Traced(x=["batch", 8])
    normed = g.layer_norm("x", norm, 8)
    both = [g("Tanh", g.fc(normed, name, 8, 8)) for name in ("fc1", "fc2")]
    y = g("Div", g("Mul", *both), g("Sub", "x", normed))
    text = text_of(g, tmp_path, y=y)
    assert f"normed = self.{norm}(x)" in text


def test_which_layers_names_say_no_more_than_their_sort() -> None:
    plain = "input_layernorm o_proj c_proj patch_conv dwconv downsample".split()
    assert all(map(is_plain, plain))
    assert not any(map(is_plain, ["word_embeddings", "gate_proj", "shortcut", "qkv"]))


def test_results_that_an_exporter_called_after_its_nodes_have_no_name() -> None:
    results = [ir.node("Div", [ir.Value(name="x")]).outputs[0] for _ in range(2)]
    for value, name, node in zip(
        results, ("div", "loss"), ("node_div", "node_mean"), strict=True
    ):
        value.name, value.producer().name = name, node
    assert [*output_names(results, set()).values()] == ["loss"]


def test_a_projection_gives_what_attention_calls_so(tmp_path: Path) -> None:
    g = Traced(x=["batch", 8])
    q = g.fc("x", "q_proj", 8, 8)
    text = text_of(g, tmp_path, y=g("Concat", g("Tanh", q), g("Exp", q), axis=1))
    assert "        q = self.q_proj(x)" in text


def test_sums_of_a_mask_are_no_mask(tmp_path: Path) -> None:
    g = Traced(x=["batch", 8], attention_mask=("int64", ["batch", 8]))
    sums = g("CumSum", g("Cast", "attention_mask", to=1), g.ints(1))
    text = text_of(g, tmp_path, y=g("Sum", g("Tanh", sums), g("Exp", sums), "x"))
    assert "        sums = attention_mask.float().cumsum(dim=1)" in text


def test_parts_are_told_by_their_order(tmp_path: Path) -> None:
    g = Traced(x=["batch", 8])
    a, b = g("Split", "x", axis=1, num_outputs=2, outputs=2)
    c, d = g("Split", g("Tanh", "x"), axis=1, num_outputs=2, outputs=2)
    products = [g("Mul", a, d), g("Sub", b, c), g("Mul", a, c), g("Mul", b, d)]
    text = text_of(g, tmp_path, y=g("Concat", *products, axis=1))
    assert "first, second = x.chunk(2, dim=1)" in text
    assert "first2, second2 = torch.tanh(x).chunk(2, dim=1)" in text


def test_a_cache_in_one_flat_list_is_keys_and_values(tmp_path: Path) -> None:
    g = Traced(x=["b", 1, 8], **{f"past_{i}": ["b", 2, 5, 4] for i in range(4)})
    x, made = "x", []
    for i in range(2):
        with g.module(f"layers.{i}", "Layer"):
            q, k, v = (g.split_heads(g.fc(x, name, 8, 8), 2, 4) for name in "qkv")
            k = g("Concat", f"past_{2 * i}", k, axis=2)
            v = g("Concat", f"past_{2 * i + 1}", v, axis=2)
            attended = g.join_heads(g.attend(q, k, v, 0.5), 8)
            x = g("Add", x, g.fc(attended, "out", 8, 8))
            made += [k, v]
    text = text_of(g, tmp_path, y=x, **dict(zip("abcd", made, strict=True)))
    assert "self, x: Tensor, past_key: Tensor, past_value: Tensor" in text
    assert "present_key, present_value, x = self.layers[0](x, past[0], past[1])" in text


def test_states_of_a_recurrent_layer_have_their_names(tmp_path: Path) -> None:
    g = Traced(x=[5, "batch", 3])
    w, r, b = g.param("w", 1, 16, 3), g.param("r", 1, 16, 4), g.param("b", 1, 32)
    y, h, c = g("LSTM", "x", w, r, b, hidden_size=4, outputs=3)
    out = g("Concat", g("Squeeze", y, g.ints(1)), g("Mul", h, c), axis=0)
    text = text_of(g, tmp_path, y=g("Mul", out, g("Add", h, c)))
    assert ", h_n, c_n = " in text


def test_what_is_inlined_of_a_size_is_not_called_after_it(tmp_path: Path) -> None:
    g = Traced(x=["batch", 4])
    batch = g("Shape", "x", start=0, end=1)
    stored = g.weight("val_7", value=np.arange(4, dtype=np.float32)[None])
    shape = g("Concat", batch, g.ints(4), axis=0)
    with g.module("block", "Block"):
        tiled = g("Expand", stored, shape)
        y = g("Add", g.fc(tiled, "block.a", 4, 4), g.fc("x", "block.b", 4, 4))
        y = g.relu(g("Mul", y, tiled))
    text = text_of(g, tmp_path, y=g.fc(y, "c", 4, 4))
    assert "batch: Tensor" not in text


def test_a_constant_of_a_size_is_not_called_after_what_has_it(tmp_path: Path) -> None:
    g = Traced(input_ids=("int64", ["batch", 4]))
    stored = g.weight("val_7", value=np.arange(4)[None, None] % 3)
    shape = g("Concat", g("Shape", "input_ids", start=0, end=1), g.ints(3, 4), axis=0)
    places = g("Expand", stored, shape)
    with g.module("rotary", "Rotary"):
        angles = g("Mul", g("Cast", places, to=1), g.param("inv_freq", 4))
        y = g("Mul", g("Sin", angles), g("Cos", angles))
    text = text_of(g, tmp_path, y=y, z=g("Neg", "input_ids"))
    assert "def forward(self, input_ids: Tensor) -> Tensor" not in text


def test_arguments_are_called_after_what_they_are_for(tmp_path: Path) -> None:
    g, x = Traced(x=["batch", 3, 8], y=["batch", 5, 8]), "x"
    for i in range(2):
        with g.module(f"layers.{i}", "Layer"):
            with g.module("attn", "Attention"):
                rows = (
                    g.fc(of, n, 8, 8)
                    for of, n in zip((x, "y", "y"), "qkv", strict=True)
                )
                q, k, v = (g.split_heads(row, 2, 4) for row in rows)
                hidden = g.join_heads(g.attend(q, k, v, 0.5), 8)
            with g.module("output", "Output"):
                total = g("Add", g.fc(hidden, "dense", 8, 8), x)
                x = g.layer_norm(total, "norm", 8)
    text = text_of(g, tmp_path, out=x)
    assert "def forward(self, x: Tensor, context: Tensor) -> Tensor" in text
    assert "self.norm(self.dense(x) + residual)" in text


def test_several_results_are_called_after_the_members_that_make_them(
    tmp_path: Path,
) -> None:
    g = Traced(x=["batch", 8], attention_mask=("int64", ["batch", 8]))
    mask = g("Cast", g("Unsqueeze", "attention_mask", g.ints(1)), to=1)
    with g.module("model", "Model"):
        made = ["x"]
        for name in ("encoder", "decoder"):
            with g.module(name, "Coder"):
                hidden = g.relu(g.fc(made[-1], "fc1", 8, 8))
                made.append(g.fc(hidden, "fc2", 8, 8))
    seen = g("Mul", g("Cast", "attention_mask", to=1), "x")
    y = g("Concat", g.fc(made[1], "head", 8, 8), made[2], seen, axis=1)
    text = text_of(g, tmp_path, y=y, z=g("Sub", g("Mul", mask, mask), mask))
    assert "encoder_out, decoder_out = self.model(" in text
    assert "mask = attention_mask.unsqueeze(1)" in text


def test_a_mask_among_several_results_is_called_so(tmp_path: Path) -> None:
    """As an encoder returns it for the attention of a decoder."""
    g = Traced(x=["batch", 8])
    lowest = float(np.finfo(np.float32).min)
    with g.module("encoder", "Encoder"):
        x = g.fc("x", "encoder.fc1", 8, 8)
        seen = g("Greater", x, g.number(0.0))
        mask = g("Where", seen, g.number(0.0), g.number(lowest))
        x = g.relu(g("Add", x, mask))
        x = g.fc(x, "encoder.fc2", 8, 8)
    with g.module("decoder", "Decoder"):
        y = g.relu(g("Add", g.fc(x, "decoder.fc1", 8, 8), mask))
        y = g("Mul", g.fc(y, "decoder.fc2", 8, 8), mask)
    text = text_of(g, tmp_path, y=g("Sub", y, "x"), z=x)
    assert "mask, z = self.encoder(x)" in text
    assert "self.decoder(z, mask)" in text


def test_what_a_gate_meets_is_none(tmp_path: Path) -> None:
    """As in Llama's MLP: one layer's result is gated by another's."""
    g = Traced(x=["batch", 8])
    with g.module("mlp", "Mlp"):
        up = g.fc("x", "up_proj", 8, 8)
        gate = g("Relu", g.fc("x", "gate_proj", 8, 8))
        y = g("Add", g("Mul", gate, up), up)
    text = text_of(g, tmp_path, y=g.fc(y, "head", 8, 3))
    assert "return F.relu(self.gate_proj(x)) * hidden + hidden" in text


@pytest.mark.parametrize("word", ["in", "len", "nn", "match"])
def test_no_part_of_a_name_is_a_word_of_the_language(tmp_path: Path, word: str) -> None:
    """What is read off state_in is no `in`, while that is still called so."""
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
        g (float[2, 3] state_{word}) => (float[4, 3] y, float[2, 3] z) {{
        one = Constant<value_ints = [0]>() wide = Constant<value_ints = [2, 2, 3]>()
        rows = Constant<value_ints = [4, 3]>() a = Unsqueeze(state_{word}, one)
        b = Expand(a, wide) c = Reshape(b, rows) s = Softmax(c) y = Mul(s, c)
        z = Softmax(state_{word}) }}""")
    fairhand.compile(model, tmp_path / "net", cache=False)
    text = (tmp_path / "net" / "model.py").read_text("utf-8")
    assert f" {word} = " not in text and f"= state_{word}.unsqueeze(0)" in text


def test_parts_of_a_modulation_are_called_after_what_they_do(tmp_path: Path) -> None:
    """Scale and shift from one part each, and a gate of what a layer makes of it."""
    g = Traced(x=["batch", 3, 8], c=["batch", 8])
    ends = range(0, 49, 8)
    cut = [
        g("Slice", g.fc("c", "ada", 8, 48), *(g.ints(n) for n in (a, b, 1)))
        for a, b in pairwise(ends)
    ]
    parts = [g("Unsqueeze", part, g.ints(1)) for part in cut]
    y = "x"
    for name, (shift, scale, gate) in zip("ab", (parts[:3], parts[3:]), strict=True):
        scaled = g("Mul", g("Tanh", y), g("Add", scale, g.number(1.0)))
        made = g.fc(g("Add", scaled, shift), name, 8, 8)
        y = g("Add", y, g("Mul", gate, made))
    text = text_of(g, tmp_path, y=y)
    names = "shift, scale, gate, shift2, scale2, gate2"
    assert f"{names} = self.ada(c).chunk(6, dim=1)" in text


@pytest.mark.parametrize("gated", [0, 1])
def test_a_part_behind_an_activation_is_a_gate(gated: int, tmp_path: Path) -> None:
    g = Traced(x=["batch", 8])
    parts = g("Split", g.fc("x", "proj", 8, 16), outputs=2, axis=1, num_outputs=2)
    y = g("Mul", g("Gelu", parts[gated]), parts[1 - gated])
    text = text_of(g, tmp_path, y=y)
    names = "gate, hidden" if gated == 0 else "hidden, gate"
    assert f"{names} = self.proj(x).chunk(2, dim=1)" in text


def test_what_a_class_returns_is_called_as_what_it_does_outside(tmp_path: Path) -> None:
    g = Traced(x=["batch", 8], c=["batch", 8])

    def changed(y: str, scale: str, shift: str) -> str:
        return str(
            g("Add", g("Mul", g("Tanh", y), g("Add", scale, g.number(1.0))), shift)
        )

    with g.module("norm", "AdaNorm"):
        parts = g("Split", g.fc("c", "ada", 8, 40), outputs=5, axis=1, num_outputs=5)
        y = changed("x", parts[1], parts[0])
    y = g("Add", "x", g("Mul", parts[2], g.fc(g("Relu", y), "mlp", 8, 8)))
    text = text_of(g, tmp_path, y=changed(y, parts[4], parts[3]))
    names = "shift, scale, gate, shift2, scale2"
    assert f"{names} = self.ada(c).chunk(5, dim=1)" in text


def test_a_mask_made_of_two_is_one_of_all_keys(tmp_path: Path) -> None:
    """Its last size is what two that aren't known to be equal broadcast to. It is no
    `x`, though nothing else is alive, and no `positions`, though it is chosen by them.
    """
    text = """<ir_version: 10, opset_import: ["": 23]> net (int64[b,1,1,t] seen,
        float[b,2,n,4] q, float[b,2,n,4] k, float[b,2,n,4] v) => (float[b,2,n,4] y)
        <int64 first = {0}, int64 step = {1}, int64 axis = {2}, int64[1] last = {-1},
         float zero = {0.0}, float low = {-65504.0}> {
        size = Shape <start = 2, end = 3> (k)
        number = Squeeze (size)
        places = Range (first, number, step)
        column = Unsqueeze (places, last)
        ahead = Greater (places, column)
        hidden = Where (ahead, low, zero)
        kept = Cast <to = 9> (seen)
        padding = Where (kept, zero, low)
        both = Add (hidden, padding)
        bias = Add (both, hidden)
        y = Attention (q, k, v, bias) }"""
    fairhand.compile(onnx.parser.parse_model(text), tmp_path / "net")
    source = (tmp_path / "net" / "model.py").read_text("utf-8")
    assert "F.scaled_dot_product_attention(q, k, v, attn_mask=mask" in source
    assert "positions = torch.where" not in source


def test_what_a_fused_attention_takes_has_its_names(tmp_path: Path) -> None:
    """Tables that are computed; the usual scale is not said."""
    text = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
        net (float[b,s,8] a, float[b,s,8] b, float[b,s,8] c, float[b,2,p,4] past_key,
            float[b,2,p,4] past_value, int32[b] last, float[64,1] steps)
        => (float[b,s,8] y, float[b,2,t,4] present_key, float[b,2,t,4] present_value)
        <int32 total = {5}, float[2] val_3 = {1.0, 0.1}> {
        turned = Mul (steps, val_3)
        c1 = Cos (turned)
        c2 = Cos (c1)
        s1 = Sin (turned)
        s2 = Sin (s1)
        y, present_key, present_value = com.microsoft.GroupQueryAttention
            <do_rotary = 1, num_heads = 2, kv_num_heads = 2, scale = 0.5>
            (a, b, c, past_key, past_value, last, total, c2, s2) }"""
    fairhand.compile(onnx.parser.parse_model(text), tmp_path / "net", verify=False)
    source = (tmp_path / "net" / "model.py").read_text("utf-8")
    assert "angles = steps * self.inv_freq" in source
    assert "cos = angles.cos().cos()" in source and "rotary=(cos, sin)" in source
    assert "scale=" not in source.partition("class Net")[2]


@pytest.mark.parametrize(("keys", "word"), [("e", "cross_mask"), ("d", "mask")])
def test_a_mask_of_an_encoders_states_is_a_cross_mask(
    keys: str, word: str, tmp_path: Path
) -> None:
    text = f"""<ir_version: 10, opset_import: ["": 23]> net (bool[b,{keys}] seen,
        bool[b,{keys}] kept, float[b,2,d,4] q, float[b,2,{keys},4] k,
        float[b,2,{keys},4] v)
        => (float[b,2,d,4] y)
        <int64[2] axes = {{1, 2}}, float zero = {{0.0}}, float low = {{-65504.0}}> {{
        both = And (seen, kept)
        row = Unsqueeze (both, axes)
        bias = Where (row, zero, low)
        negative = Neg (bias)
        first = Attention (q, k, v, bias)
        y = Attention (first, k, v, negative) }}"""
    fairhand.compile(onnx.parser.parse_model(text), tmp_path / "net", verify=False)
    source = (tmp_path / "net" / "model.py").read_text("utf-8")
    assert f"attn_mask={word}." in source and f"attn_mask={word}2." in source
