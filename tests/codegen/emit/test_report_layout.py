"""How report.json is laid out, and how often that is done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.networks import residual

import fairhand
from fairhand.codegen import pipeline
from fairhand.codegen.emit import package_files
from fairhand.codegen.emit.package_files import _laid_out, write_report


def test_each_part_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    value: Any = [1, 2]
    for depth in range(30):
        value = {"inner": [value, depth], "beside": "x" * 90}
    written: list[str] = []
    encode = json.dumps
    monkeypatch.setattr(
        package_files.json,
        "dumps",
        lambda *given, **how: written.append(encode(*given, **how)) or written[-1],
    )
    text = _laid_out(value, "")
    assert json.loads(text) == value
    assert sum(map(len, written)) < len(text)


def test_what_has_room_on_one_line_stands_there() -> None:
    value = {"a": [1, {"b": None}], "c": ["x" * 50, "y" * 40, [3]], "d": {}}
    assert _laid_out(value, "").split("\n") == [
        "{",
        ' "a": [1, {"b": null}],',
        ' "c": [',
        f'  "{"x" * 50}",',
        f'  "{"y" * 40}", [3]',
        " ],",
        ' "d": {}',
        "}",
    ]


def test_a_report_is_written_for_the_check_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []

    def note(folder: Path, report: dict[str, Any]) -> None:
        written.append(folder)
        write_report(folder, report)

    for module in (pipeline, package_files):
        monkeypatch.setattr(module, "write_report", note)
    fairhand.compile(residual(), tmp_path / "net", verify=False)
    assert len(written) == 2
