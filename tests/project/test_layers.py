"""Imports point one way, analysis <- rewrites <- codegen, and files stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
FILE_LINES, FUNCTION_LINES = 700, 60
LAYERS = {
    "analysis": {"analysis"},
    "rewrites": {"analysis", "rewrites"},
    "codegen": {"analysis", "rewrites", "codegen", "__version__"},
    "templates": set(),
}
EMITTED = {"torch", "numpy", "safetensors", "triton", *sys.stdlib_module_names}
EMITTED_TESTS = EMITTED | {"pytest", "onnxruntime"}


def imports(tree: ast.AST, folder: tuple[str, ...]) -> Iterator[tuple[bool, str]]:
    """(relative?, dotted name from the root, or from the environment), one per name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((False, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield False, str(node.module)
        elif isinstance(node, ast.ImportFrom):
            up = node.level - 1
            base = folder[: len(folder) - up] if up <= len(folder) else ("outside",)
            base += tuple(node.module.split(".")) if node.module else ()
            yield from ((True, ".".join([*base, a.name])) for a in node.names)


def import_faults(tree: ast.AST, path: PurePosixPath) -> Iterator[str]:
    layer, folder = path.parts[0], path.parts[:-1]
    allowed = EMITTED_TESTS if path.name.startswith("test_") else EMITTED
    for relative, name in imports(tree, folder):
        top = name.partition(".")[0]
        if layer == "generated":
            own = ".".join(folder[:2]) + "."
            if not name.startswith(own) if relative else top not in allowed:
                yield f"emitted code imports {name}"
        elif relative and top not in LAYERS[layer]:
            yield f"{layer} imports {name}"
        elif not relative and top in {"fairhand", *LAYERS}:
            yield f"{name} is not imported relatively"


def size_faults(source: str, tree: ast.AST) -> Iterator[str]:
    if (lines := source.count("\n")) > FILE_LINES:
        yield f"{lines} lines in a file"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"{lines} lines in {node.name}"


def faults(source: str, path: PurePosixPath) -> list[str]:
    tree = ast.parse(source)
    sizes = [] if path.parts[0] == "generated" else size_faults(source, tree)
    return [*import_faults(tree, path), *sizes]


FILES = [
    PurePosixPath(file.relative_to(ROOT).as_posix())
    for top in [*LAYERS, "generated"]
    for file in sorted((ROOT / top).rglob("*.py"))
]


@pytest.mark.parametrize("path", FILES, ids=str)
def test_file_keeps_to_layers_and_sizes(path: PurePosixPath) -> None:
    assert faults((ROOT / path).read_text("utf-8"), path) == []


@pytest.mark.parametrize(
    ("path", "source", "fault"),
    [
        ("analysis/a.py", "from ..rewrites import x", "analysis imports rewrites.x"),
        ("analysis/ops/a.py", "from ...codegen import x", "analysis imports codegen.x"),
        ("analysis/a.py", "from .. import rewrites", "analysis imports rewrites"),
        ("rewrites/a.py", "if x:\n from .. import codegen", "rewrites imports codegen"),
        ("codegen/a.py", "from ..templates import x", "codegen imports templates.x"),
        ("codegen/a.py", "from ... import x", "codegen imports outside.x"),
        ("codegen/a.py", "import analysis.b", "analysis.b is not imported relatively"),
        ("codegen/a.py", "import fairhand", "fairhand is not imported relatively"),
        ("codegen/a.py", "x = 1\n" * 701, "701 lines in a file"),
        ("codegen/a.py", "def f():\n" + "    x = 1\n" * 60, "61 lines in f"),
        ("generated/m/model.py", "import onnx", "emitted code imports onnx"),
        ("generated/m/model.py", "import pytest", "emitted code imports pytest"),
        ("generated/m/a.py", "from ..n import x", "emitted code imports generated.n.x"),
        ("codegen/a.py", "from .. import __version__\nfrom ..rewrites import x", None),
        ("generated/m/model.py", "import math, torch\nfrom .kernels import x", None),
        ("generated/m/test_parity.py", "import pytest\nfrom . import Session", None),
    ],
)  # fmt: skip
def test_checker_finds_the_fault(path: str, source: str, fault: str | None) -> None:
    assert faults(source, PurePosixPath(path)) == ([fault] if fault else [])


def test_every_package_is_in_the_wheel() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text("utf-8")
    packages = {path.parent for path in FILES if path.parts[0] in LAYERS}
    dotted = {f'"fairhand.{".".join(package.parts)}",' for package in packages}
    assert {name for name in dotted if name not in pyproject} == set()


def test_compiling_loads_no_pytorch() -> None:
    """It takes longer than most compilations; only verification's process needs it."""
    code = "import sys, fairhand; fairhand.compile; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
