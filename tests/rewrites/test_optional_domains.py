"""What is of other domains than ai.onnx loads when a model has it, and not before;
PyTorch, which takes seconds, not at all where a package is only written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx

OPTIONAL = tuple(
    f"fairhand.{layer}.{package}"
    for layer in ("analysis.ops", "rewrites.lowering")
    for package in ("contrib", "ml", "search", "training")
)
CODE = """
import sys, fairhand
for model in sys.argv[1:]:
    fairhand.compile(model, model[:-5], verify=False)
    assert "torch" not in sys.modules
    print(*(name for name in sys.modules if name.startswith("fairhand.")))
"""
SIZES = "(float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)"
# Shrink is a function that is copied from a file that imports PyTorch.
NODES = {
    "": "h = Conv(x, w) y = Shrink<bias = 0.25>(h)",
    "contrib": "y = com.microsoft.QuickGelu(x)",
    "ml": "y = ai.onnx.ml.Binarizer(x)",
}


def test_a_domain_loads_when_a_model_has_it(tmp_path: Path) -> None:
    """Three models compiled in one process, the first of ai.onnx alone."""
    models = []
    for number, nodes in enumerate(NODES.values()):
        model = onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["": 20, "com.microsoft": 1,'
            '"ai.onnx.ml": 4]>'
            f"net {SIZES} <float[2, 2, 1, 1] w = {{1, 2, 3, 4}}> {{{nodes}}}"
        )
        models.append(tmp_path / f"{number}.onnx")
        onnx.save(model, models[-1])
    kept = os.environ | {"FAIRHAND_CACHE": str(tmp_path / "cache")}
    arguments = [sys.executable, "-c", CODE, *models]
    done = subprocess.run(arguments, check=True, stdout=-1, text=True, env=kept)
    known: set[str] = set()
    for package, line in zip(NODES, done.stdout.splitlines(), strict=True):
        names = [name for name in line.split() if name.startswith(OPTIONAL)]
        found = {".".join(name.split(".")[2:4]) for name in names}
        expected = {f"{kind}.{package}" for kind in ("ops", "lowering") if package}
        known |= expected
        assert found == known


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
