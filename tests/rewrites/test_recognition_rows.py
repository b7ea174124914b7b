"""What is computed along rows, and what only looks like it."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support.traced import Traced

from fairhand.codegen.load.read_model import load
from fairhand.rewrites.simplify import simplify

CONSTANTS = {
    "last": np.array([-1]),
    "channels": np.array([1]),
    "image": np.array([2, 3]),
    "all": np.array([1, 2, 3]),
    "parts": np.array([2, 3, 4]),
    "flat": np.array([2, 4, -1]),
    "flat3": np.array([2, 2, -1]),
    "pairs": np.array([2, 2, 2, 3, 3]),
    "whole": np.array([2, 4, 3, 3]),
    "wide": np.array([4, -1]),
    "kept": np.array([2, 4, 1, 1]),
    "one": np.ones((1, 1), np.float32),
    "eps": np.array(1e-3, np.float32),
    "tiny": np.array(1e-6, np.float32),
    "two": np.array(2, np.float32),
    "zero": np.array(0, np.float32),
    "many": np.array(0.9, np.float32),
    "ones": np.ones(2, np.float32),
    "zeros": np.zeros(2, np.float32),
    "s": np.array([0.5, 2, 3, -1], np.float32),
    "s1": np.array([0.5, 2, 3, -1], np.float32).reshape(4, 1, 1),
    "holed": np.array([0.5, 0, np.inf, np.nan], np.float32).reshape(4, 1, 1),
    "s2": np.array([0.5, 2, 3, -1], np.float32).reshape(1, 2, 2, 1, 1),
    "b1": np.array([1, 2, 0.3, -1], np.float32).reshape(1, 4, 1, 1),
    "b3": np.array([1, 2, 0.3, -1], np.float32).reshape(4, 1),
    "row": np.array([0.5, 2, 3], np.float32),
    "column": np.array([0.5, 2, 3], np.float32).reshape(3, 1),
}


def operators(nodes: str, *sizes: int) -> list[str]:
    """What is left of a network of x, which computes what it did."""
    used = [
        name
        for name in CONSTANTS
        if name
        in set(nodes.replace(",", " ").replace("(", " ").replace(")", " ").split())
    ]
    body = onnx.parser.parse_graph(
        f"g (float[{','.join(map(str, sizes))}] x) => (float y) {{ {nodes} }}"
    )
    body.initializer.extend(
        numpy_helper.from_array(CONSTANTS[name], name) for name in used
    )
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])
    found = load(model).model
    simplify(found)
    x = np.random.default_rng(0).normal(0.3, 1.5, sizes).astype(np.float32)
    left, right = (
        ReferenceEvaluator(m).run(None, {"x": x})[0]
        for m in (model, ir.to_proto(found))
    )
    assert left.shape == right.shape
    np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-4)
    return [node.op_type for node in found.graph]


# A sum over an axis of size 1 is no sum over the row: it was one already.
SUMMED_TWICE = [
    "e = Exp(x) m = ReduceMean(e, last) t = ReduceSum(m, last) y = Div(e, t)",
    "e = Exp(x) m = ReduceMean(e, last) t = MatMul(m, one) y = Div(e, t)",
    "e = Exp(x) m = ReduceMean(e, last) r = Sqrt(m) t = ReduceSumSquare(r, last)"
    " y = Div(e, t)",
    "e = Exp(x) m = ReduceMean(e, last) t = ReduceSum(m, last) y = Log(t)",
]


@pytest.mark.parametrize("nodes", SUMMED_TWICE)
def test_what_was_summed_is_not_summed_again(nodes: str) -> None:
    assert not {"Softmax", "ReduceLogSumExp"} & set(operators(nodes, 2, 3, 3))


@pytest.mark.parametrize("kept", [0, 1])
def test_a_row_may_become_one_number(kept: int) -> None:
    nodes = f"""m = ReduceMax(x, last)  d = Sub(x, m)  e = Exp(d)
        t = ReduceSum<keepdims = {kept}>(e, last)  l = Log(t)
        k = ReduceMax<keepdims = {kept}>(x, last)  y = Add(k, l)"""
    assert operators(nodes, 3, 3, 3) == ["ReduceLogSumExp"]
    # Of another axis, of the mean, by another shift, of other rows of as many.
    for was, now in (
        (
            "k = ReduceMax<keepdims = {kept}>(x, last)",
            "k = ReduceMax<keepdims = {kept}>(x, channels)",
        ),
        ("t = ReduceSum", "t = ReduceMean"),
        ("k = ReduceMax", "k = ReduceMin"),
        ("Exp(d)", "Abs(d)"),
    ):
        assert (
            len(
                operators(
                    nodes.replace(was.format(kept=kept), now.format(kept=kept)), 3, 3, 3
                )
            )
            > 1
        )


def test_numbers_of_rows_are_not_laid_beside_elements() -> None:
    """[3, 3] beside [3, 3, 3] is one of each column, not of each row."""
    nodes = "e = Exp(x) t = ReduceSum<keepdims = 0>(e, last) y = Div(e, t)"
    assert "Softmax" not in operators(nodes, 3, 3, 3)
    nodes = """m = ReduceMean<keepdims = 0>(x, last)  c = Sub(x, m)  q = Mul(c, c)
        v = ReduceMean(q, last)  w = Add(v, eps)  r = Sqrt(w)  y = Div(c, r)"""
    assert "LayerNormalization" not in operators(nodes, 3, 3, 3)


NORM = """m = ReduceMean(x, {axes})  c = Sub(x, m)  q = Mul(c, c)
    v = ReduceMean(q, {axes})  w = Add(v, eps)  r = Sqrt(w)  d = Div(c, r)
    t = Mul(d, s1)  y = Add(t, b1)"""


@pytest.mark.parametrize(
    ("axes", "wanted"),
    [
        ("channels", ["Transpose", "LayerNormalization", "Transpose"]),
        ("image", ["InstanceNormalization"]),
        ("all", ["GroupNormalization"]),
    ],
)
def test_a_norm_of_images_may_be_of_any_axes(axes: str, wanted: list[str]) -> None:
    nodes = NORM.format(axes=axes)
    assert operators(nodes, 2, 4, 3, 3) == wanted
    other = "image" if axes == "channels" else "channels"
    for was, now in (
        (f"(q, {axes})", f"(q, {other})"),
        ("Add(v, eps)  r = Sqrt(w)", "Sqrt(v)  r = Add(w, eps)"),
        ("Div(c, r)", "Div(x, r)"),
    ):
        found = operators(nodes.replace(was, now), 2, 4, 3, 3)
        assert len(found) > 3 or "ReduceMean" in found


@pytest.mark.parametrize("sizes", [(2, 4, 3), (2, 4, 1)])
def test_a_channel_in_one_axis_may_have_its_scale(sizes: tuple[int, ...]) -> None:
    nodes = NORM.replace("s1", "b3").replace("b1", "b3").format(axes="last")
    assert operators(nodes, *sizes) == ["InstanceNormalization"]


MEANS = [
    "t = Transpose<perm = [0, 2, 1]>(x)  k = ReduceMean(t, channels)"
    "  m = Transpose<perm = [0, 2, 1]>(k)",
    "t = Transpose<perm = [0, 2, 1]>(x)  k = ReduceMean<keepdims = 0>(t, channels)"
    "  m = Unsqueeze(k, last)",
]


@pytest.mark.parametrize("mean", MEANS)
def test_a_mean_may_be_of_what_is_turned_for_it(mean: str) -> None:
    rest = """  c = Sub(x, m)  q = Mul(c, c)  v = ReduceMean(q, last)  w = Add(v, eps)
        r = Sqrt(w)  y = Div(c, r)"""
    assert operators(mean + rest, 2, 3, 3) == ["LayerNormalization"]
    # Not turned back, or turned so that the rows change places.
    other = mean.replace("m = Transpose<perm = [0, 2, 1]>(k)", "m = Identity(k)")
    other = other.replace("[0, 2, 1]>(x)", "[1, 2, 0]>(x)")
    assert "LayerNormalization" not in operators(other + rest, 3, 3, 3)


def test_a_mean_may_be_of_what_is_flattened_for_it() -> None:
    nodes = """f = Reshape(x, flat)  n = ReduceMean<keepdims = 0>(f, last)
        m = Reshape(n, kept) """ + NORM.format(axes="image").split(")", 1)[1]
    assert operators(nodes, 2, 4, 3, 3) == ["InstanceNormalization"]


GUARDED = """m = ReduceMean(x, last)  q = Mul(x, x)  p = ReduceMean(q, last)
    n = Mul(m, m)  d = Sub(p, n)  v = Max(d, {least})  w = Add(v, eps)  r = Sqrt(w)
    c = Sub(x, m)  y = Div(c, r)"""


def test_a_variance_is_not_negative() -> None:
    """Flax guards the difference of two means that it computes it as."""
    assert operators(GUARDED.format(least="zero"), 2, 3, 5) == ["LayerNormalization"]
    assert len(operators(GUARDED.format(least="many"), 2, 3, 5)) > 3
    swapped = GUARDED.replace("Sub(p, n)", "Sub(n, p)").format(least="zero")
    assert len(operators(swapped, 2, 3, 5)) > 3


def test_a_length_may_be_bounded_before_its_root_is_taken() -> None:
    nodes = """q = Mul(x, x)  t = ReduceSum(q, last)  b = Max(t, tiny)  r = Sqrt(b)
        i = Reciprocal(r)  y = Mul(x, i)"""
    assert operators(nodes, 2, 3, 5) == ["ReduceL2", "Clip", "Div"]
    assert operators(nodes.replace("ReduceSum", "ReduceMean"), 2, 3, 5) != [
        *("ReduceL2", "Clip", "Div")
    ]


SHIFTED = """m = ReduceMean(x, last)  d = Sub(x, m)  e = Exp(d)  t = ReduceSum(e, last)
    b = Max(t, {least})  y = Div(e, b)"""


def test_exponentials_about_their_mean_add_to_more_than_1() -> None:
    assert operators(SHIFTED.format(least="tiny"), 2, 3, 3) == ["Softmax"]
    assert "Softmax" not in operators(SHIFTED.format(least="b3"), 2, 4, 3)


GROUPS = """g = Reshape(x, flat3)  n = InstanceNormalization<epsilon = 0.001>(
    g, ones, zeros)  {between}"""


@pytest.mark.parametrize(
    "between",
    [
        "k = Reshape(n, whole)  t = Mul(k, s1)  y = Add(t, b1)",
        "k = Reshape(n, pairs)  t = Mul(k, s2)  y = Reshape(t, whole)",
        "k = Reshape(n, flat)  t = Add(k, b3)  u = Mul(b3, t)  y = Reshape(u, whole)",
    ],
)
def test_a_scale_of_channels_may_stand_at_any_view(between: str) -> None:
    nodes = GROUPS.format(between=between)
    assert operators(nodes, 2, 4, 3, 3) == ["GroupNormalization"]


@pytest.mark.parametrize(
    "between",
    [
        "k = Reshape(n, whole)  y = Mul(k, row)",  # a number for each column
        "k = Reshape(n, whole)  y = Mul(k, column)",
        "k = Reshape(n, pairs)  t = Mul(k, row)  y = Reshape(t, whole)",
    ],
)
def test_a_scale_of_others_than_channels_stays(between: str) -> None:
    found = operators(GROUPS.format(between=between), 2, 4, 3, 3)
    assert found.count("Mul") == 1


def test_groups_of_a_channel_each_are_groups() -> None:
    """As exporters see an image for nn.GroupNorm(4, 4), and not for nn.InstanceNorm."""
    nodes = """g = Reshape(x, flat)  n = InstanceNormalization<epsilon = 0.001>(g, s, s)
        k = Reshape(n, whole)  y = Mul(k, s1)"""
    assert operators(nodes, 2, 4, 3, 3) == ["GroupNormalization"]


def test_groups_may_be_rows_of_two_axes() -> None:
    nodes = """g = Reshape(x, wide)  m = ReduceMean(g, last)  c = Sub(g, m)
        q = Mul(c, c)  v = ReduceMean(q, last)  w = Add(v, eps)
        r = Sqrt(w)  d = Div(c, r)  k = Reshape(d, whole)  y = Mul(k, s1)"""
    assert operators(nodes, 2, 4, 3, 3) == ["GroupNormalization"]


def test_what_a_norm_is_times_stays_out_of_its_trained_weights() -> None:
    g = Traced(x=[2, 3, 4])
    with g.module("norm", "Norm"):
        mean = g("ReduceMean", g("Mul", "x", "x"), g.ints(-1))
        length = g("Sqrt", g("Add", mean, g.number(1e-5)))
        scaled = g("Mul", g("Div", "x", length), g.param("weight", 4))
    model = load(g.model(y=g("Mul", scaled, g.number(0.9)))).model
    simplify(model)
    assert [node.op_type for node in model.graph] == ["RMSNormalization", "Mul"]


def test_a_scale_among_the_statistics_stands_behind_the_norm() -> None:
    """As TensorFlow's batch_normalization writes it, of groups for Keras."""
    nodes = """g = Reshape(x, pairs)  m = ReduceMean(g, parts)  c = Sub(g, m)
        q = Mul(c, c)  v = ReduceMean(q, parts)  w = Add(v, eps)  r = Sqrt(w)
        i = Reciprocal(r)  f = Mul(i, s2)  t = Mul(g, f)  u = Mul(m, {})
        k = Sub(t, u)  y = Reshape(k, whole)"""
    assert operators(nodes.format("f"), 2, 4, 3, 3) == ["GroupNormalization"]
    assert "Sqrt" in operators(nodes.format("i"), 2, 4, 3, 3)


@pytest.mark.parametrize("vector", ["holed", "s1"])
def test_a_constant_that_falls_out_may_have_been_0_or_no_number(vector: str) -> None:
    """x g / g is NaN where g is 0, and x + g - g where that is infinite."""
    norm = """m = ReduceMean(u, last)  c = Sub(u, m)  q = Mul(c, c)
        v = ReduceMean(q, last)  w = Add(v, eps)  r = Sqrt(w)  y = Div(c, r)"""
    scaled = f"t = Mul(x, {vector})  u = Div(t, {vector})  " + norm
    assert "Mul" in operators(scaled, 2, 4, 3, 3)
    shifted = f"""t = Add(x, {vector})  u = Sub(t, {vector})  e = Exp(u)
        k = ReduceSum(e, last)  y = Div(e, k)"""
    assert "Add" in operators(shifted, 2, 4, 3, 3)


def test_a_sum_of_products_with_a_vector() -> None:
    nodes = 'y = Einsum<equation = "abc,c->ab">(x, row)'
    assert operators(nodes, 2, 3, 3) == ["MatMul"]
    nodes = 'y = Einsum<equation = "abc,b->ac">(x, row)'
    assert operators(nodes, 2, 3, 3) == ["Einsum"]


def test_a_product_over_an_axis_without_elements_is_read() -> None:
    body = onnx.parser.parse_graph("g (float[n,0] x) => (float y) { y = MatMul(x, w) }")
    body.initializer.append(numpy_helper.from_array(np.zeros((0, 0), np.float32), "w"))
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])
    found = load(model).model
    simplify(found)
    assert [node.op_type for node in found.graph] == ["MatMul"]


def test_a_sum_takes_in_no_factor_that_is_needed_elsewhere() -> None:
    """The mean of (2 x)^2 over 4 elements is the sum of x^2, by chance."""
    nodes = """t = Mul(x, two)  q = Mul(t, t)  m = ReduceMean(q, last)  w = Add(m, eps)
        r = Sqrt(w)  d = Div(t, r)  y = Add(d, t)"""
    assert "ReduceSumSquare" not in operators(nodes, 2, 3, 4)


@pytest.mark.parametrize("sizes", [(2, 4, 4), (1, 4, 1, 4)])
def test_numbers_of_channels_are_none_of_a_row_of_as_many(
    sizes: tuple[int, ...],
) -> None:
    """`operators` compares what is computed."""
    nodes = "n = InstanceNormalization(x, s, s) m = Mul(n, two) y = Add(m, b1)"
    operators(nodes if len(sizes) == 4 else nodes.replace("b1", "b3"), *sizes)


@pytest.mark.parametrize(
    ("equation", "shapes", "left"),
    [
        ("...d->...", ["2,3,4"], ["ReduceSum"]),
        ("i...->...", ["2,3,4"], ["ReduceSum"]),
        ("cba", ["2,3,4"], ["Transpose"]),
        ("...d,...d->...", ["2,3,4", "2,3,4"], ["Mul", "ReduceSum"]),
        ("...i,i", ["2,3,4", "4"], ["MatMul"]),
        ("...ij,jk->...ik", ["2,3,4", "4,5"], ["MatMul"]),
        ("oi,bti->bto", ["5,4", "2,3,4"], ["Transpose", "MatMul"]),
        ("...i,...i->...", ["2,3,4", "3,4"], ["Einsum"]),
        ("ii->i", ["3,3"], ["Einsum"]),
    ],
)
def test_an_einsum_says_which_axes(
    equation: str, shapes: list[str], left: list[str]
) -> None:
    given = ", ".join(f"float[{s}] x{k}" for k, s in enumerate(shapes))
    names = ", ".join(f"x{k}" for k in range(len(shapes)))
    before = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 23]>
        g ({given}) => (float y) {{
        y = Einsum<equation = "{equation}">({names}) }}""")
    model = load(before).model
    simplify(model)
    assert [node.op_type for node in model.graph] == left
    random = np.random.default_rng(0)
    feeds = {
        f"x{k}": random.random([int(n) for n in s.split(",")], np.float32)
        for k, s in enumerate(shapes)
    }
    one, other = (
        ReferenceEvaluator(m).run(None, feeds)[0] for m in (before, ir.to_proto(model))
    )
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_a_turned_tensor_of_unknown_sizes_is_read_as_it_is() -> None:
    """What a law makes may have no sizes yet: their axes can't be followed through."""
    model = load(onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        g (float[2,3,4] x, float[2,3,4] z) => (float y, float w)
        <int64[1] first = {0}, float[1,4] minus = {-1, -1, -1, -1},
         float[1] c = {-0.8}> {
            a = Sigmoid(x) b = ReduceMean(a, first) d = Transpose<perm = [1, 0, 2]>(b)
            e = Mul(d, minus) f = ReduceMean<keepdims = 0>(e, first) h = Neg(f)
            w = Div(c, f) y = Div(z, h) }""")).model
    simplify(model)
    assert "ReduceMean" in [node.op_type for node in model.graph]
