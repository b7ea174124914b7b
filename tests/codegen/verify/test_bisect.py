"""A mismatch is traced to the node that makes it, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import fairhand
from fairhand import ModuleForm, NodeView, OpDef
from fairhand.analysis.ops.registry import OPS
from fairhand.codegen.verify.bisect import first_difference
from fairhand.rewrites.simplify import simplify


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    """Operators that a test overrides are put back."""
    kept = dict(OPS)
    yield
    OPS.clear()
    OPS.update(kept)


def override(name: str, spelling: Callable[..., Any]) -> None:
    fairhand.register(OpDef(name, 1, fairhand.ONE_TO_ONE, torch=spelling))


def model() -> onnx.ModelProto:
    """Two layers, a Reshape by computed sizes between them, and a dynamic batch."""
    found = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 20]>
        net (float[batch, 3, 8, 8] x) => (float[batch, 5] y) <
            float[4, 3, 3, 3] kernel, float[144, 5] matrix, float[5] bias,
            int64[1] zero = {0}, int64[1] one = {1}, int64[1] rest = {-1}
        > {
            [conv] a = Conv <kernel_shape = [3, 3]> (x, kernel)
            [relu] b = Relu (a)
            [shape] s = Shape (b)
            [batch] n = Slice (s, zero, one, zero)
            [sizes] sizes = Concat <axis = 0> (n, rest)
            [flat] c = Reshape (b, sizes)
            [product] d = MatMul (c, matrix)
            [sum] e = Add (d, bias)
            [tanh] f = Tanh (e)
            [last] y = Relu (f)
        }
        """)
    rng = np.random.default_rng(0)
    for name, shape in {
        "kernel": (4, 3, 3, 3),
        "matrix": (144, 5),
        "bias": (5,),
    }.items():
        array = rng.standard_normal(shape).astype(np.float32)
        found.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return found


def test_compile_names_the_node_and_leaves_nothing(tmp_path: Path) -> None:
    override("Tanh", lambda t, n, x: t.tanh(x) + 0.25)
    with pytest.raises(fairhand.VerificationError) as caught:
        fairhand.compile(model(), tmp_path / "net")
    text = str(caught.value)
    assert "node 'tanh' (Tanh" in text
    assert "torch.tanh(e) + 0.25" in text
    assert "relu" not in caught.value.where and "last" not in caught.value.where
    assert list(tmp_path.iterdir()) == []


def test_compile_names_a_node_that_can_not_run(tmp_path: Path) -> None:
    override("Tanh", lambda t, n, x: t.tanh(x, 1))
    with pytest.raises(fairhand.VerificationError) as caught:
        fairhand.compile(model(), tmp_path / "net")
    assert "the emitted package can't run" in caught.value.what
    assert caught.value.where.startswith("node 'tanh' (Tanh")
    assert "torch.tanh(e, 1) fails: TypeError" in caught.value.where
    assert list(tmp_path.iterdir()) == []


def found_in(feed_batch: int = 2, expected: tuple[np.ndarray, ...] = ()) -> str:
    graph = ir.from_proto(model())
    simplify(graph, rules=())
    x = np.random.default_rng(1).standard_normal((feed_batch, 3, 8, 8))
    return first_difference(graph, {"x": x.astype(np.float32)}, expected)


@pytest.mark.parametrize("batch", [1, 3])
def test_the_first_of_two_is_named(batch: int) -> None:
    override("Relu", lambda t, n, x: t.F.relu(x) * 1.01)
    found = found_in(batch)
    assert found.startswith("node 'relu' (Relu")
    assert "F.relu(a) * 1.01, differs" in found


def test_a_layer_with_an_absorbed_node_is_named() -> None:
    matmul = OPS["", "MatMul"]

    def module(n: NodeView) -> ModuleForm | None:
        form = matmul.module(n) if matmul.module else None
        return form and replace(form, call=lambda t, layer, x: layer(x) * 2)

    fairhand.register(replace(matmul, module=module))
    found = found_in()
    assert found.startswith("node 'product' (MatMul")
    assert "layer(" in found and "differs" in found


def test_no_node_is_blamed_when_all_agree() -> None:
    found = found_in()
    assert found.startswith("no node by itself: each agrees")


def test_a_graph_that_was_changed_wrongly_is_told_apart() -> None:
    found = found_in(2, (np.ones((2, 5), np.float32),))
    assert found.startswith("no node by itself: in ONNX Runtime too")
    assert "output y" in found


def test_bisecting_never_raises() -> None:
    graph = ir.from_proto(model())
    simplify(graph, rules=())
    assert first_difference(graph, {}) == ""
    wrong = {"x": np.zeros((1, 2, 3), np.float32)}
    assert first_difference(graph, wrong) == ""
