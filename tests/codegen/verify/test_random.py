"""Random operators: the distribution they draw from, their seeds, and their parity."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.emitted import imported

import fairhand
from fairhand.codegen.load.random_outputs import drawn_outputs
from fairhand.codegen.load.read_model import load

ROWS = 20_000
Check = Callable[[np.ndarray], bool]
CASES: list[tuple[str, Check]] = [
    (
        "RandomNormal <shape = [20000], mean = 3.0, scale = 2.0> ()",
        lambda y: abs(y.mean() - 3) < 0.1 and abs(y.std() - 2) < 0.1,
    ),
    (
        "RandomUniform <shape = [20000], low = -1.0, high = 3.0, seed = 5.0> ()",
        lambda y: -1 <= y.min() < -0.99 and 2.99 < y.max() <= 3,
    ),
    ("RandomNormalLike <mean = 1.0> (x)", lambda y: abs(y.mean() - 1) < 0.1),
    ("RandomUniformLike (x)", lambda y: abs(y.mean() - 0.5) < 0.05),
    ("Bernoulli <seed = 3.0> (x)", lambda y: abs(y.mean() - 0.25) < 0.05),
    (
        "Dropout <seed = 3> (x, share, yes)",
        lambda y: abs((y == 0).mean() - 0.75) < 0.05 and set(y) <= {0.0, 1.0},
    ),
]


def model(expression: str) -> onnx.ModelProto:
    """x is 0.25 throughout."""
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
    drawn (float[{ROWS}] x) => (float[{ROWS}] y, float[{ROWS}] same)
    <float share = {{0.75}}, bool yes = {{1}}>
    {{
        y = {expression}
        same = Neg(x)
    }}"""
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize(("expression", "check"), CASES, ids=lambda x: str(x)[:20])
def test_numbers_are_drawn_as_they_should(
    expression: str, check: Check, tmp_path: Path
) -> None:
    fairhand.compile(model(expression), tmp_path / "drawn", verify=False)
    session = imported(tmp_path / "drawn").Session()
    x = np.full(ROWS, 0.25, np.float32)
    (y, _), (again, _) = (session.run(None, {"x": x}) for _ in range(2))
    assert y.dtype == np.float32 and y.shape == (ROWS,) and check(y)
    assert np.array_equal(y, again) == ("seed" in expression)


def test_what_is_random_is_compared_in_shape(tmp_path: Path) -> None:
    proto = model("RandomNormalLike(x)")
    assert drawn_outputs(load(proto).model) == {"y"}
    package = fairhand.compile(proto, tmp_path / "drawn")
    assert set(package.report["tolerance"]) == {"same"}
    verification = package.report["verification"]
    assert verification["cases"][0]["errors"] == {"same": 0.0}
    assert any("output y: drawn at random" in text for text in verification["skipped"])


def test_dropout_is_random_in_training_alone() -> None:
    def drawn(mode: str) -> frozenset[str]:
        proto = model(f"Dropout(x, share, {mode})")
        return drawn_outputs(load(proto).model)

    assert drawn("yes") == {"y"} and drawn("") == frozenset()


def test_what_a_body_reads_of_random_numbers_is_random_too() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
    drawn (float[3] x, bool c) => (float[3] y, float[3] same) {
        drawn = RandomNormalLike(x)
        y = If(c) <then_branch = a () => (float[3] p) { p = Add(x, drawn) },
                   else_branch = b () => (float[3] q) { q = Sub(x, drawn) }>
        same = Neg(x)
    }""")
    assert drawn_outputs(load(proto).model) == {"y"}
