"""Rewriting ends, soon, however many constants meet."""

from __future__ import annotations

import importlib.util
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.drawn import some
from support.rule_samples import run

from fairhand.analysis.graph.shape_facts import ShapeFacts
from fairhand.analysis.graph.traversal import all_nodes
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.engine.apply import Rewriter
from fairhand.rewrites.engine.flop_search import Search
from fairhand.rewrites.engine.match import Matcher
from fairhand.rewrites.engine.termination import weight
from fairhand.rewrites.recognition.regions import Neighbourhoods
from fairhand.rewrites.simplify import simplify

_PATH = Path(__file__).parents[2] / "benchmarks" / "rewrite_time.py"
_SPEC = importlib.util.spec_from_file_location("rewrite_time", _PATH)
assert _SPEC is not None and _SPEC.loader is not None
GRAPHS = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(GRAPHS)


def pairs(count: int) -> onnx.ModelProto:
    """x * a + b, `count` times, with constant vectors."""
    return ir.to_proto(GRAPHS.graph_of("pairs", 2 * count, 4))


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("count", [1, 13, 14, 15, 40, 100])
def test_scales_and_shifts_become_one(count: int, level: int) -> None:
    original = pairs(count)
    model = load(original).model
    simplify(model, level=level)
    found = Counter(node.op_type for node in model.graph)
    assert found.keys() == {"Mul", "Add"}
    assert found.total() == 2 or level == 1  # where biases that train stay apart
    x = np.random.default_rng(1).normal(size=(4, GRAPHS.WIDTH)).astype(np.float32)
    (before,), (after,) = (run(m, {"x": x}) for m in (original, ir.to_proto(model)))
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_operands_in_a_better_order_stay_in_it(op: str) -> None:
    """Whatever their sizes are: each order was better than another, in turns."""
    for sizes in itertools.product(itertools.product((1, 2), (1, 3)), repeat=4):
        inputs = ", ".join(
            f"float[{a},{b}] {x}" for x, (a, b) in zip("smtn", sizes, strict=True)
        )
        model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 20]>
            g ({inputs}) => (float[a,b] y) {{
                p = {op}(s, m)  q = {op}(t, n)  y = {op}(p, q) }}""")
        assert len(simplify(load(model).model, level=2).history) < 4


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


@pytest.mark.parametrize("kind", some(GRAPHS.KINDS, 4))
def test_the_work_is_linear_in_the_nodes(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told by how often the matcher looks at a term or a leaf, and sizes are asked."""
    looks: Counter[str] = Counter()

    def counted(owner: type, method: str) -> None:
        plain = getattr(owner, method)

        def count(*given: Any, **named: Any) -> Any:
            looks[kind] += 1
            return plain(*given, **named)

        monkeypatch.setattr(owner, method, count)

    for owner, method in (
        (Matcher, "_term"),
        (Matcher, "_leaf"),
        (Rewriter, "apply"),
        (Search, "saving"),
        (ShapeFacts, "dims"),
        (Neighbourhoods, "above"),
    ):
        counted(owner, method)
    found = []
    for count in (200, 800):
        looks.clear()
        simplify(GRAPHS.graph_of(kind, count, 4))
        found.append(looks[kind])
    assert found[1] < 5 * found[0]
