"""The house keeps its order: imports, sizes, and where what may be said.

The order of imports is the table in docs/architecture.md, read from there.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import networkx as nx
import pytest

ROOT = Path(__file__).parents[2]
FILE_LINES, FUNCTION_LINES, FOLDER_FILES = 700, 60, 15
# Of operators of ONNX: elsewhere than in analysis/ops and rewrites/rules.
NAMED_OPERATORS = 8
PAGE_LINES, PAGES, PAGE_CONDITIONS = 60, 5, 12
CORE_LINES, ALL_LINES = 45_000, 62_000
PRODUCT = ("analysis", "rewrites", "codegen", "templates")
OPTIONAL = (
    "analysis/ops/contrib",
    "analysis/ops/ml",
    "analysis/ops/search",
    "analysis/ops/training",
    "rewrites/lowering",
)
# Subjects whose members are listed one by one: a family, a mode, a law per file.
WIDE = re.compile(r"analysis/ops/|rewrites/rules")
# What shows that a text is Python: brackets, operators between spaces, a keyword at the
# start, and the names that emitted code begins with. File names, messages and names in
# an ONNX file have none of them.
CODE = re.compile(
    r"[()\[\]]|(?:^| )[-+*/@<>=|]+ |^(?:if|for|while|return|def|class) "
    r"|^(?:self|torch|nn|F|tl|np|math)\.$"
)
EMITTED = {"torch", "numpy", "safetensors", "triton", *sys.stdlib_module_names}
EMITTED_TESTS = EMITTED | {"pytest", "onnxruntime"}
# What isn't mended yet, by test: a line goes when its fault does, and none is added.
GAPS: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("house_gaps.json").read_text("utf-8")
)


def product_files() -> list[PurePosixPath]:
    return [
        PurePosixPath(file.relative_to(ROOT).as_posix())
        for top in PRODUCT
        for file in sorted((ROOT / top).rglob("*.py"))
    ]


FILES = product_files()
SOURCES = sorted(
    PurePosixPath(file.relative_to(ROOT).as_posix())
    for file in (ROOT / "generated").rglob("*.py")
)


@cache
def tree(path: PurePosixPath) -> ast.Module:
    return ast.parse((ROOT / path).read_text("utf-8"))


def settle(test: str, faults: set[str]) -> None:
    """No fault but the known ones, and those are still there."""
    known = set(GAPS.get(test, []))
    assert sorted(faults - known) == []
    assert sorted(known - faults) == [], "mended: take it out of house_gaps.json"


# ---- imports


def order() -> dict[str, int]:
    """Folder -> its place in the table of docs/architecture.md."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    section = page.split("## Order of imports")[1].split("\n## ")[0]
    folders = re.findall(r"^\| `([a-z_/]+)/` \|", section, re.M)
    return {folder: place for place, folder in enumerate(folders)}


def imported(
    path: PurePosixPath, node: ast.Import | ast.ImportFrom
) -> Iterator[PurePosixPath | str]:
    """The files of the product that a statement imports; else the names it has."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    if node.level == 0:
        yield str(node.module)
        return
    folder = path.parts[:-1]
    base = folder[: len(folder) - node.level + 1]
    base += tuple(node.module.split(".")) if node.module else ()
    for alias in node.names:
        for parts in ((*base, alias.name), base, (*base, "__init__")):
            file = PurePosixPath("/".join(parts) + ".py")
            if (ROOT / file).is_file():
                yield file
                break
        else:
            yield ".".join([*base, alias.name])


def statements(tree: ast.AST) -> Iterator[tuple[Any, bool, bool]]:
    """(import, inside a function?, for types alone?)"""

    def visit(node: ast.AST, late: bool, typing: bool) -> Iterator[Any]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, late, typing
        late = late or isinstance(node, ast.FunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            yield from visit(child, late, typing or only)

    yield from visit(tree, False, False)


def edges() -> Iterator[tuple[PurePosixPath, PurePosixPath, bool, bool]]:
    """(file, file it imports, inside a function?, for types alone?)"""
    for path in FILES:
        for node, late, typing in statements(tree(path)):
            for found in imported(path, node):
                if isinstance(found, PurePosixPath):
                    yield path, found, late, typing


def test_every_folder_stands_in_the_order() -> None:
    folders = {str(p.parent) for p in FILES} - {"analysis", "templates"}
    assert folders - order().keys() - {"templates/runtime"} == set()
    assert {f for f in order() if not (ROOT / f).is_dir()} == set()


def test_nothing_is_imported_upward() -> None:
    place = {"analysis": -1, **order()}
    faults = {
        f"{path} imports {found}"
        for path, found, _, _ in edges()
        if found.name != "__init__.py" or str(found.parent) in place
        if place[str(found.parent)] > place[str(path.parent)]
    }
    settle("upward", faults)


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = nx.DiGraph(
        (str(a), str(b)) for a, b, _, typing in edges() if not typing and a != b
    )
    groups = nx.strongly_connected_components(graph)
    circles = {" ".join(sorted(group)) for group in groups if len(group) > 1}
    settle("circles", circles)


def test_imports_stand_at_the_top_of_their_file() -> None:
    """But for helpers, which are copied one by one and bring what they import."""
    faults = {
        f"{path} {ast.unparse(node)}"
        for path in FILES
        if str(path.parent) != "analysis/ops/helpers"
        for node, late, _ in statements(tree(path))
        if late
    }
    settle("late", faults)


def test_imports_of_the_product_are_relative() -> None:
    tops = {"fairhand", *PRODUCT}
    assert {
        (str(path), name)
        for path in FILES
        for node, _, _ in statements(tree(path))
        for name in imported(path, node)
        if isinstance(name, str)
        and name.partition(".")[0] in tops
        and not (isinstance(node, ast.ImportFrom) and node.level)
    } == set()


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_emitted_code_stands_alone(path: PurePosixPath) -> None:
    allowed = EMITTED_TESTS if path.name.startswith("test_") else EMITTED
    if path.name == "for_transformers.py":  # which is for who has it
        allowed = allowed | {"transformers"}
    for node, _, _ in statements(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.level == 1, ast.unparse(node)
            continue
        for name in imported(path, node):
            assert str(name).partition(".")[0] in allowed, ast.unparse(node)


# ---- sizes


def test_files_and_functions_are_of_a_size_to_read() -> None:
    faults = set()
    for path in FILES:
        if (lines := len((ROOT / path).read_text("utf-8").splitlines())) > FILE_LINES:
            faults.add(f"{path} has {lines} lines")
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    faults.add(f"{path} {node.name} has {lines} lines")
    settle("long", faults)


def test_folders_are_of_a_size_to_see() -> None:
    count: dict[str, int] = {}
    for path in FILES:
        if path.name != "__init__.py":
            count[str(path.parent)] = count.get(str(path.parent), 0) + 1
    faults = {
        f"{folder} has {number} files"
        for folder, number in count.items()
        if number > FOLDER_FILES and not WIDE.match(folder)
    }
    settle("wide", faults)


def lines_of(paths: list[PurePosixPath]) -> int:
    return sum(len((ROOT / p).read_text("utf-8").splitlines()) for p in paths)


def test_the_product_keeps_to_its_budget() -> None:
    core = [p for p in FILES if not str(p).startswith(OPTIONAL)]
    faults = set()
    for what, paths, most in ("core", core, CORE_LINES), ("whole", FILES, ALL_LINES):
        # To the next thousand: what is over the budget may shrink, and not grow again.
        if (lines := lines_of(paths)) > most:
            faults.add(f"{what}: {-(-lines // 1000) * 1000} lines")
    settle("lines", faults)


def test_templates_lay_out_pages_and_decide_little() -> None:
    pages = sorted((ROOT / "templates").glob("*.jinja"))
    faults = {f"{len(pages)} pages"} if len(pages) > PAGES else set()
    conditions = 0
    for page in pages:
        text = page.read_text("utf-8")
        conditions += len(re.findall(r"\{%-?\s*(?:el)?if\b", text))
        if (lines := len(text.splitlines())) > PAGE_LINES:
            faults.add(f"{page.name} has {lines} lines")
    if conditions > PAGE_CONDITIONS:
        faults.add(f"{conditions} conditions")
    settle("templates", faults)


# ---- where what is said


@cache
def operators() -> frozenset[str]:
    """All operators that onnx knows, but for words that mean other things in code."""
    import onnx.defs

    names = {schema.name for schema in onnx.defs.get_all_schemas()}
    return frozenset(names - {"Not", "And", "Or", "If", "Optional", "Constant"})


def test_operators_are_named_where_their_facts_stand() -> None:
    faults = set()
    for path in FILES:
        if str(path).startswith(("analysis/ops", "rewrites")):
            continue
        strings = {
            word
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and "\n\n" not in node.value
            for word in re.findall(r"\w+", node.value)
        }
        named = strings & operators()
        if len(named) > NAMED_OPERATORS:
            faults.add(f"{path} names {len(named)} operators")
    settle("operators", faults)


def test_nothing_is_decided_by_what_was_written() -> None:
    """Questions are put to the structure of an expression, never to its text."""
    faults = set()
    for path in FILES:
        if path.parts[0] != "codegen":
            continue
        for node in ast.walk(tree(path)):
            probe = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in ("startswith", "endswith") and node.args:
                    probe = node.args[0]
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
                probe = node.left
            text = probe.value if isinstance(probe, ast.Constant) else None
            if isinstance(text, str) and CODE.search(text) and text[1:]:
                faults.add(f"{path} {ast.unparse(node)}")
    settle("probes", faults)


def test_public_methods_say_what_they_do() -> None:
    """Each has a docstring, or a method of that name in a class that it extends has."""
    classes: dict[str, list[ast.ClassDef]] = {}
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(node)

    def said(owner: ast.ClassDef, name: str) -> bool:
        bases = [ast.unparse(base).rpartition(".")[2] for base in owner.bases]
        return any(
            isinstance(part, ast.FunctionDef)
            and part.name == name
            and ast.get_docstring(part)
            for part in owner.body
        ) or any(said(found, name) for b in bases for found in classes.get(b, []))

    faults = set()
    for path in FILES:
        if str(path).startswith(("templates/runtime", "analysis/ops/helpers")):
            continue  # what is copied into packages says as much as their users need
        public = [n for n in tree(path).body if isinstance(n, ast.ClassDef)]
        silent = [
            part.name
            for owner in public
            for part in owner.body
            if isinstance(part, ast.FunctionDef)
            and part.name[0] != "_" != owner.name[0]
            if not said(owner, part.name)
        ]
        if silent:
            faults.add(f"{path}: {len(silent)} methods")
    settle("docstrings", faults)


def test_compiling_loads_no_pytorch() -> None:
    """It takes longer than most compilations; only verification's process needs it."""
    code = "import sys, fairhand; fairhand.compile; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_package_is_in_the_wheel() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text("utf-8")
    packages = {path.parent for path in FILES}
    dotted = {f'"fairhand.{".".join(package.parts)}",' for package in packages}
    assert {name for name in dotted if name not in pyproject} == set()
