"""What is of other domains than ai.onnx loads when a model has it, and not before;
PyTorch, which takes seconds, not at all where a package is only written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

OPTIONAL = tuple(
    f"fairhand.{layer}.{package}"
    for layer in ("analysis.ops", "rewrites.lowering")
    for package in ("contrib", "ml", "search", "training")
)
CODE = """
import sys, fairhand
fairhand.compile(sys.argv[1], sys.argv[2], verify=False)
assert "torch" not in sys.modules
print(*(name for name in sys.modules if name.startswith("fairhand.")))
"""
SIZES = "(float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)"


def loaded(folder: Path, nodes: str) -> set[str]:
    """The packages of other domains that compiling a model loads, in a process."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 20, "com.microsoft": 1, "ai.onnx.ml": 4]>'
        f"net {SIZES} <float[2, 2, 1, 1] w = {{1, 2, 3, 4}}> {{{nodes}}}"
    )
    onnx.save(model, folder / "net.onnx")
    arguments = [sys.executable, "-c", CODE, folder / "net.onnx", folder / "net"]
    kept = os.environ | {"FAIRHAND_CACHE": str(folder / "cache")}
    done = subprocess.run(arguments, check=True, stdout=-1, text=True, env=kept)
    names = [name for name in done.stdout.split() if name.startswith(OPTIONAL)]
    return {".".join(name.split(".")[2:4]) for name in names}


@pytest.mark.parametrize(
    "nodes, packages",
    [
        # Shrink is a function that is copied from a file that imports PyTorch.
        ("h = Conv(x, w) y = Shrink<bias = 0.25>(h)", []),
        ("y = com.microsoft.QuickGelu(x)", ["contrib"]),
        ("y = ai.onnx.ml.Binarizer(x)", ["ml"]),
    ],
    ids=["core", "com.microsoft", "ai.onnx.ml"],
)
def test_a_domain_loads_when_a_model_has_it(
    tmp_path: Path, nodes: str, packages: list[str]
) -> None:
    expected = {f"{kind}.{name}" for name in packages for kind in ("ops", "lowering")}
    assert loaded(tmp_path, nodes) == expected


def test_what_is_of_onnx_loads_by_its_name() -> None:
    """CountVectorizer alone is a TfIdfVectorizer, which was not known then."""
    code = """
from fairhand.analysis import ops
from fairhand.analysis.ops.registry import OPS
from fairhand.rewrites import lowering
core = set(OPS)
lowering.load_all()
late = {key for key in OPS if not key[0]} - core
assert late and late <= set(lowering._OPERATORS), late
"""
    subprocess.run([sys.executable, "-c", code], check=True)
