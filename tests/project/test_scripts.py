"""Scripts that few runs import: what they take of fairhand is there."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = [
    path.relative_to(ROOT).as_posix()
    for folder in ("benchmarks", "tests/tools", "docs")
    for path in sorted((ROOT / folder).glob("*.py"))
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_imports_of_scripts_exist(script: str) -> None:
    tree = ast.parse((ROOT / script).read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "fairhand"
        ):
            module = import_module(node.module or "")
            for alias in node.names:
                if not hasattr(module, alias.name):
                    import_module(f"{node.module}.{alias.name}")
