"""The engine: it ends, shares equal nodes, keeps names, and says why not."""

from __future__ import annotations

import gc
import itertools
import random

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import numpy_helper
from support.random_graphs import random_model
from support.rule_samples import run, sample_model

from fairhand.analysis.graph.traversal import all_graphs, all_nodes, sort
from fairhand.analysis.shapes.infer import infer
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.engine import associative_chains
from fairhand.rewrites.engine.apply import Rewriter
from fairhand.rewrites.engine.graph_facts import GraphFacts
from fairhand.rewrites.engine.history import LAYOUT
from fairhand.rewrites.engine.match import Matcher
from fairhand.rewrites.engine.rule_index import form_of, index_of, roots
from fairhand.rewrites.engine.termination import weight
from fairhand.rewrites.engine.worklist import Worklist
from fairhand.rewrites.language.exactness import Exactness
from fairhand.rewrites.language.facts import Facts
from fairhand.rewrites.language.operators.contraction import MatMul
from fairhand.rewrites.language.operators.read_write import NoReading, reading
from fairhand.rewrites.language.rule import Law, rule
from fairhand.rewrites.rules.catalogue import BY_NAME, PHASES, RULES, SHARE
from fairhand.rewrites.simplify import simplify

CLASSES = {rule.name: Exactness.BITWISE for rule in RULES}


def graph_of(
    *nodes: tuple[str, str, str], inputs: str = "x", output: str = "y"
) -> ir.Model:
    """Nodes as (result, operator, operands); every tensor is float32 [2, 3]."""
    values: dict[str, ir.Value] = {}
    graph = ir.Graph([], [], nodes=[], opset_imports={"": 26}, name="g")
    for name in inputs.split():
        values[name] = ir.Value(
            name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2, 3])
        )
        graph.inputs.append(values[name])
    for result, op, operands in nodes:
        node = ir.node(op, [values[x] for x in operands.split()], name=f"node_{result}")
        node.outputs[0].name = result
        values[result] = node.outputs[0]
        graph.append(node)
    values[output].type = ir.TensorType(ir.DataType.FLOAT)
    graph.outputs.append(values[output])
    return ir.Model(graph, ir_version=12)


def rewritten(model: ir.Model, *names: str) -> Rewriter:
    rewriter = Rewriter(model, infer(model), CLASSES)
    Worklist(rewriter, [("rules", [BY_NAME[name] for name in names])]).run()
    rewriter.finish()
    return rewriter


def operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


@pytest.mark.parametrize(
    ("rule", "sample"),
    [
        pytest.param(rule, sample, id=f"{rule.name}-{i}")
        for rule in RULES
        for i, sample in enumerate(rule.samples)
    ],
)
def test_every_application_lowers_its_measure(rule, sample) -> None:
    model = ir.from_proto(sample_model(rule, sample))
    before = weight(model.graph)
    rewriter = Rewriter(model, infer(model), CLASSES)
    engine = Worklist(rewriter, [(rule.when, [rule])])
    engine.run()
    assert engine.history
    kept = dict(rewriter.facts.forms)
    rewriter.facts.forget_forms()
    for node in all_nodes(model.graph):
        assert kept.get(node) in (None, form_of(node, rewriter.facts))
    after = weight(model.graph)
    if rule.when != LAYOUT:  # that is weighed with others: test_layout.py
        assert after < before if rule.measure == "weight" else after <= before


HEAD = '<ir_version: 10, opset_import: ["": 22]> g '


def rewritten_by(name: str, text: str) -> list[str]:
    """The operators of a graph after one law had its way."""
    model = ir.from_proto(onnx.parser.parse_model(HEAD + text))
    rewritten(model, name)
    return operators(model)


@pytest.mark.parametrize(("dtype", "after"), [("float", "Global"), ("int8", "")])
def test_no_operator_is_written_for_a_type_that_it_lacks(
    dtype: str, after: str
) -> None:
    text = f"""({dtype}[1,2,3,3] x) => ({dtype}[1,2,1,1] y)
        {{ y = MaxPool<kernel_shape=[3,3]>(x) }}"""
    assert rewritten_by("max_pool_of_all", text) == [f"{after}MaxPool"]


@pytest.mark.parametrize("dtype", ["float", "double"])
def test_doubles_are_not_rounded_to_an_attribute(dtype: str) -> None:
    text = f"""({dtype}[2,3,4,8] q, {dtype}[2,3,8,5] k, {dtype}[2,3,5,6] v)
        => ({dtype}[2,3,4,6] y) <{dtype} c = {{0.3}}>
        {{ s = MatMul(q, k) t = Mul(s, c) p = Softmax(t) y = MatMul(p, v) }}"""
    model = ir.from_proto(onnx.parser.parse_model(HEAD + text))
    simplify(model)
    assert ("Attention" in operators(model)) == (dtype == "float")


def test_a_squeeze_of_an_empty_list_is_left_alone() -> None:
    """ONNX Runtime takes it for all axes of size 1."""
    text = """(float[1,3] x) => (float[1,3] y) <int64[0] none = {}>
        { s = Squeeze(x, none) y = Unsqueeze(s, none) }"""
    model = ir.from_proto(onnx.parser.parse_model(HEAD + text))
    simplify(model)
    assert "Squeeze" in operators(model)


@pytest.mark.parametrize(
    "text",
    [
        "(float[3] x, float[3] w) => (float y) { y = MatMul(x, w) }",
        "(float[2,3] x, float[3] w) => (float[2] y) { y = MatMul(x, w) }",
        """(float[1,1,5] x, float[1,1,2] w) => (float[1,1,3] y)
            { y = Conv<pads = [-1, 0]>(x, w) }""",
        "(float[3] x) => (float8e4m3fn[3] y) { y = Cast<to = 17, saturate = 0>(x) }",
    ],
)
def test_what_no_law_speaks_of_is_not_read(text: str) -> None:
    """The proofs take for granted that products have matrices, and pads add."""
    model = ir.from_proto(onnx.parser.parse_model(HEAD + text))
    (node,) = model.graph
    with pytest.raises(NoReading):
        reading(node, GraphFacts(infer(model)))


def test_equal_nodes_become_one_and_so_do_their_users() -> None:
    model = graph_of(
        ("a", "Relu", "x"),
        ("b", "Relu", "x"),
        ("c", "Exp", "a"),
        ("d", "Exp", "b"),
        ("y", "Add", "c d"),
    )
    rewriter = rewritten(model)
    assert operators(model) == ["Relu", "Exp", "Add"]
    assert rewriter.merged == 2


@pytest.mark.parametrize(("axis", "left"), [(-1, 1), (1, 1), (0, 2)])
def test_a_default_is_what_it_stands_for(axis: int, left: int) -> None:
    model = graph_of(("a", "LayerNormalization", "x x"), ("y", "Add", "a a"))
    norm, total = model.graph
    given = {"axis": axis, "stash_type": 1}
    other = ir.node("LayerNormalization", norm.inputs, attributes=given)
    model.graph.insert_after(norm, other)
    total.replace_input_with(1, other.outputs[0])
    rewritten(model)
    assert operators(model).count("LayerNormalization") == left


@pytest.mark.parametrize(("names", "left"), [("c d", 1), ("a.weight b.weight", 2)])
def test_numbers_are_told_apart_by_what_they_are(names: str, left: int) -> None:
    """Exporters store a number once per use; parameters that are equal now are not
    one thing."""
    model = graph_of(("y", "Relu", "x"))
    graph = model.graph
    for name in names.split():
        tensor = ir.tensor(np.array([0.5], np.float32), name=name)
        stored = ir.Value(name=name, type=ir.TensorType(tensor.dtype))
        stored.const_value, stored.shape = tensor, ir.Shape([1])
        graph.register_initializer(stored)
        graph.append(ir.node("Mul", [graph[0].outputs[0], stored]))
    products = [node.outputs[0] for node in list(graph)[1:]]
    graph.append(ir.node("Concat", products, attributes={"axis": 0}))
    rewritten(model)
    assert operators(model).count("Mul") == left


def test_random_nodes_are_not_shared() -> None:
    model = graph_of(
        ("a", "RandomNormalLike", "x"),
        ("b", "RandomNormalLike", "x"),
        ("y", "Sub", "a b"),
    )
    rewritten(model)
    assert operators(model).count("RandomNormalLike") == 2


def test_an_output_keeps_its_name() -> None:
    model = graph_of(("a", "Relu", "x"), ("y", "Relu", "a"))
    rewritten(model, "relu_of_relu")
    assert operators(model) == ["Relu"]
    assert model.graph.outputs[0].name == "y"
    assert model.graph.outputs[0].producer() is model.graph[0]


@pytest.mark.parametrize(
    ("inner", "level", "left"),
    [("['', 'up', 'cat']", 1, 2), ("['', 'cat']", 1, 1), ("['', 'up', 'cat']", 2, 1)],
)
def test_a_module_does_not_join_what_another_one_has_joined(
    inner: str, level: int, left: int
) -> None:
    """Calls of a block with one skip each would differ in how many they are given."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
        g (float[2, 3] x, float[2, 3] y) => (float[2, 9] z) {
            a = Concat <axis = 1> (x, y)
            z = Concat <axis = 1> (a, y)
        }""")
    for node, scopes in zip(model.graph.node, (inner, "['', 'cat']"), strict=True):
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    given = ir.from_proto(model)
    simplify(given, level=level)
    assert operators(given) == ["Concat"] * left


def test_an_inner_value_that_is_used_elsewhere_stays() -> None:
    model = graph_of(("a", "Neg", "x"), ("b", "Neg", "a"), ("y", "Mul", "a b"))
    rewritten(model, "neg_neg")
    assert operators(model) == ["Neg", "Mul"]


def test_the_reason_is_given_where_a_rule_does_not_apply() -> None:
    model = graph_of(("a", "Exp", "x"), ("y", "Relu", "a"))
    matcher = Matcher(BY_NAME["relu_of_relu"], Facts(infer(model)))
    assert matcher.at(model.graph[1]) is None
    assert matcher.why == "a is computed by Exp, not Relu"


def test_a_rewrite_that_makes_the_graph_no_lighter_is_refused() -> None:
    """A negation is taken off in a difference, but it is needed as well."""
    model = graph_of(
        ("a", "Neg", "x"),
        ("b", "Add", "x a"),
        ("c", "Exp", "a"),
        ("y", "Mul", "b c"),
    )
    rewriter = Rewriter(model, infer(model), CLASSES)
    match = Matcher(BY_NAME["add_negated"], rewriter.facts).at(model.graph[1])
    assert match is not None
    said = rewriter.apply(match)
    assert said == "the graph would not get lighter (10 to 10)"


@pytest.mark.parametrize("kind", ["float", "bfloat16"])
def test_what_folding_could_not_compute_is_not_planned(kind: str) -> None:
    """b and w of two layers in a row, which no NumPy multiplies in bfloat16."""
    model = onnx.parser.parse_model(
        f'<ir_version: 11, opset_import: ["" : 21]> g ({kind}[2, 3, 4] x) =>'
        f" ({kind}[2, 3, 4] y)"
        " { p = Add(x, b) q = MatMul(p, w) y = Add(q, c) }"
    )
    for name, shape in (("b", (4,)), ("w", (4, 4)), ("c", (4,))):
        dtype = ir.DataType.FLOAT if kind == "float" else ir.DataType.BFLOAT16
        made = ir.tensor(np.ones(shape, dtype.numpy()), dtype, name=name)
        model.graph.initializer.append(ir.to_proto(made))
    found = ir.from_proto(model)
    simplify(found, level=2)
    assert operators(found) == ["Add"] * (kind != "float") + ["MatMul", "Add"]


def test_phases_have_reasons_and_rules_one_place() -> None:
    assert all(phase.why.endswith(".") for phase in PHASES)
    # In the last one heads are recognised, by no law.
    assert [phase.name for phase in PHASES if not phase.rules] == [SHARE]
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert np.all([rule.statement for rule in RULES])


@pytest.mark.parametrize("seed", range(12))
def test_the_index_leaves_out_no_rule_that_matches(seed) -> None:
    model = ir.from_proto(random_model(seed, 60))
    facts, index = Facts(infer(model)), index_of(RULES)
    matched = 0
    for node in model.graph:
        found = index.rules(node, facts)
        tried = [rule for rule in RULES if node.op_type in roots(rule)]
        wanted = [rule for rule in tried if Matcher(rule, facts).at(node)]
        assert set(wanted) <= set(found)
        assert [rule for rule in tried if rule in set(found)] == list(found)
        matched += len(wanted)
    assert matched


def test_forms_follow_the_graph() -> None:
    """What is told of a node holds for the operands it has by now."""
    model = graph_of(("a", "Exp", "x"), ("b", "Neg", "a"), ("y", "Neg", "b"))
    facts, index = Facts(infer(model)), index_of((BY_NAME["neg_neg"],))
    exp, inner, last = model.graph
    assert index.rules(last, facts)
    facts.replaced(inner.outputs[0], exp.outputs[0])
    last.replace_input_with(0, exp.outputs[0])
    assert not index.rules(last, facts)


BRANCHES = """
<ir_version: 10, opset_import: ["" : 20]>
g (bool c, float[2] x) => (float[2] y) {
    z = Neg(w)
    y = If(c) <
        then_branch = t () => (float[2] u) { u = Exp(v)  v = Abs(z) },
        else_branch = e () => (float[2] u) {
            u = If(c) <
                then_branch = s () => (float[2] r) { r = Sin(x) },
                else_branch = f () => (float[2] r) { r = Cos(x) }
            >
        }
    >
    w = Relu(x)
}
"""


def test_walks_are_those_of_onnx_ir() -> None:
    model, other = (ir.from_proto(onnx.parser.parse_model(BRANCHES)) for _ in "ab")
    assert list(all_nodes(model.graph)) == list(model.graph.all_nodes())
    assert all_graphs(model) == list(model.graphs())
    for graph in all_graphs(model):
        sort(graph)
    for graph in other.graphs():
        graph.sort()
    names = [node.op_type for node in all_nodes(model.graph)]
    assert names == [node.op_type for node in other.graph.all_nodes()]
    assert names[:3] == ["Relu", "Neg", "If"]


def test_garbage_collection_goes_on_afterwards() -> None:
    simplify(graph_of(("a", "Relu", "x"), ("y", "Relu", "a")))
    assert gc.isenabled()


def test_sums_of_the_same_operands_become_one_in_any_order() -> None:
    model = graph_of(
        ("a", "Add", "x z"),
        ("b", "Add", "z x"),
        ("c", "Max", "x z"),
        ("d", "Max", "z x"),
        ("y", "Sum", "a b c d"),
        inputs="x z",
    )
    rewriter = rewritten(model)
    # Of 0.0 and -0.0, Max picks one by its place.
    assert operators(model) == ["Add", "Max", "Max", "Sum"]
    assert rewriter.merged == 1


ONE_WEIGHT = """<ir_version: 10, opset_import: ["": 20]>
g (float[2, 3] x, float[2, 3] z, bool c) => (float[2, 3] y) <
    float[3, 3] w = {1, 0, 0, 0, 2, 0, 0, 0, 3}
> {
    a = MatMul(x, w)
    b = Relu(a)
    i = If (c) <
        then_branch = t () => (float[2, 3] p) { p = Neg(a) },
        else_branch = e () => (float[2, 3] q) { q = Neg(z) }
    >
    n = Neg(z)
    d = MatMul(OPERAND, w)
    s = Add(b, d)
    y = Add(s, i)
}"""


@rule("horizontal")
def matmuls_of_one_weight(law: Law) -> None:
    """x @ w, y @ w, two results that share an operand"""
    r = law.rank(low=1)
    x, y, w = law.tensor("x", r), law.tensor("y", r), law.constant("w", 2)
    law.rewrite((MatMul(x, w), MatMul(y, w)), (MatMul(y, w), MatMul(x, w)))


def test_results_that_a_condition_rules_out_are_not_combined(monkeypatch) -> None:
    """Four of 24 slices of one value can be chosen in a quarter of a million ways."""
    count, ask = 24, Matcher._finish
    numbers = [
        onnx.numpy_helper.from_array(np.array([i]), f"n{i}") for i in range(count + 1)
    ]
    cuts = [
        onnx.helper.make_node("Slice", ["x", f"n{i}", f"n{i + 1}", "n0"], [f"y{i}"])
        for i in range(count)
    ]
    tensor = onnx.helper.make_tensor_value_info
    given = [tensor("x", onnx.TensorProto.FLOAT, [count, 2])]
    made = [tensor(f"y{i}", onnx.TensorProto.FLOAT, [1, 2]) for i in range(count)]
    graph = onnx.helper.make_graph(cuts, "g", given, made, numbers)
    opset = [onnx.helper.make_opsetid("", 17)]
    model = ir.from_proto(onnx.helper.make_model(graph, opset_imports=opset))
    asked = []

    def finish(self: Matcher, *given: object) -> bool:
        asked.append(self.rule)
        return ask(self, *given)

    monkeypatch.setattr(Matcher, "_finish", finish)
    rewritten(model, *(f"slices_to_split_{n}" for n in (2, 3, 4)))
    assert operators(model) == ["Slice"] * count
    assert len(asked) < 5 * count


@pytest.mark.parametrize(
    ("operand", "far", "merged"),
    [
        ("z", 4096, True),
        ("n", 4096, True),
        ("n", 0, False),  # further than it looks
        ("a", 4096, False),
        ("b", 4096, False),
        ("i", 4096, False),  # uses `a` in a branch
    ],
)
def test_results_that_depend_on_each_other_are_not_merged(
    operand: str, far: int, merged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(associative_chains, "_FAR", far)
    model = ir.from_onnx_text(ONE_WEIGHT.replace("OPERAND", operand))
    matcher = Matcher(matmuls_of_one_weight, Facts(infer(model)))
    assert (matcher.at(model.graph[0]) is not None) == merged
    assert merged or matcher.why.endswith("no second node to go with it")


@pytest.mark.parametrize(("exactness", "sums"), [("real", 2), ("order", 4)])
def test_sums_of_three_in_another_order_become_one(exactness: str, sums: int) -> None:
    model = graph_of(
        ("a", "Add", "x z"),
        ("b", "Add", "a w"),
        ("c", "Add", "w x"),
        ("d", "Add", "z c"),
        ("y", "Pow", "b d"),
        inputs="x z w",
    )
    done = simplify(model, exactness)
    assert operators(model) == ["Add"] * sums + ["Pow"]
    shared = [a for a in done.history if a.rule == "add_shared"]
    assert [a.exactness for a in shared] == [Exactness.RING] * (exactness == "real")


@pytest.mark.parametrize("c,b", [(3, 1), (1, 3), (3, 3)])
def test_what_sizes_broadcast_to_is_neither_of_them(c: int, b: int) -> None:
    """A copy of what may have one element is none where the other has more."""
    text = HEAD + """(float[1,c] x, float[1,b] z) => (float[1,d] y, float[1,d] w)
        { u = Abs(x) v = Abs(z) m = Max(u, v) s = Shape(m)
          y = Expand(u, s) w = Expand(v, s) }"""
    proto = onnx.parser.parse_model(text)
    model = ir.from_proto(proto)
    simplify(model)
    feed = {"x": np.ones((1, c), np.float32), "z": np.ones((1, b), np.float32)}
    for tried in (proto, ir.to_proto(model)):
        session = onnxruntime.InferenceSession(tried.SerializeToString())
        assert [found.shape for found in session.run(None, feed)] == [(1, 3), (1, 3)]


def _drawn_over_open_sizes(seed: int) -> onnx.ModelProto:
    """Operands of sizes that are equal, or 1, when they are run."""
    draw, values, lines = random.Random(seed), list("xyzt"), []
    for i in range(draw.randint(5, 14)):
        a, b = draw.choice(values), draw.choice(values)
        forms = [f"v{i} = {op}({a}, {b})" for op in ("Add", "Max", "Mul", "Sub")]
        forms += [f"v{i} = Abs({a})", f"v{i} = Transpose<perm=[1,0]>({a})"]
        forms += [f"s{i} = Shape({b}) v{i} = Expand({a}, s{i})"] * 3
        forms.append(f"v{i} = Concat<axis={draw.choice('01')}>({a}, {b})")
        lines.append(draw.choice(forms))
        values.append(f"v{i}")
    results = ", ".join(f"float[?,?] {name}" for name in values[-3:])
    inputs = "float[a,b] x, float[c,b] y, float[a,d] z, float[1,c] t"
    text = f"{HEAD} ({inputs}) => ({results}) {{ {' '.join(lines)} }}"
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize("half", [0, 1])
def test_graphs_over_open_sizes_compute_the_same_where_some_are_one(half: int) -> None:
    compared = 0
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # of sizes that don't fit
    for seed in range(half, 60, 2):
        proto = _drawn_over_open_sizes(seed)
        model = ir.from_proto(proto)
        simplify(model)
        before, after = (
            onnxruntime.InferenceSession(m.SerializeToString(), options)
            for m in (proto, ir.to_proto(model))
        )
        taken = {value.name for value in before.get_inputs()}
        for a, b, c, d in itertools.product((1, 3), repeat=4):
            sizes = {"x": (a, b), "y": (c, b), "z": (a, d), "t": (1, c)}
            numbers = np.random.default_rng(seed)
            feed = {
                name: numbers.standard_normal(shape).astype(np.float32)
                for name, shape in sizes.items()
                if name in taken
            }
            try:
                wanted = before.run(None, feed)
            except Exception:  # sizes that don't fit
                continue
            for w, found in zip(wanted, after.run(None, feed), strict=True):
                np.testing.assert_allclose(found, w, rtol=1e-4, atol=1e-4, strict=True)
            compared += 1
    assert compared > 100


@pytest.mark.parametrize(
    "nodes",
    [
        # With its keys turned, the product is the one that it would take the place of.
        "t = Transpose<perm = [1, 0]>(row)  m = Mul(t, row)"
        "  y = Transpose<perm = [1, 0]>(m)",
        # No Reshape can be written of two sizes that are open.
        'y = Einsum<equation = "ecbd,eca->dba">(x, w)',
        "f = Reshape(r, flat)  m = MatMul(f, u)  s = Shape<end = 2>(r)"
        "  to = Concat<axis = 0>(s, two)  h = Reshape(m, to)  y = Add(h, heads)",
        # A stored number that isn't whole, of which places are asked.
        "c = Greater(x, half)  y = Where(c, x, z)",
    ],
)
def test_what_no_law_can_change_stays_right(nodes: str) -> None:
    stored = dict(
        w=np.arange(12).reshape(2, 3, 2) / 8,
        u=np.arange(16).reshape(4, 4) / 8,
        heads=np.arange(4).reshape(2, 2) / 2,
        half=np.array(0.5),
        flat=np.array([-1, 4]),
        two=np.array([2, 2]),
    )
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["": 18]>
        g (float[1,n] row, float[2,3,h,h] x, float[2,3,h,1] z, float[b,s,4] r)
        => (float y)
        {{ {nodes} }}""")
    for name, array in stored.items():
        array = array.astype(np.int64 if array.dtype.kind == "i" else np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    numbers = np.random.default_rng(1)
    shapes = dict(row=(1, 3), x=(2, 3, 4, 4), z=(2, 3, 4, 1), r=(2, 3, 4))
    feeds = {k: numbers.normal(size=n).astype(np.float32) for k, n in shapes.items()}
    found = load(model).model
    simplify(found)
    before, after = (run(m, feeds)[0] for m in (model, ir.to_proto(found)))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("body", ["If", "Loop"])
def test_what_takes_in_a_scale_of_a_body_stands_in_it(body: str) -> None:
    """Also where the product that takes it in stood outside."""
    spelled = {
        "If": """y = If (c) <then_branch = t () => (float[2,2] p)
            <float[1] k = {3}> { p = Mul(m, k) },
            else_branch = e () => (float[2,2] q) { q = Abs(x) }>""",
        "Loop": """y = Loop (n, c, x) <body = b (int64 i, bool d, float[2,2] s)
            => (bool d_, float[2,2] q) <float[1] k = {3}>
            { d_ = Identity(d)  p = Mul(m, k)  q = Add(p, s) }>""",
    }
    proto = onnx.parser.parse_model(f"""{HEAD} (float[2,2] x, bool c) => (float[2,2] y)
        <float[2,2] w = {{1, 2, 3, 4}}, int64 n = {{2}}>
        {{ m = MatMul(x, w)  {spelled[body]} }}""")
    model = load(proto).model
    simplify(model)
    assert "Mul" not in [node.op_type for node in all_nodes(model.graph)]
    for c in (False, True):
        feed = {"x": np.eye(2, dtype=np.float32), "c": np.array(c)}
        before, after = (
            onnxruntime.InferenceSession(m.SerializeToString()).run(None, feed)
            for m in (proto, ir.to_proto(model))
        )
        np.testing.assert_array_equal(after[0], before[0])
