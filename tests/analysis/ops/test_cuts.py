"""Laws of cutting against ONNX Runtime: parts of inputs give parts of results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from support.one_operator import arrays, one_node
from support.operator_cases import Case, cases_of

from fairhand.analysis.graph.shape_facts import NodeFacts
from fairhand.analysis.ops.facts.cuts import Cut, Pieces, shares
from fairhand.analysis.ops.registry import ONE_TO_ONE, OPS, OpDef
from fairhand.analysis.shapes.infer import infer

# Inputs that hold sizes, which are those of a part where that is computed.
SIZES = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0, "Split": 1}
# Where a part of a batch would be drawn or padded by sizes that a case fixes.
FIXED = {"Resize"}

CUT = [
    (op, index)
    for op in OPS.values()
    if op.cut is not None and not op.domain and op.name not in FIXED
    for index, case in enumerate(cases_of(op))
    if index < (1 if op.mapping is ONE_TO_ONE else 5)
    or len(case.inputs) > max(len(before.inputs) for before in cases_of(op)[:index])
]


def parts(x: np.ndarray, axis: int, count: int, pieces: Pieces = 1) -> list[np.ndarray]:
    sizes = np.array(shares(pieces)) * (x.shape[axis] // sum(shares(pieces)))
    tensors = np.split(x, np.cumsum(sizes)[:-1], axis)
    whole = [np.split(tensor, count, axis) for tensor in tensors]
    return [np.concatenate(own, axis) for own in zip(*whole, strict=True)]


def run(op: OpDef, case: Case, inputs: list[np.ndarray | None]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    model = one_node(op, case, inputs).SerializeToString()
    session = ort.InferenceSession(model, options, ["CPUExecutionProvider"])
    names = {f"x{i}" for i in case.constants}
    feed = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
    return session.run(None, {k: v for k, v in feed.items() if k not in names})


def laws(op: OpDef, index: int, wholes: list[np.ndarray]) -> Iterator[Cut]:
    model = ir.from_proto(one_node(op, cases_of(op)[index], arrays(op, index)))
    facts = infer(model)
    (node,) = model.graph
    assert op.cut is not None
    results = [np.shape(x) for x in wholes]
    yield from NodeFacts(node, facts).ask(op.cut, results) or ()


def given_to(
    law: Cut, inputs: list[np.ndarray | None], count: int, own: int
) -> list[np.ndarray | None]:
    """What part number `own` of `count` takes."""
    given: list[np.ndarray | None] = []
    for place, (x, axis) in enumerate(zip(inputs, law.inputs, strict=False)):
        if x is not None and axis is not None:
            x = parts(x, axis, count, law.pieces)[own]
        given.append(x * 0 if x is not None and place in law.once and own else x)
    return given + inputs[len(law.inputs) :]


@pytest.mark.parametrize(("op", "index"), CUT, ids=[f"{op.name}-{i}" for op, i in CUT])
def test_parts_of_inputs_give_parts_of_results(op: OpDef, index: int) -> None:
    case, inputs = cases_of(op)[index], arrays(op, index)
    try:
        wholes = run(op, case, inputs)
    except Exception:  # no kernel for the type: test_operators.py has those
        pytest.skip("ONNX Runtime can't run the case")
    if any(not isinstance(x, np.ndarray) for x in wholes):
        pytest.skip("no tensors")
    for law in laws(op, index, wholes):
        if law.counted or law.gives is not None:
            continue  # test_check_plan.py has these: a part counts its own
        counts = [n for n in (2, 3, 5, 7) if law.parts and law.parts % n == 0]
        for count, own in [(n, n - 1) for n in counts[:1]]:
            if law.sums:
                total = sum(
                    run(op, case, given_to(law, inputs, count, own))[0]
                    for own in range(count)
                )
                np.testing.assert_allclose(total, wholes[0], 1e-2, 1e-4)
                continue
            given = given_to(law, inputs, count, own)
            wanted = [
                x if axis is None else parts(x, axis, count, law.made)[own]
                for x, axis in zip(wholes, law.outputs, strict=True)
            ]
            place = SIZES.get(op.name)
            if place is not None and place < len(given) and given[place] is not None:
                sizes = np.array(np.shape(wanted[0]), np.int64)
                if op.name == "Split":
                    axis = case.attrs.get("axis", 0)
                    sizes = np.array([np.shape(x)[axis] for x in wanted], np.int64)
                given[place] = sizes
            for got, want in zip(run(op, case, given), wanted, strict=True):
                assert got.shape == want.shape, law
                if want.dtype.kind in "fc":
                    np.testing.assert_allclose(
                        got.astype(np.float64), want.astype(np.float64), 1e-2, 1e-4
                    )
                else:
                    assert np.array_equal(got, want), law


def test_laws_are_said_of_the_operators_of_networks() -> None:
    """Those of decoders, of convolutional networks and of masks have one."""
    names = {op.name for op, _ in CUT}
    assert names >= {
        "MatMul",
        "Gemm",
        "Add",
        "Where",
        "Softmax",
        "Reshape",
        "Attention",
    }
    assert names >= {"Conv", "MaxPool", "Concat", "Split", "Slice", "Gather", "Expand"}
