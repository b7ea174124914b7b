"""What reads a Squeeze of all ones: the rank that follows, or text for any rank."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from support.emitter_models import Emitted
from support.parsed_models import check, floats, parse

from fairhand.analysis.errors import Unsupported

Emit = Callable[[onnx.ModelProto], Emitted]

NUMBERS = """<int64[1] last = {-1}, int64[1] first = {0}, int64[1] two = {2},
int64[2] three = {3, -1}, int64[2] parts = {2, 4}, int64[3] wide = {2, 1, 6}>"""
ANY = {  # of s, which is [b, 6] or [6]
    "Gather <axis = -1> (s, first)": "y[..., :1]",
    "Gather <axis = 0> (s, first)": "y[:1]",
    "Slice(s, first, two, last)": "y[..., :2]",
    "Slice(s, first, two)": "y[:2]",
    "Concat <axis = -1> (s, s)": "torch.cat([y, y], dim=-1)",
    "Unsqueeze(s, last)": "y.unsqueeze(-1)",
    "Expand(s, wide)": "y.expand(torch.broadcast_shapes(y.shape, (2, 1, 6)))",
    "ReduceMean(s, last)": "y.mean(dim=-1, keepdim=True)",
}
ONE = {  # [b, 6] alone can be read so
    "y = Transpose <perm = [1, 0]> (s)": "x.squeeze(1).T",
    "y = Gather <axis = 1> (s, first)": "x.squeeze(1)[:, :1]",
    "t = Relu(s) u = Add(t, s) y = Concat <axis = 1> (u, s)": "x.squeeze(1)",
}


def model(nodes: str, results: str = "float y") -> onnx.ModelProto:
    return parse(
        f"g (float[b, 1, 6] x) => ({results}) {NUMBERS} {{ s = Squeeze(x) {nodes} }}"
    )


def test_text_for_any_rank(emitted: Emit) -> None:
    nodes = [f"y{i} = {node}" for i, node in enumerate(ANY)]
    nodes += ["p, q = Split <axis = -1> (s, parts) t, u = TopK(s, two) v = Shape(s)"]
    results = [f"float y{i}" for i in range(len(ANY))]
    results += ["float p", "float q", "float t", "int64 v"]
    made = model(" ".join(nodes), ", ".join(results))
    found = emitted(made)
    assert "y = x.squeeze()" in found.text
    for text in [*ANY.values(), "y.split([2, 4], dim=-1)", "y.topk(2)", "(y.shape,"]:
        assert text in found.text
    check(made, found, {"x": floats(1, 1, 6)}, {"x": floats(3, 1, 6)})


def test_sizes_that_are_read_off_reshape_any_rank(emitted: Emit) -> None:
    """As MBart's file does with the tokens that it shifts."""
    nodes = """b = Shape <start = 0, end = 1> (x) six = Shape <start = 2> (x)
    sizes = Concat <axis = 0> (b, six) y = Reshape(s, sizes)"""
    made = model(nodes)
    found = emitted(made)
    assert ".reshape(" in found.text
    check(made, found, {"x": floats(1, 1, 6)}, {"x": floats(3, 1, 6)})


@pytest.mark.parametrize("nodes", ONE)
def test_the_rank_that_a_reader_takes(nodes: str, emitted: Emit) -> None:
    made = model(nodes)
    found = emitted(made)
    assert ONE[nodes] in found.text
    check(made, found, {"x": floats(3, 1, 6)})


def test_a_size_that_is_required_to_be_one(emitted: Emit) -> None:
    """The state has one row, so the batch has, and s is a vector."""
    gates = ", ".join(["0.5"] * 6)
    made = parse(f"""g (float[b, 2] a) => (float[n] y) <float[1, 3, 2] w = {{{gates}}},
        float[1, 3, 1] r = {{0.1, 0.2, 0.3}}, float[1, 1, 1] h = {{1}},
        int64[1] at = {{0}}> {{ x = Unsqueeze(a, at)
        z, c = GRU <hidden_size = 1> (x, w, r, , , h)
        s = Concat <axis = 2> (c, c) t = Squeeze(s) y = Transpose(t) }}""")
    found = emitted(made)
    assert ".squeeze()" in found.text
    check(made, found, {"a": floats(1, 2)})


def test_else_the_message_says_what_helps(emitted: Emit) -> None:
    made = model("y = Transpose(s)")
    with pytest.raises(Unsupported, match="needs the rank of input 0") as error:
        emitted(made)
    assert "fix sizes with --shape x=1,1,6" in str(error.value)
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    check(made, emitted(made), {"x": np.ones((1, 1, 6), np.float32)})


def test_a_declared_rank_may_be_one_of_several(emitted: Emit) -> None:
    made = model("t = Softmax <axis = -1> (s) y = Relu(t)")
    made.graph.value_info.append(onnx.helper.make_tensor_value_info("s", 1, ["b", 6]))
    check(made, emitted(made), {"x": floats(1, 1, 6)}, {"x": floats(3, 1, 6)})
