"""Scripts that few runs import: what they take of fairhand is there."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
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


def test_the_tests_have_one_order() -> None:
    """A table in the order of a set is another one in each worker of pytest-xdist."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0", "-m", ""]
    processes = [
        subprocess.Popen(
            [*command, "-p", "no:cacheprovider"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    first, second = (
        [line for line in process.communicate()[0].splitlines() if "::" in line]
        for process in processes
    )
    assert first and first == second
