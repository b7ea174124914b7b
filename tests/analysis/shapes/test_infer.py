"""Names, anchors, claims, limits and errors of shape inference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.decoders import decoder
from support.symbolic import analyse, build

from fairhand.analysis.errors import FairhandError
from fairhand.analysis.graph.dims import plain, same, spell, symbol
from fairhand.analysis.shapes.infer import infer
from fairhand.analysis.shapes.onnx_types import type_by_schema
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.normalise import normalise

X = "float[b, s, 768] x"
ROW = "float[b, s] x"


def test_names_of_sizes() -> None:
    odd = "0; import os"
    proto = build(
        "float[q, 1, 1, 1] x, float[1, 1, q, 1] z, float[?, 2] t", "y = Add(x, z)"
    )
    first, second, third = (v.type.tensor_type.shape.dim for v in proto.graph.input)
    first[0].dim_param = second[2].dim_param = odd
    first[1].ClearField("dim_value")  # named by nothing
    first[2].dim_param = second[1].dim_param = "?"  # says no more than nothing
    first[3].dim_value = -1
    second[3].dim_param = "x_dim1"  # a name that would have been invented
    third[0].dim_param = odd + " + 1"
    values, shapes = analyse(proto)
    assert spell(shapes.dims(values["x"])) == f"[{odd}, x_dim1_2, x_dim2, x_dim3]"
    assert spell(shapes.dims(values["z"])) == f"[1, z_dim1, {odd}, x_dim1]"
    assert spell(shapes.dims(values["t"])) == f"[{odd} + 1, 2]"
    assert shapes.anchor(symbol(odd)) == (values["x"], 0)
    assert shapes.anchor(symbol("x_dim1_2")) == (values["x"], 1)
    assert shapes.anchor(symbol("nowhere")) is None


def test_an_input_size_may_be_written_as_an_expression() -> None:
    proto = build(
        "float[b, past, 4] x, float[b, n, 4] m, float[b, 1, 4] z",
        "c = Concat<axis=1>(x, z); y = Mul(c, m)",
    )
    proto.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "past + 1"
    values, shapes = analyse(proto)
    assert spell(shapes.dims(values["y"])) == "[b, past + 1, 4]"
    assert shapes.dims(values["y"]) == tuple(map(plain, shapes.dims(values["y"]) or ()))
    assert shapes.anchor(symbol("past")) == (values["x"], 1)


def test_sizes_taken_for_equal_are_told() -> None:
    values, shapes = analyse(build("float[b, 4] x, float[c, 4] z", "y = Add(x, z)"))
    assert spell(shapes.dims(values["y"])) == "[b, 4]"
    size, _ = shapes.dims(values["y"]) or ()
    assert plain(size) == symbol("b")
    assert [same(size, symbol(name)) for name in "bc"] == [None, None]
    assert shapes.anchor(size) == (values["y"], 0)


def test_a_size_that_depends_on_data_is_anchored_where_it_first_stands() -> None:
    values, shapes = analyse(build(ROW, "z = NonZero(x); t = Transpose(z); y = Neg(t)"))
    assert spell(shapes.dims(values["y"])) == "[z_dim1, 2]"
    dims = shapes.dims(values["y"])
    assert dims and shapes.anchor(dims[0]) == (values["z"], 1)


def test_types_and_shapes_are_filled_in_and_outputs_keep_theirs() -> None:
    proto = build(
        X, "i = Shape(x); c = Less(i, [3]); y = Flatten<axis=2>(x)", "float[rows,?] y"
    )
    model = ir.from_proto(proto)
    infer(model)
    told = {v.name: str(v.shape) for node in model.graph for v in node.outputs}
    assert told["i"] == told["c"] == "[3]"
    assert told["y"] == "[rows,768]"
    values = {v.name: v for node in model.graph for v in node.outputs}
    assert [values[n].dtype for n in "icy"] == [
        ir.DataType.INT64,
        ir.DataType.BOOL,
        ir.DataType.FLOAT,
    ]
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


def test_large_weights_are_never_read() -> None:
    def read() -> ir.Tensor:
        raise AssertionError("a weight was read")

    model = ir.from_proto(
        build("float[b, 70000] x, float[70000, 90000] w", "y = MatMul(x, w)")
    )
    weight = model.graph.inputs.pop()
    shape = ir.Shape([70000, 90000])
    weight.const_value = ir.LazyTensor(
        read, dtype=ir.DataType.FLOAT, shape=shape, name="w"
    )
    model.graph.register_initializer(weight)
    shapes = infer(model)
    assert spell(shapes.dims(model.graph.outputs[0])) == "[b, 90000]"


def test_a_table_that_is_resized_to_stored_sizes(tmp_path: Path) -> None:
    """It stays as it is at -O0, where tables are parameters."""
    model = build("float[b, 3, 8, 8] x", "r = Resize(table, , , sizes); y = Add(x, r)")
    stored = {"table": np.ones((1, 3, 5, 5), np.float32), "sizes": [1, 3, 8, 8]}
    for name, value in stored.items():
        tensor = onnx.numpy_helper.from_array(np.array(value), name)
        model.graph.initializer.append(tensor)
    onnx.save(model, tmp_path / "table.onnx")
    loaded = load(tmp_path / "table.onnx").model
    (resized,) = (n.outputs[0] for n in loaded.graph if n.op_type == "Resize")
    assert infer(loaded).dims(resized) == (1, 3, 8, 8)


def test_contents_have_at_most_64_elements() -> None:
    values, shapes = analyse(
        build(X, "a = ConstantOfShape([64]); y = ConstantOfShape([65])")
    )
    assert shapes.elements(values["a"]) is not None
    assert shapes.elements(values["y"]) is None
    values, shapes = analyse(
        build(X, "y = ConstantOfShape([1099511627776, 1099511627776])")
    )
    assert spell(shapes.dims(values["y"])) == "[1099511627776, 1099511627776]"


BRANCHES = """y = If (c) <
    then_branch = a () => (float[?, ?] u) { u = Concat<axis=1>(x, x) },
    else_branch = e () => (float[?, ?] v) { v = Concat<axis=0>(x, x) }
>"""


def test_if_gives_what_its_branches_agree_on() -> None:
    values, shapes = analyse(build("bool c, float[b, 4] x", BRANCHES))
    assert spell(shapes.dims(values["y"])) == "[y_dim0, y_dim1]"
    taken = build(
        "float[b, 4] x",
        "n = Shape<start=1>(x); d = Less([1], n);" "c = Squeeze(d);" + BRANCHES,
    )
    values, shapes = analyse(taken)
    assert spell(shapes.dims(values["y"])) == "[b, 8]"


def test_loops_are_left_to_onnx() -> None:
    body = """n = Constant<value_int=3>(); t = Constant<value=bool {1}>();
    z, y = Loop (n, t, x) <body = l (int64 i, bool go, float[?, ?] v)
    => (bool on, float[?, ?] w, float[?, ?] o)
    { on = Identity(go) w = Relu(v) o = Neg(v) }>"""
    values, shapes = analyse(build("float[b, 4] x", body))
    assert shapes.rank(values["y"]) == 3


def test_a_state_that_a_loop_hands_on_has_its_type() -> None:
    body = """n = Constant<value_int=3>(); t = Constant<value=bool {1}>();
    z, u, o = Loop (n, t, x, x) <body = l
    (int64 i, bool go, float[2, 4] v, float[2, 4] c) =>
    (bool on, float[2, 4] w, float[2, 4] c, float[2, 4] made)
    { on = Identity(go) w = Relu(v) made = Mul(v, c) }>
    y = Neg(o)"""
    values, _ = analyse(build("float[2, 4] x", body))
    assert values["o"].dtype == values["y"].dtype == ir.DataType.FLOAT


def test_a_loop_that_runs_leaves_what_its_body_leaves() -> None:
    body = """n = Constant<value_int=3>();
    s = Constant<value_float=0.0>();
    z = Loop (n, , s) <body = l
    (int64 i, bool go, float v) => (bool on, float[b, 4] w)
    { on = Identity(go) w = Relu(x) }>
    y = Softmax<axis=1>(z)"""
    values, shapes = analyse(build("float[b, 4] x", body))
    assert spell(shapes.dims(values["y"])) == "[b, 4]"
    unsure = body.replace("n = Constant<value_int=3>();", "n = Size(x);")
    values, shapes = analyse(build("float[b, 4] x", unsure))
    assert shapes.dims(values["y"]) is None


def test_sizes_around_a_cache_that_queries_share() -> None:
    """Rows and new tokens are the input's; what the cache holds then is unknown."""
    model = normalise(ir.from_proto(decoder("grouped")))
    shapes = infer(model)
    found = {v.name: shapes.dims(v) for node in model.graph for v in node.outputs}
    assert spell(found["y"]) == "[batch, new, 16]"
    assert spell(found["logits"]) == "[batch, new, 23]"
    assert spell(found["present_k"]) == "[batch, 2, present_k_dim2, 8]"


def test_an_unknown_operator_is_taken_at_its_word() -> None:
    proto = build("float[b, 4] x", "y = custom.Twice(x); z = Neg(y)", "float[] z")
    values, shapes = analyse(proto)
    assert shapes.dims(values["y"]) is None and shapes.rank(values["z"]) is None
    told = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["b", 8])
    proto.graph.value_info.append(told)
    values, shapes = analyse(proto)
    assert spell(shapes.dims(values["z"])) == "[y_dim0, 8]"


@pytest.mark.parametrize(
    ("inputs", "body", "message"),
    [
        (
            "float[b, 3] x, float[4] z",
            "y = Add(x, z)",
            "shapes [b, 3] and [4] do not broadcast: sizes 3 and 4 do not match\n"
            "  at node 'y' (Add), inputs x [b, 3], z [4]",
        ),
        (
            "float[b, 3] x, float[4, 5] z",
            "y = MatMul(x, z)",
            "inner sizes 3 and 4 of a matrix product do not match\n"
            "  at node 'y' (MatMul), inputs x [b, 3], z [4, 5]",
        ),
        (
            "float[2, 3] x",
            "y = Reshape(x, [4, 2])",
            "6 elements do not fit the shape [4, 2]\n"
            "  at node 'y' (Reshape), inputs x [2, 3], const0 [2]",
        ),
        (
            "float[b, 3] x",
            "y = Transpose<perm=[0, 0]>(x)",
            "the output of Transpose has no possible shape:"
            " perm [0, 0] is no order of 2 axes\n"
            "  at node 'y' (Transpose), inputs x [b, 3]\n"
            "  hint: check the node's attributes and constant inputs",
        ),
        (
            "float[b, 3] x",
            "y = Softmax<axis=0>(x); z = ArgMax<axis=7>(y)",
            "the output of ArgMax has no possible shape:"
            " axis 7 is outside a tensor of rank 2\n"
            "  at node 'z' (ArgMax), inputs y [b, 3]\n"
            "  hint: check the node's attributes and constant inputs",
        ),
    ],
)
def test_what_cannot_fit_is_told_with_its_node(
    inputs: str, body: str, message: str
) -> None:
    proto = build(inputs, body)
    for node in proto.graph.node:
        node.name = node.output[0]
    with pytest.raises(FairhandError) as caught:
        analyse(proto)
    assert str(caught.value) == message


# A size that is divided before the convolution that it is a size for.
HALVED = (
    "s = Shape<start=2, end=3>(x); less = Sub(s, [1]); half = Div(less, [2]);"
    "more = Add(half, [1]); z = {made}; y = Expand(c, more)"
)
CONV = "Conv<kernel_shape=[3], strides=[2], pads=[1, 1]>(x, w)"


@pytest.mark.parametrize("size", ["h", "8*rows"])
def test_where_a_convolution_runs_its_sizes_are_no_less_than_a_window(
    size: str,
) -> None:
    inputs = "float[1, 1, h] x, float[1, 1, 3] w, float[1] c"
    proto = build(inputs, HALVED.format(made=CONV), "float[n] y")
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_param = size
    values, shapes = analyse(proto)
    more, (*_, windows) = shapes.content(values["more"]), shapes.dims(values["z"]) or ()
    assert more is not None and more.item() == windows


@pytest.mark.parametrize(
    "made",
    [
        "Neg(x)",
        "MaxPool<kernel_shape=[3], strides=[2], pads=[1, 1]>(x)",  # of 0 windows, too
        f"If <then_branch = t () => (float[1, 1, k] a) {{ a = {CONV} }},"
        " else_branch = e () => (float[1, 1, h] b) { b = Identity(x) }> (flag)",
    ],
)
def test_a_size_that_may_be_0_is_divided_towards_0(made: str) -> None:
    """(0 - 1) / 2 is 0 in ONNX, and -1 in Python."""
    inputs = "float[1, 1, h] x, float[1, 1, 3] w, float[1] c, bool flag"
    proto = build(inputs, HALVED.format(made=made), "float[n] y")
    values, shapes = analyse(proto)
    assert shapes.content(values["half"]) is None


def test_a_type_that_onnx_loses_is_the_schemas() -> None:
    """It counts all frequencies of an STFT: a product of half of them is unknown."""
    proto = build(
        "float[b, 128] x, float[17, 8] m",
        "step = Constant<value_int=16>(); length = Constant<value_int=32>()\n"
        "s = STFT(x, step, , length); axis = Constant<value_ints=[-1]>()\n"
        "e = ReduceSum<keepdims=0>(s, axis); y = MatMul(e, m); z = Log(y)",
    )
    values, shapes = analyse(proto)
    assert spell(shapes.dims(values["y"])) == "[b, 7, 8]"
    assert values["y"].dtype == values["z"].dtype == ir.DataType.FLOAT


def test_values_of_any_types_have_none_of_a_schema() -> None:
    """Of a Loop's results each has a type of its own."""
    first = ir.Value(name="a", type=ir.TensorType(ir.DataType.FLOAT))
    second = ir.Value(name="b", type=ir.TensorType(ir.DataType.INT64))
    loop = ir.node("Loop", [None, None, first, second], num_outputs=2)
    assert [type_by_schema(value) for value in loop.outputs] == [None, None]
    taken = ir.node("Concat", [first, first]).outputs[0]
    assert type_by_schema(taken) == first.type


@pytest.mark.parametrize(
    ("attributes", "sizes"),
    [("axis=0", "[y_dim0, 3]"), ("axis=-1, new_axis=1", "[y_dim0, 3, y_dim2]")],
)
def test_what_a_list_of_inputs_joins_to(attributes: str, sizes: str) -> None:
    operators = f"y = ConcatFromSequence<{attributes}>(x)"
    values, shapes = analyse(build("seq(float[n, 3]) x", operators))
    assert spell(shapes.dims(values["y"])) == sizes
