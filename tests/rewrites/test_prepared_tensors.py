"""What torch's exporter prepared is called as it was."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from fairhand.analysis.graph.parameters import is_parameter
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.normalise import normalise

CALL = "%index : [num_users=1] = call_function[target=torch.ops.aten."


def model(call: str) -> onnx.ModelProto:
    found: onnx.ModelProto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> net (int64[n, 1] rows) => '
        "(float[n, 4, 4] y) {y = GatherND(val_7, rows)}"
    )
    weight = np.zeros((3, 4, 4), np.float32)
    found.graph.initializer.append(onnx.numpy_helper.from_array(weight, "val_7"))
    told = {
        "pkg.torch.onnx.fx_node": f"{CALL}{call}",
        "pkg.torch.onnx.name_scopes": "['', 'mlp.experts', 'index']",
    }
    for key, value in told.items():
        found.graph.node[0].metadata_props.add(key=key, value=value)
    return found


@pytest.mark.parametrize("kind", "pb")
def test_a_tensor_that_is_indexed(kind: str) -> None:
    call = f"index.Tensor](args = (%{kind}_mlp_experts_down_proj, [%view_7]))"
    (weight,) = normalise(load(model(call)).model).graph.initializers.values()
    assert weight.name == "mlp.experts.down_proj"
    assert is_parameter(weight) == (kind == "p")


@pytest.mark.parametrize(
    "call",
    [
        "index.Tensor](args = (%p_mlp_experts_w, [None, %view_7]))",  # it was turned
        "index.Tensor](args = (%p_other_w, [%view_7]))",
        "index.Tensor](args = (%view_2, [%view_7]))",
        "mul.Tensor](args = (%p_mlp_experts_w, 2.0))",
        "",
    ],
)
def test_what_another_call_made_keeps_its_name(call: str) -> None:
    assert [*normalise(load(model(call)).model).graph.initializers] == ["val_7"]
