"""Symbolic sizes and elements, held against what ONNX Runtime gives.

Each row of DIMS and ELEMENTS is a model of a few lines. Every value in it is made an
output, and the model is run at two sets of sizes: the symbolic answer, with the sizes
put in, must be the shape, and the elements, that come out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx.backend.test.case.node import collect_testcases
from support.symbolic import analyse, build, hold_against, run

from fairhand.analysis.graph.dims import plain, spell
from fairhand.analysis.graph.shape_facts import ShapeFacts

SIZES = (
    {"b": 2, "s": 5, "past": 3, "h": 37, "w": 50},
    {"b": 1, "s": 1, "past": 0, "h": 64, "w": 32},
)
END = 2**63 - 1  # how exporters write "to the end"

X = "float[b, s, 768] x"
ROW = "float[b, s] x"
CACHE = "float[b, past, 4] x, float[b, 1, 4] z"
IMAGE = "float[b, 3, h, w] x"
FILTER = IMAGE + ", float[8, 3, 3, 3] k"


class Row(NamedTuple):
    """Inputs, statements, and what is known of y: its sizes, or its elements.

    A list among the arguments, such as [0, -1], stands for a constant.
    """

    inputs: str
    body: str
    expected: str


# fmt: off
DIMS = [
    # elementwise
    Row(X, "y = Relu(x)", "[b, s, 768]"),
    Row(X + ", float[s, 1] z", "y = Add(x, z)", "[b, s, 768]"),
    Row(ROW + ", float[5, 1, 1] z", "y = Mul(z, x)", "[5, b, s]"),
    Row(ROW, "c = Less(x, x); z = Neg(x); y = Where(c, x, z)", "[b, s]"),
    # reshaping
    Row(X, "y = Reshape(x, [0, 0, 12, -1])", "[b, s, 12, 64]"),
    Row(X, "y = Reshape(x, [-1, 64])", "[12*b*s, 64]"),
    Row(X, "y = Reshape(x, [4, -1])", "[4, 192*b*s]"),
    Row("float[1, 5, 768] x", "y = Reshape<allowzero=1>(x, [5, -1])", "[5, 768]"),
    Row(X, "y = Flatten<axis=2>(x)", "[b*s, 768]"),
    Row(X, "y = Flatten<axis=-3>(x)", "[1, 768*b*s]"),
    Row(X, "y = Transpose<perm=[2,0,1]>(x)", "[768, b, s]"),
    Row(X, "y = Unsqueeze(x, [0, -1])", "[1, b, s, 768, 1]"),
    Row("float[b, 1, s] x", "y = Squeeze(x, [-2])", "[b, s]"),
    Row("float[1, 7, 1] x", "y = Squeeze(x)", "[7]"),
    # joining and parting
    Row(CACHE, "y = Concat<axis=1>(x, z, x)", "[b, 2*past + 1, 4]"),
    Row(X, "z, y = Split<axis=-1>(x, [256, 512])", "[b, s, 512]"),
    Row(X, "z, y = Split<axis=2, num_outputs=2>(x)", "[b, s, 384]"),
    Row(X, "c = Concat<axis=1>(x, x); z, y = Split<axis=1, num_outputs=2>(c)",
        "[b, s, 768]"),
    Row(X, "y = Tile(x, [1, 2, 3])", "[b, 2*s, 2304]"),
    Row(X, "y = Expand(x, [3, 1, 1, 1])", "[3, b, s, 768]"),
    Row(IMAGE, "y = Pad(x, [1, 2, 3, 4], , [2, 3])", "[b, 3, h + 4, w + 6]"),
    # slices: starts, ends, axes, steps
    Row(X, f"y = Slice(x, [0], [{END}], [1], [1])", "[b, s, 768]"),
    Row(X, "y = Slice(x, [100], [-100], [2])", "[b, s, 568]"),
    Row(X, "y = Slice(x, [767], [0], [-1], [-3])", "[b, s, 256]"),
    Row(X, f"y = Slice(x, [-1], [{-END}], [1], [-1])", "[b, s, 768]"),
    Row(X, "y = Slice(x, [0], [3], [1])", "[b, Min(3, s), 768]"),
    Row(X, f"y = Slice(x, [1], [{END}], [1])", "[b, Max(0, s - 1), 768]"),
    Row(X, f"y = Slice(x, [-1], [{2**31 - 1}], [1])", "[b, Min(1, s), 768]"),
    Row(X, "y = Slice(x, [0], [-1], [1])", "[b, Max(0, s - 1), 768]"),
    Row(X, f"y = Slice(x, [0], [{END}], [1], [2])", "[b, floor(s/2 + 1/2), 768]"),
    Row(CACHE, "c = Concat<axis=1>(x, z); p = Shape<start=1, end=2>(x);"
        f"y = Slice(c, p, [{END}], [1])", "[b, 1, 4]"),
    Row(ROW + ", float[1, 512] z", "n = Shape<start=1>(x); c = Slice(z, [0], n, [1]);"
        "y = Add(c, x)", "[b, s]"),
    Row(X, f"n = Shape<start=1, end=2>(x); p = Neg(n); y = Slice(x, p, [{END}], [1])",
        "[b, s, 768]"),
    # indexing
    Row(ROW + ", int64[s, 4] i", "y = Gather<axis=0>(x, i)", "[s, 4, s]"),
    Row(X + ", int64[b, 1] i", "y = GatherND(x, i)", "[b, s, 768]"),
    Row(ROW + ", int64[b, 1] i", "y = GatherElements<axis=1>(x, i)", "[b, 1]"),
    Row(X, "y, i = TopK(x, [7])", "[b, s, 7]"),
    Row("int64[b, s] x, float[2] v", "y = OneHot<axis=1>(x, [9], v)", "[b, 9, s]"),
    Row(ROW, "y = NonZero(x)", "[2, y_dim1]"),
    Row(ROW, "z = NonZero(x); y = Gather<axis=1>(z, [0, 0])", "[2, 2]"),
    # reduction
    Row(X, "y = ReduceMean<keepdims=0>(x, [-1])", "[b, s]"),
    Row(X, "y = ReduceSum(x, [1, 2])", "[b, 1, 1]"),
    Row(X, "y = ReduceMax<keepdims=0>(x)", "[]"),
    Row(X, "y = ArgMax<axis=1, keepdims=0>(x)", "[b, 768]"),
    # products
    Row("float[b, 4, s, 64] x, float[4, 64, past] z", "y = MatMul(x, z)",
        "[b, 4, s, past]"),
    Row("float[64] x, float[b, 64, s] z", "y = MatMul(x, z)", "[b, s]"),
    Row("float[7, b] x, float[s, 7] z", "y = Gemm<transA=1, transB=1>(x, z)", "[b, s]"),
    Row(X + ", float[b, 9, 768] z", 'y = Einsum<equation="bsd,btd->bst">(x, z)',
        "[b, s, 9]"),
    Row("float[1, 2] x, float[3, 4] z", 'y = Einsum<equation="is,ik->isk">(x, z)',
        "[3, 2, 4]"),
    # windows
    Row(FILTER, "y = Conv<pads=[1,1,1,1], strides=[2,2]>(x, k)",
        "[b, 8, floor(h/2 + 1/2), floor(w/2 + 1/2)]"),
    Row(FILTER, 'y = Conv<auto_pad="SAME_UPPER">(x, k)', "[b, 8, h, w]"),
    Row(FILTER, "y = Conv<dilations=[2,2]>(x, k)", "[b, 8, h - 4, w - 4]"),
    Row(IMAGE + ", float[3, 4, 2, 2] k",
        "y = ConvTranspose<strides=[2,2], group=3, output_padding=[1,0]>(x, k)",
        "[b, 12, 2*h + 1, 2*w]"),
    Row(IMAGE, "y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)",
        "[b, 3, floor(h/2), floor(w/2)]"),
    Row(IMAGE, "y = MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(x)",
        "[b, 3, floor(h/2), floor(w/2)]"),
    Row("float[1, 1, 8, 9] x", "y = MaxPool<kernel_shape=[2,2], strides=[3,3],"
        "pads=[0,0,1,1], ceil_mode=1>(x)", "[1, 1, 3, 3]"),
    Row(IMAGE, "y = GlobalAveragePool(x)", "[b, 3, 1, 1]"),
    Row(IMAGE, "n = Constant<value_floats=[2.0, 1.5]>(); y = Resize<axes=[2,3]>(x,,n)",
        "[b, 3, 2*h, floor(3*w/2)]"),
    Row("float[1, 3, 5, 6] x", "n = Constant<value_floats=[1.4, 1.0]>();"
        "y = Resize<axes=[2,3]>(x, , n)", "[1, 3, 7, 6]"),
    Row(IMAGE, "n = Shape<start=2>(x); m = Add(n, [3, 4]);"
        "y = Resize<axes=[2,3]>(x, , , m)", "[b, 3, h + 3, w + 4]"),
    Row("float[b,3,2,4] x", 'n = Constant<value_ints=[7, 8]>(); y = Resize<axes=[2,3],'
        ' keep_aspect_ratio_policy="not_larger">(x, , , n)', "[b, 3, 4, 8]"),
    Row("float[b, 12, h, w] x", "y = DepthToSpace<blocksize=2>(x)", "[b, 3, 2*h, 2*w]"),
    # sequences and norms
    Row("float[s, b, 8] x, float[1, 16, 8] w, float[1, 16, 4] r",
        "y, h, c = LSTM<hidden_size=4>(x, w, r)", "[s, 1, b, 4]"),
    Row(X + ", float[768] w", "y = LayerNormalization(x, w)", "[b, s, 768]"),
    Row("float[b, 4, s, 8] x, float[b, 2, s, 8] k, float[b, 2, s, 6] v",
        "y = Attention(x, k, v)", "[b, 4, s, 6]"),
]

ELEMENTS = [
    Row(X, "y = Shape(x)", "[b, s, 768]"),
    Row(X, "y = Shape<start=-2>(x)", "[s, 768]"),
    Row(X, "y = Size(x)", "[768*b*s]"),
    Row(X, "a = Shape(x); y = Gather(a, [1, -1, 0])", "[s, 768, b]"),
    Row(X, "a = Shape(x); c = Slice(a, [0], [-1]); y = Concat<axis=0>(c, [12], [-1])",
        "[b, s, 12, -1]"),
    Row(X, "a = Shape(x); c, d = Split<axis=0>(a, [1, 2]); y = Unsqueeze(d, [0])",
        "[s, 768]"),
    Row(X, "a = Shape<end=2>(x); y = ReduceProd(a)", "[b*s]"),
    Row(X, "a = Shape<end=2>(x); y = ReduceSum<keepdims=0>(a)", "[b + s]"),
    Row(X, "a = Shape(x); y = Mul(a, [2, 3, 1])", "[2*b, 3*s, 768]"),
    Row(X, "a = Shape(x); y = Div(a, [1, 2, 5])", "[b, floor(s/2), 153]"),
    Row(X, "y = Div([7, -7, 7], [2, 2, -2])", "[3, -3, -3]"),
    Row(X, "a = Shape<start=1, end=2>(x); c = Sub([0], a); d = Mod(c, [4]);"
        "y = Add(a, d)", "[4*floor(s/4 + 3/4)]"),
    Row(X, "a = Shape<end=2>(x); y = Max(a, [0, 0])", "[b, s]"),
    Row(X, "a = Shape<end=2>(x); y = Min(a, [9, -1])", "[Min(9, b), -1]"),
    Row(X, "a = Shape<end=2>(x); c = Neg(a); y = Abs(c)", "[b, s]"),
    Row(X, "a = Shape(x); c = Equal(a, [-1, -1, 768]); d = Not(c); y = Cast<to=7>(d)",
        "[1, 1, 0]"),
    Row(X, "a = Shape(x); c = Less(a, [0, 0, 800]); d = Or(c, c);"
        "y = Where(d, [9], a)", "[b, s, 9]"),
    # the torch exporter writes expand(4, 5, -1) so
    Row(X, "i = ConstantOfShape<value=int64[1]{1}>([3]); j = Mul(i, [-1]);"
        "c = Equal([4, 5, -1], j); y = Where(c, i, [4, 5, -1])", "[4, 5, 1]"),
    Row(X, "a = Shape(x); i = Unsqueeze([1], [1]); y = ScatterND(a, i, [7])",
        "[b, 7, 768]"),
    Row(X, "a = Shape<end=2>(x); c = Unsqueeze(a, [1]); d = Transpose(c);"
        "y = Tile(d, [1, 2])", "[b, s, b, s]"),
    Row(X, "a = Shape<end=1>(x); y = Expand(a, [2])", "[b, b]"),
    Row(X, "c = Squeeze([2]); d = Squeeze([0]); e = Squeeze([5]); y = Range(d, e, c)",
        "[0, 2, 4]"),
    Row(X, "a = Shape(x); c = Greater([3, 0, 1], [0]); n = NonZero(c);"
        "m = Squeeze(n, [0]); y = Gather(a, m)", "[b, 768]"),
    # sizes that take a way through floats
    Row(X, "a = Shape<end=2>(x); f = Cast<to=1>(a); k = Constant<value_float=0.5>();"
        "g = Mul(f, k); h = Floor(g); y = Cast<to=7>(h)", "[floor(b/2), floor(s/2)]"),
    Row(X, "a = Shape<end=2>(x); f = Cast<to=1>(a); k = Constant<value_float=3.0>();"
        "g = Div(f, k); h = Ceil(g); y = Cast<to=7>(h)",
        "[floor(b/3 + 2/3), floor(s/3 + 2/3)]"),
]
# fmt: on


def is_assumed(values: Any, shapes: ShapeFacts) -> bool:
    """Whether a size is what two that may differ broadcast to."""
    known = (d for value in values.values() for d in shapes.dims(value) or ())
    return any(plain(size) != size for size in known)


@pytest.mark.parametrize("row", DIMS, ids=lambda row: row.body)
def test_dims(row: Row) -> None:
    proto = build(row.inputs, row.body)
    values, shapes = analyse(proto)
    assert spell(shapes.dims(values["y"])) == row.expected
    assert not is_assumed(values, shapes)
    for sizes in SIZES:
        assert not list(hold_against(run(proto, sizes), values, shapes))


@pytest.mark.parametrize("row", ELEMENTS, ids=lambda row: row.body)
def test_elements(row: Row) -> None:
    proto = build(row.inputs, row.body)
    values, shapes = analyse(proto)
    content = shapes.content(values["y"])
    assert content is not None and spell(content.flat) == row.expected
    for sizes in SIZES:
        assert not list(hold_against(run(proto, sizes), values, shapes))


def decoder() -> onnx.ModelProto:
    """One step of attention over a cache, with sizes computed as exporters do."""
    return build(
        "float[b, s, 64] x, float[b, 4, past, 16] k, float[b, 4, past, 16] v,"
        "float[64, 192] w, bool[1, 1, 256, 256] mask",
        """q3 = MatMul(x, w); q, k1, v1 = Split<axis=-1, num_outputs=3>(q3);
        n = Shape(x); bs = Slice(n, [0], [-1]); heads = Concat<axis=0>(bs, [4], [-1]);
        q4 = Reshape(q, heads); k4 = Reshape(k1, heads); v4 = Reshape(v1, heads);
        qt = Transpose<perm=[0,2,1,3]>(q4); kt = Transpose<perm=[0,2,1,3]>(k4);
        vt = Transpose<perm=[0,2,1,3]>(v4);
        keys = Concat<axis=-2>(k, kt); vals = Concat<axis=-2>(v, vt);
        kn = Shape(keys); total = Slice(kn, [-2], [-1]); new = Slice(n, [1], [2]);
        start = Sub(total, new); rows = Slice(mask, start, total, [2]);
        square = Slice(rows, [0], total, [3]);
        kx = Transpose<perm=[0,1,3,2]>(keys); scores = MatMul(qt, kx);
        low = ConstantOfShape([1]); masked = Where(square, scores, low);
        p = Softmax(masked); o = MatMul(p, vals); ot = Transpose<perm=[0,2,1,3]>(o);
        flat = Concat<axis=0>(bs, [-1]); y = Reshape(ot, flat)""",
    )


def pyramid() -> onnx.ModelProto:
    """A convolutional net that halves, pads to a multiple, and comes back."""
    return build(
        "float[b, 3, h, w] x, float[4, 3, 3, 3] k, float[4, 4, 2, 2] up",
        """c1 = Conv<pads=[1,1,1,1], strides=[2,2]>(x, k); n = Shape<start=2>(c1);
        p2 = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(c1);
        p3 = AveragePool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(p2);
        m = Shape<start=2>(p3); neg = Neg(m); more = Mod(neg, [4, 4]);
        pads = Concat<axis=0>([0, 0], more); p4 = Pad(p3, pads, , [2, 3]);
        u4 = ConvTranspose<strides=[2,2]>(p4, up); nc = Shape<end=2>(u4);
        size = Concat<axis=0>(nc, n); u1 = Resize<mode="nearest">(u4, , , size);
        both = Concat<axis=1>(u1, c1); win = Shape<start=2, end=3>(p4);
        quarter = Div(win, [4]); shape = Concat<axis=0>([0, 0], quarter, [4], [-1]);
        y = Reshape(p4, shape)""",
    )


def recurrent() -> onnx.ModelProto:
    """An embedding, an LSTM and the last step."""
    return build(
        "int64[b, s] x, float[90, 8] e, float[2, 16, 8] w, float[2, 16, 4] r",
        """g = Gather(e, x); t = Transpose<perm=[1,0,2]>(g);
        l, hn, cn = LSTM<hidden_size=4, direction="bidirectional">(t, w, r);
        back = Transpose<perm=[2,0,1,3]>(l); f = Reshape(back, [0, 0, -1]);
        n = Shape(x); i = Gather(n, [1]); j = Sub(i, [1]);
        last = Gather<axis=1>(f, j); y = Squeeze(last, [1])""",
    )


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (decoder, "[b, s, y_dim2]"),  # the mask's rows may be more than one of s
        (pyramid, "[b, 4, floor(h/32 + 31/32), 4, 4*floor(w/32 + 31/32)]"),
        (recurrent, "[b, 8]"),
    ],
)
def test_models_agree_with_onnx_runtime(model: Any, expected: str) -> None:
    proto = model()
    values, shapes = analyse(proto)
    for sizes in SIZES:
        assert not list(hold_against(run(proto, sizes), values, shapes))
    assert spell(shapes.dims(values["y"])) == expected


@pytest.mark.slow
@pytest.mark.parametrize("symbolic", [False, True])
def test_onnx_backend_node_cases(symbolic: bool) -> None:
    """Sizes of the outputs of some 1900 one-operator models, as their data has them."""
    wrong = []
    for case in collect_testcases():
        if case.name == "test_scan_sum":
            continue  # Scan-8, which an adapter writes as Scan-9 first
        inputs, outputs = case.data_sets[0]
        proto = freed(case.model, inputs) if symbolic else case.model
        values, shapes = analyse(proto)
        if symbolic and is_assumed(values, shapes):
            continue  # every size has a name of its own, so what is one size is two
        names = [v.name for v in (*case.model.graph.input, *case.model.graph.output)]
        named = zip(names, (*inputs, *outputs), strict=True)
        actual = {n: a for n, a in named if n in values and isinstance(a, np.ndarray)}
        wrong += [f"{case.name}: {w}" for w in hold_against(actual, values, shapes)]
    assert wrong == []


def freed(proto: onnx.ModelProto, inputs: Any) -> onnx.ModelProto:
    """Every size other than 1 gets a name; small integer inputs become constants."""
    free = onnx.ModelProto()
    free.CopyFrom(proto)
    del free.graph.input[:]
    for index, (info, array) in enumerate(zip(proto.graph.input, inputs, strict=True)):
        small = isinstance(array, np.ndarray) and array.size <= 64
        if index and small and array.dtype in (np.int32, np.int64):
            free.graph.initializer.append(
                onnx.numpy_helper.from_array(array, info.name)
            )
            continue
        free.graph.input.append(info)
        for axis, dim in enumerate(free.graph.input[-1].type.tensor_type.shape.dim):
            if dim.dim_value != 1:
                dim.dim_param = f"{info.name}_{axis}"
    return free
