"""What both branches of an If compute is computed in front of it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from onnx import numpy_helper
from support.emitted import imported
from support.handmade import RNG

from fairhand.analysis.shapes.infer import infer
from fairhand.codegen.load.read_model import load
from fairhand.codegen.pipeline import compile
from fairhand.rewrites.common_branches import share_branches
from fairhand.rewrites.simplify import simplify

HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
WEIGHTS = "w1 w2 w3 w4".split()


def model(
    then: str, other: str, results: str = "float[n, 4] y", rows: object = "n"
) -> onnx.ModelProto:
    """An If over x and past; each branch ends with its results in brackets."""
    given = ", ".join(name for name in ("y", "z") if f"] {name}" in results)
    proto = onnx.parser.parse_model(
        f"{HEADER}g (float[{rows}, 4] x, float[m, 4] past, bool c) => ({results}) {{\n"
        f"{given} = If (c) <"
        f"then_branch = {then}, else_branch = {other}>\n}}"
    )
    for name in WEIGHTS:
        array = RNG.standard_normal((4, 4)).astype(np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return proto


def layers(joined: str, more: str = "") -> str:
    """A layer, what is peculiar to a branch, and three more layers."""
    return (
        "b () => (float[n, 4] r) {"
        " a = MatMul (x, w1) a2 = Relu (a)"
        f" {joined}"
        f" d = MatMul (k, w2) d2 = Tanh (d) e = MatMul (d2, w3) e2 = Relu (e) {more}"
        " f = MatMul (e2, w4) r = Tanh (f) }"
    )


CACHED = model(layers("k = Concat <axis = 0> (past, a2)"), layers("k = Identity (a2)"))


def simplified(proto: onnx.ModelProto) -> ir.Model:
    found = load(proto).model
    simplify(found)
    return found


def runs(proto: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(proto.SerializeToString(), options).run(None, feed)


def check(proto: onnx.ModelProto, rows: int = 3) -> ir.Model:
    """The simplified model, which gives the same on either branch."""
    found = simplified(proto)
    for truth in (True, False):
        feed = {
            "x": RNG.standard_normal((rows, 4)).astype(np.float32),
            "past": RNG.standard_normal((2, 4)).astype(np.float32),
            "c": np.array(truth),
        }
        pairs = zip(runs(proto, feed), runs(ir.to_proto(found), feed), strict=True)
        for wanted, given in pairs:
            np.testing.assert_allclose(given, wanted, rtol=1e-5, atol=1e-6)
    return found


def within(found: ir.Model) -> list[list[str]]:
    """The operators of each branch."""
    ifs = [node for node in found.graph.all_nodes() if node.op_type == "If"]
    bodies = [node.attributes[k].as_graph() for node in ifs for k in node.attributes]
    return [[n.op_type for n in body if n.op_type != "Identity"] for body in bodies]


def test_layers_of_both_branches_stand_around_what_differs() -> None:
    found = check(CACHED)
    assert within(found) == [["Concat"], []]
    outer = [node.op_type for node in found.graph]
    assert outer.count("MatMul") == 4 and outer[-1] == "Tanh"


def test_a_mask_of_sizes_is_computed_by_each_layer_that_needs_it() -> None:
    """As of Whisper's merged decoder: with a cache there is one, without it none."""

    def both(first: str, second: str) -> str:
        return (
            f"b () => (float[n, 4] r) {{ a = MatMul (x, w1) {first}"
            " b1 = MatMul (k, w2) b2 = Tanh (b1) b3 = MatMul (b2, w3) b = Tanh (b3)"
            f" {second} d1 = Tanh (l) d2 = MatMul (d1, w4) d3 = Exp (d2) r = Tanh (d3)"
            "}"
        )

    mask = "s = Shape <start = 0, end = 1> (past) t = Cast <to = 1> (s)"
    with_mask = both(
        f"{mask} h = Abs (a) m = Sqrt (t) k = Mul (h, m)", "i = Abs (b) l = Mul (i, m)"
    )
    found = check(model(with_mask, both("k = Neg (a)", "l = Neg (b)")))
    cached = ["Shape", "Cast", "Sqrt", "Abs", "Mul"]
    assert within(found) == [cached, ["Neg"]] * 2


def test_the_branches_are_one_network_to_the_reader(tmp_path: Path) -> None:
    forward = (
        emitted(CACHED, tmp_path).partition("    def forward")[2].partition("\n\n\n")[0]
    )
    assert "        if c:\n" in forward and "else:" not in forward
    assert forward.count("self.") == 4


def emitted(proto: onnx.ModelProto, tmp_path: Path) -> str:
    compile(proto, tmp_path / "package")
    return (tmp_path / "package/model.py").read_text("utf-8")


def test_a_constant_without_elements_is_no_weight(tmp_path: Path) -> None:
    """As the caches that optimum's second graph doesn't fill."""
    one = "b () => (float[n, 4] r, float[k, 4] s) { r = Relu (x) s = Identity (w0) }"
    two = "b () => (float[n, 4] r, float[k, 4] s) { r = Neg (x) s = Tanh (past) }"
    proto = model(one, two, "float[n, 4] y, float[k, 4] z")
    empty = np.zeros((0, 4), np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(empty, "m.w0"))
    for attribute in proto.graph.node[0].attribute:
        for node in attribute.g.node:
            node.input[0] = node.input[0].replace("w0", "m.w0")
    text = emitted(proto, tmp_path)
    assert "nn.Parameter" not in text
    net = imported(tmp_path / "package").load().half()
    given = [torch.ones(2, 4).half()] * 2
    for truth in (True, False):  # of the type that the rest is cast to
        kinds = {y.dtype for y in net(*given, torch.tensor(truth))}
        assert kinds == {torch.float16}, text


def test_sizes_are_read_off_what_every_call_is_given(tmp_path: Path) -> None:
    """A first call may be given an empty cache, which its branch doesn't read."""
    proto = onnx.parser.parse_model(
        f"""{HEADER}g (float[n, 4] past, float[n, 4] x, bool c)
            => (float[n, 4] y, int64[n] z, float[n, 4] a) {{
        y = If (c) <then_branch = b () => (float[n, 4] r) {{ r = Relu (past) }},
            else_branch = b () => (float[n, 4] s) {{ s = Neg (x) }}>
        a = Tanh (x)
        size = Shape <start = 0, end = 1> (past)
        z = ConstantOfShape <value = int64[1] {{7}}> (size)
        }}"""
    )
    assert "torch.full((x.shape[0],), 7" in emitted(proto, tmp_path)


def test_sizes_chosen_between_are_one_size() -> None:
    """What joins both values later fits, since each was chosen by one condition."""
    results = "float[n, 4] y, float[k, 4] z"
    pieces = [
        f"b () => (float[n, 4] r, float[k, 4] s) {{ a = MatMul (x, w1) {one} {two}"
        " d = MatMul (k, w2) e = Tanh (d) f = MatMul (l, w3) s = Mul (f, e)"
        " g = MatMul (x, w4) r = Relu (g) }"
        for one, two in (
            (
                "k = Concat <axis = 0> (past, a)",
                "l = Concat <axis = 0> (a, past)",
            ),
            ("k = Relu (a)", "l = Neg (a)"),
        )
    ]
    found = check(model(*pieces, results=results))
    ifs = [node for node in found.graph if node.op_type == "If"]
    sizes = {str(out.shape[0]) for node in ifs for out in node.outputs if out.shape}
    assert len(ifs) == 2 and len(sizes) == 1


def test_weights_are_not_chosen_between() -> None:
    """A layer keeps its own; what stands behind it is shared."""
    one = "b () => (float[n, 4] r) { a = MatMul (x, w1) r = Relu (a) }"
    two = "b () => (float[n, 4] r) { a = MatMul (x, w2) r = Relu (a) }"
    assert within(check(model(one, two))) == [["MatMul"]] * 2


def test_what_does_not_hang_together_is_shared_in_any_order() -> None:
    """Else a part was shared in each sweep: 2,500 nodes took a minute and a half."""
    rows = [f"m{i} = MatMul (x, w{i}) t{i} = Tanh (m{i})" for i in range(1, 5)]
    end = "p = Add (t1, t2) q = Add (t3, t4) r = Mul (p, q)"
    bodies = [
        f"b () => (float[n, 4] r) {{ {' '.join(order)} {end} }}"
        for order in (rows, rows[::-1])
    ]
    found = load(model(*bodies)).model
    assert share_branches(found, infer(found), level=1) == 11
    assert within(check(model(*bodies))) == []


def test_what_differs_throughout_stays_where_it_is() -> None:
    one = "b () => (float[n, 4] r) { a = MatMul (x, w1) r = Relu (a) }"
    two = "b () => (float[n, 4] r) { a = MatMul (x, w1) d = Neg (a) r = Tanh (d) }"
    assert within(check(model(one, two))) == [["Relu"], ["Neg", "Tanh"]]


def test_values_that_are_there_already_are_chosen_once() -> None:
    """f(past if c else x): to choose again what was chosen would never end."""
    one = "b () => (float[n, 4] r) { a = MatMul (past, w1) r = Relu (a) }"
    two = "b () => (float[n, 4] r) { a = MatMul (x, w1) r = Relu (a) }"
    assert within(check(model(one, two))) == [[], []]


@pytest.mark.parametrize("first", ["Relu", "Tanh"])
def test_two_sums_with_a_shared_part_in_both_branches(first: str) -> None:
    """A law with two results isn't applied across branches: neither sees the other."""
    two = "b () => (float[n, 4] r) {{ a = Add (w, x) d = Add (x, a) r = {} (d) }}"
    bodies = [two.format(op).replace("w,", "w1r,") for op in (first, "Neg")]
    proto = model(*bodies)
    row = RNG.standard_normal((4,)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(row, "w1r"))
    check(proto)


# One operand, or two.
DRAWN = "Relu Tanh Neg MatMul Add Sub Mul".split()


def drawn(seed: int) -> onnx.ModelProto:
    """Two branches of some operators, the second the first with a few others."""
    rng = random.Random(seed)
    steps = [(rng.choice(DRAWN), rng.random(), rng.random()) for _ in range(12)]
    other = list(steps)
    for _ in range(rng.randint(0, 3)):
        at = rng.randrange(len(other))
        change = (rng.choice(DRAWN), rng.random(), rng.random())
        other[at : at + rng.randint(0, 1)] = [change]

    def branch(steps: list[tuple[str, float, float]]) -> str:
        made, lines = ["x", "w1", "w2"], []
        for i, (op, first, second) in enumerate(steps):
            operands = [made[int(first**0.4 * len(made))]]
            if op == "MatMul":
                operands.append(f"w{int(second * 4) + 1}")
            elif op in ("Add", "Sub", "Mul"):
                operands.append(made[int(second**0.4 * len(made))])
            lines.append(f"v{i} = {op} ({', '.join(operands)})")
            made.append(f"v{i}")
        lines += ["r = Identity (v9)", f"s = Identity ({made[-1]})"]
        return f"b () => (float[4, 4] r, float[4, 4] s) {{ {' '.join(lines)} }}"

    return model(branch(steps), branch(other), "float[4, 4] y, float[4, 4] z", rows=4)


@pytest.mark.parametrize("seed", range(25))
def test_drawn_branches_give_what_they_gave(seed: int) -> None:
    check(drawn(seed), rows=4)


def test_most_drawn_branches_share_something() -> None:
    shared = 0
    for seed in range(25):
        proto = drawn(seed)
        before = sum(map(len, within(load(proto).model)))
        shared += sum(map(len, within(simplified(proto)))) < before // 2
    assert shared > 12


def test_an_if_inside_of_a_branch_is_shared_too() -> None:
    """It went with the outer one, and then had no graph to put anything in."""

    def side(last: str) -> str:
        inner = "a = MatMul (h, w2) b = Tanh (a) c1 = MatMul (b, w3)"
        branches = [
            f"{name} = i () => (float[n, 4] s) {{ {inner} s = {op} (c1) }}"
            for name, op in (("then_branch", "Relu"), ("else_branch", "Neg"))
        ]
        return (
            "b () => (float[n, 4] r) { g = MatMul (x, w1) h = Tanh (g)"
            f" k = If (c) <{', '.join(branches)}>"
            f" m = {last} (k) d = MatMul (m, w4) r = Softmax (d) }}"
        )

    found = check(model(side("Sin"), side("Cos")))
    ops = [node.op_type for node in found.graph.all_nodes()]
    assert ops.count("MatMul") < 8


def test_a_body_may_read_what_only_its_branch_computes() -> None:
    def side(op: str) -> str:
        return (
            f"b () => (float[n, 4] r) {{ a = {op} (x) t = Constant <value_int = 2> ()"
            " h = Loop (t, , x) <body = i (int64 j, bool g, float[n, 4] p)"
            " => (bool o, float[n, 4] q) { o = Identity (g) q = Add (p, a) }>"
            " d = MatMul (h, w1) e = Tanh (d) f = MatMul (e, w2) k = Tanh (f)"
            " r = MatMul (k, w3) }"
        )

    found = check(model(side("Sin"), side("Cos")))
    assert [node.op_type for node in found.graph].count("MatMul") == 3
