"""What ONNX Runtime is given of a model to compare with."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console

import fairhand
from fairhand.codegen.commands.bench import bench
from fairhand.codegen.load.read_model import load
from fairhand.codegen.verify.parity import verify

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
adder (float[N, 4] x) => (float[N, 4] y)
<float[4] w = {1, 2, 3, 4}>
{ y = Add(x, w) }"""


def test_a_model_in_textual_syntax(tmp_path: Path) -> None:
    path = tmp_path / "adder.onnxtxt"
    path.write_text(TEXT)
    package = fairhand.compile(path, tmp_path / "out", cache=False)
    assert package.report["verification"]["worst_relative_error"] == 0
    assert verify(package.path, load(path)).worst == 0
    printed = StringIO()
    bench(package.path, path, 1, None, Console(file=printed))
    assert "ratio to onnxruntime" in printed.getvalue()
    own = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "out"]
    ran = subprocess.run(own, cwd=tmp_path, capture_output=True, text=True)
    assert "passed" in ran.stdout and ran.returncode == 0, ran.stdout
