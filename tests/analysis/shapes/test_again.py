"""Inference after a change: what is gone through, and that it finds what is so."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from support.symbolic import build

from fairhand.analysis.shapes import infer as inference
from fairhand.analysis.shapes.infer import infer

STATIC = "float[2, 6] x"
ROWS = "s = Shape(x); h = Neg(x); r = Reshape(h, s); t = Transpose(r); y = Exp(t)"


def _visited(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    visit = inference._Walk._visit

    def noted(walk: inference._Walk, node: ir.Node) -> None:
        seen.append(node.op_type)
        visit(walk, node)

    monkeypatch.setattr(inference._Walk, "_visit", noted)
    return seen


def _model(text: str, given: str = STATIC) -> tuple[ir.Model, dict[str, ir.Value]]:
    model = ir.serde.deserialize_model(build(given, text))
    return model, {v.name or "": v for n in model.graph for v in n.outputs}


def _same(model: ir.Model, found: inference.ShapeFacts) -> bool:
    new = infer(model)
    return all(
        found.agrees(new, value) for node in model.graph for value in node.outputs
    )


def test_only_what_changed_is_gone_through_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, values = _model(ROWS)
    before = infer(model)
    node = values["t"].producer()
    assert node is not None
    node.attributes["perm"] = ir.AttrInt64s("perm", [1, 0])
    seen = _visited(monkeypatch)
    found = infer(model, before)
    assert seen == ["Transpose"]
    assert _same(model, found)


def test_other_sizes_are_followed_to_the_end() -> None:
    model, values = _model(ROWS)
    before = infer(model)
    node = values["t"].producer()
    assert node is not None
    node.attributes["perm"] = ir.AttrInt64s("perm", [0, 1])
    found = infer(model, before)
    assert found.dims(values["y"]) == (2, 6)
    assert _same(model, found)


def test_symbols_are_found_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = _model(ROWS, "float[b, 6] x")
    before = infer(model)
    seen = _visited(monkeypatch)
    found = infer(model, before)
    assert {"Neg", "Reshape", "Transpose", "Exp"} <= set(seen)
    assert _same(model, found)
    assert found.anchored() == before.anchored()


def test_nodes_around_branches_are_all_gone_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    branches = ", ".join(
        f"{name} = {name} () => (float[2, 6] {op}_) {{{op}_ = {op}(h)}}"
        for name, op in (("then_branch", "Exp"), ("else_branch", "Abs"))
    )
    text = f"h = Neg(x); c = Identity(k); y = If(c)<{branches}>"
    model, _ = _model(text, "float[2, 6] x, bool k")
    before = infer(model)
    seen = _visited(monkeypatch)
    infer(model, before)
    assert sorted(seen) == ["Abs", "Exp", "Identity", "If", "Neg"]
