"""Normalising keeps what a model computes and how its parts are called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.handmade import RNG
from support.stages import save_stage

import fairhand
from fairhand.analysis.errors import Unsupported
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.normalise import normalise

HEADER = '<ir_version: 8, opset_import: ["" : {opset}, "local" : 1, "com.x" : 1]>\n'
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def parse(text: str, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEADER.format(opset=opset) + text)


def run(model: onnx.ModelProto | Path, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = model if isinstance(model, Path) else model.SerializeToString()
    return ort.InferenceSession(data, options).run(None, feed)


def same(proto: onnx.ModelProto, folder: Path, **feed: np.ndarray) -> ir.Model:
    """The normalised model, once it is clear that it computes what `proto` does."""
    model = normalise(load(proto).model)
    after = folder / "after.onnx"
    save_stage(model, after)
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(onnx.load(after)))
    expected = run(proto, feed)
    found = run(after, feed)
    for one, other in zip(expected, found, strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)
    assert [o.name for o in model.graph.outputs] == [o.name for o in proto.graph.output]
    return model


def ops(graph: ir.Graph) -> list[str]:
    return [node.op_type for node in graph]


X = RNG.standard_normal((2, 3)).astype(np.float32)


def test_versions_and_order(tmp_path: Path) -> None:
    proto = parse("""g (float[2, 3] x) => (float[2, 3] y)
        { b = Neg(a)  y = Add(b, c)  c = Relu(x)  a = Abs(x)  d = Exp(x) }""")
    model = same(proto, tmp_path, x=X)
    assert (model.graph.opset_imports, model.ir_version) == ({"": 26}, 13)
    assert ops(model.graph) == ["Abs", "Neg", "Relu", "Add"] or ops(model.graph) == [
        *("Relu", "Abs", "Neg", "Add")
    ]
    assert all(node.version is None for node in model.graph)


def test_an_order_that_works_is_kept(tmp_path: Path) -> None:
    proto = parse("""g (float[2, 3] x) => (float[2, 3] y)
        { c = Relu(x)  a = Abs(x)  e = Exp(c)  b = Neg(a)  y = Add(b, e) }""")
    assert ops(same(proto, tmp_path, x=X).graph) == "Relu Abs Exp Neg Add".split()


CONSTANTS = {
    "value": numpy_helper.from_array(np.array([[1.5, 2, 3]], np.float32)),
    "value_float": 2.5,
    "value_floats": [1.0, 2.0, 3.0],
    "value_int": 3,
    "value_ints": [3, 4, 5],
    "value_string": "añ",
    "value_strings": ["a", "", "c"],
    "sparse_value": helper.make_sparse_tensor(
        helper.make_tensor("", TensorProto.FLOAT, [1], [7.0]),
        helper.make_tensor("", TensorProto.INT64, [1], [2]),
        [1, 3],
    ),
}


@pytest.mark.parametrize(
    "form, place",
    [
        (form, place)
        for form in CONSTANTS
        for place in ("used", "output", "branch")
        # As an output it would be a sparse tensor, which is another type.
        if place == "used" or form != "sparse_value"
    ],
)
def test_constants_become_initializers(form: str, place: str, tmp_path: Path) -> None:
    made = helper.make_node("Constant", [], ["c"], "the_constant")
    made.attribute.append(helper.make_attribute(form, CONSTANTS[form]))
    made.metadata_props.add(key="scope", value="layer.1")
    made.attribute[0].name = form
    last = helper.make_node("Identity", ["c"], ["y"], "last")
    nodes = [made, last]
    y = helper.make_empty_tensor_value_info("y")
    if place == "output":
        made.output[0] = "y"
        nodes = [made]
    if place == "branch":
        made.output[0] = "inner"
        inner = helper.make_empty_tensor_value_info("inner")
        graph = helper.make_graph([made], "branch", [], [inner])
        nodes = [helper.make_node("If", ["b"], ["y"], then_branch=graph)]
        graph.node[0].output[0] = graph.output[0].name = "other"
        nodes[0].attribute.append(helper.make_attribute("else_branch", graph))
    b = helper.make_tensor_value_info("b", TensorProto.BOOL, [])
    proto = helper.make_model(
        helper.make_graph(nodes, "g", [b], [y]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    model = same(proto, tmp_path, b=np.array(True))
    assert "Constant" not in [node.op_type for node in model.graph.all_nodes()]
    (value,) = [v for g in model.graphs() for v in g.initializers.values()][:1]
    assert value.metadata_props["scope"] == "layer.1"
    assert value.name == {"used": "c", "output": "y", "branch": "inner"}[place]


@pytest.mark.parametrize("ir_version", [3, 8])
def test_initializers_are_no_inputs(ir_version: int, tmp_path: Path) -> None:
    proto = parse("g (float[2, 3] x, float[3] w) => (float[2, 3] y) { y = Add(x, w) }")
    proto.graph.initializer.append(numpy_helper.from_array(X[0], "w"))
    proto.ir_version = ir_version
    model = same(proto, tmp_path, x=X)
    assert [value.name for value in model.graph.inputs] == ["x"]
    assert list(model.graph.initializers) == ["w"]


IDENTITIES = {
    # The body of the graph, and what is left of it.
    "a = Identity(x) y = Relu(a)": ["Relu"],
    "a = Relu(x) y = Identity(a)": ["Relu"],
    "a = Relu(x) b = Identity(a) c = Identity(b) y = Identity(c)": ["Relu"],
    "y = Identity(x)": ["Identity"],
    "a = Identity(x) y = Identity(a)": ["Identity"],
    "z = Relu(x) y = Identity(z)": ["Relu", "Identity"],
    "a = Relu(x) z = Identity(a) y = Identity(a)": ["Relu", "Identity"],
    "a = Relu(x) y = Dropout(a)": ["Relu"],
    "a = Relu(x) y, m = Dropout(a) z = Cast<to = 1>(m)": ["Relu", "Dropout", "Cast"],
    "a = Relu(x) y, m = Dropout(a)": ["Relu"],
    "a = Relu(x) t = Constant<value_int = 0>() u = Cast<to = 9>(t) "
    "y = Dropout(a, , u)": ["Relu", "Cast", "Dropout"],
}


@pytest.mark.parametrize("body", IDENTITIES)
def test_idle_nodes_go_where_no_name_is_lost(body: str, tmp_path: Path) -> None:
    outputs = "float[2, 3] z, " * ("z =" in body) + "float[2, 3] y"
    proto = parse(f"g (float[2, 3] x) => ({outputs}) {{ {body} }}")
    model = same(proto, tmp_path, x=X)
    assert ops(model.graph) == IDENTITIES[body]


def test_training_dropout_stays() -> None:
    proto = parse(
        """g (float[2, 3] x) => (float[2, 3] y) <bool t = {1}, float r = {0.5}>
        { y = Dropout(x, r, t) }"""
    )
    assert ops(normalise(load(proto).model).graph) == ["Dropout"]


FUNCTIONS = """
g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z, float[2, 3] same)
{
    a = local.twice <by = 2.0> (x)
    y, unused = local.both (a)
    unused2, z = local.both (x)
    same = local.passes (x)
}
<opset_import: ["" : 17], domain: "local">
plain (v) => (w) { w = Softplus(v) }
<opset_import: ["" : 17, "local" : 1], domain: "local">
twice <by> (v) => (w)
{ two = Constant <value_float: float = @by> () m = Mul(v, two) w = local.plain(m) }
<opset_import: ["" : 17], domain: "local">
both (v) => (p, q) { p = Neg(v)  q = Exp(p) }
<opset_import: ["" : 17], domain: "local">
passes (v) => (v) { unused = Neg(v) }
"""


def test_functions_are_inlined(tmp_path: Path) -> None:
    proto = parse(FUNCTIONS)
    proto.graph.node[0].metadata_props.add(key="scope", value="here")
    model = normalise(load(proto).model)
    save_stage(model, tmp_path / "after.onnx")
    # ONNX Runtime can't run a function that returns what it is given.
    expected = onnx.reference.ReferenceEvaluator(proto).run(None, {"x": X})
    found = run(tmp_path / "after.onnx", {"x": X})
    assert all(map(np.allclose, found, expected))
    assert not model.functions
    assert ops(model.graph) == ["Mul", "Softplus", "Neg", "Neg", "Exp", "Identity"]
    names = [node.name for node in model.graph]
    assert names == ["Mul", "Softplus", "Neg", "Neg_2", "Exp_2", "Identity"]
    assert model.graph[0].metadata_props == {"scope": "here"}


def test_outputs_of_a_call_that_are_left_out(tmp_path: Path) -> None:
    proto = parse(FUNCTIONS)
    for node in proto.graph.node:
        # ONNX Runtime itself can't inline this, though ONNX allows it.
        if node.output[0].startswith("unused"):
            node.output[0] = ""
    save_stage(normalise(load(proto).model), tmp_path / "after.onnx")
    _, z, same_as_x = run(tmp_path / "after.onnx", {"x": X})
    assert np.allclose(z, np.exp(-X), atol=1e-6) and np.array_equal(same_as_x, X)


def test_an_operator_goes_before_a_function_of_its_name(tmp_path: Path) -> None:
    proto = parse("g (float[2, 3] x) => (float[2, 3] y) { y = Gelu(x) }", opset=20)
    body = [helper.make_node("Neg", ["v"], ["w"])]
    opsets = [helper.make_opsetid("", 20)]
    proto.functions.append(helper.make_function("", "Gelu", "v", "w", body, opsets))
    assert ops(same(proto, tmp_path, x=X).graph) == ["Gelu"]


def test_functions_of_another_opset(tmp_path: Path) -> None:
    proto = parse("""g (float[2, 3, 4] x) => (float[2, 1, 3, 4] y)
        { t = local.old(x)  one = Constant<value_ints = [1]>()  y = Unsqueeze(t, one) }
        <opset_import: ["" : 11], domain: "local">
        old (v) => (w) { w = Softmax <axis = 1> (v) }""")
    model = normalise(load(proto).model)
    assert "axis" in model.graph[0].attributes
    save_stage(model, tmp_path / "after.onnx")
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    (found,) = run(tmp_path / "after.onnx", {"x": x})
    flat = np.exp(x.reshape(2, 12))
    expected = (flat / flat.sum(1, keepdims=True)).reshape(2, 1, 3, 4)
    assert np.allclose(found, expected, atol=1e-6)
    package = fairhand.compile(
        proto, tmp_path / "net", verify=False
    )  # it looks for sizes, too
    assert "softmax(" in (package.path / "model.py").read_text("utf-8")


BRANCHES = """
g (float[2, 1, 3] x, bool b) => (float y, float z)
{
    y = If (b) <
        then_branch = t () => (float r) {
            s = Squeeze <axes = [1]> (x)  c = Constant <value_float = 2.0> ()
            r = Mul(s, c)
        },
        else_branch = e () => (float r2) {
            s = Softmax(x)  c = Constant <value_float = 3.0> () r2 = Mul(s, c)
        }>
    s = ReduceMax <axes = [0], keepdims = 0> (x)
    z = Identity(s)
}
"""


@pytest.mark.parametrize("taken", [True, False])
def test_branches_are_normalised_too(taken: bool, tmp_path: Path) -> None:
    proto = parse(BRANCHES, opset=12)
    x = RNG.standard_normal((2, 1, 3)).astype(np.float32)
    model = same(proto, tmp_path, x=x, b=np.array(taken))
    values = [v.name for n in model.graph.all_nodes() for v in n.outputs]
    nodes = [node.name for node in model.graph.all_nodes()]
    assert len(set(values)) == len(values) and len(set(nodes)) == len(nodes)
    kinds = {node.op_type for node in model.graph.all_nodes()}
    assert not kinds & {"Constant", "Identity"}


LOOP = """
g (float[2, 3] x) => (float[2, 3] y, float[n, 2, 1, 3] all)
{
    n = Constant <value = int64 {3}> ()
    go = Constant <value = bool {1}> ()
    y, all = Loop (n, go, x) <body = body
        (int64 i, bool c, float[2, 3] h) => (bool c2, float[2, 3] h2, float[2, 1, 3] o)
        { c2 = Identity(c)  one = Constant <value_float = 1.0> ()
          h2 = Add(h, one)  o = Unsqueeze <axes = [1]> (h2) }>
}
"""


def test_loops_are_normalised_too(tmp_path: Path) -> None:
    model = same(parse(LOOP, opset=12), tmp_path, x=X)
    assert [node.op_type for node in model.graph.all_nodes()] == [
        *("Loop", "Identity", "Add", "Unsqueeze")
    ]


def test_an_alias_of_a_weight_has_the_weights_name() -> None:
    proto = parse("""g (float[2, 3] x) => (float[2, 3] y)
    { alias = Identity(w) y = Add(x, alias) }""")
    proto.graph.initializer.append(numpy_helper.from_array(X, "w"))
    proto.graph.node[0].metadata_props.add(
        key="pkg.torch.onnx.name_scopes", value="['']"
    )
    assert [*normalise(load(proto).model).graph.initializers] == ["w"]


def test_names_are_kept_or_made() -> None:
    proto = parse("""g (float[2, 3] x) => (float[2, 3] y)
        { a = Relu(x)  b = Neg(a)  c = Abs(b)  y = Neg(c) }""")
    for node, name in zip(
        proto.graph.node, ["/a/Relu", "", "/a/Relu", ""], strict=True
    ):
        node.name = name
    model = normalise(load(proto).model)
    assert [n.name for n in model.graph] == ["/a/Relu", "Neg_1", "/a/Relu_1", "Neg_3"]
    assert [n.outputs[0].name for n in model.graph] == ["a", "b", "c", "y"]


def test_added_nodes_inherit(tmp_path: Path) -> None:
    proto = parse("g (float[2, 3, 4] x) => (float y) { y = Softmax(x) }", opset=11)
    proto.graph.node[0].name = "/head/Softmax"
    proto.graph.node[0].metadata_props.add(key="scope", value="head")
    proto.graph.node.append(helper.make_node("Neg", ["x"], ["y_flat"], "y_shape"))
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    model = same(proto, tmp_path, x=x)
    names = [f"/head/Softmax{suffix}" for suffix in ("_flat", "_shape", "", "_flat_1")]
    assert sorted(n.name or "" for n in model.graph) == sorted(names)
    assert all(n.metadata_props == {"scope": "head"} for n in model.graph)


def test_other_domains_are_left_alone() -> None:
    proto = parse("""g (float[2, 3] x) => (float y)
        { a = com.x.Squeeze <axes = [1]> (x)  y = com.x.Identity(a) }""")
    model = normalise(load(proto).model)
    assert [n.domain for n in model.graph] == ["com.x", "com.x"]
    assert model.graph[0].attributes["axes"].as_ints() == (1,)
    assert model.graph.opset_imports == {"": 26, "com.x": 1}


def test_unused_outputs_and_weights_go(tmp_path: Path) -> None:
    proto = parse("""g (float[1, 1, 4] x) => (float y) <float[2] unused = {1, 2}>
        { y, i = MaxPool <kernel_shape = [2]> (x)  k = Add(unused, unused) }""")
    x = RNG.standard_normal((1, 1, 4)).astype(np.float32)
    model = same(proto, tmp_path, x=x)
    assert ops(model.graph) == ["MaxPool"] and not model.graph.initializers
    assert len(model.graph[0].outputs) == 1


def test_a_constant_of_two_values() -> None:
    proto = parse("g (float x) => (float y) { y = Constant <value_int = 1> () }")
    model = load(proto).model
    model.graph[0].attributes.add(ir.AttrInt64("value_float", 2))
    with pytest.raises(Unsupported, match="a Constant needs one value"):
        normalise(model)


@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda p: p.stem)
def test_light_models(path: Path, tmp_path: Path) -> None:
    model = normalise(load(path).model)
    kinds = {n.op_type for n in model.graph}
    assert not kinds & {"Dropout", "Constant"} and kinds <= set(ops(model.graph))
    assert all(n.name for n in model.graph)


def test_loop_without_condition_and_values_keeps_two_inputs(tmp_path: Path) -> None:
    """onnx finds no types beside a Loop of one input, which ONNX Runtime refuses."""
    proto = parse("""g (int64 n, float[2] x) => (float[2] y) {
        all = Loop (n, "") <body = body (int64 i, bool go) => (bool on, float[2] row) {
            on = Identity (go)
            row = Identity (x)
        }>
        zero = Constant <value_ints = [0]> ()
        y = ReduceSum <keepdims = 0> (all, zero)
    }""")
    same(proto, tmp_path, n=np.array(3), x=np.array([1, -2], np.float32))


@pytest.mark.parametrize("number", [2, -1])
@pytest.mark.parametrize(
    "switch, node",
    [
        ("keepdims", "ReduceSum <keepdims = {}> (x, one)"),
        ("keepdims", "ArgMax <axis = 1, keepdims = {}> (x)"),
        ("noop_with_empty_axes", "ReduceSum <noop_with_empty_axes = {}> (x)"),
        ("largest", "TopK <axis = 1, largest = {}> (x, one)"),
        (
            "ceil_mode",
            "MaxPool <kernel_shape = [2], strides = [2], ceil_mode = {}> (x)",
        ),
    ],
)
def test_switches_at_no_switch_s_number_are_off(
    switch: str, node: str, number: int, tmp_path: Path
) -> None:
    results = "y, places" if node.startswith("TopK") else "y"
    proto = parse(f"""g (float[2, 3, 3] x) => (y) {{
            one = Constant <value_ints = [1]> ()
            {results} = {node.format(number)}
        }}""")
    x = RNG.standard_normal((2, 3, 3)).astype(np.float32)
    (left,) = same(proto, tmp_path, x=x).graph
    assert left.attributes[switch].value == 0
