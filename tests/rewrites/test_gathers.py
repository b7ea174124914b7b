"""GatherND at a column of places is Gather, as PyTorch's x[index] is."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from fairhand.codegen.load.read_model import load
from fairhand.rewrites.simplify import simplify

EXPERTS = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
COLUMN = "c = Unsqueeze(i, last)"
PARTS = "c = Reshape(i, column)"


@pytest.mark.parametrize(
    ("nodes", "left"),
    [
        (f"{COLUMN} y = GatherND(w, c)", ["Gather"]),
        (f"{PARTS} y = GatherND(w, c)", ["Gather"]),  # of tokens' experts
        (f"{COLUMN} y = GatherND(x, c)", ["Gather"]),
        (
            f"{PARTS} d = Expand(c, square) y = GatherND(x, d)",
            ["Reshape", "Expand", "GatherND"],
        ),
        # A parameter would be called otherwise as the weight of an Embedding.
        (f"{COLUMN} y = GatherND(table, c)", ["Unsqueeze", "GatherND"]),
        (
            f"{COLUMN} y = GatherND <batch_dims = 1> (x, c)",
            ["Unsqueeze", "GatherND"],
        ),
        # x[mask] has a text of its own.
        (
            "m = Greater(i, zero) p = NonZero(m) c = Transpose(p) y = GatherND(x, c)",
            ["Greater", "NonZero", "Transpose", "GatherND"],
        ),
    ],
)
def test_places_in_a_column(nodes: str, left: list[str]) -> None:
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21]>
        g (int64[4] i, float[4, 3] x) => (float y)
        <int64[1] last = {{-1}}, int64[2] column = {{-1, 1}},
         int64[2] square = {{4, 2}}, int64 zero = {{0}}> {{ {nodes} }}""")
    table = EXPERTS[..., 0].copy()
    for name, array in (("w", EXPERTS), ("table", table)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    found = load(model).model
    simplify(found)
    assert [node.op_type for node in found.graph] == left
    feeds = {"i": np.array([2, 0, -1, 1]), "x": table + 0.5}
    if "batch_dims" in nodes:
        feeds["i"] %= 3
    before, after = (
        ReferenceEvaluator(m).run(None, feeds)[0] for m in (model, ir.to_proto(found))
    )
    np.testing.assert_array_equal(before, after)
