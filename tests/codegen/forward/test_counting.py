"""What exporters unroll, as the loop that it was; every package is verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.emitter_models import Emitted
from support.traced import Traced

import fairhand

Emit = Callable[[onnx.ModelProto], Emitted]


def unrolled(
    places: Sequence[int] = range(5),
    *,
    again: bool = False,
    last: bool = False,
    early: bool = False,
    returns: bool = False,
) -> onnx.ModelProto:
    """state = tanh(cell(state) + x[:, i]), step by step, and what each step gives."""
    g = Traced(x=["batch", 8, 4], start=["batch", 4])
    state, states, made = "start", [], []
    for i in places:
        with g.module("cell", "Cell"):
            inner = g.fc(state, "hidden", 4, 4)
        step = g("Gather", "x", g.weight(f"i{i}", value=i), axis=1)
        state = g("Tanh", g("Add", inner, step))
        states.append(state)
        made.append(g("Unsqueeze", g("Relu", state), g.ints(1)))
    extra = g("Abs", states[-1]) if early else ""
    y = g("Concat", *made, axis=1)
    y = g("Mul", y, g("Unsqueeze", extra, g.ints(1))) if extra else y
    y = g("Sub", y, g("Unsqueeze", states[-1], g.ints(1))) if last else y
    outputs = {"y": g("Relu", y)}
    outputs |= {"again": g("Exp", states[2])} if again else {}
    outputs |= {"final": states[-1]} if returns else {}
    return g.model(**outputs)


def test_steps_become_a_loop(emitted: Emit) -> None:
    assert emitted(unrolled()).body("Net") == [
        "state = start",
        "outputs = []",
        "for i in range(5):",
        "state = torch.tanh(self.cell(state) + x[:, i])",
        "outputs.append(F.relu(state))",
        "return F.relu(torch.stack(outputs, dim=1))",
    ]


def test_counting_from_elsewhere(emitted: Emit) -> None:
    body = emitted(unrolled(range(3, 8))).body("Net")
    assert "for i in range(3, 8):" in body
    assert "state = torch.tanh(self.cell(state) + x[:, i])" in body
    assert "x[:, 2 * i]" in emitted(unrolled(range(0, 8, 2))).text


def test_the_last_state_is_read_later(emitted: Emit) -> None:
    text = emitted(unrolled(last=True)).text
    assert "for i in range(5):" in text and "- state.unsqueeze(1)" in text
    assert "for i in range(5):" in emitted(unrolled(returns=True)).text


@pytest.mark.parametrize(
    "model",
    [
        unrolled(range(3)),
        unrolled([0, 1, 2, 4, 5]),
        unrolled([4, 3, 2, 1, 0]),
        unrolled(again=True),
    ],
)
def test_no_loop_where_steps_differ(model: onnx.ModelProto, emitted: Emit) -> None:
    assert "outputs.append(" not in emitted(model).text


def test_two_states(emitted: Emit) -> None:
    g = Traced(x=["batch", 8, 4], a=["batch", 4], b=["batch", 4])
    a, b, made = "a", "b", []
    for i in range(4):
        step = g("Gather", "x", g.weight(f"i{i}", value=i), axis=1)
        a, b = g("Tanh", g("Add", b, step)), g("Sub", a, b)
        made.append(g("Mul", a, b))
    found = emitted(g.model(y=g("Concat", *made, axis=1), a1=a, b1=b))
    assert "for i in range(4):" in found.text


def test_what_reads_the_last_state_before_the_join(emitted: Emit) -> None:
    body = emitted(unrolled(early=True)).body("Net")
    assert body.index("for i in range(5):") < body.index(
        next(line for line in body if ".abs()" in line)
    )


def test_a_row_of_weights_among_other_weights(tmp_path: Path) -> None:
    """Nearest neighbours, as skl2onnx writes them: no layer is called there."""
    text = """<ir_version: 9, opset_import: ["" : 20]>
        g (float[n, 6] x) => (float[k, m] y) {
        last, far = Scan <num_scan_inputs = 1,
            body = b (float[a, 6] kept, float[6] row) => (float[a, 6] next, float[m] d)
            { next = Identity(kept) s = Sub(kept, row)
              d = ReduceSumSquare<keepdims = 0>(s, one) }> (x, rows)
        u = Transpose(far) v, w = TopK<largest = 0>(u, two)
        p = Gather(first, w) q = Gather(then, p)
        a0 = Equal(q, c0) b0 = Cast<to = 1>(a0) s0 = ReduceSum(b0, one)
        a1 = Equal(q, c1) b1 = Cast<to = 1>(a1) s1 = ReduceSum(b1, one)
        a2 = Equal(q, c2) b2 = Cast<to = 1>(a2) s2 = ReduceSum(b2, one)
        y = Concat<axis = 1>(s0, s1, s2) }"""
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    weights = {"rows": rng.standard_normal((6, 6)).astype(np.float32)}
    weights |= {"first": rng.integers(0, 200, 6), "then": rng.integers(0, 3, 200)}
    weights |= {"one": np.array([1]), "two": np.array([2])}
    weights |= {f"c{i}": np.array([i]) for i in range(3)}
    for name, array in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    fairhand.compile(model, tmp_path / "nearest", cache=False)
    assert "for row in self.rows:" in (tmp_path / "nearest" / "model.py").read_text()


def substituted(rows: Sequence[int]) -> onnx.ModelProto:
    """x[:, i] = x[:, i] + x[:, :i].sum(1), for row after row of a copy of x."""
    g = Traced(x=["batch", 7, 4])
    x = "x"
    for i in rows:
        row = g("Slice", x, g.ints(i), g.ints(i + 1), g.ints(1))
        before = g("Slice", x, g.ints(0), g.ints(i), g.ints(1))
        row = g("Add", row, g("ReduceSum", before, g.ints(1), keepdims=1))
        places = g("Expand", g.weight(f"i{i}", value=i), g("Shape", row))
        x = g("ScatterElements", x, places, row, axis=1)
    return g.model(y=g("Neg", x))


def test_what_is_made_of_itself_again_and_again_is_a_loop(emitted: Emit) -> None:
    """As the rows of a triangular system, which no list holds and no module makes."""
    assert emitted(substituted(range(1, 6))).body("Net") == [
        "for i in range(1, 6):",
        "total = x[:, :i].sum(dim=1, keepdim=True)",
        "total = x[:, i : i + 1] + total",
        "x = x.slice_scatter(total, dim=1, start=i, end=i + 1)",
        "return -x",
    ]


@pytest.mark.parametrize("rows", [range(1, 4), (1, 2, 4, 3, 5)])
def test_three_rows_and_rows_in_no_order_stay(
    rows: Sequence[int], emitted: Emit
) -> None:
    assert "for i in" not in emitted(substituted(rows)).text


def test_a_place_may_be_of_some_of_the_rows_alone(emitted: Emit) -> None:
    """No slice_scatter then, which writes all that lies at a place."""
    g = Traced(x=[3, 6, 4], row=[2, 1, 4])
    places = g.weight("places", value=np.full((2, 1, 4), 3))
    found = emitted(
        g.model(y=g("Neg", g("ScatterElements", "x", places, "row", axis=1)))
    )
    assert "x.scatter(1, self.places, row)" in found.text


@pytest.mark.parametrize("steps", [3, 5])
def test_steps_without_numbers_are_a_loop_as_of_four(steps: int, emitted: Emit) -> None:
    """As of Newton's method: only the last result is read."""
    g = Traced(x=["batch", 4, 4])
    x = "x"
    for _ in range(steps):
        square = g("MatMul", x, x)
        x = g("Sub", g("Mul", x, g.weight("two", value=np.float32(2))), square)
    body = emitted(g.model(y=x)).body("Net")
    assert ("for _ in range(5):" in body) == (steps == 5)
    assert len(body) == 3


def parted(width: int) -> onnx.ModelProto:
    """Of the parts of x, each goes through a layer with what the last part gave."""
    g = Traced(x=["batch", 8 * width])
    parts = g("Split", "x", axis=1, num_outputs=8, outputs=8)
    made = [g("Relu", g.linear(parts[0], "convs.0", width, width))]
    for i in range(1, 7):
        x = g("Add", parts[i], made[-1])
        made.append(g("Relu", g.linear(x, f"convs.{i}", width, width)))
    return g.model(y=g("Neg", g("Concat", *made, parts[7], axis=1)))


def test_parts_of_a_tensor_are_gone_through(emitted: Emit) -> None:
    """As Res2Net does; the last part is joined as it is."""
    body = emitted(parted(3)).body("Net")
    assert body[0] == "parts = x.chunk(8, dim=1)"
    assert "for conv, part in zip(self.convs[1:], parts[1:7], strict=True):" in body
    assert body[-1] == "return -torch.cat([*outputs, parts[7]], dim=1)"
