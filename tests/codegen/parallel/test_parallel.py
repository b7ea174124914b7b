"""parallel.py on processes of this machine, and the plans that are refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairhand import compile
from fairhand.analysis.errors import FairhandError, VerificationError
from fairhand.codegen.parallel.rehearse import rehearse

TRANSFORMER = Path(__file__).parents[3] / "examples" / "digits_transformer.onnx"


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transformer on two devices that share its layers; compile() ran them."""
    folder = tmp_path_factory.mktemp("cut") / "digits"
    package = compile(TRANSFORMER, folder, parallel="tp=2", cache=False)
    found = package.report["parallel"]
    assert found["check"].startswith("worst relative error")
    assert found["exchanges"] == {"all_reduce": 4}
    assert max(found["bytes"]) < package.report["weights_bytes"]
    return folder


def test_a_plan_is_data_and_model_py_needs_no_edit(cut: Path, tmp_path: Path) -> None:
    text = (cut / "parallel.py").read_text()
    assert 60 <= text.count("\n") <= 130
    assert '("columns", 1)' in text and '("rows", 1)' in text
    compile(TRANSFORMER, tmp_path / "plain", verify=False)
    plain = (tmp_path / "plain" / "model.py").read_text()
    assert (cut / "model.py").read_text() == plain


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('("rows", 1)', '("gathered", 1)'),  # a missing sum
        ('("columns", 1)', '("gathered", 1)'),  # a gather more
        ("HELD = [", "HELD = [1"),
    ],
)
@pytest.mark.slow
def test_a_plan_that_was_changed_is_refused(
    cut: Path, tmp_path: Path, old: str, new: str
) -> None:
    for file in cut.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    text = (tmp_path / "parallel.py").read_text()
    (tmp_path / "parallel.py").write_text(text.replace(old, new))
    with pytest.raises(VerificationError, match="doesn't run as planned"):
        rehearse(tmp_path, 2)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("tp=7", "its layers can't be cut into 7; tp may be 2, 4"),
        ("pp=99", "pp may be up to"),
        ("tp=x", "is no degree"),
    ],
)
def test_wrong_degrees_are_refused_with_those_that_are_possible(
    tmp_path: Path, wanted: str, said: str
) -> None:
    with pytest.raises(FairhandError, match=said):
        compile(TRANSFORMER, tmp_path / "p", parallel=wanted, verify=False)
    assert not (tmp_path / "p").exists()


@pytest.mark.slow
def test_a_mesh_of_another_size_is_one_error(cut: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import digits.parallel as p;"
    run = subprocess.run(
        [sys.executable, "-c", code + "p.make_mesh()", str(cut.parent)],
        capture_output=True,
        text=True,
    )
    assert (
        "ValueError: the plan is for 2 devices, {'tp': 2}, and not for 1" in run.stderr
    )


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["pp=2", "dp=2", "dp=2,tp=2", "pp=2,tp=2", "4"])
def test_other_meshes_run_too(tmp_path: Path, wanted: str) -> None:
    report = compile(TRANSFORMER, tmp_path / "p", parallel=wanted, cache=False).report
    assert report["parallel"]["check"].startswith("worst relative error")
    if wanted == "pp=2":
        assert "error 0.0e+00" in report["parallel"]["check"]
