"""Nodes are called the same in all that provenance.json says of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper
from support.emitter_models import Graph

import fairhand
from fairhand.codegen.emit.package_files import read_report


def test_nodes_without_names_are_told_apart_beside_a_branch(tmp_path: Path) -> None:
    g = Graph(x=("float32", ["n", 2, 3]))
    size = g("Gather", g("Shape", "x"), g.weight("place", value=np.int64(1)))
    is_one = g("Equal", size, g.weight("one", value=np.int64(1)))
    branches = {}
    for key, operator in (("then_branch", "Exp"), ("else_branch", "Neg")):
        node = helper.make_node(operator, ["x"], [f"{operator}_out"])
        result = helper.make_empty_tensor_value_info(f"{operator}_out")
        branches[key] = helper.make_graph([node], key, [], [result])
    y = g("Tanh", g("If", is_one, **branches))
    model = g.model(y=y)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "c"
    for node in model.graph.node:
        node.name = ""
    fairhand.compile(model, tmp_path / "net")
    report = read_report(tmp_path / "net")["source_map"]
    behind = [names for groups in report["lines"].values() for names in groups.values()]
    assert {name for names in behind for name in names} <= {*report["operators"]}
    assert {"If", "Tanh"} <= {*report["operators"].values()}
