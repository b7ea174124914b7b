"""What packages run on is the text of templates/runtime, definition by definition."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from fairhand.codegen.emit.engines_file import engines_text
from fairhand.codegen.ir.copied_source import (
    RUNTIME,
    combined,
    definition,
    import_lines,
    source_file,
)
from fairhand.codegen.ir.engine_plan import EnginePlan

FILES = sorted(path.relative_to(RUNTIME) for path in RUNTIME.rglob("*.py"))
GIVEN = {
    "CLOSE",
    "ENGINES",
    "FLOATS",
    "FOR_ALL",
    "INTEGER_LAYERS",
    "PACKED",
    "PRECISION",
}


@pytest.mark.parametrize("file", FILES, ids=str)
def test_each_file_is_a_module_of_this_tree(file: Path) -> None:
    if file.name == "for_transformers.py":
        pytest.importorskip("transformers", reason="transformers isn't installed")
    if file.name != "test_parity.py":  # which reads the report of its package
        name = ".".join(file.with_suffix("").parts)
        importlib.import_module(f"fairhand.templates.runtime.{name}")


@pytest.mark.parametrize("file", FILES, ids=str)
def test_nothing_at_the_top_of_a_file_is_left_out(file: Path) -> None:
    """What is neither imported nor defined, such as `TABLE |= more`, is copied nowhere:
    but for a module that some machines lack."""
    known = ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef
    for node in ast.parse((RUNTIME / file).read_text("utf-8")).body[1:]:
        absent = isinstance(node, ast.Try) and "ImportError" in ast.unparse(node)
        assert absent or isinstance(node, (*known, ast.Assign, ast.AnnAssign))


@pytest.mark.parametrize("precision", ["float32", "bf16", "int8"])
@pytest.mark.parametrize("refused", ["", "a reason"])
def test_engines_are_definitions_of_files(
    precision: str, refused: str, tmp_path: Path
) -> None:
    own = {
        each.text
        for file in (RUNTIME / "engines").rglob("*.py")
        for each in source_file(file).definitions.values()
    }
    cases = [
        ((), False, False),
        (("nn.Linear", "nn.LSTM"), True, False),
        (("PackedLinear",), True, True),
    ]
    for layers, joins, caches in cases:
        text = engines_text(
            EnginePlan(
                "eager",
                refused,
                False,
                precision=precision,
                layers=layers,
                joins=joins,
                caches=caches and bool(refused),
            )
        )
        path = tmp_path / f"{len(layers)}.py"
        path.write_text(text)
        found = source_file(path).definitions
        assert "make_engine" in found and "ENGINES" in found
        for name, each in found.items():
            assert name in GIVEN or each.text in own, name
            assert definition(each.text).reads == each.reads


def test_a_class_that_extends_the_one_of_its_name_is_put_together(
    tmp_path: Path,
) -> None:
    (tmp_path / "plain.py").write_text('''class A:
    """Plain."""

    size: int
    place: int

    def one(self):
        return 1

    def two(self):
        return helper()


def helper():
    return 2
''')
    (tmp_path / "more.py").write_text('''from . import plain


class A(plain.A):
    """More."""

    used: int

    def one(self):
        return 3

    def four(self):
        return 4
''')
    files = [source_file(tmp_path / name) for name in ("plain.py", "more.py")]
    space = combined(files)
    assert space["A"].text == '''class A:
    """More."""

    size: int
    place: int
    used: int

    def one(self):
        return 3

    def two(self):
        return helper()

    def four(self):
        return 4'''
    assert space["A"].reads == ("helper",)


def test_imports_stand_as_isort_has_them() -> None:
    names = {
        "nn": ("torch", "nn"),
        "load": (".model", "load"),
        "F": ("torch.nn.functional", ""),
        "WEIGHTS": (".model", "WEIGHTS"),
        "math": ("math", ""),
        "Tensor": ("torch", "Tensor"),
        "Any": ("typing", "Any"),
    }
    assert import_lines(names) == [
        "import math",
        "from typing import Any",
        "",
        "import torch.nn.functional as F",
        "from torch import Tensor, nn",
        "",
        "from .model import WEIGHTS, load",
    ]
