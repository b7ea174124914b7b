"""The cost model: against products counted one by one, and against itself."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import sympy
from support.symbolic import analyse, build

from fairhand.analysis.cost.graph_cost import GraphCost, flops, graph_cost
from fairhand.analysis.ops import OPS
from fairhand.analysis.shapes.infer import infer

# Those of the models that fairhand is measured with.
MEASURED = """Add And AveragePool BatchNormalization Cast Ceil Clip Concat
ConstantOfShape Conv ConvTranspose Cos Div Equal Expand Flatten Gather GatherND Gelu
Gemm GlobalAveragePool GreaterOrEqual HardSigmoid HardSwish Identity IsNaN LSTM
LayerNormalization LessOrEqual MatMul MaxPool Mod Mul Neg Not Pad Pow Range Reciprocal
ReduceMean Relu Reshape Resize ScatterND Shape Sigmoid Sin Slice Softmax Split Sqrt
Squeeze Sub Tanh Transpose Unsqueeze Where""".split()


def cost(inputs: str, body: str) -> GraphCost:
    proto = build(inputs, body)
    model = ir.from_proto(proto)
    return graph_cost(model, infer(model))


class Counted:
    """A number that counts the products it takes part in."""

    products = 0

    def __mul__(self, other: Any) -> Counted:
        Counted.products += 1
        return self

    def __add__(self, other: Any) -> Counted:
        return self


def products_of(function: Any, *shapes: tuple[int, ...]) -> int:
    arrays = [np.full(shape, Counted(), np.object_) for shape in shapes]
    Counted.products = 0
    function(*arrays)
    return Counted.products


def convolve(x: Any, w: Any, groups: int, stride: int, pad: int, dilation: int) -> None:
    """In plain loops; the padding is multiplied as well."""
    images, channels, *size = x.shape
    filters, part, *window = w.shape
    padded = np.full((images, channels, *(s + 2 * pad for s in size)), Counted())
    spans = [dilation * (k - 1) + 1 for k in window]
    places = [
        range(0, s + 2 * pad - span + 1, stride)
        for s, span in zip(size, spans, strict=True)
    ]
    for image, out, place in product(range(images), range(filters), product(*places)):
        first = out // (filters // groups) * part
        for inner, step in product(range(part), product(*map(range, window))):
            at = (p + dilation * s for p, s in zip(place, step, strict=True))
            padded[(image, first + inner, *at)] * w[(out, inner, *step)]


def scatter(x: Any, w: Any, groups: int) -> None:
    """A transposed convolution: every element of the input, times its filters."""
    for image, channel, *place in np.ndindex(x.shape):
        for step in np.ndindex(w.shape[1:]):
            x[(image, channel, *place)] * w[(channel, *step)]


def recur(x: Any, w: Any, r: Any) -> None:
    for direction, step in np.ndindex(w.shape[0], x.shape[0]):
        state = np.full((x.shape[1], r.shape[2]), Counted(), np.object_)
        x[step] @ w[direction].T
        state @ r[direction].T


# fmt: off
CONTRACTIONS = [
    ("float[2, 3, 4, 5] x, float[3, 5, 6] z", "y = MatMul(x, z)",
        np.matmul, [(2, 3, 4, 5), (3, 5, 6)]),
    ("float[5] x, float[2, 5, 3] z", "y = MatMul(x, z)", np.matmul, [(5,), (2, 5, 3)]),
    ("float[7, 4] x, float[6, 7] z", "y = Gemm<transA=1, transB=1>(x, z)",
        lambda a, b: a.T @ b.T, [(7, 4), (6, 7)]),
    ("float[7, 4] x, float[4, 6] z", "y = Gemm(x, z)", np.matmul, [(7, 4), (4, 6)]),
    ("float[2, 3, 4] x, float[2, 5, 4] z", 'y = Einsum<equation="bsd,btd->bst">(x, z)',
        lambda a, b: a @ b.transpose(0, 2, 1), [(2, 3, 4), (2, 5, 4)]),
    ("float[2, 3, 4] x, float[4, 5] z", 'y = Einsum<equation="...d,de">(x, z)',
        np.matmul, [(2, 3, 4), (4, 5)]),
    ("float[2, 6, 9, 7] x, float[4, 3, 3, 2] k",
        "y = Conv<group=2, strides=[2,2], pads=[1,1,1,1], dilations=[2,2]>(x, k)",
        lambda x, w: convolve(x, w, 2, 2, 1, 2), [(2, 6, 9, 7), (4, 3, 3, 2)]),
    ("float[1, 4, 9] x, float[4, 1, 3] k", "y = Conv<group=4>(x, k)",
        lambda x, w: convolve(x, w, 4, 1, 0, 1), [(1, 4, 9), (4, 1, 3)]),
    ("float[2, 6, 5, 4] x, float[6, 3, 2, 2] k",
        "y = ConvTranspose<group=2, strides=[2,2]>(x, k)",
        lambda x, w: scatter(x, w, 2), [(2, 6, 5, 4), (6, 3, 2, 2)]),
]
# fmt: on


@pytest.mark.parametrize(
    ("inputs", "body", "function", "shapes"),
    CONTRACTIONS,
    ids=lambda x: "function" if callable(x) else str(x)[:50],
)
def test_a_contraction_is_two_per_product(
    inputs: str, body: str, function: Any, shapes: list[tuple[int, ...]]
) -> None:
    assert cost(inputs, body).flops == 2 * products_of(function, *shapes)


@pytest.mark.parametrize(
    ("op", "gates", "extra"), [("RNN", 1, 2), ("GRU", 3, 11), ("LSTM", 4, 13)]
)
def test_recurrent_layers(op: str, gates: int, extra: int) -> None:
    steps, batch, inputs, units = 3, 2, 5, 4
    w, r = (2, gates * units, inputs), (2, gates * units, units)
    given = f"float[3, 2, 5] x, float{list(w)} w, float{list(r)} r"
    attributes = f'<hidden_size={units}, direction="bidirectional">'
    products = products_of(recur, (steps, batch, inputs), w, r)
    places = 2 * steps * batch * units
    found = cost(given, f"y = {op}{attributes}(x, w, r)")
    assert found.flops == 2 * products + extra * places
    biased = cost(f"{given}, float[2, {2 * gates * units}] b",
                  f"y = {op}{attributes}(x, w, r, b)")  # fmt: skip
    assert biased.flops == found.flops + gates * places


X = "float[2, 3, 8] x, float[2, 3, 8] z, float[8] c"
IMAGE = "float[2, 6, 9, 7] x, float[4, 6, 3, 3] k, float[4] c, float[4, 1, 1] d"

# fmt: off
SPELLINGS = [
    (X, "y = Gelu(x)", "a = Div(x, z); b = Erf(a); d = Add(b, z); e = Mul(x, d);"
        "y = Mul(e, z)"),
    (X, 'y = Gelu<approximate="tanh">(x)', "a = Pow(x, z); b = Mul(a, z);"
        "d = Add(x, b); e = Mul(d, z); f = Tanh(e); g = Add(f, z); h = Mul(x, g);"
        "y = Mul(h, z)"),
    (X, "y = HardSwish(x)", "a = HardSigmoid(x); y = Mul(x, a)"),
    (X, "y = HardSigmoid(x)", "a = Mul(x, z); b = Add(a, z); y = Clip(b)"),
    (X, "y = Mish(x)", "a = Softplus(x); b = Tanh(a); y = Mul(x, b)"),
    (X, "y = Swish(x)", "a = Sigmoid(x); y = Mul(x, a)"),
    (X, "y = Swish<alpha=1.5>(x)", "b = Mul(x, z); a = Sigmoid(b); y = Mul(x, a)"),
    (X, "y = Sum(x, z, c)", "a = Add(x, z); y = Add(a, c)"),
    (X, "y = Mean(x, z)", "a = Add(x, z); y = Mul(a, c)"),
    (X, "y = Max(x)", "y = Identity(x)"),
    (X, "y = Softmax(x)", "a = ReduceMax(x, [-1]); b = Sub(x, a); d = Exp(b);"
        "e = ReduceSum(d, [-1]); y = Div(d, e)"),
    (X, "y = LayerNormalization(x, c, c)", "a = ReduceMean(x, [-1]); b = Sub(x, a);"
        "d = Mul(b, b); e = ReduceMean(d, [-1]); f = Div(b, e); g = Mul(f, c);"
        "y = Add(g, c)"),
    (X, "y = LayerNormalization(x, c)", "a = ReduceMean(x, [-1]); b = Sub(x, a);"
        "d = Mul(b, b); e = ReduceMean(d, [-1]); f = Div(b, e); y = Mul(f, c)"),
    (X, "y = RMSNormalization(x, c)", "d = Mul(x, x); e = ReduceMean(d, [-1]);"
        "f = Div(x, e); y = Mul(f, c)"),
    (X, "y = ReduceSumSquare(x)", "a = Mul(x, x); y = ReduceSum(a)"),
    (X, "y = ReduceL1(x)", "a = Abs(x); y = ReduceSum(a)"),
    (X, "y = ReduceL2(x)", "a = Mul(x, x); y = ReduceSum(a)"),
    (X + ", float[8, 5] w, float[5] v", "a = Squeeze(x); b = Flatten<axis=2>(x);"
        "y = Gemm(b, w, v)", "b = Flatten<axis=2>(x); a = MatMul(b, w); y = Add(a, v)"),
    (X + ", float[8, 5] w, float[5] v", "b = Flatten<axis=2>(x);"
        "y = Gemm<alpha=0.5, beta=2.0>(b, w, v)", "b = Flatten<axis=2>(x);"
        "a = MatMul(b, w); n = Mul(a, [2]); e = Mul(v, [2]); y = Add(n, e)"),
    (IMAGE, "y = Conv(x, k, c)", "a = Conv(x, k); y = Add(a, d)"),
    (IMAGE, "y = GlobalAveragePool(x)", "y = ReduceMean(x, [2, 3])"),
    (IMAGE + ", float[6] s, float[6, 1, 1] t", "y = BatchNormalization(x, s, s, s, s)",
        "a = Mul(x, t); y = Add(a, t)"),
    ("float[2, 6, 8, 6] x", "y = GlobalMaxPool(x)",
        "a = MaxPool<kernel_shape=[8, 6]>(x); y = Identity(a)"),
    (X, 'y = Einsum<equation="bij,bij->bij">(x, z)', "y = Mul(x, z)"),
    (X, 'y = Einsum<equation="bij->bi">(x)', "y = ReduceSum(x, [2])"),
    (X, 'y = Einsum<equation="bij->jib">(x)', "y = Transpose(x)"),
    # scores are scaled, masked, and pass the softmax: two nodes and five
    ("float[2, 3, 4, 8] q, float[2, 3, 5, 8] k, float[2, 3, 5, 6] v, float[4, 5] m",
        "y = Attention(q, k, v, m)",
        "n = Transpose<perm=[0, 1, 3, 2]>(k); a = MatMul(q, n); s = Mul(a, m);"
        "d = Add(s, m); p = Softmax(d); y = MatMul(p, v)"),
    ("float[2, 4, 24] q, float[2, 5, 24] k, float[2, 5, 18] v",
        "y = Attention<q_num_heads=3, kv_num_heads=3, is_causal=1>(q, k, v)",
        "a = Reshape(q, [2, 3, 4, 8]); b = Reshape(k, [2, 3, 8, 5]);"
        "d = Reshape(v, [2, 3, 5, 6]); s = MatMul(a, b); t = Mul(s, s);"
        "w = Where(s, t, t); p = Softmax(w); y = MatMul(p, d)"),
]
# fmt: on


@pytest.mark.parametrize(
    ("inputs", "one", "several"), SPELLINGS, ids=[one for _, one, _ in SPELLINGS]
)
def test_writing_out_changes_no_count(inputs: str, one: str, several: str) -> None:
    # Steps once per row (a root, an epsilon) are left out of the spellings here.
    a, b = cost(inputs, one), cost(inputs, several)
    assert a.unknown == b.unknown == ()
    assert a.flops == b.flops
    assert (a.flops == 0) == several.startswith(("y = Transpose", "y = Identity"))


# fmt: off
BY_HAND = [
    ("float[2, 3] x", "y = Exp(x)", 6),
    ("float[2, 1] x, float[5] z", "y = Less(x, z)", 10),
    ("float[2, 3] x", "y = Reshape(x, [3, 2])", 0),
    ("float[2, 3] x", "y = Cast<to=10>(x)", 0),
    ("float[2, 3, 8] x", "y = ReduceMax(x, [0])", 48),
    ("float[2, 3, 8] x", "y = ReduceLogSumExp(x, [0])", 144),
    ("float[1, 2, 8, 8] x", "y = AveragePool<kernel_shape=[3, 2]>(x)", 2 * 6 * 7 * 6),
    ("float[1, 2, 8, 8] x", "y = LpPool<kernel_shape=[2, 2], strides=[2, 2]>(x)",
        2 * 16 * 4 * 2),
    ("float[1, 6, 4] x", "y = LRN<size=3>(x)", 24 * 8),
    ("float[1, 2, 4, 4] x", 'y = Resize<mode="linear">(x, , , [1, 2, 8, 4])', 64 * 4),
    ("float[1, 2, 4, 4] x", 'y = Resize<mode="linear">(x, , , [1, 2, 8, 8])', 128 * 8),
    ("float[1, 2, 4, 4] x", 'y = Resize<mode="cubic">(x, , , [1, 2, 8, 8])', 128 * 32),
    ("float[1, 2, 4, 4] x", "y = Resize(x, , , [1, 2, 8, 8])", 0),
    ("float[4, 3] x, int64[2, 1] i, float[2, 3] u", "y = ScatterND(x, i, u)", 0),
    ("float[4, 3] x, int64[2, 1] i, float[2, 3] u",
        'y = ScatterND<reduction="add">(x, i, u)', 6),
    ("float[2, 3, 4, 8] q, float[2, 3, 1, 8] k, float[2, 3, 5, 8] p",
        "y, a, b = Attention(q, k, k, , p, p)",
        2 * 3 * 4 * 6 * (2 * 8 + 2 * 8 + 6)),
]
# fmt: on


@pytest.mark.parametrize(
    ("inputs", "body", "count"), BY_HAND, ids=[body for _, body, _ in BY_HAND]
)
def test_counts(inputs: str, body: str, count: int) -> None:
    assert cost(inputs, body).flops == count


def test_sizes_stay_symbols() -> None:
    found = cost(
        "float[b, s, 64] x, float[64, 32] w",
        "a = MatMul(x, w); r = Relu(a); y = Slice(r, [0], [3], [1])",
    )
    b, s = (sympy.Symbol(n, integer=True, nonnegative=True) for n in "bs")
    assert sympy.expand(found.flops - b * s * (2 * 64 * 32 + 32)) == 0
    assert sympy.expand(found.intermediate_bytes - 2 * 4 * 32 * b * s) == 0
    half = found.at({"s": 7, "unheard": 3})
    assert half.flops == 7 * (2 * 64 * 32 + 32) * b
    fixed = half.at({"b": 2})
    assert (fixed.flops, fixed.intermediate_bytes) == (2 * 7 * 4128, 2 * 7 * 256)
    assert isinstance(fixed.flops, int) and isinstance(fixed.intermediate_bytes, int)
    assert fixed.nodes == 3


def test_a_size_that_no_input_carries_is_set_by_name() -> None:
    found = cost("float[2, 3] x", "z = NonZero(x); a = Neg(z); y = Neg(a)")
    assert found.at({"z_dim1": 5}).flops == 20
    assert found.at({}).flops == found.flops


def test_a_choice_between_sizes_is_evaluated() -> None:
    found = cost("float[s, 4] x", "a = Slice(x, [0], [3]); y = Relu(a)")
    assert [found.at({"s": s}).flops for s in (1, 3, 9)] == [4, 12, 12]


def test_what_counts_as_a_node_and_an_intermediate() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 23]>
        g (float[2, 8] x, bool c) => (float[2, 8] y, float[2, 4] unread)
        <float[8] weight = {1,1,1,1,1,1,1,1}> {
            one = Constant<value_float=1.0>()
            half = Cast<to=10>(x)
            single = Cast<to=1>(half)
            scaled = Mul(single, weight)
            left, unread = Split<axis=1, num_outputs=2>(scaled)
            dropped = Relu(left)
            z = If (c) <
                then_branch = t () => (float[2, 8] p) { p = Add(scaled, one) },
                else_branch = e () => (float[2, 8] q) { q = Neg(scaled) }>
            y = Add(z, x)
        }""")
    graph = ir.from_proto(model)
    found = graph_cost(graph, infer(graph))
    # Two of them in the branches; the constant is none.
    assert found.nodes == 9
    assert found.unknown == ("If",) and found.unsized == 0
    # Mul and Add of 16 elements and Relu of 8; not what the branches do.
    assert found.flops == 16 + 16 + 8
    # half, single, scaled, left, z; not one, dropped, unread, y
    assert found.intermediate_bytes == 16 * 2 + 16 * 4 + 16 * 4 + 8 * 4 + 16 * 4


@pytest.mark.parametrize(
    ("dtype", "expected"), [("bool", 5), ("int4", 3), ("double", 40), ("float16", 10)]
)
def test_bytes_follow_the_type(dtype: str, expected: int) -> None:
    assert cost(f"{dtype}[5] x", "a = Identity(x); y = Identity(a)") == GraphCost(
        nodes=2, flops=0, intermediate_bytes=expected
    )


def test_what_is_unknown_is_listed_and_left_out() -> None:
    found = cost(
        "float[2, 4, 4] x",
        "a = Relu(x); d = Det(a); m = custom.Mystery(a, d); y = Neg(m)",
    )
    assert found == GraphCost(
        nodes=4,
        flops=32,
        intermediate_bytes=4 * (32 + 2),
        unknown=("Det", "Neg", "custom::Mystery"),
        unsized=1,
    )


def test_flops_of_one_node() -> None:
    values, shapes = analyse(build("float[2, 3] x", "a = Relu(x); y = Softmax(a)"))
    node = values["y"].producer()
    assert node is not None and flops(node, shapes) == 30


def test_the_operators_of_the_measured_networks_are_counted() -> None:
    uncounted = {name for name in MEASURED if OPS["", name].flops is None}
    assert uncounted == set()


def test_an_axis_that_is_not_there_counts_nothing() -> None:
    given = "float[4, 8] q, float[2, 6, 24] k, float[2, 3, 2, 8] p"
    heads = "q_num_heads = 3, kv_num_heads = 3"
    found = cost(given, f"y, a, b = Attention<{heads}>(q, k, k, , p, p)")
    assert found.unknown == ("Attention",)
