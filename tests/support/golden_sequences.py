"""Networks over sequences and numbers whose text is committed in tests/goldens/."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from support.networks import transformer
from support.search_models import float32, int32, search
from support.traced import Traced, stripped

HALF, ROOT = 0.5, float(np.float32(np.sqrt(2)))


def lstm_tagger() -> onnx.ModelProto:
    """Words in, a score for each tag of each word out."""
    g = Traced(ids=("int64", ["batch", "seq"]))
    with g.module("embedding", "Embedding"):
        x = g("Gather", g.param("weight", 20, 6), "ids")
    with g.module("lstm", "LSTM"):
        x = recurrent(g, x, "LSTM", 6, 8, 4)
    return g.model(tags=g.fc(x, "fc", 8, 5))


def gru_classifier() -> onnx.ModelProto:
    """Two layers; the last state is classified."""
    g = Traced(series=["batch", "time", 4])
    x = g("Transpose", "series", perm=[1, 0, 2])
    with g.module("gru", "GRU"):
        for i, wide in enumerate((4, 6)):
            weights = [
                g.weight(f"gru.w{i}", 1, 18, wide),
                g.weight(f"gru.r{i}", 1, 18, 6),
            ]
            weights += [g.weight(f"gru.b{i}", 1, 36)]
            form = {"hidden_size": 6, "linear_before_reset": 1, "outputs": 2}
            x, last = g("GRU", x, *weights, **form)
            x = g("Squeeze", x, g.ints(1))
    last = g("Squeeze", last, g.ints(0))
    return g.model(scores=g.head(last, "fc", 6, 3))


def recurrent(g: Traced, x: str, op: str, wide: int, hidden: int, gates: int) -> str:
    """One layer over [batch, time, wide], as exporters wrap ONNX's time-first one."""
    weights = [
        g.weight("onnx::W", 1, gates * hidden, wide),
        g.weight("onnx::R", 1, gates * hidden, hidden),
        g.weight("onnx::B", 1, 2 * gates * hidden),
    ]
    x = g("Transpose", x, perm=[1, 0, 2])
    x = g(op, x, *weights, hidden_size=hidden, outputs=3)[0]
    return str(g("Transpose", g("Squeeze", x, g.ints(1)), perm=[1, 0, 2]))


def encoder(opset: int, layers: int = 2) -> onnx.ModelProto:
    """A BERT-like encoder; before opset 17, norm and GELU are spelled out."""
    g = Traced(tokens=["batch", "seq", 8])
    g.opset = opset
    x = "tokens"
    with g.module("encoder", "Encoder"):
        for i in range(layers):
            with g.module(f"layers.{i}", "EncoderLayer"):
                x = encoder_layer(g, x)
    return g.model(states=norm(g, x, "norm"))


def encoder_layer(g: Traced, x: str) -> str:
    with g.module("attention", "SelfAttention"):
        q, k, v = (
            g.split_heads(g.fc(x, n, 8, 8), 2, 4) for n in ("query", "key", "value")
        )
        y = g.join_heads(g.attend(q, k, v, HALF), 8)
        y = g.fc(y, "output", 8, 8)
    x = norm(g, g("Add", x, y), "norm1")
    with g.module("mlp", "Mlp"):
        y = g.fc(x, "up", 8, 16)
        y = g("Gelu", y) if g.opset >= 20 else gelu(g, y)
        y = g.fc(y, "down", 16, 8)
    return norm(g, g("Add", x, y), "norm2")


def norm(g: Traced, x: str, name: str) -> str:
    if g.opset >= 17:
        return g.layer_norm(x, name, 8)
    with g.module(name, "LayerNorm"):
        centred = g("Sub", x, g("ReduceMean", x, axes=[-1]))
        square = g("ReduceMean", g("Pow", centred, g.number(2.0)), axes=[-1])
        y = g("Div", centred, g("Sqrt", g("Add", square, g.number(1e-5))))
        return str(g("Add", g("Mul", y, g.param("weight", 8)), g.param("bias", 8)))


def gelu(g: Traced, x: str) -> str:
    y = g("Add", g("Erf", g("Div", x, g.number(ROOT))), g.number(1.0))
    return str(g("Mul", g("Mul", x, y), g.number(HALF)))


def causal_decoder() -> onnx.ModelProto:
    """A prefill: each token sees those before it. Head and embedding are one matrix."""
    g = Traced(input_ids=("int64", ["batch", "seq"]))
    with g.module("wte", "Embedding"):
        x = g("Gather", g.param("weight", 16, 8), "input_ids")
    zero, one = (g.weight(f"val_int{n}", value=np.int64(n)) for n in (0, 1))
    length = g("Gather", g("Shape", "input_ids"), one, axis=0)
    places = g("Range", zero, length, one)
    with g.module("wpe", "Embedding"):
        places = g("Gather", g.param("weight", 32, 8), places)
    x = g("Add", x, places)
    side = g("Unsqueeze", length, g.ints(0))
    low = g("Expand", g.number(-1e9), g("Concat", side, side, axis=0))
    mask = g("Unsqueeze", g("Trilu", low, one, upper=1), g.ints(0, 1))
    for i in range(2):
        with g.module(f"h.{i}", "Block"):
            y = g.layer_norm(x, "ln_1", 8)
            with g.module("attn", "Attention"):
                y = g.fc(y, "c_attn", 8, 24)
                q, k, v = (
                    g.split_heads(z, 2, 4)
                    for z in g("Split", y, axis=-1, num_outputs=3, outputs=3)
                )
                y = g.fc(g.join_heads(g.attend(q, k, v, HALF, mask), 8), "c_proj", 8, 8)
            x = g("Add", x, y)
            y = g.fc(g.layer_norm(x, "ln_2", 8), "fc", 8, 16)
            x = g("Add", x, g.fc(g("Gelu", y, approximate="tanh"), "proj", 16, 8))
    x = g.layer_norm(x, "ln_f", 8)
    with g.module("lm_head", "Linear"):
        head = g("Transpose", "wte.weight", perm=[1, 0])
        return g.model(logits=g("MatMul", x, head))


def cached_decoder() -> onnx.ModelProto:
    """One step of decoding: keys and values of earlier tokens come in and go out."""
    past = {f"past_{n}{i}": ["batch", 2, "past", 4] for i in range(3) for n in "kv"}
    g = Traced(x=["batch", 1, 8], **past)
    x, present = "x", {}
    for i in range(3):
        with g.module(f"layers.{i}", "DecoderLayer"):
            y = g.layer_norm(x, "norm1", 8)
            q, k, v = (
                g.split_heads(g.fc(y, n, 8, 8), 2, 4) for n in ("query", "key", "value")
            )
            k = present[f"present_k{i}"] = g("Concat", f"past_k{i}", k, axis=2)
            v = present[f"present_v{i}"] = g("Concat", f"past_v{i}", v, axis=2)
            y = g.fc(g.join_heads(g.attend(q, k, v, HALF), 8), "out", 8, 8)
            x = g("Add", x, y)
            y = g("Gelu", g.fc(g.layer_norm(x, "norm2", 8), "up", 8, 16))
            x = g("Add", x, g.fc(y, "down", 16, 8))
    return g.model(states=g.layer_norm(x, "norm", 8), **present)


def llama_layers() -> onnx.ModelProto:
    """RMSNorm, rotated queries and keys, four heads that share two keys."""
    g = Traced(
        x=["batch", "seq", 16], cos=["batch", 1, "seq", 4], sin=["batch", 1, "seq", 4]
    )
    x = "x"
    for i in range(2):
        with g.module(f"layers.{i}", "LlamaDecoderLayer"):
            y = rms_norm(g, x, "input_layernorm")
            with g.module("self_attn", "LlamaAttention"):
                q = rotated(g, g.split_heads(g.fc(y, "q_proj", 16, 16, False), 4, 4))
                k = rotated(g, g.split_heads(g.fc(y, "k_proj", 16, 8, False), 2, 4))
                v = g.split_heads(g.fc(y, "v_proj", 16, 8, False), 2, 4)
                y = g.attend(q, repeated(g, k), repeated(g, v), HALF)
                y = g.fc(g.join_heads(y, 16), "o_proj", 16, 16, False)
            x = g("Add", x, y)
            y = rms_norm(g, x, "post_attention_layernorm")
            with g.module("mlp", "LlamaMLP"):
                gate = g.fc(y, "gate_proj", 16, 24, False)
                gate = g("Mul", gate, g("Sigmoid", gate))
                y = g("Mul", gate, g.fc(y, "up_proj", 16, 24, False))
                y = g.fc(y, "down_proj", 24, 16, False)
            x = g("Add", x, y)
    return g.model(states=rms_norm(g, x, "norm"))


def rms_norm(g: Traced, x: str, name: str) -> str:
    with g.module(name, "LlamaRMSNorm"):
        y = g("ReduceMean", g("Pow", x, g.number(2.0)), g.ints(-1))
        y = g("Reciprocal", g("Sqrt", g("Add", y, g.number(1e-6))))
        return str(g("Mul", g.param("weight", 16), g("Mul", x, y)))


def rotated(g: Traced, x: str) -> str:
    last = g.ints(3)
    first = g("Slice", x, g.ints(0), g.ints(2), last)
    second = g("Slice", x, g.ints(2), g.ints(2**63 - 1), last)
    turned = g("Concat", g("Neg", second), first, axis=-1)
    return str(g("Add", g("Mul", x, "cos"), g("Mul", turned, "sin")))


def repeated(g: Traced, x: str) -> str:
    """Each head twice: [batch, 2, seq, 4] to [batch, 4, seq, 4]."""
    y = g("Unsqueeze", x, g.ints(2))
    y = g("Expand", y, g.ints(1, 1, 2, 1, 1))
    return str(g("Reshape", y, g.ints(0, 4, -1, 4)))


def experts() -> onnx.ModelProto:
    """Two networks, weighed by what a third makes of the input."""
    g = Traced(x=["batch", 8])
    with g.module("gate", "Gate"):
        gates = g("Softmax", g.fc("x", "proj", 8, 2), axis=-1)
    parts = g("Split", gates, axis=-1, num_outputs=2, outputs=2)
    made = []
    for i, part in enumerate(parts):
        with g.module(f"experts.{i}", "Expert"):
            y = g.fc(g.relu(g.fc("x", "fc1", 8, 16)), "fc2", 16, 8)
        made.append(g("Mul", y, part))
    return g.model(y=g("Add", *made), gates=gates)


def tied_autoencoder() -> onnx.ModelProto:
    """One matrix on the way in and, transposed, on the way out; two outputs."""
    g = Traced(x=["batch", 8])
    weight = g.weight("weight", 8, 3)
    code = g("Tanh", g("Add", g("MatMul", "x", weight), g.weight("hidden_bias", 3)))
    back = g("MatMul", code, g("Transpose", weight, perm=[1, 0]))
    return g.model(back=g("Add", back, g.weight("visible_bias", 8)), code=code)


def masked_pool() -> onnx.ModelProto:
    """Means over the tokens that a mask lets through; others count as nothing."""
    g = Traced(states=["batch", "seq", 8], mask=("bool", ["batch", "seq"]))
    keep = g("Unsqueeze", "mask", g.ints(2))
    kept = g("Where", keep, "states", g.number(0.0))
    count = g(
        "ReduceSum", g("Cast", keep, to=onnx.TensorProto.FLOAT), g.ints(1), keepdims=0
    )
    total = g("ReduceSum", kept, g.ints(1), keepdims=0)
    mean = g("Div", total, g("Max", count, g.number(1.0)))
    scores = g(
        "Where", "mask", g("ReduceMax", "states", g.ints(2), keepdims=0), g.number(-1e9)
    )
    return g.model(mean=g.head(mean, "fc", 8, 4), weights=g("Softmax", scores, axis=-1))


def odd_ends() -> onnx.ModelProto:
    """An output that is an input, a number without axes, whole numbers, a table that
    has no name."""
    g = Traced(x=["batch", 3], scale=[], ids=("int64", ["batch"]))
    seven, three = (g.weight(f"val_i{n}", value=np.int64(n)) for n in (7, 3))
    bucket = g("Mod", g("Add", g("Mul", "ids", three), seven), seven)
    half = g("Div", bucket, three)
    y = g("Mul", g("Sub", "x", "scale"), "scale")
    same = g("Identity", "x")
    table = g.weight("val_9", value=np.sqrt(np.arange(96, dtype=np.float32)[:, None]))
    over = g("Max", g("Unsqueeze", "x", g.ints(1)), table)
    return g.model(
        y=y,
        bucket=bucket,
        half=half,
        same=same,
        scale_again=g("Identity", "scale"),
        above=g("ReduceMean", over, g.ints(1), keepdims=0),
    )


def beam_search() -> onnx.ModelProto:
    """ONNX Runtime's BeamSearch over a decoder of two layers."""
    inputs = {
        "input_ids": np.zeros((2, 3), np.int32),
        "max_length": int32(24),
        "min_length": int32(5),
        "num_beams": int32(4),
        "num_return_sequences": int32(2),
        "length_penalty": float32(1),
        "repetition_penalty": float32(1.2),
    }
    return search("BeamSearch", inputs, "input_ids", ("sequences", "sequences_scores"))


def llama_step() -> onnx.ModelProto:
    """Two layers of a Llama with DynamicCache, as PyTorch 2.13's exporter writes them.

    Made by examples/export_gallery.py with transformers 5.24, which CI hasn't, and
    other sizes (hidden 16, 4 heads, 2 of keys, 48 tokens); of the metadata, the scopes
    are left.
    """
    return onnx.load(Path(__file__).with_name("exported") / "llama_step.onnx")


def gemma_step() -> onnx.ModelProto:
    """The same of four layers of a Gemma 3, every second one without a window."""
    return onnx.load(Path(__file__).with_name("exported") / "gemma_step.onnx")


def gemma_windows() -> onnx.ModelProto:
    """The same again, whose layers with a window keep no more of a cache than that."""
    return onnx.load(Path(__file__).with_name("exported") / "gemma_windows.onnx")


def bert_open() -> onnx.ModelProto:
    """Two layers of BERT of open batch and length, by the same exporter.

    Sizes are small (hidden 16, 4 heads, 20 words, 64 places), numbers drawn.
    """
    return onnx.load(Path(__file__).with_name("exported") / "bert_open.onnx")


SEQUENCES = {
    "beam_search": beam_search,
    "lstm_tagger": lstm_tagger,
    "gru_classifier": gru_classifier,
    "encoder_opset13": lambda: encoder(13),
    "encoder_opset20": lambda: encoder(20),
    "encoder_merged": lambda: encoder(20),
    "encoder_torchscript": lambda: transformer(2),
    "encoder_stripped": lambda: stripped(encoder(20, 3)),
    "causal_decoder": causal_decoder,
    "cached_decoder": cached_decoder,
    "llama_layers": llama_layers,
    "llama_step": llama_step,
    "gemma_step": gemma_step,
    "gemma_windows": gemma_windows,
    "bert_open": bert_open,
    "experts": experts,
    "tied_autoencoder": tied_autoencoder,
    "masked_pool": masked_pool,
    "odd_ends": odd_ends,
}
