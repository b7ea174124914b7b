"""Operators of a user's own, and other spellings of built-in ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.emitted import EXAMPLES, finish, imported, start
from support.handmade import floats, model, node, save

import fairhand
from fairhand import OpDef
from fairhand.analysis.ops.registry import OPS, SHUFFLE, define, registered
from fairhand.codegen.cli import main


def _refuses(t: Any, n: fairhand.NodeView, *xs: Any) -> Any:
    n.refuse("nothing is computed")


CNN = EXAMPLES / "digits_cnn.onnx"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    """Operators that a test enters are taken out again."""
    kept = dict(OPS), dict(registered)
    yield
    for entries, before in zip((OPS, registered), kept, strict=True):
        entries.clear()
        entries.update(before)


MY_OPS = '''
import math

from fairhand import ONE_TO_ONE, OpDef, register

SLOPE = 0.25


def fold_over(x, width: float):
    """The distance to the nearest multiple of twice the width."""
    return half(x - 2 * width * (x / (2 * width)).round())


def half(x):
    return x.abs() * 0.5


register(
    OpDef(
        "Fold",
        since=1,
        domain="my.ops",
        mapping=ONE_TO_ONE,
        torch=lambda t, n, x: t.helper(fold_over)(x, n.attr("width", math.sqrt(2))),
    )
)
register(
    OpDef(
        "Relu",
        since=14,
        mapping=ONE_TO_ONE,
        torch=lambda t, n, x: t.F.leaky_relu(x, SLOPE),
    )
)
'''


def own_model() -> onnx.ModelProto:
    """fold(relu(x) + w)."""
    made = model(
        node("Relu", "x", "r"),
        node("Add", "r w", "s"),
        node("Fold", "s", "y", width=2.0),
        inputs=(floats("x", "n", 4),),
        weights={"w": np.arange(4, dtype=np.float32)},
    )
    made.graph.node[2].domain = "my.ops"
    made.opset_import.add(domain="my.ops", version=1)
    made.graph.output[0].CopyFrom(floats("y", "n", 4))
    return made


def check_own(out: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    (got,) = imported(out).Session().run(None, {"x": x})
    leaky = np.where(x > 0, x, x / 4) + np.arange(4, dtype=np.float32)
    np.testing.assert_allclose(got, np.abs(leaky - 4 * np.round(leaky / 4)) / 2, 1e-5)


def test_operators_from_a_file(tmp_path: Path) -> None:
    """In a fresh process, as a user has it; the table of this one stays as it is."""
    (tmp_path / "my_ops.py").write_text(MY_OPS)
    save(own_model(), tmp_path)
    command = [
        "-m",
        "fairhand.codegen.cli",
        "compile",
        "model.onnx",
        "--no-verify",
    ]
    command += ["-o", "net", "--ops", "my_ops.py"]
    assert "not verified" in finish(start(*command, cwd=tmp_path))
    assert ("my.ops", "Fold") not in OPS
    text = (tmp_path / "net/model.py").read_text()
    assert "def fold_over(" in text and text.index("def half(") < text.index(
        "def fold_"
    )
    assert "F.leaky_relu(x, 0.25)" in text and "F.relu" not in text
    check_own(tmp_path / "net")
    names = {path.name for path in tmp_path.iterdir()} - {"net", "model.onnx"}
    assert names == {"my_ops.py"}


def test_an_overridden_operator_is_verified_too(tmp_path: Path, capfd: Capture) -> None:
    """A user's spelling is held to the same parity: this one is no Relu."""
    (tmp_path / "my_ops.py").write_text(MY_OPS)
    out = tmp_path / "cnn"
    ops = ("--ops", str(tmp_path / "my_ops.py"))
    assert main(["compile", str(CNN), "-o", str(out), *ops]) == 1
    error = capfd.readouterr().err
    assert error.startswith("error: output logits differs") and "(Relu" in error
    assert "F.leaky_relu" in error and not out.exists()


def test_operators_from_python(tmp_path: Path) -> None:
    fairhand.register(
        OpDef(
            "Fold",
            since=1,
            domain="my.ops",
            mapping=fairhand.ONE_TO_ONE,
            torch=lambda t, n, x: (
                (x - 2 * n.attr("width") * t.round(x / (2 * n.attr("width")))).abs() / 2
            ),
        )
    )
    fairhand.register(
        OpDef(
            "Relu",
            since=14,
            mapping=fairhand.ONE_TO_ONE,
            torch=lambda t, n, x: t.where(x > 0, x, x / 4),
        )
    )
    fairhand.compile(own_model(), tmp_path / "net", verify=False)
    check_own(tmp_path / "net")
    with pytest.raises(fairhand.VerificationError, match="can't load this model, so"):
        fairhand.compile(own_model(), tmp_path / "verified")  # it knows no Fold
    assert not (tmp_path / "verified").exists()


def test_a_spelling_leaves_the_facts_of_the_operator() -> None:
    """What is said of sizes, values and cost holds for any spelling."""
    built_in = OPS["", "Concat"]
    own = OpDef("Concat", 13, built_in.mapping, torch=lambda t, n, *xs: t.hstack(xs))
    found = fairhand.register(own)
    assert found is OPS["", "Concat"] and found.torch is own.torch
    for fact in ("shape", "values", "by_index", "flops", "carries"):
        assert getattr(found, fact) == getattr(built_in, fact)
    assert built_in.values is not None and built_in.module is found.module is None
    said = fairhand.register(replace(own, flops=7))
    assert (said.flops, said.values) == (7, built_in.values)


def test_spelling_facts_are_not_kept() -> None:
    """Whether the result is new memory, or a layer, hangs on how it is computed."""
    assert OPS["", "Relu"].fresh and OPS["", "MatMul"].module is not None
    relu, matmul = (
        fairhand.register(OpDef(name, 1, OPS["", name].mapping, torch=_refuses))
        for name in ("Relu", "MatMul")
    )
    assert not relu.fresh and matmul.module is None and matmul.shape is not None


def test_an_operator_stays_when_its_domain_loads_later() -> None:
    own = fairhand.register(OpDef("Turn", 1, SHUFFLE, domain="late", torch=_refuses))
    assert define(OpDef("Turn", 1, SHUFFLE, domain="late", flops=3)).flops == 3
    assert OPS["late", "Turn"].torch is own.torch
    define(built_in := OpDef("Other", 1, SHUFFLE, domain="late"))
    with pytest.raises(ValueError, match="Other is defined twice"):
        define(built_in)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_this_name", "failed: ModuleNotFoundError: No module named"),
        ("def broken(:", "failed: SyntaxError: "),
        ("raise SystemExit(0)", "failed: SystemExit: 0"),
        ("from fairhand import OpDef\nOpDef()", "failed: TypeError: "),
    ],
)
def test_files_of_operators_that_fail(
    text: str, message: str, tmp_path: Path, capfd: Capture
) -> None:
    (tmp_path / "ops.py").write_text(text)
    assert main(["inspect", str(CNN), "--ops", str(tmp_path / "ops.py")]) == 1
    printed, error = capfd.readouterr()
    assert error.startswith(f"error: {tmp_path / 'ops.py'} {message}") and not printed
    assert "hint: --ops takes a Python file that calls fairhand.register(" in error


def test_operands_of_an_own_operator_are_no_axes(tmp_path: Path) -> None:
    """Whatever it is called: 5 is no other writing of 1 to it, as it is of an axis."""
    own = OpDef(
        "ReduceBy", 1, fairhand.OPAQUE, lambda t, n, x, k: x * k, domain="my.ops"
    )
    fairhand.register(own)
    made = model(
        node("ReduceBy", "x five", "a"),
        node("ReduceBy", "x one", "b"),
        node("ReduceBy", "a b", "y"),
        inputs=(floats("x", 2, 4),),
        weights={"five": np.array([5]), "one": np.array([1])},
    )
    for each in made.graph.node:
        each.domain = "my.ops"
    made.opset_import.add(domain="my.ops", version=1)
    made.graph.output[0].CopyFrom(floats("y", 2, 4))
    fairhand.compile(made, tmp_path / "net", verify=False)
    x = np.ones((2, 4), np.float32)
    (y,) = imported(tmp_path / "net").Session().run(None, {"x": x})
    assert (y == 5).all()
