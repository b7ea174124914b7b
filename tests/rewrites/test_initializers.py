"""The forms in which a model may hold constants, each compiled and verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.emitter_models import Emitted

import fairhand

Emit = Callable[[onnx.ModelProto], Emitted]
W = numpy_helper.from_array(np.float32([1, 2]), "w")
EMPTY = numpy_helper.from_array(np.zeros(0, np.float32), "none")
node = helper.make_node


def info(name: str, *shape: int, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def sparse(flat: bool) -> onnx.SparseTensorProto:
    places = [1, 5] if flat else [[0, 1], [1, 2]]
    values = numpy_helper.from_array(np.float32([3, 4]), "s")
    indices = numpy_helper.from_array(np.array(places, np.int64), "s_places")
    return helper.make_sparse_tensor(values, indices, [2, 3])


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Sequence[onnx.TensorProto] = (),
    hidden: Sequence[onnx.SparseTensorProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    graph.sparse_initializer.extend(hidden)
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def branches(then: onnx.GraphProto, other: onnx.GraphProto, *shape: int) -> Any:
    chosen = node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    flag = info("c", kind=TensorProto.BOOL)
    return model([chosen], [info("x", *shape), flag], [info("y", *shape)])


def body(name: str, nodes: list[Any], out: Any, constants: Sequence[Any] = ()) -> Any:
    return helper.make_graph(nodes, name, [], [out], constants)


X, Y, Z = info("x", 2), info("y", 2), info("z", 2)
NEG = node("Neg", ["x"], ["y"])
ADD = node("Add", ["x", "w"], ["y"])
ADD_SPARSE = node("Add", ["x", "s"], ["y"])
WIDE = [info("x", 2, 3)], [info("y", 2, 3)]
FORMS = {
    "also an input": model([ADD], [X, info("w", 2)], [Y], [W]),
    "an input that nothing reads": model([NEG], [X, Z], [Y]),
    "an output that is an input": model([NEG], [X], [Y, X]),
    "an output that is an initializer": model([NEG], [X], [Y, info("w", 2)], [W]),
    "no inputs": model([node("Neg", ["w"], ["y"])], [], [Y], [W]),
    "no elements": model(
        [node("Concat", ["x", "none"], ["y"], axis=0)], [X], [Y], [EMPTY]
    ),
    "no elements, given out": model(
        [NEG, node("Identity", ["none"], ["z"])], [X], [Y, info("z", 0)], [EMPTY]
    ),
    "sparse": model([ADD_SPARSE], *WIDE, hidden=[sparse(True)]),
    "sparse, by coordinates": model([ADD_SPARSE], *WIDE, hidden=[sparse(False)]),
    "a sparse Constant": model(
        [node("Constant", [], ["s"], sparse_value=sparse(False)), ADD_SPARSE], *WIDE
    ),
    "of a branch, of one name": branches(
        body("a", [node("Add", ["x", "w"], ["t"])], info("t", 2), [W]),
        body("b", [node("Mul", ["x", "w"], ["t"])], info("t", 2), [W]),
        2,
    ),
    "what a branch gives": branches(
        body("a", [node("Neg", ["x"], ["t"])], info("t", 2)),
        body("b", [], info("w", 2), [W]),
        2,
    ),
    "a sparse Constant of a branch": branches(
        body(
            "a",
            [
                node("Constant", [], ["s"], sparse_value=sparse(True)),
                node("Add", ["x", "s"], ["t"]),
            ],
            info("t", 2, 3),
        ),
        body("b", [node("Neg", ["x"], ["u"])], info("u", 2, 3)),
        2,
        3,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_form(form: str, emitted: Emit) -> None:
    found = emitted(FORMS[form])
    session = found.module.Session()
    given = {value.name for value in FORMS[form].graph.input} - {"w"}
    assert {tensor.name for tensor in session.get_inputs()} == given
    wanted = [value.name for value in FORMS[form].graph.output]
    assert [tensor.name for tensor in session.get_outputs()] == wanted


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([node("Add", ["x", "missing"], ["y"])], "'missing' is used, but nothing"),
        ([NEG, node("Abs", ["x"], ["y"])], "'y' is defined twice"),
    ],
)
def test_a_name_that_is_missing_or_twice(
    nodes: list[onnx.NodeProto], says: str, tmp_path: Path
) -> None:
    with pytest.raises(fairhand.LoadError, match=says):
        fairhand.compile(model(nodes, [X], [Y]), tmp_path / "net")
