"""benchmarks/cpu.py: one model through all of it, and a second run that goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from emitted import EXAMPLES

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "cpu.py"


def test_it_measures_resumes_and_writes_the_page(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    results, page = tmp_path / "cpu.json", tmp_path / "performance.md"
    command = [sys.executable, SCRIPT, EXAMPLES / "digits_cnn.onnx", tmp_path]
    command += ["--threads", "1", "--seconds", "0.1", "--columns", "eager", "onednn"]
    command += ["--packages", tmp_path / "p", "--results", results, "--page", page]
    command += ["--no-verify"]
    for seen in ("digits_cnn x1: eager ", ""):
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, check=True
        )
        assert seen in done.stderr and bool(seen) == bool(done.stderr)
    rows = json.loads(results.read_text())["threads"]["1"]
    assert rows["digits_cnn"]["package"]["error"] < 1e-5
    assert rows["digits_cnn"]["eager"]["ratio"] > 0
    assert "no engine 'onednn'" in rows["digits_cnn"]["failed"]["onednn"]
    assert "broken" in rows["broken"]
    text = page.read_text()
    assert "## 1 thread" in text and "| digits_cnn |" in text and "GFLOP/s" in text
    assert "broken: LoadError" in text
