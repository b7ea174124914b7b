"""Normalisations and attention are recognised by what they compute."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from support.equivalent_spellings import FAMILIES
from support.layer_spellings import LAYERS, attention, operands

from fairhand.codegen.load.read_model import load
from fairhand.rewrites.simplify import simplify

Draw = Callable[[Random], onnx.ModelProto]
LEFT = {"l2_norm": 3, "batch_norm": 2}  # nodes of a layer, where that isn't 1
SPELLED = {"MatMul", "Softmax", "Einsum", "Exp", "Log", "LogSoftmax", "Tile"}


def rewritten(model: onnx.ModelProto) -> tuple[ir.Model, list[str]]:
    """The network, and the operators that are left of it."""
    found = load(model).model
    simplify(found)
    return found, [node.op_type for node in found.graph]


def is_attention(ops: list[str]) -> bool:
    """Whether one operator is left of it, and no copies of heads."""
    repeated = {"Unsqueeze", "Expand"} <= set(ops)
    return ops.count("Attention") == 1 and not repeated and not SPELLED & set(ops)


def counted(
    draw: Draw, good: Callable[[list[str]], bool], count: int, of: Random
) -> int:
    """How many of some spellings are recognised; each 20th is computed as well."""
    found = 0
    for k in range(count):
        before = draw(of)
        model, ops = rewritten(before)
        found += good(ops)
        if k % 20 == 0:
            feeds = operands(before, k)
            left, right = (
                ReferenceEvaluator(m).run(None, feeds)[0]
                for m in (before, ir.to_proto(model))
            )
            np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-4)
    return found


def layer(name: str, family: str, count: int) -> int:
    draw, operators = LAYERS[name]
    most = LEFT.get(name, 1)
    return counted(
        lambda r: draw(family, r),
        lambda ops: set(ops) <= operators and len(ops) <= most,
        count,
        Random(f"{name} {family}"),
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", LAYERS)
def test_a_few_layers(name: str, family: str) -> None:
    assert layer(name, family, 3) == 3


@pytest.mark.slow
@pytest.mark.parametrize("family", [*FAMILIES, "both"])
@pytest.mark.parametrize("name", LAYERS)
def test_nearly_all_layers(name: str, family: str) -> None:
    assert layer(name, family, 300) >= 285


@pytest.mark.parametrize("back", ["Unsqueeze(%s, last)", "Reshape(%s, rows)"])
def test_means_that_get_their_axes_back_are_kept(back: str) -> None:
    """So torch's exporter writes var(), and people who say unsqueeze(-1)."""
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[2,3,8] x) => (float[2,3,8] y)
            <int64[1] last = {{-1}}, int64[3] rows = {{2, 3, 1}}, float e = {{1e-5}}> {{
            m = ReduceMean<keepdims = 0>(x, last)
            mean = {back % "m"}
            centred = Sub(x, mean)
            square = Mul(centred, centred)
            v = ReduceSum<keepdims = 0>(square, last)
            total = {back % "v"}
            eight = Constant<value_float = 8.0>()
            variance = Div(total, eight)
            shifted = Add(variance, e)
            deviation = Sqrt(shifted)
            y = Div(centred, deviation)
        }}""")
    assert rewritten(model)[1] == ["LayerNormalization"]


# What else sums along rows, or takes a root; and what only looks like it.
SUMMED = """
    mean = MatMul(x, column)  d = Sub(x, mean)  t = Einsum<equation="abc,abc->ab">(d, d)
    v = Div(t, n)  w = Unsqueeze(v, last)  e = Add(w, eps)  l = Log(e)
    h = Mul(l, half)  r = Exp(h)  y = Mul(d, r)"""
OTHERWISE = [
    ("abc,abc->ab", "abc,abc->ac"),
    ("abc,abc->ab", "abc,abd->ab"),
    ("Exp(h)", "Abs(h)"),
    ("MatMul(x, column)", "MatMul(x, first)"),
    ("half)", "third)"),
]


def summed(nodes: str) -> list[str]:
    model = f"""<ir_version: 10, opset_import: ["": 23]>
        g (float[5,6,6] x) => (float y)
        <int64[2] sizes = {{6, 1}}, float[6,1] first = {{1, 0, 0, 0, 0, 0}},
         float n = {{6}}, float eps = {{1e-5}}, float half = {{-0.5}},
         float third = {{-0.3333}}, float log2e = {{1.4426950408889634}},
         float two = {{2}}, int64[1] last = {{-1}}> {{
            column = ConstantOfShape<value = float[1] {{0.16666667}}>(sizes)
            {nodes} }}"""
    return rewritten(onnx.parser.parse_model(model))[1]


def test_rows_are_summed_by_whatever_sums() -> None:
    assert summed(SUMMED) == ["LayerNormalization"]
    for part, other in OTHERWISE:
        assert "LayerNormalization" not in summed(SUMMED.replace(part, other))


def test_a_power_of_two_is_an_exponential() -> None:
    nodes = "z = Mul(x, log2e) p = Pow(two, z) s = ReduceSum(p, last) y = Div(p, s)"
    assert summed(nodes) == ["Softmax"]
    assert summed(nodes.replace("two", "n")) != ["Softmax"]


def test_a_sum_that_gets_other_axes_back_is_none() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
        g (float[4,4] x) => (float[4,4] y) <int64[1] last = {-1}, int64[1] first = {0}>
        {
            power = Exp(x)
            total = ReduceSum<keepdims = 0>(power, last)
            row = Unsqueeze(total, first)
            y = Div(power, row)
        }""")
    assert "Softmax" not in rewritten(model)[1]


# Products of tensors [2,5,8] that are centred, squared and summed.
BY_MATRICES = {
    "a matrix that centres": "d = MatMul(x, centre) q = Mul(d, d) {mean}",
    "a square of one number": "m = MatMul(x, each) d = Sub(x, m) q = Mul(d, d) {mean}",
    "a vector": "s = MatMul(x, vector) m = Unsqueeze(s, last) d = Sub(x, m)"
    " q = Mul(d, d) {mean}",
    "magnitudes": "m = ReduceMean(x, last) d = Sub(x, m) a = Abs(d) q = Mul(a, a)"
    " {mean}",
    "rows times rows": "m = ReduceMean(x, last) d = Sub(x, m) r = Unsqueeze(d, below)"
    " c = Unsqueeze(d, last) p = MatMul(r, c) t = Squeeze(p, last) v = Div(t, eight)",
    "products of a batch": "m = ReduceMean(x, last) d = Sub(x, m) r = Reshape(d, rows)"
    " c = Reshape(d, columns) p = MatMul(r, c) t = Reshape(p, back) v = Div(t, eight)",
}


def by_matrices(nodes: str, diagonal: float = 1.0) -> list[str]:
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 23]>
        g (float[2,5,8] x) => (float[2,5,8] y)
        <float eps = {{1e-5}}, float eight = {{8}}, int64[1] last = {{-1}},
         int64[1] below = {{-2}}, int64[3] rows = {{-1, 1, 8}}, int64[1] length = {{8}},
         int64[3] columns = {{-1, 8, 1}}, int64[3] back = {{2, 5, 1}},
         int64[2] square = {{8, 8}}, float diagonal = {{{diagonal}}}> {{
            each = ConstantOfShape<value = float[1] {{0.125}}>(square)
            vector = ConstantOfShape<value = float[1] {{0.125}}>(length)
            one = EyeLike(each) scaled = Mul(one, diagonal) centre = Sub(scaled, each)
            {nodes.format(mean="v = ReduceMean(q, last)")}
            e = Add(v, eps) w = Sqrt(e) y = Div(d, w) }}""")
    return rewritten(model)[1]


@pytest.mark.parametrize("nodes", BY_MATRICES.values(), ids=BY_MATRICES)
def test_rows_are_centred_and_summed_by_products(nodes: str) -> None:
    assert by_matrices(nodes) == ["LayerNormalization"]


def test_another_matrix_centres_nothing() -> None:
    nodes = BY_MATRICES["a matrix that centres"]
    assert "LayerNormalization" not in by_matrices(nodes, diagonal=0.5)


# Scores, and weighted values, of tensors [2,5,8] without heads: what is attention, and
# what has the softmax along an axis that isn't summed over then.
ALONE = {
    "queries first": """s = Einsum<equation = "bid,bjd->bij">(q, k)
        p = Softmax<axis = {}>(s) y = MatMul(p, v)""",
    "values first": """s = Einsum<equation = "bid,bjd->bij">(q, k)
        p = Softmax<axis = {}>(s) t = Transpose<perm = [0, 2, 1]>(v)
        w = Transpose<perm = [0, 2, 1]>(p) z = MatMul(t, w)
        y = Transpose<perm = [0, 2, 1]>(z)""",
    "keys first": """t = Transpose<perm = [0, 2, 1]>(q) s = MatMul(k, t)
        u = Transpose<perm = [0, 2, 1]>(s) p = Softmax<axis = {}>(u)
        y = Einsum<equation = "...ij,...je->...ie">(p, v)""",
    "by sums": """a = Unsqueeze(q, two) b = Unsqueeze(k, one) m = Mul(b, a)
        s = ReduceSum<keepdims = 0>(m, last) p = Softmax<axis = {}>(s)
        c = Unsqueeze(p, last) d = Unsqueeze(v, one) n = Mul(c, d)
        y = ReduceSum<keepdims = 0>(n, two)""",
}


@pytest.mark.parametrize("nodes", ALONE)
def test_attention_without_heads(nodes: str) -> None:
    for axis, count in ((-1, 1), (1, 0)):
        model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 23]>
            g (float[2,5,8] q, float[2,5,8] k, float[2,5,8] v) => (float[2,5,8] y)
            <int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] last = {{-1}}> {{
                {ALONE[nodes].format(axis)} }}""")
        found, ops = rewritten(model)
        assert ops.count("Attention") == count
        feeds = operands(model, 3)
        left, right = (
            ReferenceEvaluator(m).run(None, feeds)[0]
            for m in (model, ir.to_proto(found))
        )
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("axes", "axis", "count"), [("bijh", 2, 1), ("ibhj", 3, 1), ("bijh", 3, 0)]
)
def test_heads_may_stand_anywhere_among_scores(
    axes: str, axis: int, count: int
) -> None:
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 23]>
        g (float[2,3,2,4] q, float[2,5,2,4] k, float[2,5,2,4] v)
            => (float[2,3,2,4] y) {{
            s = Einsum<equation = "bihd,bjhd->{axes}">(q, k)
            p = Softmax<axis = {axis}>(s)
            y = Einsum<equation = "{axes},bjhd->bihd">(p, v) }}""")
    found, ops = rewritten(model)
    assert ops.count("Attention") == count
    feeds = operands(model, 3)
    left, right = (
        ReferenceEvaluator(m).run(None, feeds)[0] for m in (model, ir.to_proto(found))
    )
    np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("first", "ops"), [(1, 2), (0, 1), (-1, 0), (None, 0)])
def test_places_that_are_counted_are_a_part_of_a_tensor(
    first: int | None, ops: int
) -> None:
    """As TorchScript writes x[:, :, 1:3] = y."""
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 23]>
        g (float[b,3,5] x, float[b,3,2] y) => (float[b,3,5] z)
        <int64[1] zero = {{0}}, int64[1] last = {{-1}}, int64[2] inner = {{3, 2}},
         int64[2] behind = {{1, 2}}, int64 n0 = {{0}}, int64 n1 = {{1}},
         int64[3, 1] rows = {{0, 1, {1 if first is None else 2}}},
         int64[2] columns = {{{first or 0}, {(first or 0) + 1}}}> {{
        n = Shape <start = 0, end = 1>(x) m = Squeeze(n) r = Range(n0, m, n1)
        s = Concat <axis = 0>(n, inner)
        i = Unsqueeze(r, behind) a = Expand(i, s) d = Unsqueeze(a, last)
        e = Expand(rows, s) f = Unsqueeze(e, last)
        h = Expand(columns, s) j = Unsqueeze(h, last)
        k = Concat <axis = -1>(d, f, j) z = ScatterND(x, k, y) }}""")
    found, names = rewritten(model)
    assert names.count("Slice") == ops
    assert ("ScatterND" in names) == (not ops)
    if first is not None:
        random = np.random.default_rng(0)
        feeds = {
            n: random.random((2, 3, k), np.float32) for n, k in (("x", 5), ("y", 2))
        }
        left, right = (
            ReferenceEvaluator(m).run(None, feeds)[0]
            for m in (model, ir.to_proto(found))
        )
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(("last", "left"), [(3, 0), (2, 3)])
@pytest.mark.parametrize("op", ["ScatterND", "ScatterElements"])
def test_parts_that_leave_nothing_are_joined(op: str, last: int, left: int) -> None:
    """s = x.new_empty(...); s[:, 3] = c; s[:, :2] = a; s[:, 2] = b, in any order."""
    spans = ((last, 1), (0, 2), (2, 1))
    if op == "ScatterND":
        places = [
            [[[i, start + j] for j in range(n)] for i in (0, 1)] for start, n in spans
        ]
        way = op
    else:
        places = [[[start + j for j in range(n)] for _ in (0, 1)] for start, n in spans]
        way = f"{op} <axis = 1>"
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 23]>
        g (float[2,4] x, float[2,1] c, float[2,2] a, float[2,1] b) => (float[2,4] z) {{
            p = {way}(x, p0, c) q = {way}(p, p1, a) z = {way}(q, p2, b) }}""")
    for i, array in enumerate(places):
        stored = onnx.numpy_helper.from_array(np.array(array), f"p{i}")
        model.graph.initializer.append(stored)
    found, names = rewritten(model)
    assert (names.count(op), names.count("Concat")) == (left, int(not left))
    feeds = operands(model, 5)
    one, other = (
        ReferenceEvaluator(m).run(None, feeds)[0] for m in (model, ir.to_proto(found))
    )
    np.testing.assert_array_equal(one, other)


def test_a_stored_mask_of_one_head_is_causal() -> None:
    for hidden, count in ((-np.inf, 3), (-1.0, 4)):
        mask = np.triu(np.full((4, 4), hidden, np.float32), 1)
        model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 23]>
            g (float[2,4,8] q, float[2,4,8] k, float[2,4,8] v) => (float[2,4,8] y) {
                t = Transpose<perm = [0, 2, 1]>(k) s = MatMul(q, t) m = Add(s, mask)
                p = Softmax(m) y = MatMul(p, v) }""")
        model.graph.initializer.append(onnx.numpy_helper.from_array(mask, "mask"))
        (node,) = rewritten(model)[0].graph
        assert len(node.inputs) == count
        assert node.attributes.get_int("is_causal", 0) == 4 - count


@pytest.mark.parametrize("equation", ["ihd,dbj->bhij", "bid,djh->bhij"])
def test_an_einsum_of_batches_that_each_has_alone_stays(equation: str) -> None:
    """It is no product of matrices, though each operand has one axis of its own."""
    sizes = dict(i=2, h=1, d=3, b=2, j=4)
    one, other, result = re.split(r",|->", equation)
    shapes = [[sizes[x] for x in term] for term in (one, other, result)]
    q, k, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in zip("qky", shapes, strict=True)
    )
    node = onnx.helper.make_node("Einsum", ["q", "k"], ["y"], equation=equation)
    graph = onnx.helper.make_graph([node], "g", [q, k], [y])
    opset = onnx.helper.make_opsetid("", 20)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)
    assert rewritten(model)[1] == ["Einsum"]


def test_a_stored_condition_on_rows_is_left_alone() -> None:
    model = onnx.parser.parse_model(OPSET + """ g (float[2,4] x) => (float[2,4] y)
        <bool[4] kept = {1, 1, 0, 1}, float low = {-100.0}> {
            s = Where(kept, x, low)  y = Softmax(s) }""")
    assert rewritten(model)[1] == ["Where", "Softmax"]


def test_the_sum_of_what_is_0_is_no_norm() -> None:
    model = onnx.parser.parse_model(OPSET + """ g (float[2,4] x) => (float[2,1] y)
        <int64[1] last = {-1}> { m = ReduceMean(x, last) d = Sub(m, m)
            e = Mul(x, d) y = ReduceL1(e, last) }""")
    assert rewritten(model)[1]


def test_einsums_are_sums_and_products() -> None:
    """Whatever its letters; of tensors of which sizes may differ it stays."""
    for equation, wanted in {
        "ab,bc->ac": ["MatMul"],
        "bic,bjc->bji": ["Transpose", "MatMul"],
        "abc,abc->b": ["Mul", "ReduceSum"],
        "ab,ab->ba": ["Mul", "Transpose"],
        "ab,cd->abcd": ["Einsum"],
        "ab,ac->abc": ["Einsum"],
        "abi,cbi->abc": ["Einsum"],
    }.items():
        terms = equation.partition("->")[0].split(",")
        terms.append(equation.partition("->")[2])
        x, y, z = (",".join(["3"] * len(term)) for term in terms)
        model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 23]>
            g (float[{x}] x, float[{y}] y) => (float[{z}] z)
            {{ z = Einsum<equation = "{equation}">(x, y) }}""")
        found, ops = rewritten(model)
        feeds = operands(model, 5)
        left, right = (
            ReferenceEvaluator(m).run(None, feeds)[0]
            for m in (model, ir.to_proto(found))
        )
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)
        assert ops == wanted, equation


def test_some_attention() -> None:
    assert counted(attention, is_attention, 20, Random("few")) == 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["shown", "held"])
def test_nearly_all_attention(seed: str) -> None:
    assert counted(attention, is_attention, 300, Random(seed)) >= 285


def test_keys_that_are_turned_in_batches_where_batch_and_length_are_open() -> None:
    """As torch's exporter writes it: no Reshape can be written with two open sizes."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
        g (float[b,2,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v, bool[b,1,s,s] m)
            => (float[b,2,s,8] y)
            <int64[1] rest = {-1}, int64[1] eight = {8}, float none = {0.0},
             float low = {-3.4028234663852886e38}>
        {
            batch = Shape<start = 0, end = 2>(k)
            length = Shape<start = 2, end = 3>(k)
            of_three = Concat<axis = 0>(rest, length, eight)
            flat = Reshape(k, of_three)
            turned = Transpose<perm = [0, 2, 1]>(flat)
            of_four = Concat<axis = 0>(batch, eight, length)
            keys = Reshape(turned, of_four)
            scores = MatMul(q, keys)
            added = Where(m, none, low)
            masked = Add(scores, added)
            shares = Softmax(masked)
            nan = IsNaN(shares)
            weights = Where(nan, none, shares)
            y = MatMul(weights, v)
        }""")
    assert is_attention(rewritten(model)[1])


def test_heads_are_shared_after_masks_are_seen_to_be_causal() -> None:
    """A causal mask is one for as many heads of keys as of queries, as exported."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
        g (float[b,4,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v) => (float[b,4,s,8] y)
            <int64[3] ahead = {0, 1, 2}, int64[3] around = {0, 1, 3},
             int64[1] two = {2}, int64[4] all = {0, 4, -1, 8}, int64 zero = {0},
             int64 one = {1}, float none = {0.0}, float low = {-3.4028234663852886e38},
             int64[5] twice = {1, 1, 2, 1, 1}>
        {
            length = Shape<start = 2, end = 3>(k)
            count = Squeeze(length)
            places = Range(zero, count, one)
            row = Unsqueeze(places, ahead)
            column = Unsqueeze(places, around)
            seen = LessOrEqual(row, column)
            added = Where(seen, none, low)
            k5 = Unsqueeze(k, two)
            k_copies = Expand(k5, twice)
            keys = Reshape(k_copies, all)
            v5 = Unsqueeze(v, two)
            v_copies = Expand(v5, twice)
            values = Reshape(v_copies, all)
            turned = Transpose<perm = [0, 1, 3, 2]>(keys)
            scores = MatMul(q, turned)
            masked = Add(scores, added)
            weights = Softmax(masked)
            y = MatMul(weights, values)
        }""")
    found, ops = rewritten(model)
    assert is_attention(ops)
    (node,) = (n for n in found.graph if n.op_type == "Attention")
    assert node.attributes["is_causal"].as_int() == 1


@pytest.mark.parametrize("kind", ["FLOAT", "FLOAT16", "BFLOAT16"])
@pytest.mark.parametrize("factor", [8**-0.25, 0.5, 39.5**-0.25])
def test_roots_of_the_default_scale_come_to_the_default(
    factor: float, kind: str
) -> None:
    dtype = ir.DataType[kind]
    nodes = [
        helper.make_node("Mul", ["q", "c"], ["a"]),
        helper.make_node("Mul", ["k", "c"], ["b"]),
        helper.make_node("Attention", ["a", "b", "v"], ["y"], scale=1.0),
    ]
    of = dtype.value
    values = [helper.make_tensor_value_info(n, of, [2, 2, 3, 8]) for n in "qkvy"]
    below = np.nextafter(np.float32(factor), np.float32(0)).astype(dtype.numpy())
    stored = [helper.make_tensor("c", of, [], below.tobytes(), raw=True)]
    graph = helper.make_graph(nodes, "scaled", values[:3], values[3:], stored)
    opset = helper.make_opsetid("", 23)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=11)
    (left,) = rewritten(model)[0].graph
    usual = np.float32(8**-0.5)
    expected = usual if factor == 8**-0.25 else np.float32(float(below) ** 2)
    assert np.float32(left.attributes["scale"].value) == expected


LOW = np.where(np.tri(3, dtype=bool), 0, -np.inf).astype(np.float32)
OPENS = LOW + np.float32([[-np.inf], [0], [0]])
HIDDEN = "chosen = Where(seen, none, low)"


@pytest.mark.parametrize(
    ("chosen", "low", "added", "is_open"),
    [
        (f"seen = Identity(some) {HIDDEN}", -np.inf, None, True),
        (f"seen = Identity(some) {HIDDEN}", -3e38, None, False),
        (f"seen = LessOrEqual(keys, queries) {HIDDEN}", -np.inf, None, False),
        (f"seen = Greater(keys, queries) {HIDDEN}", -np.inf, None, True),
        ("chosen = Sub(given, none)", 0, None, True),
        ("chosen = Identity(stored)", 0, LOW, False),
        ("chosen = Identity(stored)", 0, OPENS, True),
    ],
)
def test_softmax_without_a_result_is_none_where_the_file_is_followed(
    chosen: str, low: float, added: np.ndarray | None, is_open: bool
) -> None:
    """Attention is 0 where all keys are masked by minus infinity, the softmax NaN."""
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[2,2,3,8] q, float[2,2,8,3] k, float[2,2,3,8] v, bool[3,3] some,
           float[3,3] given) => (float[2,2,3,8] y)
            <float none = {{0.0}}, int64[1,3] keys = {{0, 1, 2}},
             int64[3,1] queries = {{0, 1, 2}}> {{
            scores = MatMul(q, k)
            {chosen}
            masked = Add(scores, chosen)
            weights = Softmax(masked)
            y = MatMul(weights, v)
        }}""")
    mask = LOW if added is None else added
    stored = {"low": np.array(low, np.float32), "stored": mask}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in stored.items()
    )
    for level in (0, 1):
        found = load(model).model
        applied = [x.rule for x in simplify(found, level=level).history]
        spelled = "Softmax" in [node.op_type for node in found.graph]
        assert spelled == (is_open and level == 0)
        assert ("attention_open" in applied) == (is_open and level == 1)


@pytest.mark.parametrize(
    ("kind", "condition", "is_open"),
    [
        ("float16", "seen = Identity(some)", True),
        ("float16", "seen = LessOrEqual(keys, queries)", False),
        ("float", "seen = Identity(some)", False),
    ],
)
def test_a_low_float16_doesnt_swallow_scores_in_float32(
    kind: str, condition: str, is_open: bool
) -> None:
    """In which attention adds them: a row that is masked throughout is even no more."""
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 20]>
        g ({kind}[2,2,3,8] q, {kind}[2,2,8,3] k, {kind}[2,2,3,8] v, bool[3,3] some)
            => ({kind}[2,2,3,8] y)
            <int64[1,3] keys = {{0, 1, 2}}, int64[3,1] queries = {{0, 1, 2}}> {{
            scores = MatMul(q, k)  {condition}  masked = Where(seen, scores, low)
            weights = Softmax(masked)  y = MatMul(weights, v) }}""")
    dtype = np.dtype(np.float16 if kind == "float16" else np.float32)
    low = np.array(np.finfo(dtype).min, dtype)
    model.graph.initializer.append(onnx.numpy_helper.from_array(low, "low"))
    applied = [x.rule for x in simplify(load(model).model).history]
    assert ("attention_open" in applied) == is_open
    assert ("attention" in applied) != is_open


FOLDED = {
    "heads in one axis with batches": """
        a = Reshape (q, <int64[3] {6, 4, 8}>) b = Reshape (k, <int64[3] {6, 5, 8}>)
        t = Transpose <perm = [0, 2, 1]> (b) p = MatMul (a, t)
        s = Mul (p, <float {0.25}>) w = Softmax (s)
        c = Reshape (v, <int64[3] {6, 5, 8}>) o = MatMul (w, c)
        y = Reshape (o, <int64[4] {2, 3, 4, 8}>)""",
    "a mask where heads are apart": """
        a = Reshape (q, <int64[3] {6, 4, 8}>) b = Reshape (k, <int64[3] {6, 5, 8}>)
        t = Transpose <perm = [0, 2, 1]> (b) p = MatMul (a, t)
        r = Reshape (p, <int64[4] {2, 3, 4, 5}>) s = Add (r, m)
        f = Reshape (s, <int64[3] {6, 4, 5}>) w = Softmax (f)
        c = Reshape (v, <int64[3] {6, 5, 8}>) o = MatMul (w, c)
        y = Reshape (o, <int64[4] {2, 3, 4, 8}>)""",
    "a mask of all heads": """
        a = Reshape (q, <int64[3] {6, 4, 8}>) b = Reshape (k, <int64[3] {6, 5, 8}>)
        t = Transpose <perm = [0, 2, 1]> (b) p = MatMul (a, t)
        e = Expand (m, <int64[4] {2, 3, 4, 5}>) g = Reshape (e, <int64[3] {6, 4, 5}>)
        s = Add (p, g) w = Softmax (s) c = Reshape (v, <int64[3] {6, 5, 8}>)
        o = MatMul (w, c) y = Reshape (o, <int64[4] {2, 3, 4, 8}>)""",
    "a mask of shifted windows": """
        t = Transpose <perm = [0, 1, 3, 2]> (k) p = MatMul (q, t)
        a = Reshape (p, <int64[5] {1, 2, 3, 4, 5}>)
        u = Unsqueeze (m, <int64[1] {0}>) s = Add (a, u)
        f = Reshape (s, <int64[4] {2, 3, 4, 5}>) w = Softmax (f) y = MatMul (w, v)""",
    "one entry of a mask for all queries of a head": """
        a = Reshape (q, <int64[3] {6, 4, 8}>) b = Reshape (k, <int64[3] {6, 5, 8}>)
        t = Transpose <perm = [0, 2, 1]> (b) p = MatMul (a, t)
        e = Expand (m, <int64[4] {2, 3, 1, 5}>) g = Reshape (e, <int64[3] {6, 1, 5}>)
        x = Mul (p, <float {0.25}>) s = Add (x, g)
        r = Reshape (s, <int64[4] {2, 3, 4, 5}>) w = Softmax (r)
        f = Reshape (w, <int64[3] {6, 4, 5}>) c = Reshape (v, <int64[3] {6, 5, 8}>)
        o = MatMul (f, c) y = Reshape (o, <int64[4] {2, 3, 4, 8}>)""",
    "heads that share keys in an axis of their own": """
        a = Reshape (q, <int64[5] {2, 1, 3, 4, 8}>)
        b = Slice (k, <int64[1] {0}>, <int64[1] {1}>, <int64[1] {1}>)
        d = Unsqueeze (b, <int64[1] {2}>) t = Transpose <perm = [0, 1, 2, 4, 3]> (d)
        p = MatMul (a, t) w = Softmax (p)
        c = Slice (v, <int64[1] {0}>, <int64[1] {1}>, <int64[1] {1}>)
        x = Unsqueeze (c, <int64[1] {2}>) o = MatMul (w, x)
        y = Reshape (o, <int64[4] {2, 3, 4, 8}>)""",
    "a mask by batches, and heads that stay one axis with these": """
        a = Reshape (q, <int64[3] {6, 4, 8}>) b = Reshape (k, <int64[3] {6, 5, 8}>)
        t = Transpose <perm = [0, 2, 1]> (b) p = MatMul (a, t)
        r = Reshape (p, <int64[4] {2, 3, 4, 5}>) s = Add (r, m)
        f = Reshape (s, <int64[3] {6, 4, 5}>) w = Softmax (f)
        c = Reshape (v, <int64[3] {6, 5, 8}>) o = MatMul (w, c)
        u = Transpose <perm = [1, 0, 2]> (o)
        y = Reshape (u, <int64[4] {4, 2, 3, 8}>)""",
    "a low number where each row keeps another": """
        t = Transpose <perm = [0, 1, 3, 2]> (k) p = MatMul (q, t)
        h = Reshape (<bool[20] {1,0,0,0,0, 1,1,0,0,0, 1,1,1,0,0, 1,1,1,1,0}>,
            <int64[2] {4, 5}>)
        f = Expand (<float {-1e9}>, <int64[4] {2, 3, 4, 5}>)
        s = Where (h, p, f) w = Softmax (s) y = MatMul (w, v)""",
    "keys and values without heads": """
        b = ReduceSum (k, <int64[1] {1}>) d = Squeeze (b, <int64[1] {1}>)
        c = ReduceSum (v, <int64[1] {1}>) e = Squeeze (c, <int64[1] {1}>)
        p = Einsum <equation = "bhid,bjd->bhij"> (q, d) w = Softmax (p)
        y = Einsum <equation = "bhij,bjd->bhid"> (w, e)""",
    "heads in groups, which share their keys and stay an axis": """
        a = Reshape (q, <int64[5] {2, 3, 2, 2, 8}>) b = Unsqueeze (k, <int64[1] {2}>)
        t = Transpose <perm = [0, 1, 2, 4, 3]> (b) p = MatMul (a, t)
        n = Unsqueeze (m, <int64[1] {3}>) s = Add (p, n) w = Softmax (s)
        c = Unsqueeze (v, <int64[1] {2}>) o = MatMul (w, c)
        u = Transpose <perm = [0, 3, 1, 2, 4]> (o)
        y = Reshape (u, <int64[4] {2, 1, 2, 48}>)""",
    "groups of heads by letters, behind their rows": """
        a = Reshape (q, <int64[5] {2, 3, 2, 2, 8}>)
        b = Transpose <perm = [0, 3, 1, 2, 4]> (a)
        d = Transpose <perm = [0, 2, 1, 3]> (k) e = Transpose <perm = [0, 2, 1, 3]> (v)
        p = Einsum <equation = "btgrd,bsgd->bgrts"> (b, d) w = Softmax (p)
        o = Einsum <equation = "bgrts,bsgd->btgrd"> (w, e)
        y = Reshape (o, <int64[4] {2, 1, 2, 48}>)""",
    "keys and values of one head": """
        b = ReduceSum (k, <int64[1] {1}>) c = ReduceSum (v, <int64[1] {1}>)
        t = Transpose <perm = [0, 1, 3, 2]> (b) p = MatMul (q, t) s = Add (p, m)
        w = Softmax (s) y = MatMul (w, c)""",
    "batches and heads that are all heads at last": """
        t = Transpose <perm = [0, 1, 3, 2]> (k) p = MatMul (q, t)
        r = Reshape (p, <int64[5] {1, 2, 3, 4, 5}>) w = Softmax (r)
        o = MatMul (w, v) y = Reshape (o, <int64[4] {1, 6, 4, 8}>)""",
    "scores that are negated twice": """
        t = Transpose <perm = [0, 1, 3, 2]> (k) p = MatMul (q, t)
        s = Mul (p, <float {-0.5}>) n = Neg (s) w = Softmax (n) y = MatMul (w, v)""",
}
OTHERS = {
    "groups of heads that share their keys alone": """
        a = Reshape (q, <int64[5] {2, 3, 2, 2, 8}>) b = Unsqueeze (k, <int64[1] {2}>)
        t = Transpose <perm = [0, 1, 2, 4, 3]> (b) p = MatMul (a, t) w = Softmax (p)
        c = Unsqueeze (v, <int64[1] {2}>)
        e = Concat <axis = 2> (c, c) o = MatMul (w, e)
        y = Reshape (o, <int64[4] {2, 3, 4, 8}>)""",
    "scores that are negated": """
        t = Transpose <perm = [0, 1, 3, 2]> (k) p = MatMul (q, t) n = Neg (p)
        w = Softmax (n) y = MatMul (w, v)""",
    "a low number where a row may keep no other": """
        t = Transpose <perm = [0, 1, 3, 2]> (k) p = MatMul (q, t)
        h = Greater (m, <float {0.0}>) s = Where (h, p, <float {-1e9}>)
        w = Softmax (s) y = MatMul (w, v)""",
    "a number that leaves something": """
        t = Transpose <perm = [0, 1, 3, 2]> (k) p = MatMul (q, t)
        h = Reshape (<bool[20] {1,0,0,0,0, 1,1,0,0,0, 1,1,1,0,0, 1,1,1,1,0}>,
            <int64[2] {4, 5}>)
        s = Where (h, p, <float {-100.0}>) w = Softmax (s) y = MatMul (w, v)""",
    "keys alone without heads": """
        b = ReduceSum (k, <int64[1] {1}>) d = Squeeze (b, <int64[1] {1}>)
        p = Einsum <equation = "bhid,bjd->bhij"> (q, d) w = Softmax (p)
        y = MatMul (w, v)""",
    "queries alone without heads": """
        b = ReduceSum (q, <int64[1] {1}>) d = Squeeze (b, <int64[1] {1}>)
        p = Einsum <equation = "bid,bhjd->bhij"> (d, k) w = Softmax (p)
        y = MatMul (w, v)""",
    "a mask by batches that are others at last": """
        a = Reshape (q, <int64[3] {6, 4, 8}>) b = Reshape (k, <int64[3] {6, 5, 8}>)
        t = Transpose <perm = [0, 2, 1]> (b) p = MatMul (a, t)
        r = Reshape (p, <int64[4] {2, 3, 4, 5}>) s = Add (r, m)
        f = Reshape (s, <int64[3] {6, 4, 5}>) w = Softmax (f)
        c = Reshape (v, <int64[3] {6, 5, 8}>) o = MatMul (w, c)
        y = Reshape (o, <int64[4] {3, 2, 4, 8}>)""",
    "infinity where scores are negated": """
        t = Transpose <perm = [0, 1, 3, 2]> (k) p = MatMul (q, t)
        h = Greater (m, <float {0.0}>) s = Where (h, p, <float {-inf}>)
        n = Mul (s, <float {-1.0}>) z = Neg (n) u = Neg (z) w = Softmax (u)
        y = MatMul (w, v)""",
}


def with_heads(text: str) -> onnx.ModelProto:
    """A graph of queries, keys and values of two batches of three heads."""
    given = "float[2,3,4,8] q, float[2,3,5,8] k, float[2,3,5,8] v, float[2,1,1,5] m"
    numbers = iter(range(100))
    constants: list[str] = []

    def named(found: re.Match[str]) -> str:
        name = f"c{next(numbers)}"
        constants.append(f"{found[1]} {name} = {found[2]}")
        return name

    nodes = re.sub(r"<(\w+(?:\[\d+\])?) (\{[^}]*\})>", named, text)
    head = f"agraph ({given}) => (float[N,M,S,T] y) <{', '.join(constants)}>"
    model = f'<ir_version: 10, opset_import: ["" : 20]> {head} {{ {nodes} }}'
    return onnx.parser.parse_model(model)


@pytest.mark.parametrize("spelling", FOLDED)
def test_attention_is_seen_however_its_heads_are_laid_out(spelling: str) -> None:
    before = with_heads(FOLDED[spelling])
    model, ops = rewritten(before)
    assert is_attention(ops)
    feeds = operands(before, 1)
    left, right = (
        ReferenceEvaluator(m).run(None, feeds)[0] for m in (before, ir.to_proto(model))
    )
    np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spelling", OTHERS)
def test_other_scores_and_heads_are_no_attention(spelling: str) -> None:
    assert "Attention" not in rewritten(with_heads(OTHERS[spelling]))[1]


OPSET = '<ir_version: 10, opset_import: ["" : 20]>'
POOLED = OPSET + """ g (float[2,5,8] x) => (float[2,5,8] y) <float e = {1e-5}> {
    m = AveragePool<kernel_shape = [8]>(x)  d = Sub(x, m)  s = Mul(d, d)
    v = GlobalAveragePool(s)  w = Add(v, e)  r = Sqrt(w)  y = Div(d, r) }"""
VIEWED = OPSET + """ g (float[2,5,8] x) => (float[2,5,8] y)
    <int64[3] rows = {10, 1, 8}, int64[3] back = {2, 5, 8},
     float[1] one = {1}, float[1] zero = {0}> {
    r = Reshape(x, rows)  n = InstanceNormalization(r, one, zero)
    y = Reshape(n, back) }"""
BOUNDED = OPSET + """ g (float[2,5,8] x) => (float[2,5,8] y)
    <int64[1] last = {-1}, float e = {1e-12}> {
    m = ReduceMax(x, last)  d = Sub(x, m)  p = Exp(d)  s = ReduceL1(p, last)
    b = Max(s, e)  y = Div(p, b) }"""


def test_rows_are_means_of_windows_over_all_of_them() -> None:
    assert rewritten(onnx.parser.parse_model(POOLED))[1] == ["LayerNormalization"]
    fewer = POOLED.replace("[8]>", "[3], pads = [1, 1]>")
    assert "LayerNormalization" not in rewritten(onnx.parser.parse_model(fewer))[1]


def test_rows_are_normalised_as_parts_of_what_is_viewed_otherwise() -> None:
    assert rewritten(onnx.parser.parse_model(VIEWED))[1] == ["LayerNormalization"]
    other = VIEWED.replace("{10, 1, 8}", "{20, 1, 4}")
    assert "LayerNormalization" not in rewritten(onnx.parser.parse_model(other))[1]


def test_a_bound_below_the_sum_of_shifted_exponentials_is_none() -> None:
    """One of them is 1; those that aren't shifted may all be less than the bound."""
    assert rewritten(onnx.parser.parse_model(BOUNDED))[1] == ["Softmax"]
    for part, other in (("Exp(d)", "Exp(x)"), ("1e-12", "1.5"), ("Exp(d)", "Tanh(d)")):
        model = onnx.parser.parse_model(BOUNDED.replace(part, other))
        assert "Softmax" not in rewritten(model)[1]


@pytest.mark.parametrize("norm", ["RMSNormalization", "LayerNormalization"])
@pytest.mark.parametrize(("scale", "count"), [("half", 2), ("row", 1)])
def test_a_number_behind_a_norm_is_no_row_of_it(
    norm: str, scale: str, count: int
) -> None:
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 23]>
        g (float[2,4] x) => (float[2,4] y)
        <float[4] w = {{1, 1, 1, 1}}, float half = {{0.5}},
         float[4] row = {{4, 1, 2, 3}}>
        {{ n = {norm}<axis = -1>(x, w) y = Mul(n, {scale}) }}""")
    assert len(rewritten(model)[1]) == count


def test_heads_that_are_seen_otherwise_afterwards() -> None:
    """Attention of a batch of six, whatever becomes of its result."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 23]>
        g (float[2,3,4,8] q, float[2,3,5,8] k, float[2,3,5,8] v) => (float[2,3,8,4] y)
        <int64[3] four = {6, 4, 8}, int64[3] five = {6, 5, 8},
         int64[4] back = {2, 3, 8, 4}> {
           a = Reshape(q, four) b = Reshape(k, five) c = Reshape(v, five)
           t = Transpose<perm = [0, 2, 1]>(b) p = MatMul(a, t) w = Softmax(p)
           o = MatMul(w, c) y = Reshape(o, back) }""")
    found, ops = rewritten(model)
    assert ops.count("Attention") == 1
    feeds = operands(model, 3)
    left, right = (
        ReferenceEvaluator(m).run(None, feeds)[0] for m in (model, ir.to_proto(found))
    )
    np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


def test_operators_of_others_mean_nothing_by_their_names() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10,
        opset_import: ["": 23, "own": 1]> g (float[2,4] x) => (float[2,4] y)
        <int64[1, 1] at = {0}> { y = own.ScatterND(x, at) }""")
    assert rewritten(model)[1] == ["ScatterND"]
