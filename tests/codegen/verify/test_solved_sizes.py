"""Sizes are solved for from what operators require; ONNX Runtime runs each model."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import sympy
from onnx import numpy_helper
from support.emitter_models import run_here

import fairhand
from fairhand.analysis.errors import FairhandError
from fairhand.analysis.ops.facts.fitting_sizes import Fit, Relation
from fairhand.analysis.oracle.process import Session
from fairhand.codegen import cli
from fairhand.codegen.verify import feeds, parity
from fairhand.codegen.verify.feeds import _attempts, find_cases
from fairhand.codegen.verify.input_sizes import decoding_sizes, dynamic_sizes
from fairhand.codegen.verify.inputs import make_inputs
from fairhand.codegen.verify.solve_sizes import _solved

RNG = np.random.default_rng(0)


def model(text: str, weights: dict[str, object], opset: int = 20) -> onnx.ModelProto:
    """Weights are shapes, of random numbers, or arrays."""
    domains = '"ai.onnx.ml" : 3, "com.microsoft" : 1'
    header = f'<ir_version: 9, opset_import: ["" : {opset}, {domains}]> g '
    parsed = onnx.parser.parse_model(header + text)
    for name, given in weights.items():
        is_shape = isinstance(given, tuple)
        array = RNG.standard_normal(given) if is_shape else np.array(given)
        tensor = array.astype(np.float32) if is_shape else array
        parsed.graph.initializer.append(numpy_helper.from_array(tensor, name))
    return parsed


RNN = {"w": (1, 16, 3), "r": (1, 16, 4)}
BOTH = {"w": (2, 16, 3), "r": (2, 16, 4)}
STATE = "{ y, h, c = LSTM<hidden_size = 4>(x, w, r, , , h0, c0) }"
IMAGE = "(float[n, c, h, w] x) => (float[a, b, e, f] y) "
ROWS = "(float[n, t, d] x) => (float[a, b, e] y) "
PAIR = "(float[a, b] x, float[c, d] z) => (float[e, f] y) "
ONE_OF_TWO = """y = If(flag) <
    then_branch = yes () => (y1) { h0, c0 = Split<axis = 0, num_outputs = 2>(s)
        t1 = Sigmoid(x)  y1, h1, c1 = LSTM<hidden_size = 4>(t1, w, r, , , h0, c0) },
    else_branch = no () => (y2) { h2, c2 = Split<axis = 0, num_outputs = 2>(s)
        y2, h3, c3 = LSTM<hidden_size = 4>(x, w2, r, , , h2, c2) }>"""
MODELS: dict[str, tuple[str, dict[str, object]]] = {
    "what both branches need": (
        "(float[t, n, f] x, float[2, b, k] s, bool flag) => (float[a, b, c, d] y) "
        f"{{ {ONE_OF_TWO} }}",
        {**RNN, "w2": (1, 16, 3)},
    ),
    "features of an LSTM": (
        "(float[t, n, f] x) => (float[a, b, c, d] y)"
        " { y, h, l = LSTM<hidden_size = 4>(x, w, r) }",
        {**RNN},
    ),
    "a state of batch 5": (
        "(float[t, n, f] x) => (float[a, b, c, d] y) " + STATE,
        {**RNN, "h0": (1, 5, 4), "c0": (1, 5, 4)},
    ),
    "states that are inputs": (
        "(float[?, ?, ?] x, float[p, q, k] h0, float[?, ?, ?] c0)"
        " => (float[a, b, c, d] y) " + STATE,
        {**RNN},
    ),
    "lengths of a GRU": (
        "(float[t, n, f] x, int32[k] l) => (float[a, b, c, d] y)"
        " { y, h = GRU<hidden_size = 4>(x, w, r, , l) }",
        {"w": (1, 12, 3), "r": (1, 12, 4)},
    ),
    "a state for both directions, and a window": (
        """(float[batch, t] x, float[4, 1, 4] s) => (float[a, b, c, d] y) {
        one = Constant<value_ints = [1]>() u = Unsqueeze(x, one)
        v = Conv<strides = [4]>(u, k) z = Transpose<perm = [2, 0, 1]>(v)
        h0, c0 = Split<axis = 0, num_outputs = 2>(s)
        y, h, c = LSTM<hidden_size = 4, direction = "bidirectional">
            (z, w, r, , , h0, c0) }""",
        {**BOTH, "k": (3, 1, 8)},
    ),
    "a long window": (
        "(float[n, t] x) => (float[a, b, c] y) { one = Constant<value_ints = [1]>()"
        " u = Unsqueeze(x, one) y = Conv(u, k) }",
        {"k": (3, 1, 700)},
    ),
    "ConvTranspose": (
        IMAGE + "{ y = ConvTranspose<group = 2>(x, k) }",
        {"k": (6, 3, 2, 2)},
    ),
    "Relu before Conv": (
        IMAGE + "{ r = Relu(x) y = Conv(r, k) }",
        {"k": (5, 3, 3, 3)},
    ),
    "BatchNormalization": (
        IMAGE + "{ y = BatchNormalization(x, s, s, s, v) }",
        {"s": (6,), "v": np.ones(6, np.float32)},
    ),
    "InstanceNormalization": (
        IMAGE + "{ y = InstanceNormalization(x, s, s) }",
        {"s": (6,)},
    ),
    "LayerNormalization": (ROWS + "{ y = LayerNormalization(x, s, s) }", {"s": (6,)}),
    "positions": (ROWS + "{ y = Add(x, p) }", {"p": (1, 577, 6)}),
    "a token before": (ROWS + "{ y = Concat<axis = 1>(p, x) }", {"p": (1, 5, 6)}),
    "Reshape": (ROWS + "{ y = Reshape(x, s) }", {"s": np.array([-1, 8, 6])}),
    "Split": (
        "(float[n, d] x) => (float[a, b] y, float[e, f] z)"
        " { y, z = Split<axis = 1>(x, s) }",
        {"s": np.array([3, 5])},
    ),
    "Transpose before MatMul": (
        "(float[d, n] x) => (float[a, b] y) { z = Transpose(x) y = MatMul(z, k) }",
        {"k": (9, 16)},
    ),
    "Squeeze": (
        "(float[n, t, k] x) => (float[a, b] y) { y = Squeeze(x, s) }",
        {"s": np.array([1])},
    ),
    "Flatten before Gemm": (
        "(float[n, 3, h, w] x) => (float[a, b] y)"
        " { c = Conv<strides = [2, 2]>(x, k) f = Flatten(c) y = Gemm(f, v) }",
        {"k": (4, 3, 3, 3), "v": (900, 5)},
    ),
    "patches and positions": (
        """(float[n, 3, h, w] x) => (float[a, b, c] y) {
        p = Conv<strides = [16, 16]>(x, k) r = Reshape(p, s)
        t = Transpose<perm = [0, 2, 1]>(r) y = Add(t, e) }""",
        {"k": (8, 3, 16, 16), "s": np.array([0, 8, -1]), "e": (1, 196, 8)},
    ),
    "two matrices": (PAIR + "{ y = MatMul(x, z) }", {}),
    "two turned ones": (PAIR + "{ y = Gemm<transA = 1, transB = 1>(x, z) }", {}),
    "boxes": (
        """(float[b, n, q] x, float[c, k, m] s, int64[?] o, float[?] i, float[?] t)
        => (int64[a, 3] y) { y = NonMaxSuppression(x, s, o, i, t) }""",
        {},
    ),
    "regions": (
        """(float[b, 3, h, w] x, float[r, q] z, int64[k] i) => (float[a, c, d, e] y)
        { y = RoiAlign<output_height = 2, output_width = 2>(x, z, i) }""",
        {},
    ),
    "a grid": (
        "(float[b, 3, h, w] x, float[c, i, j, k] g) => (float[a, d, e, f] y)"
        " { y = GridSample(x, g) }",
        {},
    ),
    "space to depth": (IMAGE + "{ y = SpaceToDepth<blocksize = 3>(x) }", {}),
    "labels of Einsum": (PAIR + '{ y = Einsum<equation = "ij,kj->ik">(x, z) }', {}),
}


@pytest.mark.parametrize("case", MODELS)
def test_onnx_runtime_runs_every_size(case: str) -> None:
    made = model(*MODELS[case])
    session, graph = Session(made.SerializeToString()), ir.from_proto(made)
    for sizes in dynamic_sizes(graph):
        session.run(None, make_inputs(graph, 0, sizes))


def test_the_nearest_size_is_taken() -> None:
    graph = ir.from_proto(model(*MODELS["positions"]))
    assert dynamic_sizes(graph) == [
        {"n": 1, "t": 577, "d": 6},
        {"n": 3, "t": 577, "d": 6},
    ]


HIDDEN = """(float[n, k] x) => (float[a, b] y) {
    one = Constant<value_ints = [1]>() s = Shape<start = 1, end = 2>(x)
    q = Equal(s, one) c = Squeeze(q)
    z = If(c) <then_branch = t () => (u) { u = Squeeze(x, one) },
               else_branch = e () => (v) { v = Identity(x) }>
    y = MatMul(z, w) }"""


def test_sizes_that_are_bound_together_are_the_nearest_ones() -> None:
    # A decoder's step: all is one token more than the past, where 16 is tried first.
    batch, past, total = sympy.symbols("a b t", integer=True, positive=True)
    step = Fit(Relation.EQUAL, batch, batch * sympy.Max(0, total - past))
    found = _solved([step], {batch: 1, past: 5, total: 16})
    assert found == {batch: 1, past: 5, total: 6}


def test_where_the_graph_tells_nothing_weights_do() -> None:
    made = model(HIDDEN, {"w": (6, 2)})
    found = find_cases(Session(made.SerializeToString()), ir.from_proto(made), None)
    assert found.sizes[0]["k"] == 6


def test_a_busy_machine_finds_the_same_sizes(monkeypatch) -> None:
    clock = itertools.count(step=12)
    monkeypatch.setattr(
        feeds,
        "time",
        SimpleNamespace(monotonic=clock.__next__, process_time=time.process_time),
    )
    test_where_the_graph_tells_nothing_weights_do()


FITTING = """(float[n, 3, t] x, bool flag) => (float[a, b, c, d] y) {
    half = Constant<value_ints = [1, 1, 2]>() k = MaxPool<kernel_shape = [2],
    strides = [2]>(x) last = Constant<value_ints = [2]>()
    one = Constant<value = int64 {1}>() two = Constant<value = int64 {2}>()
    s = Shape<start = 2>(k) q = Equal(s, one)
    z = If(q) <then_branch = t () => (u) { u = Squeeze(k, last) },
               else_branch = e () => (v) { v = Identity(k) }>
    r = Shape(z) count = Size(r) flat = Equal(count, two)
    front = Constant<value_ints = [0]>()
    rows = If(flat) <then_branch = f () => (i) { i = Identity(z) },
                     else_branch = g () => (j) { j = Unsqueeze(z, front) }>
    less = Unsqueeze(rows, front) READ }"""
READS = {
    "outside": "y, h, l = LSTM<hidden_size = 4>(less, w, r0)",
    "in a branch": """y = If(flag) <
        then_branch = yes () => (o) { o, h, l =
            LSTM<hidden_size = 4>(less, w, r0) },
        else_branch = no () => (p) { p, h, l =
            LSTM<hidden_size = 4>(less, w2, r0) }>""",
}


@pytest.mark.usefixtures("in_this_process")
def test_of_branches_that_differ_in_rank_the_one_that_fits_is_taken(
    tmp_path: Path,
) -> None:
    weights: dict[str, object] = {"w": (1, 16, 3), "r0": (1, 16, 4)}
    made = model(FITTING.replace("READ", READS["outside"]), weights)
    package = fairhand.compile(made, tmp_path / "net", cache=False)
    text = (package.path / "model.py").read_text()
    assert "if " not in text.partition("def forward")[2].partition("def load")[0]
    for sizes in package.report["sizes"]:
        assert sizes["t"] // 2 == 1  # one word is left of them


@pytest.mark.usefixtures("in_this_process")
def test_of_branches_that_may_both_run_both_are_kept(tmp_path: Path) -> None:
    """A reader in a branch may not be run: it says nothing of the rank outside."""
    weights: dict[str, object] = {"w": (1, 16, 3), "w2": (1, 16, 3), "r0": (1, 16, 4)}
    made = model(FITTING.replace("READ", READS["in a branch"]), weights)
    package = fairhand.compile(made, tmp_path / "net", cache=False)
    text = (package.path / "model.py").read_text()
    assert "\n        if " in text.partition("def forward")[2]
    turned = made.graph.node[-2]  # whose rank has to be known
    assert turned.op_type == "Unsqueeze"
    turned.op_type = "Transpose"
    del turned.input[1:]
    with pytest.raises(FairhandError, match=r"different ranks.* --shape [a-z]+=1,"):
        fairhand.compile(made, tmp_path / "net", cache=False)


@pytest.mark.parametrize("inside", [False, True], ids=["joined", "by the operator"])
def test_a_mask_has_a_place_for_each_key(inside: bool) -> None:
    keys = "y, k, v = Attention(x, x, x, m, p, p)"
    if not inside:
        keys = "k = Concat<axis = 2>(p, x) y = Attention(x, k, k, m)"
    text = f"""(float[n, 2, new, 4] x, float[n, 2, past, 4] p, float[n, 1, new, t] m)
        => (float[a, b, c, d] y) {{ {keys} }}"""
    for sizes in dynamic_sizes(ir.from_proto(model(text, {}, 23))):
        assert sizes["t"] == sizes["past"] + sizes["new"]


def test_a_cache_of_heads_in_one_product() -> None:
    """Queries, keys and values in one: 4 heads of queries, 2 of either, 16 numbers."""
    text = """(float[n, s, 128] x, float[n, 2, past, d] p, float[n, 2, past, d] r,
        int32[n] l, int32 t) => (float[a, b, c] y, float[e, f, g, h] k,
        float[i, j, m, o] v) { y, k, v = com.microsoft.GroupQueryAttention
        <num_heads = 4, kv_num_heads = 2>(x, , , p, r, l, t) }"""
    graph = ir.from_proto(model(text, {}))
    assert {sizes["d"] for sizes in dynamic_sizes(graph)} == {16}


def test_decoders_are_fed_prompts_and_single_tokens() -> None:
    """No mask suits a prompt beside a cache, as in files of the genai builder."""
    text = """(int64[b, len] ids, float[b, past_len, 4] past) => (float[o, p] y) {
        one = Constant<value_ints = [1]>() n = Shape<start = 0, end = 1>(ids)
        l = Shape<start = 1>(ids) m = Shape<start = 1, end = 2>(past) t = Add(l, m)
        s = Concat<axis = 0>(n, t) f = Cast<to = 1>(ids) e = Expand(f, s)
        r = ReduceSum<keepdims = 0>(past, one) q = ReduceSum(r) y = Add(e, q) }"""
    made = model(text, {})
    found = find_cases(Session(made.SerializeToString()), ir.from_proto(made), None)
    ran = [(sizes["len"], sizes["past_len"]) for sizes in found.sizes]
    assert (16, 0) in ran and (1, 5) in ran


def test_before_anything_is_cached_sizes_fit_as_later() -> None:
    """Any rows and heads make what a Reshape of no places takes, here both in one."""
    text = """(int64[b, len] ids, float[rows, past_len, 4] past) =>
        (float[o, p, q, r] y) { n = Shape<start = 0, end = 1>(ids)
        m = Shape<start = 1>(past) two = Constant<value_ints = [2]>()
        s = Concat<axis = 0>(n, two, m) y = Reshape(past, s) }"""
    found = decoding_sizes(ir.from_proto(model(text, {})))
    assert [sizes["past_len"] for sizes in found] == [0, 5]
    assert all(sizes["rows"] == 2 * sizes["b"] for sizes in found)


def without_rank(text: str, weights: dict[str, object]) -> onnx.ModelProto:
    made = model(text, weights)
    for info in (*made.graph.input, *made.graph.output):
        info.type.tensor_type.ClearField("shape")
    return made


def test_inputs_of_unknown_rank() -> None:
    made = without_rank(*MODELS["features of an LSTM"])
    found = find_cases(Session(made.SerializeToString()), ir.from_proto(made), None)
    assert found.runs[0].feed["x"].shape[2:] == (3,)


def test_a_signal_is_as_long_as_windows_that_no_rule_sees() -> None:
    text = """(float[1, 1, length] x) => (float[1, 1, windows] y) {
        line = Reshape(x, flat) same = Equal(line, line)
        all = Compress(line, same) signal = Reshape(all, row)
        y = Conv<strides = [300]>(signal, w) }"""
    lines = {"flat": np.array([-1]), "row": np.array([1, 1, -1])}
    made = model(text, {**lines, "w": (1, 1, 900)})
    found = find_cases(Session(made.SerializeToString()), ir.from_proto(made), None)
    assert found.runs[0].feed["x"].size >= 900


def test_a_refusal_is_whole_and_says_what_to_do(tmp_path: Path) -> None:
    text = """(float[n, k] x) => (float[m] y) { i = Cast<to = 7>(x) j = Sub(i, i)
        one = Constant<value_ints = [1]>() s = ReduceSum<keepdims = 0>(j, one)
        l = Sub(s, w) y = Gather(v, l) }"""
    made = model(text, {"w": np.array([99]), "v": (4,)})
    with pytest.raises(FairhandError) as refused:
        fairhand.compile(made, tmp_path / "net", cache=False)
    assert "idx=-99 must be within the inclusive range [-4,3]" in str(refused.value)
    assert "--shape x=1,1" in str(refused.value)


def test_sizes_of_which_inputs_were_too_large_are_passed_over() -> None:
    """The refusal that began the search is said, and not that of a size it tried."""
    made = model("(float[a, b, c, d] x) => (float[a, b, c, d] y) { y = Neg(x) }", {})
    refused = "a size must be 2048"
    tried = [sizes for _, sizes, _ in _attempts(ir.from_proto(made), 0, refused)]
    assert any(2048 in sizes.values() for sizes in tried)
    assert dict.fromkeys("abcd", 2048) not in tried


def test_the_smallest_numbers_are_tried_at_the_smallest_sizes() -> None:
    made = ir.from_proto(model("(int64[a, b, c] x) => (float[d, e] y) {}", {}))
    tried = [feed["x"] for _, _, feed in _attempts(made, 0, "invalid index")]
    assert {0, 1} <= {int(x.max()) for x in tried if x.shape == (1, 1, 1)}


def test_no_try_takes_gigabytes() -> None:
    made = ir.from_proto(model("(float[a, b, c] x) => (float[d, e] y) {}", {}))
    refused = "/onnxruntime/core/pool.cc:999 Input dimension 900 is wrong"
    tried = [feed["x"].shape for _, _, feed in _attempts(made, 0, refused)]
    assert any(900 in shape for shape in tried)
    assert not any(999 in shape or np.prod(shape) > 2**24 for shape in tried)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "run_package", run_here)


@pytest.mark.usefixtures("in_this_process")
def test_given_inputs_are_enough(tmp_path: Path) -> None:
    made = model("(int64[n] i) => (float[n, 2] y) { y = Gather(w, i) }", {"w": (4, 2)})
    np.savez(tmp_path / "some.npz", i=np.array([3, 0]))
    package = fairhand.compile(
        made, tmp_path / "net", inputs=tmp_path / "some.npz", cache=False
    )
    (case,) = package.report["verification"]["cases"]
    assert case["inputs"] == "some.npz"


CONV: tuple[str, dict[str, object]] = (
    "(float[n, c, h, w] x) => (float[a, b, e, f] y) { y = Conv(x, k) }",
    {"k": (4, 3, 3, 3)},
)


FLAT = "(float[n, c] x) => (float[a, b] y) { y = Flatten(x) }"


def test_a_rank_that_nothing_implies_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FairhandError, match="input x has no shape: give it one with"):
        fairhand.compile(without_rank(FLAT, {}), tmp_path / "net", cache=False)


def test_branches_of_two_ranks_are_told_of_in_a_body_too(tmp_path: Path) -> None:
    text = """(float[{}, 3] x, bool c) => (float[...] y) {{
        y = If(c) <then_branch = t () => (float[...] s) {{
            p = If(c) <then_branch = u () => (float[...] a) {{ a = Identity(x) }},
                else_branch = v () => (float[...] b) {{ b = ReduceMax<keepdims = 0>(x)
            }}>
            q = IsNaN(p) o = Cast<to = 1>(q) s = Transpose(o) }},
            else_branch = e () => (float[...] r) {{ r = Identity(x) }}> }}"""
    for size, fix in (
        ("n", "fix sizes with --shape x=1,3"),
        ("2", "no input has an o"),
    ):
        made = model(text.format(size).replace("[...]", ""), {})
        with pytest.raises(
            FairhandError, match=f"different ranks, 2 and 0: {fix}"
        ) as raised:
            fairhand.compile(made, tmp_path / "net", cache=False)
        assert "--ops" not in str(raised.value)


@pytest.mark.usefixtures("in_this_process")
def test_shapes_of_inputs(tmp_path: Path) -> None:
    file, out = tmp_path / "net.onnx", str(tmp_path / "net")
    onnx.save(without_rank(*CONV), file)
    package = fairhand.compile(file, out, cache=False)
    assert package.report["source"]["shapes"] == {"x": [None] * 4}, "as k has"
    command = ["compile", str(file), "-o", out, "--no-cache"]
    assert cli.main([*command, "--shape", "x=n,3,9,?"]) == 0
    assert cli.main(["verify", out, str(file)]) == 0
    assert cli.main([*command, "--shape", "z=1,2"]) == 1
    onnx.save(model(*CONV), file)
    package = fairhand.compile(file, out, shapes={"x": (2, 3, 9, 9)}, cache=False)
    assert package.report["sizes"] == [{}]
    with pytest.raises(FairhandError, match="doesn't suit input 'x'"):
        fairhand.compile(file, out, shapes={"x": (2, 3)})


@pytest.mark.usefixtures("in_this_process")
def test_half_precision_within(tmp_path: Path) -> None:
    """Inputs and outputs of float32, and all between them in float16."""
    text = """(float[n, 64] x) => (float[n, 8] y, float[n, 64] z) {
        h = Cast<to = 10>(x) p = MatMul(h, w) q = Softmax(p) y = Cast<to = 1>(q)
        z = Neg(x) }"""
    made = model(text, {"w": RNG.standard_normal((64, 8)).astype(np.float16)})
    package = fairhand.compile(made, tmp_path / "net", cache=False)
    assert package.report["tolerance"] == {"y": 2e-2, "z": 5e-5}


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    "text",
    [
        "(float[n, c, h, w] x) { y = GroupNormalization<num_groups = 2>(x, s, b) }",
        """(float[n, c, h, w] x, float[c] t) {
            y = GroupNormalization<num_groups = 2>(x, t, b) }""",
        "(float[n, 3, 0] x) { y = ReduceMean<keepdims = 0>(x, last) }",
    ],
    ids=["channels", "scales", "means of nothing"],
)
def test_sizes_that_weights_and_zeros_tell(text: str, tmp_path: Path) -> None:
    given: dict[str, object] = {"s": (6,), "b": (6,), "last": [2]}
    inputs, _, body = text.partition("{")
    made = model(f"{inputs} => (float y) {{ {body}", given, 21)
    for info in made.graph.output:
        info.type.tensor_type.ClearField("shape")
    package = fairhand.compile(made, tmp_path / "net", cache=False)
    assert package.report["verification"]["cases"]


@pytest.mark.parametrize(
    "node",
    ["Slice(x, two, four, two)", "Pad(x, many)", "DequantizeLinear<axis = 1>(q, s)"],
)
def test_inputs_that_do_not_broadcast_bind_no_sizes(node: str) -> None:
    text = "(float[n, 3, h, w] x, uint8[n, 3, h, w] q) => (float[a, b, c, d] y) "
    numbers = {"two": [2, 3], "four": [40, 40], "many": [0] * 8, "s": (3,)}
    given = {name: array for name, array in numbers.items() if name in node}
    made = ir.from_proto(model(text + f"{{ y = {node} }}", given))
    assert [sizes["w"] for sizes in dynamic_sizes(made)][:2] == [64, 96]


def test_a_length_that_an_old_slice_reads(tmp_path: Path) -> None:
    """Before opset 10 a Slice has its places as attributes; Paddle's files have."""
    text = """(float[n, 4] x) => (float[n, 4] y) {
        s = Shape(x) n = Slice <starts = [0], ends = [1]> (s)
        r = Slice <starts = [1], ends = [2]> (s) both = Concat <axis = 0> (n, r)
        y = Reshape(x, both) }"""
    fairhand.compile(model(text, {}, 9), tmp_path / "net")
