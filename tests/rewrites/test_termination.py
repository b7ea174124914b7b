"""Rewriting ends, soon, however many constants meet."""

from __future__ import annotations

from time import process_time

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.rule_samples import run

from fairhand.analysis.graph.traversal import all_nodes
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.engine.apply import Rewriter
from fairhand.rewrites.engine.termination import weight
from fairhand.rewrites.simplify import simplify


def pairs(count: int, width: int = 8) -> onnx.ModelProto:
    """x * a + b, `count` times, with constant vectors."""
    random = np.random.default_rng(0)
    nodes, weights, x = [], [], "x"
    for i in range(count):
        scale = random.uniform(0.9, 1.1, width).astype(np.float32)
        shift = random.normal(size=width).astype(np.float32)
        weights.append(numpy_helper.from_array(scale, f"a{i}"))
        weights.append(numpy_helper.from_array(shift, f"b{i}"))
        nodes.append(helper.make_node("Mul", [x, f"a{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Add", [f"m{i}", f"b{i}"], [f"s{i}"]))
        x = f"s{i}"
    info = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, width])
        for name in ("x", x)
    ]
    graph = helper.make_graph(nodes, "pairs", info[:1], info[1:], weights)
    opsets = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("count", [1, 13, 14, 15, 40, 100])
def test_scales_and_shifts_become_one(count: int) -> None:
    original = pairs(count)
    model = load(original).model
    simplify(model)
    assert sorted(node.op_type for node in model.graph) == ["Add", "Mul"]
    x = np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)
    (before,), (after,) = (run(m, {"x": x}) for m in (original, ir.to_proto(model)))
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("count", [14, 100])
def test_every_application_makes_the_graph_no_heavier(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, apply = [], Rewriter.apply

    def weighed(self: Rewriter, *given: object) -> object:
        done = apply(self, *given)  # type: ignore[arg-type]
        if not isinstance(done, str):
            nodes = all_nodes(self.model.graph)
            weights.append(weight(nodes, self.facts.is_constant))
        return done

    monkeypatch.setattr(Rewriter, "apply", weighed)
    simplify(load(pairs(count)).model)
    assert weights == sorted(weights, reverse=True)


def test_a_thousand_pairs_take_a_second_per_hundred() -> None:
    model = load(pairs(1000)).model
    before = process_time()
    simplify(model)
    assert len(list(model.graph)) == 2
    assert process_time() - before < 10
