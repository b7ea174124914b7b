"""benchmarks/cpu.py: one model through all of it, and more runs that go on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.emitted import EXAMPLES

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "cpu.py"


@pytest.mark.slow
def test_it_measures_resumes_and_writes_the_page(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    results, page = tmp_path / "cpu.json", tmp_path / "performance.md"
    command = [sys.executable, SCRIPT, EXAMPLES / "digits_cnn.onnx", tmp_path]
    command += ["--threads", "1", "--seconds", "0.1"]
    command += ["--packages", tmp_path / "p", "--results", results, "--page", page]
    command += ["--no-verify", "--columns", "eager"]
    measured = []
    for columns, seen in (
        ([], "digits_cnn x1: eager "),
        (["onednn"], "digits_cnn x1: eager "),  # that alone is measured
        (["onednn"], ""),
    ):
        done = subprocess.run(
            [*map(str, command), *columns], capture_output=True, text=True, check=True
        )
        assert seen in done.stderr and bool(seen) == bool(done.stderr)
        rows = json.loads(results.read_text())["threads"]["1"]
        measured.append(rows["digits_cnn"]["package"])
    assert measured[0] == measured[1] == measured[2]
    assert rows["digits_cnn"]["package"]["error"] < 1e-5
    assert rows["digits_cnn"]["eager"]["ratio"] > 0
    assert "no engine 'onednn'" in rows["digits_cnn"]["failed"]["onednn"]
    assert "broken" in rows["broken"]
    text = page.read_text()
    assert "## 1 thread" in text and "| digits_cnn |" in text and "GFLOP/s" in text
    assert "broken: LoadError" in text
    assert "No onednn of digits_cnn: ValueError: no engine 'onednn'" in text
    picture = page.with_suffix(".svg")
    assert f"]({picture.name})" in text and ">digits_cnn<" in picture.read_text()


def test_the_table_says_where_a_rival_leads_and_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    import cpu_page

    def row(lead: float, **more: Any) -> dict[str, Any]:
        ours = {"ratio": 1.0, "low": 1.0, "high": 1.0, "error": 0, "first_s": 0.1}
        theirs = ours | {"ratio": 1 / lead, "lead": lead, "first_s": 20 * lead}
        row = {"engine": "onednn", "cpu": 1.0, "onnxruntime": {"ms": 1}, "failed": {}}
        return row | {"package": ours, "compile": theirs} | more

    rows = {"a": row(2.0), "b": row(0.98), "c": row(0.5)}
    rows["d"] = row(1) | {"failed": {"aoti": "too old."}}
    assert cpu_page.summary("compile", rows) == (
        "compile takes 0.99 of the package's time in the geometric mean. The package"
        " is ahead of it, or less than 3 % behind, on 3 of 4; not on c 0.50. First"
        " calls: 10 to 40 s."
    )
    assert cpu_page.summary("aoti", rows) == "No aoti of d: too old."
    lines = cpu_page.table(rows, ("eager", "compile", "aoti")).splitlines()
    assert "| model | compile | aoti |" in lines and "| a | 2.00 | - |" in lines
