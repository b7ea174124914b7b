"""What exporters make of one layer becomes that layer again, and computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator
from support.emitter_models import Graph
from support.rule_samples import run

from fairhand.codegen.load.read_model import load
from fairhand.rewrites.simplify import simplify

F32 = np.float32


class Layer(Graph):
    """A graph whose nodes also take numbers and arrays."""

    def __call__(self, op: str, *inputs: Any, **more: Any) -> Any:
        names = []
        for x in inputs:
            if not isinstance(x, str):
                array = np.asarray(x, None if isinstance(x, np.ndarray) else F32)
                x = self.weight(f"onnx::number_{len(self.weights)}", value=array)
            names.append(x)
        return super().__call__(op, *names, **more)

    def vector(self, size: int) -> str:
        return self.weight(f"onnx::weight_{len(self.weights)}", size)

    def heads(self, x: str, perm: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        return str(self("Transpose", self("Reshape", x, SPLIT), perm=perm))


AXIS = np.array([-1])
SPLIT, JOIN = np.array([2, 5, 3, 4]), np.array([2, 5, 12])
ABOVE = np.triu(np.full((1, 1, 5, 5), -np.inf, F32), 1)


# ---- tf2onnx


def keras_layer_norm(g: Layer) -> str:
    """tf.nn.batch_normalization over the moments: x t + (b - m t)."""
    mean = g("ReduceMean", "x", AXIS)
    centred = g("Sub", "x", mean)
    variance = g("ReduceMean", g("Mul", centred, centred), AXIS)
    root = g("Reciprocal", g("Sqrt", g("Add", variance, 1e-3)))
    factor = g("Mul", root, g.vector(12))
    shift = g("Sub", g.vector(12), g("Mul", mean, factor))
    return str(g("Add", g("Mul", "x", factor), shift))


def keras_gelu(g: Layer) -> str:
    erf = g("Erf", g("Div", "x", 2**0.5))
    return str(g("Mul", g("Mul", 0.5, "x"), g("Add", 1, erf)))


def keras_gelu_tanh(g: Layer) -> str:
    cube = g("Mul", 0.044715, g("Pow", "x", 3))
    inner = g("Mul", 0.7978846, g("Add", "x", cube))
    return str(g("Mul", g("Mul", 0.5, "x"), g("Add", 1, g("Tanh", inner))))


def channels_last(g: Layer) -> str:
    """Convolutions of TensorFlow, each between two transpositions; bias and Relu."""
    x = "image"
    for _ in range(2):
        x = g("Transpose", x, perm=(0, 3, 1, 2))
        x = g("Conv", x, g.weight(f"onnx::k{len(g.weights)}", 6, 6, 3, 3))
        x = g("Add", g("Transpose", x, perm=(0, 2, 3, 1)), g.vector(6))
        x = g("Relu", x)
    return str(x)


def same_padding(g: Layer) -> str:
    """The stride of two for which TensorFlow pads one side more than the other."""
    padded = g("Pad", "map", np.array([0, 0, 0, 0, 0, 0, 1, 1]))
    return str(g("Conv", padded, g.weight("onnx::k", 4, 6, 3, 3), strides=[2, 2]))


def dense(g: Layer) -> str:
    rows = g("Reshape", "x", np.array([-1, 12]))
    product = g("MatMul", rows, g.weight("onnx::w", 12, 7))
    return str(g("Add", g("Reshape", product, np.array([2, 5, 7])), g.vector(7)))


def unfused_batch_norm(g: Layer) -> str:
    y = g("Conv", "map", g.weight("onnx::k", 4, 6, 3, 3))
    scale, shift = (g.weight(f"onnx::{n}", 1, 4, 1, 1) for n in "st")
    return str(g("Add", g("Mul", y, scale), shift))


def relu6(g: Layer) -> str:
    return str(g("Min", g("Max", "x", 0), 6))


def keras_hard_swish(g: Layer) -> str:
    return str(g("Mul", "x", g("Mul", g("Min", g("Relu", g("Add", "x", 3)), 6), 1 / 6)))


def google_bert(g: Layer) -> str:
    """Scores scaled after the product; what is masked gets -10000."""
    q, k, v = (g.heads(x) for x in ("x", "y", "z"))
    scores = g("MatMul", q, g("Transpose", k, perm=(0, 1, 3, 2)))
    mask = g("Mul", g("Sub", 1, g("Unsqueeze", "seen", np.array([1, 2]))), -1e4)
    p = g("Softmax", g("Add", g("Mul", scores, 0.5), mask), axis=-1)
    return joined(g, g("MatMul", p, v))


# ---- paddle2onnx


def paddle_layer_norm(g: Layer) -> str:
    centred = g("Sub", "x", g("ReduceMean", "x", AXIS))
    variance = g("ReduceMean", g("Pow", centred, 2), AXIS)
    normal = g("Div", centred, g("Sqrt", g("Add", variance, 1e-5)))
    return str(g("Add", g("Mul", normal, g.vector(12)), g.vector(12)))


def paddle_gelu(g: Layer) -> str:
    erf = g("Add", g("Erf", g("Div", "x", 2**0.5)), 1)
    return str(g("Mul", g("Mul", "x", erf), 0.5))


def paddle_hard_swish(g: Layer) -> str:
    clipped = g("Clip", g("Add", "x", 3), np.array(0, F32), np.array(6, F32))
    return str(g("Div", g("Mul", "x", clipped), 6))


def paddle_conv(g: Layer) -> str:
    y = g("Conv", "map", g.weight("onnx::k", 4, 6, 3, 3))
    return str(g("Add", y, g("Reshape", g.vector(4), np.array([1, -1, 1, 1]))))


def paddle_softmax(g: Layer) -> str:
    """Of an inner axis, which older operators could only do at the end."""
    last = g("Softmax", g("Transpose", "map", perm=(0, 2, 3, 1)), axis=-1)
    return str(g("Transpose", last, perm=(0, 3, 1, 2)))


def paddle_flatten(g: Layer) -> str:
    head = g("Slice", g("Shape", "map"), np.array([0]), np.array([1]), np.array([0]))
    return str(g("Reshape", "map", g("Concat", head, np.array([-1]), axis=0)))


def mish(g: Layer) -> str:
    return str(g("Mul", "x", g("Tanh", g("Softplus", "x"))))


def swish(g: Layer) -> str:
    return str(g("Mul", "x", g("Sigmoid", "x")))


# ---- torch


def group_norm(g: Layer) -> str:
    rows = g("Reshape", "map", np.array([0, 3, -1]))
    normal = g("InstanceNormalization", rows, np.ones(3, F32), np.zeros(3, F32))
    y = g("Reshape", normal, g("Shape", "map"))
    scale, shift = (g.weight(f"onnx::{n}", 6, 1, 1) for n in "st")
    return str(g("Add", g("Mul", y, scale), shift))


def rms_norm(g: Layer) -> str:
    mean = g("ReduceMean", g("Pow", "x", 2), AXIS)
    root = g("Div", 1, g("Sqrt", g("Add", mean, 1e-6)))
    return str(g("Mul", g.vector(12), g("Mul", "x", root)))


def pixel_shuffle(g: Layer) -> str:
    y = g("Reshape", "wide", np.array([1, 2, 2, 2, 3, 3]))
    y = g("Transpose", y, perm=(0, 1, 4, 2, 5, 3))
    return str(g("Reshape", y, np.array([1, 2, 6, 6])))


def space_to_depth(g: Layer) -> str:
    y = g("Reshape", "map", np.array([2, 6, 4, 2, 4, 2]))
    y = g("Transpose", y, perm=(0, 3, 5, 1, 2, 4))
    return str(g("Reshape", y, np.array([2, 24, 4, 4])))


def quick_gelu(g: Layer) -> str:
    return str(g("Mul", "x", g("Sigmoid", g("Mul", "x", 1.702))))


def log_softmax(g: Layer) -> str:
    return str(g("Log", g("Softmax", "x", axis=-1)))


def joined(g: Layer, mixed: str) -> str:
    return str(g("Reshape", g("Transpose", mixed, perm=(0, 2, 1, 3)), JOIN))


def attention(g: Layer, mask: Any) -> str:
    """Keys transposed at once, scores divided, a mask added."""
    q, v = g.heads("x"), g.heads("z")
    scores = g("MatMul", q, g.heads("y", (0, 2, 3, 1)))
    scores = g("Add", g("Div", scores, 2), mask)
    return joined(g, g("MatMul", g("Softmax", scores, axis=-1), v))


def causal(g: Layer) -> str:
    return attention(g, ABOVE)


def nearly_causal(g: Layer) -> str:
    """One key may be seen too early, so the mask has to stay."""
    mask = ABOVE.copy()
    mask[0, 0, 1, 3] = 0
    return attention(g, mask)


SLOPES = np.array([0.25, 0.0625, 0.015625], F32).reshape(1, 3, 1, 1)


def alibi(g: Layer) -> str:
    """BLOOM: the slopes times the keys' places, to which the scores are added."""
    places = g("Mul", SLOPES, np.arange(5, dtype=F32))
    scores = g("MatMul", g.heads("x"), g.heads("y", (0, 2, 3, 1)))
    scores = g("Add", g("Add", places, g("Mul", scores, 0.5)), ABOVE)
    return joined(g, g("MatMul", g("Softmax", scores, axis=-1), g.heads("z")))


def packed(g: Layer) -> str:
    """One product for queries, keys and values, which is then split."""
    whole = g.linear("x", "qkv", 12, 36)
    q, k, v = g("Split", whole, np.array([12, 12, 12]), axis=-1, outputs=3)
    scores = g("MatMul", g.heads(q), g.heads(k, (0, 2, 3, 1)))
    p = g("Softmax", g("Mul", scores, 0.5), axis=-1)
    return joined(g, g("MatMul", p, g.heads(v)))


def grouped(g: Layer) -> str:
    """One head of keys for two of queries, repeated."""
    q = g("Transpose", g("Reshape", "x", np.array([2, 5, 6, 2])), perm=(0, 2, 1, 3))
    k, v = (g("Reshape", n, np.array([2, 10, 3, 2])) for n in ("y", "z"))
    k, v = (g("Transpose", n, perm=(0, 2, 1, 3)) for n in (k, v))
    k, v = (g("Unsqueeze", n, np.array([2])) for n in (k, v))
    k, v = (g("Expand", n, np.array([2, 3, 2, 10, 2])) for n in (k, v))
    k, v = (g("Reshape", n, np.array([2, 6, 10, 2])) for n in (k, v))
    scores = g("MatMul", q, g("Transpose", k, perm=(0, 1, 3, 2)))
    p = g("Softmax", g("Mul", scores, 2**-0.5), axis=-1)
    return joined(g, g("MatMul", p, v))


HEADS = "Reshape Transpose " * 3 + "Attention Transpose Reshape"
CASES: list[tuple[Callable[[Layer], str], str]] = [
    (keras_layer_norm, "LayerNormalization"),
    (keras_gelu, "Gelu"),
    (keras_gelu_tanh, "Gelu"),
    (channels_last, "Transpose Conv Relu Conv Relu Transpose"),
    (same_padding, "Conv"),
    (dense, "MatMul Add"),
    (unfused_batch_norm, "Conv"),
    (relu6, "Clip"),
    (keras_hard_swish, "HardSwish"),
    (google_bert, f"Unsqueeze Sub Mul {HEADS}"),
    (paddle_layer_norm, "LayerNormalization"),
    (paddle_gelu, "Gelu"),
    (paddle_hard_swish, "HardSwish"),
    (paddle_conv, "Conv"),
    (paddle_softmax, "Softmax"),
    (paddle_flatten, "Reshape"),
    (mish, "Mish"),
    (swish, "Swish"),
    (group_norm, "GroupNormalization"),
    (rms_norm, "RMSNormalization"),
    (pixel_shuffle, "DepthToSpace"),
    (space_to_depth, "SpaceToDepth"),
    (quick_gelu, "Swish"),
    (log_softmax, "LogSoftmax"),
    (causal, HEADS),
    (nearly_causal, HEADS),
    (alibi, HEADS),
    (packed, f"MatMul Add Split {HEADS}"),
    (grouped, HEADS),
]


def simplified(spelling: Callable[[Layer], str]) -> tuple[onnx.ModelProto, ir.Model]:
    g = Layer(
        x=[2, 5, 12], y=[2, 5, 12], z=[2, 5, 12], seen=[2, 5],
        image=[2, 9, 9, 6], map=[2, 6, 8, 8], wide=[1, 8, 3, 3],
    )  # fmt: skip
    model = g.model(result=spelling(g))
    rewritten = load(model).model.clone()
    simplify(rewritten)
    return model, rewritten


@pytest.mark.parametrize(
    ("spelling", "layers"), [pytest.param(*c, id=c[0].__name__) for c in CASES]
)
def test_a_layer_is_recognised(spelling: Any, layers: str) -> None:
    model, rewritten = simplified(spelling)
    found = [node.op_type for node in rewritten.graph]
    assert sorted(found) == sorted(layers.split())
    feeds = {
        x.name: np.random.default_rng(1).standard_normal(
            [d.dim_value for d in x.type.tensor_type.shape.dim], F32
        )
        for x in model.graph.input
    }
    before = run(model, feeds)
    # ONNX Runtime's Attention wants a mask with a row for each query.
    after = ReferenceEvaluator(ir.to_proto(rewritten)).run(None, feeds)
    np.testing.assert_allclose(*after, *before, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(("spelling", "is_causal"), [(causal, 1), (nearly_causal, 0)])
def test_attention_is_causal_only_if_the_mask_is(spelling: Any, is_causal: int) -> None:
    _, rewritten = simplified(spelling)
    (attention,) = (n for n in rewritten.graph if n.op_type == "Attention")
    assert attention.attributes.get_int("is_causal", 0) == is_causal
    assert len(attention.inputs) == 4 - is_causal


@pytest.mark.parametrize(
    ("perm", "copies"), [((0, 3, 1, 2, 4), 0), ((0, 3, 2, 1, 4), 2)]
)
def test_heads_copied_for_attention_without_heads(
    perm: tuple[int, ...], copies: int
) -> None:
    """onnxruntime-genai repeats heads of the cache, which MultiHeadAttention then reads
    side by side; where heads are no neighbours of their copies, they stay."""
    text = f"""<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
        net (float[b,1,8] q, float[b,2,t,2] k, float[b,2,t,2] v) => (float[b,1,8] y)
        <int64[1] two = {{2}}, int64[3] flat = {{0, 0, 8}},
         int64[5] copies = {{1, 1, 2, 1, 1}}> {{
        a = Unsqueeze (k, two)
        e = Expand (a, copies)
        f = Transpose <perm = {[*perm]}> (e)
        keys = Reshape (f, flat)
        c = Unsqueeze (v, two)
        d = Expand (c, copies)
        g = Transpose <perm = {[*perm]}> (d)
        values = Reshape (g, flat)
        y = com.microsoft.MultiHeadAttention <num_heads = 4> (q, keys, values) }}"""
    model = onnx.parser.parse_model(text)
    rewritten = load(model).model.clone()
    simplify(rewritten)
    found = [node.op_type for node in rewritten.graph]
    assert found.count("Expand") == copies
    rng = np.random.default_rng(3)
    sizes = {"q": (3, 1, 8), "k": (3, 2, 5, 2), "v": (3, 2, 5, 2)}
    feeds = {
        name: rng.standard_normal(size).astype(F32) for name, size in sizes.items()
    }
    after = ReferenceEvaluator(ir.to_proto(rewritten)).run(None, feeds)
    np.testing.assert_allclose(*after, *run(model, feeds), rtol=1e-5, atol=1e-6)


def test_a_mask_is_not_enlarged_for_an_open_batch() -> None:
    """PyTorch's exporter expands the condition of masks to [batch, 1, n, n]."""
    text = """<ir_version: 10, opset_import: ["": 23]> net (float[b,2,5,4] q,
        float[b,2,5,4] k, float[b,2,5,4] v, bool[b,1,1,5] m) => (float[b,2,5,4] y)
        <int64[3] rest = {1, 5, 5}, float zero = {0.0}, float low = {-3.4e38}> {
        batch = Shape<start = 0, end = 1> (q)
        wide = Expand (m, sizes) mask = Where (wide, zero, low)
        y = Attention (q, k, v, mask) }"""
    text = text.replace("wide", "sizes = Concat<axis = 0> (batch, rest) wide", 1)
    model = load(onnx.parser.parse_model(text)).model
    simplify(model)
    assert [n.op_type for n in model.graph] == ["Where", "Attention"]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kept", ["1.0", "mask"])
def test_a_mask_that_keeps_all_keys_goes(kept: str, biased: bool) -> None:
    """PyTorch's exporter writes one where the caller of a network has none."""
    text = """<ir_version: 10, opset_import: ["": 23]> net (float[b,2,5,4] q,
        float[b,2,5,4] k, float[b,2,5,4] v, float[b,5] mask, float[1,2,5,5] bias)
        => (float[b,2,5,4] y)
        <int64[1] five = {5}, int64[2] at = {1, 2}, float one = {1.0},
        float zero = {0.0}, float low = {-3.4e38}> {
        batch = Shape<start = 0, end = 1> (q)
        sizes = Concat<axis = 0> (batch, five) ones = Expand (KEPT, sizes)
        kept = Cast<to = 9> (ones) m = Unsqueeze (kept, at)
        added = Where (m, zero, low) sum = Add (added, bias)
        y = Attention (q, k, v, MASK) }"""
    text = text.replace("KEPT", kept.replace("1.0", "one"))
    text = text.replace("MASK", "sum" if biased else "added")
    model = load(onnx.parser.parse_model(text)).model
    simplify(model)
    found = [n.op_type for n in model.graph]
    assert (found == ["Attention"]) is (kept == "1.0"), found
    assert len(model.graph[-1].inputs) == (4 if biased or kept == "mask" else 3)
