"""If, Loop, Scan, SequenceMap, sequences and optionals as Python, against ONNX Runtime.

Every model is compiled with verification; `check` adds inputs that choose each branch
and every number of iterations. Three bodies are compared with a text in goldens/.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper
from support.emitter_models import Emitted
from support.parsed_models import check, floats, parse

import fairhand
from fairhand.analysis.shapes.infer import infer
from fairhand.codegen.verify.parity import oracle
from fairhand.rewrites.folding.constant_branches import take_branches
from fairhand.rewrites.simplify import simplify

torch.set_num_threads(1)
Emit = Callable[[onnx.ModelProto], Emitted]
GOLDENS = Path(__file__).parents[2] / "goldens"


# ---- one exact text of each

IF = """g (float[n, 3] x, float[3] bias, bool flip) => (float[m, 3] y) {
  h = Relu(x)
  y = If(flip) <
    then_branch = yes () => (float[m, 3] a) { s = Neg(h) a = Add(s, bias) },
    else_branch = no () => (float[m, 3] b) { b = Mul(h, bias) }>
}"""
LOOP = """g (int64 n, float[b, 3] x) => (float[b, 3] last, float[k, b, 3] ys)
<float[3, 3] w = {1, 0, 0.5, -1, 0.25, 0, 0, 0.5, 0.125}> {
  go = Constant <value = bool {1}> ()
  last, ys = Loop(n, go, x) <body = step
    (int64 i, bool going, float[b, 3] h) => (bool on, float[b, 3] next, float[b, 3] y) {
      on = Identity(going)
      product = MatMul(h, w)
      next = Tanh(product)
      two = Constant <value = float {2}> ()
      y = Mul(next, two)
    }>
}"""
SCAN = """g (float[t, b, 3] xs, float[b, 3] start)
    => (float[b, 3] total, float[t, b, 3] ys) {
  total, ys = Scan <num_scan_inputs = 1, body = step
    (float[b, 3] sum, float[b, 3] x) => (float[b, 3] more, float[b, 3] y) {
      more = Add(sum, x)
      y = Sigmoid(more)
    }> (start, xs)
}"""


@pytest.mark.parametrize(("name", "text"), [("if", IF), ("loop", LOOP), ("scan", SCAN)])
def test_golden(
    name: str, text: str, emitted: Emit, request: pytest.FixtureRequest
) -> None:
    found = emitted(parse(text)).text
    body = found[found.index("class ") : found.index("\n\ndef load(")].strip() + "\n"
    path = GOLDENS / f"{name}.txt"
    if request.config.getoption("--update-goldens"):
        path.write_text(body, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == body


# ---- If


def test_both_branches_are_taken(emitted: Emit) -> None:
    model = parse(IF)
    feed = {"x": floats(2, 3), "bias": floats(3)}
    feeds = [{**feed, "flip": np.array(flip)} for flip in (True, False)]
    check(model, emitted(model), *feeds)


def test_a_branch_that_keeps_a_value_is_left_out(emitted: Emit) -> None:
    model = parse("""g (float[3] x, float[1] limit) => (float[3] y) {
        s = ReduceSum <keepdims = 0> (x)
        c = Greater(s, limit)
        z = If(c) <then_branch = a () => (float[3] p) { p = Identity(x) },
                   else_branch = b () => (float[3] q) { q = Neg(x) }>
        y = Exp(z)
        }""")
    found = emitted(model)
    assert found.body()[:2] == ["if not x.sum() > limit:", "x = -x"]
    check(model, found, *({"x": floats(3), "limit": np.float32([k])} for k in (-9, 9)))


def test_a_size_that_a_loop_gives_is_read_off_its_result(emitted: Emit) -> None:
    model = parse("""g (int64 n, float[2] x) => (int64[3] y, float[k] z)
        <int64[1] three = {3}, int64[1] one = {1}, int64 zero = {0}> {
        go = Constant <value = bool {1}> ()
        last, made = Loop(n, go, x) <body = step
          (int64 i, bool going, float[2] h) => (bool on, float[2] next, float[2] o) {
            on = Identity(going) next = Tanh(h) o = Neg(next) }>
        s = Shape(made)
        k = Gather(s, zero)
        y = Expand(k, three)
        z = ReduceSum<keepdims = 0>(made, one)
        }""")
    check(model, emitted(model), *({"n": np.array(k), "x": floats(2)} for k in (1, 4)))


def test_several_results_and_branches_in_branches(emitted: Emit) -> None:
    model = parse("""g (bool c, bool d, float[2] x) => (float[2] y, float[2] z) {
        y, z = If(c) <
          then_branch = a () => (float[2] p, float[2] q) {
            p = If(d) <then_branch = aa () => (float[2] u) { u = Neg(x) },
                       else_branch = ab () => (float[2] v) { v = Abs(x) }>
            q = Mul(p, x) },
          else_branch = b () => (float[2] r, float[2] s) {
            r = Exp(x) s = Identity(x) }>
        }""")
    feeds = [
        {"c": np.array(c), "d": np.array(d), "x": floats(2)}
        for c, d in itertools.product([True, False], repeat=2)
    ]
    check(model, emitted(model), *feeds)


def test_a_decided_condition_leaves_its_branch(emitted: Emit) -> None:
    model = parse("""g (float[b, 3] x) => (float[m, n] y) {
        shape = Shape <start = 1> (x)
        three = Constant <value = int64[1] {3}> ()
        c = Equal(shape, three)
        y = If(c) <then_branch = a () => (float[m, n] p) { p = Neg(x) },
                   else_branch = b () => (float[k] q) { q = ReduceSum(x) }>
        }""")
    found = emitted(model)
    assert found.body() == ["return -x"]
    graph = ir.from_proto(parse(IF))
    assert take_branches(graph) == 0


# ---- Loop


def loop(text: str, inputs: str = "int64 n, bool c, float[2] x") -> onnx.ModelProto:
    return parse(f"g ({inputs}) => (float[2] y) {{ {text} }}")


BODY = """(int64 i, bool going, float[2] h) => (bool on, float[2] next) {
    next = Add(h, h)
    limit = Constant <value = float {20}> ()
    s = ReduceSum <keepdims = 0> (next)
    on = Less(s, limit)
}"""


@pytest.mark.parametrize(
    ("arguments", "head"),
    [
        ("n, c, x", "for _ in range(int(n)):"),
        ("n, , x", "for _ in range(int(n)):"),
        (", c, x", "while running:"),
    ],
)
def test_trip_count_and_condition(arguments: str, head: str, emitted: Emit) -> None:
    model = loop(f"y = Loop({arguments}) <body = step {BODY}>")
    found = emitted(model)
    assert head in found.body()
    feeds = [
        {"n": np.array(n), "c": np.array(c), "x": np.float32([1, k])}
        for n, c, k in itertools.product([0, 1, 3], [True, False], [0.5, 30])
    ]
    used = {tensor.name for tensor in found.module.Session().get_inputs()}
    assert used == {"n", "c", "x"}
    check(model, found, *feeds)


def test_a_condition_alone_that_begins_true(emitted: Emit) -> None:
    text = f"t = Constant <value = bool {{1}}> () y = Loop(, t, x) <body = step {BODY}>"
    found = emitted(loop(text, "float[2] x"))
    assert found.body() == [
        "h = x",
        "while True:",
        "h = h + h",
        "if not h.sum() < 20.0:",
        "break",
        "return h",
    ]


def test_constant_trip_count_and_the_number_of_the_iteration(emitted: Emit) -> None:
    model = loop(
        """n = Constant <value = int64 {4}> ()
        y = Loop(n, , x) <body = step
          (int64 i, bool going, float[2] h) => (bool on, float[2] next) {
            on = Identity(going)
            two = Constant <value = int64 {2}> ()
            early = Less(i, two)
            next = If(early) <then_branch = a () => (float[2] p) { p = Exp(h) },
                              else_branch = b () => (float[2] q) { q = Sin(h) }>
        }>""",
        "float[2] x",
    )
    found = emitted(model)
    assert found.body()[1:6] == [
        "for i in range(4):",
        "if i < 2:",
        "h = h.exp()",
        "else:",
        "h = h.sin()",
    ]


def test_states_that_change_places(emitted: Emit) -> None:
    """Each is given the other's old value; the condition reads one that is old."""
    model = parse("""g (int64 n, float[2] x, float[2] z) => (float[2] y, float[2] u) {
        y, u = Loop(n, , x, z) <body = step
          (int64 i, bool going, float[2] a, float[2] b)
          => (bool on, float[2] c, float[2] d) {
            c = Identity(b)
            d = Add(a, b)
            limit = Constant <value = float {20}> ()
            s = ReduceSum <keepdims = 0> (a)
            on = Less(s, limit)
        }> }""")
    found = emitted(model)
    assert "a, b = b, a + b" in found.body()
    feed = {"x": np.float32([1, 2]), "z": np.float32([2, 3])}
    check(model, found, *({**feed, "n": np.array(n)} for n in (0, 1, 2, 9)))


def test_a_state_that_grows(emitted: Emit) -> None:
    model = parse("""g (int64 n, float[b, 3] x) => (float[m, 3] y) {
        y = Loop(n, , x) <body = step
          (int64 i, bool going, float[k, 3] rows) => (bool on, float[j, 3] more) {
            on = Identity(going)
            zero = Constant <value = int64[1] {0}> ()
            one = Constant <value = int64[1] {1}> ()
            first = Slice(rows, zero, one)
            doubled = Add(first, first)
            more = Concat <axis = 0> (rows, doubled)
        }> }""")
    shapes = infer(graph := ir.from_proto(model))
    rows, columns = shapes.dims(graph.graph.outputs[0]) or ()
    assert columns == 3 and rows != (shapes.dims(graph.graph.inputs[1]) or ())[0]
    found = emitted(model)
    check(model, found, *({"n": np.array(n), "x": floats(2, 3)} for n in (0, 1, 4)))


def test_nothing_is_collected_in_no_iterations(emitted: Emit) -> None:
    model = parse(LOOP)
    found = emitted(model)
    check(model, found, *({"n": np.array(n), "x": floats(2, 3)} for n in (0, 1, 3)))
    session = found.module.Session()
    last, ys = session.run(None, {"n": np.array(0), "x": floats(2, 3)})
    assert ys.shape == (0, 0, 3) and last.shape == (2, 3)


def test_what_a_body_gives_twice_has_a_type(emitted: Emit) -> None:
    model = parse("""g (int32 n, float[2] x) => (float[2] b) {
        z = Constant <value = int32 {0}> () k = Cast <to = 7> (n)
        i, a, as = Loop(k, , z, x) <body = one
          (int64 t, bool c, int32 i, float[2] h)
          => (bool c, int32 j, float[2] g, float[2] g) {
            j = Add(i, n) f = Cast <to = 1> (j) g = Mul(h, f) }>
        b = Loop(k, , a) <body = two
          (int64 t, bool c, float[2] h) => (bool c, float[2] g) {
            f = Cast <to = 6> (h) j = Add(f, n) g = Cast <to = 1> (j) }> }""")
    found = emitted(model)
    check(
        model, found, *({"n": np.array(n, np.int32), "x": floats(2)} for n in (0, 1, 3))
    )


def test_weights_of_bodies_belong_to_the_module(emitted: Emit) -> None:
    found = emitted(parse(LOOP))
    assert [tuple(w.shape) for w in found.weights.values()] == [(3, 3)]
    assert "h = torch.tanh(self.linear(h))" in found.body()


def test_loops_in_loops(emitted: Emit) -> None:
    model = parse("""g (int64 n, float[2] x) => (float[2] y, float[k, m, 2] zs) {
        y, zs = Loop(n, , x) <body = outer
          (int64 i, bool going, float[2] a) => (bool on, float[2] b, float[m, 2] z) {
            on = Identity(going)
            one = Constant <value = int64 {1}> ()
            inner = Add(i, one)
            b, z = Loop(n, , a) <body = inside
              (int64 j, bool goes, float[2] c) => (bool more, float[2] d, float[2] e) {
                more = Identity(goes)
                f = Cast <to = 1> (i)
                g = Cast <to = 1> (j)
                h = Add(f, g)
                d = Add(c, h)
                e = Mul(c, a)
            }>
        }> }""")
    found = emitted(model)
    assert {"for i in range(int(n)):", "for j in range(int(n)):"} <= set(found.body())
    check(model, found, *({"n": np.array(n), "x": floats(2)} for n in (1, 3)))


def test_a_loop_without_an_end_is_refused(tmp_path: Path) -> None:
    model = loop(
        """y = Loop(, , x) <body = step (int64 i, bool going, float[2] h)
        => (bool on, float[2] next) { on = Identity(going) next = Neg(h) }>""",
        "float[2] x",
    )
    with pytest.raises(fairhand.FairhandError, match="may never end"):
        fairhand.compile(model, tmp_path / "net")


def test_bodies_in_each_other_have_a_limit(tmp_path: Path) -> None:
    text = "h0 = Neg(x)"
    for depth in range(18):
        text = f"""h{depth + 1} = If(c) <
            then_branch = a{depth} () => (float[2] h{depth}) {{ {text} }},
            else_branch = b{depth} () => (float[2] o{depth}) {{ o{depth} = Abs(x) }}>"""
    model = parse(f"g (float[2] x, bool c) => (float[2] h18) {{ {text} }}")
    with pytest.raises(fairhand.FairhandError, match="more than 16 bodies"):
        fairhand.compile(model, tmp_path / "net")


# ---- Scan


@pytest.mark.parametrize("back", [0, 1])
def test_scan_of_several_inputs_along_other_axes(back: int, emitted: Emit) -> None:
    model = parse(f"""g (float[2, t] a, float[t, 3] b, float[3] s)
            => (float[3] y, float[m, n] z) {{
        y, z = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0],
            scan_input_directions = [0, {back}], scan_output_axes = [1],
            scan_output_directions = [{back}], body = step
          (float[3] h, float[2] p, float[3] q) => (float[3] k, float[3] r) {{
            m = ReduceSum(p)
            n = Mul(q, m)
            k = Add(h, n)
            r = Tanh(k)
        }}> (s, a, b) }}""")
    found = emitted(model)
    rows = "b.flip(0)" if back else "b"
    assert f"for p, q in zip(a.unbind(1), {rows}):" in found.body()
    check(model, found, {"a": floats(2, 4), "b": floats(4, 3), "s": floats(3)})


# ---- sequences and optionals


def test_sequence_map_and_sequences_at_the_boundary(emitted: Emit) -> None:
    model = parse("""g (seq(float[k]) xs, float[1] b) => (seq(float[k]) ys) {
        ys = SequenceMap(xs, b) <body = each (float[k] x, float[1] c) => (float[k] y)
          { d = Add(x, c) y = Exp(d) }> }""")
    found = emitted(model)
    assert found.arguments() == ["xs: list[Tensor]", "b: Tensor"]
    assert found.body()[1:3] == ["for x in xs:", "ys.append((x + b).exp())"]
    xs = [floats(n) for n in (1, 0, 4)]
    check(model, found, {"xs": xs, "b": floats(1)}, {"xs": [], "b": floats(1)})
    with pytest.raises(TypeError, match=r"must be seq\(float32\)"):
        found.module.Session().run(None, {"xs": floats(2), "b": floats(1)})


def test_strings_that_are_collected(emitted: Emit) -> None:
    model = parse("""g (string[3, 1] s) => (string[3, 1] y) {
        y = Scan(s) <num_scan_inputs = 1, body = each (string[1] a) => (string[1] o)
          { o = Identity(a) }> }""")
    words = np.array([["a"], ["b"], ["\u00e9"]], object)
    (found,) = emitted(model).module.Session().run(None, {"s": words})
    assert found.tolist() == words.tolist()


def test_strings_that_may_be_collected_in_no_iterations(emitted: Emit) -> None:
    """Once at most: ONNX Runtime leaves the strings of later iterations empty."""
    model = parse("""g (int64 n, string[1] s) => (string[k, 1] y) {
        one = Constant <value_int = 1> ()
        most = Min(n, one)
        y = Loop(most, "") <body = step (int64 i, bool going) => (bool on, string[1] o)
          { on = Identity(going) o = Identity(s) }> }""")
    run = emitted(model).module.Session().run
    for n, wanted in ((1, [["a"]]), (0, [])):
        (found,) = run(None, {"n": np.array(n), "s": np.array(["a"], object)})
        assert found.tolist() == wanted and found.dtype == object


def test_floats_made_of_integers_join_sequences_and_are_results(emitted: Emit) -> None:
    """A list has no type to follow; a result has its own, whatever else reads it."""
    model = parse("""g (int64[n] i, seq(float[k]) xs, float[n] x)
        => (seq(float[m]) ys, float[n] a, float[n] b) {
      a = Cast<to = 1>(i)
      zero = Constant<value = int64 {0}>()
      first = SequenceAt(xs, zero)
      both = SequenceConstruct(a, first)
      ys = SequenceInsert(both, a, zero)
      b = Add(a, x)
    }""")
    feed = {"i": np.arange(2), "xs": [floats(3)], "x": floats(2)}
    check(model, emitted(model), feed)


def test_a_result_that_is_cast_keeps_its_type(emitted: Emit) -> None:
    model = parse("""g (int64[n] i, float[n] x) => (float[n] a, float[n] b) {
      a = Cast<to = 1>(i) b = Add(a, x)
    }""")
    check(model, emitted(model), {"i": np.arange(2), "x": floats(2)})


def test_what_branches_give_is_of_the_type_that_they_compute_in(emitted: Emit) -> None:
    model = parse("""g (bool c, int64[n] i, float[n] x) => (float[n] y, float[n] z) {
        a, b = If (c) <
          then_branch = yes () => (float[n] p, float[n] q) {
            p = Relu(x) q = Cast <to = 1> (i) },
          else_branch = no () => (float[n] p, float[n] q) {
            p = Tanh(x) q = Cast <to = 1> (i) }>
        y = Mul(a, x)
        z = Sub(b, x) }""")
    found = emitted(model)
    assert found.body()[-3:] == ["y = y * x", "z = i.to(x.dtype) - x", "return y, z"]
    feed = {"i": np.arange(2), "x": floats(2)}
    check(model, found, *({"c": np.array(c), **feed} for c in (True, False)))


def test_a_loop_that_fills_a_sequence(emitted: Emit) -> None:
    model = parse("""g (int64 n, float[2] x) => (seq(float[2]) ys, int64 k) {
        none = SequenceEmpty <dtype = 1> ()
        ys = Loop(n, , none) <body = step
          (int64 i, bool going, seq(float[2]) s) => (bool on, seq(float[2]) t) {
            on = Identity(going)
            f = Cast <to = 1> (i)
            y = Mul(x, f)
            t = SequenceInsert(s, y)
        }>
        k = SequenceLength(ys) }""")
    found = emitted(model)
    assert "s.append(x * torch.tensor(i, device=n.device).to(x.dtype))" in found.body()
    check(model, found, *({"n": np.array(n), "x": floats(2)} for n in (0, 1, 3)))


def test_an_optional_input_may_be_none(emitted: Emit) -> None:
    kind = helper.make_optional_type_proto(
        helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    )
    plain = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    yes = helper.make_graph(
        [helper.make_node("OptionalGetElement", ["x"], ["a"])],
        "yes",
        [],
        [helper.make_value_info("a", plain)],
    )
    no = helper.make_graph(
        [helper.make_node("Neg", ["z"], ["b"])],
        "no",
        [],
        [helper.make_value_info("b", plain)],
    )
    graph = helper.make_graph(
        [
            helper.make_node("OptionalHasElement", ["x"], ["has"]),
            helper.make_node("If", ["has"], ["y"], then_branch=yes, else_branch=no),
        ],
        "g",
        [helper.make_value_info("x", kind), helper.make_value_info("z", plain)],
        [helper.make_value_info("y", plain)],
    )
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    found = emitted(model)
    assert found.arguments() == ["x: Tensor | None", "z: Tensor"]
    assert "        if x is not None:\n" in found.text
    labels = [case["inputs"] for case in found.report["verification"]["cases"]]
    assert "seed 0, no x" in labels
    check(model, found, *({"x": x, "z": floats(2)} for x in (None, floats(2, seed=1))))


# ---- levels, lines and modules


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("text", [IF, LOOP, SCAN], ids=["if", "loop", "scan"])
def test_each_node_of_a_body_is_behind_its_line(
    text: str, level: int, tmp_path: Path
) -> None:
    model = parse(text)
    found = fairhand.compile(model, tmp_path, level=level).report["source_map"]
    numbers = {
        name: sorted(
            int(span.partition("-")[0])
            for span, groups in found["lines"].items()
            if name in groups.get("", ())
        )
        for name in {n for of in found["lines"].values() for n in of.get("", ())}
    }
    lines = (tmp_path / "model.py").read_text().splitlines()
    lost = [name for names in found["elsewhere"].values() for name in names]
    graph = ir.from_proto(model).graph
    assert len(numbers) + len(lost) == len(list(graph.all_nodes()))
    assert all(re.match("Constant|Identity", name) for name in lost)
    for name, (*_, last) in numbers.items():
        op = name.partition("_")[0]
        inside = (
            next(n for n in graph.all_nodes() if n.op_type == op).graph is not graph
        )
        assert lines[last - 1].startswith(" " * 12) == inside or op in ("If", "Loop")


def blocks(count: int) -> onnx.ModelProto:
    """Blocks without a name, each with a layer before its If and one in each branch."""
    weights, lines, x = [], ["flip = Not(c)"], "x"
    for i in range(count):
        for k in "abc":
            numbers = floats(4, 4, seed=len(weights)).ravel().tolist()
            weights.append(f"float[4, 4] {k}{i} = {{{', '.join(map(str, numbers))}}}")
        lines.append(f"""
            h{i} = MatMul({x}, a{i})
            r{i} = Relu(h{i})
            y{i} = If(flip) <
              then_branch = t{i} () => (float[n, 4] p{i}) {{
                p{i} = MatMul(r{i}, b{i}) }},
              else_branch = e{i} () => (float[n, 4] q{i}) {{
                u{i} = MatMul(r{i}, c{i}) q{i} = Tanh(u{i}) }}>
            s{i} = Add(y{i}, {x})""")
        x = f"s{i}"
    head = "g (float[n, 4] x, bool c) => (float[n, 4] last)"
    nodes = "\n".join([*lines, f"last = Neg({x})"])
    return parse(f"{head} <{', '.join(weights)}> {{ {nodes} }}")


@pytest.mark.parametrize("level", [0, 1])
def test_layers_of_branches_belong_to_the_module_around(
    level: int, tmp_path: Path
) -> None:
    model = blocks(6)
    fairhand.compile(model, tmp_path, level=level)
    text = (tmp_path / "model.py").read_text()
    if level:
        assert text.count("class ") == 2 and text.count("        if mask:") == 1
        assert "nn.ModuleList(Block() for _ in range(6))" in text


# ---- rewrites


def test_rewrites_keep_what_bodies_read_and_give() -> None:
    """With all proven rules, on a body whose result equals a value around it."""
    model = parse("""g (bool c, float[2] x) => (float[2] y) {
        h = Relu(x)
        y = If(c) <
          then_branch = a () => (float[2] p) { u = Neg(h) p = Neg(u) },
          else_branch = b () => (float[2] q) { q = Abs(x) }>
        }""")
    graph = ir.from_proto(model)
    simplify(graph)
    node = next(n for n in graph.graph if n.op_type == "If")
    for attribute in node.attributes.values():
        body = attribute.as_graph()
        assert all(value.producer().graph is body for value in body.outputs)
    again = ir.to_proto(graph).SerializeToString()
    feed = {"c": np.array(True), "x": floats(2)}
    options = ort.SessionOptions()
    options.log_severity_level = 4
    made = ort.InferenceSession(again, options, ["CPUExecutionProvider"])
    (want,) = oracle(model.SerializeToString()).run(None, feed)
    np.testing.assert_array_equal(made.run(None, feed)[0], want)


def test_a_list_that_somebody_else_knows_does_not_grow(emitted: Emit) -> None:
    model = parse("""g (int64 n, float[2] x, seq(float[2]) xs)
        => (seq(float[2]) ys, int64 before) {
        ys = Loop(n, , xs) <body = step
          (int64 i, bool going, seq(float[2]) s) => (bool on, seq(float[2]) t) {
            on = Identity(going)
            t = SequenceInsert(s, x)
        }>
        before = SequenceLength(xs) }""")
    found = emitted(model)
    assert found.body()[:3] == [
        "s = list(xs)",
        "for _ in range(int(n)):",
        "s.append(x)",
    ]
    given = [floats(2)]
    feed = {"n": np.array(3), "x": floats(2), "xs": given}
    check(model, found, feed)
    assert len(given) == 1


# What torch's exporter makes of `while going and i < n: ...; if stop: going = False`.
SEARCH = """
    yes = Constant <value = bool {1}> () no = Constant <value = bool {0}> ()
    zero = Constant <value = int32 {0}> () one = Constant <value = int32 {1}> ()
    begin = Less(zero, n)
    count, last, y = Loop(, begin, zero, yes, x) <body = step
      (int64 i, bool c, int32 k, bool going, float[2] h)
      => (bool on, int32 k2, bool going2, float[2] h2) {
        h2 = Add(h, h)
        k2 = Add(k, one)
        s = ReduceSum <keepdims = 0> (h2)
        stop = Equal(s, limit)
        more = Not(stop)
        going2 = If(more) <then_branch = a () => (bool p) { p = Identity(going) },
                           else_branch = b () => (bool q) { q = Identity(no) }>
        on = If(going2) <then_branch = d () => (bool u) { u = Less(k2, n) },
                         else_branch = e () => (bool v) { v = Identity(no) }>
    }>"""
FEEDS = [
    {"n": np.array(n, "i"), "x": np.ones(2, "f"), "limit": np.array(limit, "f")}
    for n in (0, 1, 9)
    for limit in (4.0, 16.0, 7.0)
]


def test_truths_that_conditions_ask_for_are_pythons(emitted: Emit) -> None:
    head = "g (int32 n, float[2] x, float limit) => (int32 count, float[2] y)"
    model = parse(f"{head} {{ {SEARCH} }}")
    found = emitted(model)
    assert found.body() == [
        "k = torch.tensor(0, dtype=torch.int32, device=n.device)",
        "going = True",
        "h = x",
        "running = n > 0",
        "while running:",
        "h = h + h",
        "k = k + 1",
        "if not h.sum() != limit:",
        "going = False",
        "running = going and k < n",
        "return k, h",
    ]
    assert found.weights == {}
    check(model, found, *FEEDS)


def test_a_truth_that_is_given_stays_a_tensor(emitted: Emit) -> None:
    head = "g (int32 n, float[2] x, float limit) => (bool last, float[2] y)"
    model = parse(f"{head} {{ {SEARCH} }}")
    found = emitted(model)
    assert "going = torch.tensor(True, device=n.device)" in found.body()
    check(model, found, *FEEDS)


@pytest.mark.parametrize(
    ("then", "other", "line"),
    [
        ("u", "no", "x = c and a.sum() < 1.0"),
        ("yes", "u", "x = c or a.sum() < 1.0"),
        ("u", "yes", "x = not c or a.sum() < 1.0"),
        ("no", "u", "x = not c and a.sum() < 1.0"),
    ],
)
def test_two_conditions_are_one(
    then: str, other: str, line: str, emitted: Emit
) -> None:
    low = "s = ReduceSum <keepdims = 0> (a) out = Less(s, one)"
    arms = [low if x == "u" else f"out = Identity({x})" for x in (then, other)]
    model = parse(f"""g (bool c, float[3] a) => (float[3] y) {{
        yes = Constant <value = bool {{1}}> () no = Constant <value = bool {{0}}> ()
        one = Constant <value = float {{1}}> ()
        going = If(c) <then_branch = t () => (bool out) {{ {arms[0]} }},
                       else_branch = e () => (bool out) {{ {arms[1]} }}>
        y = If(going) <then_branch = v () => (float[3] r) {{ r = Exp(a) }},
                       else_branch = w () => (float[3] z) {{ z = Sin(a) }}> }}""")
    found = emitted(model)
    assert line in found.body()
    feeds = [
        {"c": np.array(c), "a": np.full(3, x, np.float32)}
        for c in (True, False)
        for x in (0, 5)
    ]
    check(model, found, *feeds)


def test_a_remainder_is_one(emitted: Emit) -> None:
    model = loop(
        """n = Constant <value = int64 {5}> ()
        two = Constant <value = int64 {2}> () zero = Constant <value = int64 {0}> ()
        y = Loop(n, , x) <body = step
          (int64 i, bool going, float[2] h) => (bool on, float[2] next) {
            on = Identity(going)
            half = Div(i, two) even = Mul(half, two) rest = Sub(i, even)
            is_even = Equal(rest, zero)
            next = If(is_even) <then_branch = a () => (float[2] p) { p = Exp(h) },
                                else_branch = b () => (float[2] q) { q = Sin(h) }>
        }>""",
        "float[2] x",
    )
    assert "if i % 2 == 0:" in emitted(model).body()


def test_a_loop_in_the_names_is_no_module(emitted: Emit) -> None:
    """TensorFlow names the nodes of a body after the loop."""
    model = loop(f"y = Loop(n, c, x) <body = step {BODY}>")
    (found,) = model.graph.node
    found.name = "rnn/while"
    for node in found.attribute[0].g.node:
        node.name = f"rnn/while/{node.output[0]}"
    assert emitted(model).classes == ["G"]
