"""What ONNX Runtime is given of a model to compare with."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import onnx
import pytest
from rich.console import Console

import fairhand
from fairhand.analysis.oracle.process import Limits
from fairhand.codegen.commands.bench import bench
from fairhand.codegen.load.read_model import load
from fairhand.codegen.verify import parity
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


def test_too_little_memory_is_no_fault_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PyTorch and the system say it, not Python: of one array of 4 GB."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        wide (int64[2] size, float[1] x) => (float[a,b] y) { y = Expand(x, size) }""")
    package = fairhand.compile(model, tmp_path / "out", verify=False, cache=False)
    monkeypatch.setattr(parity, "_limits", lambda: Limits(60, 1 << 30))
    feed = {"size": np.array([1 << 15] * 2), "x": np.ones(1, np.float32)}
    with pytest.raises(parity.OutOfMemory, match="too little memory is free"):
        parity.run_package(package.path, [feed], "eager")
