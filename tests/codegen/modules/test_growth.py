"""What planning looks at grows with the network, not with its square."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from fairhand import compile
from fairhand.codegen.forward.loops import roll
from fairhand.codegen.ir.assignment import Assignment


def _model(nodes: list[onnx.NodeProto], constants: int) -> onnx.ModelProto:
    sizes = TensorProto.FLOAT, [2, 3]
    given = [
        helper.make_tensor_value_info("x0", *sizes),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    stored = [
        numpy_helper.from_array(np.full(3, k + 0.5, np.float32), f"w{k}")
        for k in range(constants)
    ]
    made = [helper.make_tensor_value_info(nodes[-1].output[0], *sizes)]
    graph = helper.make_graph(nodes, "g", given, made, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def _constants(count: int) -> onnx.ModelProto:
    kinds = "Max", "Add", "Mul"
    nodes = [
        helper.make_node(kinds[k % 3], [f"x{k}", f"w{k}"], [f"x{k + 1}"])
        for k in range(count)
    ]
    return _model(nodes, count)


def _branches(count: int) -> onnx.ModelProto:
    nodes = []
    for k in range(count):
        branches = {
            name: helper.make_graph(
                [helper.make_node(op, [f"x{k}"], [f"{op}{k}"])],
                name,
                [],
                [helper.make_tensor_value_info(f"{op}{k}", TensorProto.FLOAT, [2, 3])],
            )
            for name, op in (("then_branch", "Tanh"), ("else_branch", "Sin"))
        }
        nodes.append(helper.make_node("If", ["c"], [f"i{k}"], **branches))
        nodes.append(helper.make_node("Max", [f"i{k}", f"w{k}"], [f"x{k + 1}"]))
    return _model(nodes, count)


@pytest.mark.parametrize("network", [_constants, _branches])
def test_reads_are_asked_for_as_often_as_there_are_nodes(
    network: Callable[[int], onnx.ModelProto],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0

    def counted(of: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def count(subject: Any) -> list[ir.Value]:
            nonlocal asked
            asked += 1
            return of(subject)  # type: ignore[no-any-return]

        return count

    monkeypatch.setattr(Assignment, "reads", counted(Assignment.reads))
    monkeypatch.setattr(roll, "_read", counted(roll._read))
    times = []
    for size in (30, 60):
        asked = 0
        compile(network(size), tmp_path / f"of_{size}", verify=False, cache=False)
        times.append(asked)
    assert times[1] < 2.5 * times[0]
