"""Inputs and outputs of types that ONNX Runtime's `run` has no arrays for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx.parser
import pytest

import fairhand
from fairhand.analysis.errors import VerificationError
from fairhand.analysis.ops.registry import OPS
from fairhand.codegen.verify import parity

TYPES = "bfloat16 float8e4m3fn float8e5m2 int4 uint4 int2 uint2".split()


def model(kind: str) -> onnx.ModelProto:
    to = onnx.TensorProto.DataType.Value(kind.upper())
    return onnx.parser.parse_model(f"""<ir_version: 11, opset_import: ["" : 25]>
        net (float[n, 3] x, {kind}[n, 3] w) => (float[n, 3] y, {kind}[n, 3] z) {{
            wide = Cast<to = 1>(w)
            y = Mul(x, wide)
            z = Cast<to = {to}>(y)
        }}""")


@pytest.mark.parametrize("kind", TYPES)
def test_they_are_verified(kind: str, tmp_path: Path) -> None:
    package = fairhand.compile(model(kind), tmp_path / "net")
    assert package.report["verification"]["worst_relative_error"] < 1e-6


@pytest.mark.parametrize("kind", ["bfloat16", "float8e5m2"])
def test_the_node_is_named(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(OPS["", "Mul"], torch=lambda t, n, x, y: x * y + 8)
    monkeypatch.setitem(OPS, ("", "Mul"), wrong)
    with pytest.raises(VerificationError) as caught:
        fairhand.compile(model(kind), tmp_path / "net", cache=False)
    assert "(Mul" in caught.value.where


def test_a_difference_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = parity.run_package

    def other(*given: object) -> list[list[object]]:
        return [[y, z ^ 1 << 9] for y, z in run(*given)]

    monkeypatch.setattr(parity, "run_package", other)
    with pytest.raises(VerificationError, match="output z differs"):
        fairhand.compile(model("bfloat16"), tmp_path / "net")
