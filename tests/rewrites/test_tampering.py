"""A trusted file that was changed is another prover: CI fails, compile warns.

pytest -m slow tests/rewrites/test_tampering.py     each file, changed in a copy
"""

from __future__ import annotations

import ast
import copy
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.drawn import some

from fairhand.rewrites.certificate import proof_store
from fairhand.rewrites.certificate.proof_store import REWRITES, trusted_files

ROOT = REWRITES.parent
FILES = {
    str(path.relative_to(REWRITES)): path
    for path in trusted_files()
    if path.name != "__init__.py"  # of docstrings
}
OPPOSITE = {
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt},
    **{ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In},
}
NAMED = {
    "forall is always true": (
        "engine/bindings.py",
        "        if found is False:",
        "        if found is None:",
    ),
    "a swapped comparison": ("language/terms.py", '"less", self', '"less_equal", self'),
    "a dropped precondition": (
        "engine/match.py",
        "if not decided(condition, binding):",
        "if False:",
    ),
}


def _comparison(node: ast.AST) -> bool:
    """Turn a comparison round."""
    if not isinstance(node, ast.Compare) or type(node.ops[0]) not in OPPOSITE:
        return False
    node.ops = [OPPOSITE[type(node.ops[0])](), *node.ops[1:]]
    return True


def _condition(node: ast.AST) -> bool:
    """Drop the last of several conditions, or turn what is asked by an if."""
    if isinstance(node, ast.BoolOp):
        node.values = node.values[:-1]
    elif isinstance(node, ast.If):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    else:
        return False
    return True


def _answer(node: ast.AST) -> bool:
    """Return True, whatever was found."""
    if not isinstance(node, ast.Return) or node.value is None:
        return False
    is_true = isinstance(node.value, ast.Constant) and node.value.value is True
    node.value = ast.Constant(not is_true)
    return True


def _operand(node: ast.AST) -> bool:
    """Leave the last argument of a call out."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    node.args = node.args[:-1]
    return True


CHANGES = (_comparison, _condition, _answer, _operand)


def changed(source: str, first: int = 0) -> str:
    """The file with one thing changed, at a place that the length of the file draws: by
    the first of the changes, from that one on, that has a place there."""
    nodes = [*ast.walk(ast.parse(source))]
    for change in (*CHANGES[first:], *CHANGES[:first]):
        places = [k for k, node in enumerate(nodes) if change(copy.copy(node))]
        if places:
            tree = ast.parse(source)
            change([*ast.walk(tree)][places[len(source) % len(places)]])
            return ast.unparse(tree)
    raise AssertionError("there is nothing to change")


@pytest.mark.parametrize("name", some(FILES, 12))
def test_each_trusted_file_counts_with_all_its_code(name: str) -> None:
    source = FILES[name].read_text("utf-8")
    code = proof_store._code(source)
    for first in range(len(CHANGES)):
        assert proof_store._code(changed(source, first)) != code


def test_the_kernel_is_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, read, file = (
        proof_store.kernel_hash(),
        Path.read_text,
        [*FILES.values()][-1],
    )

    def other(self: Path, **more: str) -> str:
        source = read(self, **more)
        return changed(source) if self == file else source

    monkeypatch.setattr(Path, "read_text", other)
    assert proof_store.kernel_hash.__wrapped__() != kernel


def copied(folder: Path) -> Path:
    """A copy of fairhand whose rewrites may be changed; the rest are links."""
    made = folder / "fairhand"
    made.mkdir()
    for path in ROOT.iterdir():
        if path.name == "rewrites":
            shutil.copytree(path, made / path.name)
        elif path.suffix == ".py" or path.name in ("analysis", "codegen", "templates"):
            (made / path.name).symlink_to(path)
    return made


def run(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(copy.parent), "FAIRHAND_CACHE": ""}
    return subprocess.run(
        [sys.executable, "-m", "fairhand", *arguments],
        cwd=copy.parent,
        env=environment,
        capture_output=True,
        text=True,
    )


def check_that_it_shows(copy: Path) -> None:
    """CI's command fails; compile fails or says that laws were left out."""
    proved = run(copy, "prove", "--check", "relu_of_relu")
    assert proved.returncode != 0
    model = str(ROOT / "examples" / "digits_cnn.onnx")
    done = run(copy, "compile", model, "-o", "out/digits", "--no-verify")
    assert done.returncode != 0 or "not applied: " in done.stderr


def test_an_unchanged_copy_is_accepted(tmp_path: Path) -> None:
    copy = copied(tmp_path)
    done = run(copy, "prove", "--check", "relu_of_relu")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("attack", [min(NAMED), *some(sorted(NAMED)[1:], 4)])
def test_tampering_shows(attack: str, tmp_path: Path) -> None:
    file, old, new = NAMED[attack]
    copy = copied(tmp_path)
    path = copy / "rewrites" / file
    source = path.read_text("utf-8")
    assert old in source
    path.write_text(source.replace(old, new), "utf-8")
    check_that_it_shows(copy)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_each_trusted_file_changed_in_a_copy_shows(name: str, tmp_path: Path) -> None:
    copy = copied(tmp_path)
    path = copy / "rewrites" / name
    first = [*FILES].index(name) % len(CHANGES)
    path.write_text(changed(path.read_text("utf-8"), first), "utf-8")
    check_that_it_shows(copy)
