"""Bytes alive at a time, on graphs small enough to count by hand."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
import sympy

from fairhand.analysis.cost.peak_memory import Memory, peak_memory
from fairhand.analysis.shapes.infer import infer

HEADER = '<ir_version: 9, opset_import: ["" : 18]> g '
K = 4 * 1000  # bytes of one value


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # a chain: two values at a time
        ("{ a = Relu(x) b = Neg(a) c = Abs(b) y = Exp(c) }", (2, 2)),
        # a is kept for the residual while b and c are made
        ("{ a = Relu(x) b = Neg(a) c = Abs(b) y = Add(a, c) }", (3, 3)),
        # views are no values of their own, and keep what they look at
        ("{ a = Relu(x) v = Identity(a) b = Neg(x) y = Add(v, b) }", (3, 3)),
        # a and b wait for their reader through all of the chain
        (
            """{ a = Relu(x) b = Neg(a) c = Abs(b) d = Exp(c) e = Abs(d)
            f = Add(a, e) y = Add(f, b) }""",
            (4, 3),
        ),
        # dropped where nothing reads it
        ("{ a = Relu(x) b = Neg(x) y = Abs(x) }", (1, 1)),
    ],
)
def test_counts(text: str, found: tuple[int, int]) -> None:
    signature = "(float[n, 100] x) => (float[n, 100] y) "
    model = ir.from_proto(onnx.parser.parse_model(HEADER + signature + text))
    shapes = infer(model)
    expected = Memory(*(K * number for number in found))
    assert peak_memory(model, shapes, {"n": 10}) == expected
    assert peak_memory(model, shapes, {}) is None


def test_sizes_of_equal_layers_are_worked_out_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sympy is slow, and the sizes of a network's layers are mostly the same few."""
    asked: list[sympy.Expr] = []
    plain = sympy.Expr.subs
    count = lambda size, *new: asked.append(size) or plain(size, *new)  # noqa: E731
    monkeypatch.setattr(sympy.Expr, "subs", count)
    layers = " ".join(f"x{i + 1} = Relu(x{i})" for i in range(40))
    text = f"(float[long_axis, 7] x0) => (float[long_axis, 7] x40) {{ {layers} }}"
    model = ir.from_proto(onnx.parser.parse_model(HEADER + text))
    found = peak_memory(model, infer(model), {"long_axis": 3})
    assert found == Memory(2 * 84, 2 * 84)
    assert len(asked) == len(set(asked))
