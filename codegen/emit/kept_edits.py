"""What a user changed in a package is kept when the package is written anew.

The report has the hash of each file as it was written, and the text of model.py. So it
shows which files were edited since, and three ways to merge: where fairhand would write
the same as before, the edit stays as it is; model.py is merged by `git merge-file`; for
all else the compile ends, and nothing is replaced.
"""

from __future__ import annotations

import ast
import dis
import subprocess
from difflib import SequenceMatcher
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType
from typing import Any

from ...analysis.errors import FairhandError
from .package_files import (
    PROVENANCE,
    SOURCES,
    WEIGHTS,
    file_hashes,
    in_lines,
    is_package,
    read_report,
)
from .shared_runtime import shared_files

MODEL = "model.py"
STORED = (  # what load() expects, in an error where it finds something else
    f"{WEIGHTS} has to hold what {MODEL} builds, and no more: save the state_dict of"
    " the changed network there, with the metadata it has; or change the module that"
    " load() gives, and export that"
)
_MOST_PLACES = 5  # that a message names
_READS, _MAKES = {"LOAD_GLOBAL", "LOAD_NAME"}, {"STORE_GLOBAL", "STORE_NAME"}
_CHANGED = "was edited by hand, and what fairhand writes there has changed too"


def edited_files(folder: Path, report: dict[str, Any] | None = None) -> list[str]:
    """Files of a package that are not as they were written; none that are gone.

    Raises FairhandError for what is no package.
    """
    report = read_report(folder) if report is None else report
    written = dict(report.get("files", {}))
    if not written and "source_map" in report:  # of a version that noted no others
        written[MODEL] = report["source_map"]["sha256"]
    names = {*SOURCES, *shared_files(report), WEIGHTS}  # anybody may write a report
    now = file_hashes(folder, [name for name in written if name in names])
    return [name for name, digest in now.items() if digest != written[name]]


def edited_places(folder: Path) -> str:
    """The files of a package that were edited, and lines of model.py; "" for none."""
    report = read_report(folder)
    base = report.get("source_map", {}).get("text")
    places = []
    for name in edited_files(folder, report):
        content = (folder / name).read_bytes()
        if name == MODEL and base is not None and _is_text(content):
            name += _edited_lines(base, content.decode("utf-8"))
        places.append(name)
    return "; ".join(places)


def _edited_lines(base: str, now: str) -> str:
    """The first few of the lines that are others, or that some are gone before."""
    old, new = base.splitlines(), now.splitlines()
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    spans = [(a + 1, max(a + 1, b)) for kind, _, _, a, b in blocks if kind != "equal"]
    lines = [str(a) if a == b else f"{a} to {b}" for a, b in spans]
    more = ", ..." if len(lines) > _MOST_PLACES else ""
    where = f", line {', '.join(lines[:_MOST_PLACES])}{more}"
    return where if lines else ""


def keep_edits(folder: Path, draft: Path) -> list[str]:
    """Put what was edited in the package at `folder` into the finished draft of a new
    one; returns the names of these files. Those that weren't edited keep what their
    lines end with.

    Raises FairhandError where that can't be done, or would leave a conflict.
    """
    if not is_package(folder):
        return []
    report = read_report(folder)
    _keep_others(folder, draft, report)
    names = edited_files(folder, report)
    for name in names:
        mine, new = folder / name, draft / name
        merged = mine.read_bytes()
        if name != WEIGHTS and not _is_text(merged):
            raise _refusal(mine, "is no UTF-8")
        written = report.get("files", {}).get(name)
        if file_hashes(draft, [name]).get(name) != written:  # fairhand writes otherwise
            base = report.get("source_map", {}).get("text") if name == MODEL else None
            if name not in SOURCES or base is None or not new.is_file():
                raise _refusal(mine, _CHANGED)
            merged = _merge(mine, base, new)
        new.write_bytes(merged)
    for name in SOURCES:
        mine, new = folder / name, draft / name
        if name not in names and mine.is_file() and new.is_file():
            new.write_bytes(_ended_as(mine.read_bytes(), new.read_bytes()))
    return names


def _keep_others(folder: Path, draft: Path, report: dict[str, Any]) -> None:
    """Keep files of which nothing says that fairhand wrote them, or refuse.

    They have names of a package's files, but are a user's own; or the package's hashes
    are gone, and with them what would tell edits.
    """
    written = report.get("files", {})
    if not written and "source_map" in report:  # of a version that noted no others
        return
    for name in (*SOURCES, WEIGHTS):
        mine, new = folder / name, draft / name
        if name in written or not mine.is_file():
            continue
        if not new.exists():
            new.write_bytes(mine.read_bytes())
        elif file_hashes(folder, [name]) != file_hashes(draft, [name]):
            raise _refusal(
                mine, f"is not noted in {PROVENANCE} as a file that fairhand wrote"
            )


def _is_text(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _merge(mine: Path, base: str, new: Path) -> bytes:
    with TemporaryDirectory() as at:
        before = Path(at) / "as_written.py"
        before.write_text(base, encoding="utf-8", newline="\n")
        edited, own = Path(at) / "edited.py", in_lines(mine.read_bytes())
        edited.write_bytes(own)
        labels = [
            part
            for label in ("edited", "written before", "new")
            for part in ("-L", label)
        ]
        try:
            run = subprocess.run(
                ["git", "merge-file", "-p", "--diff3", *labels, edited, before, new],
                capture_output=True,
            )
        except OSError:
            raise _refusal(
                mine,
                "was edited by hand, and git, which would merge the two, isn't there",
            ) from None
    found = f"conflicts: {run.returncode}" if 0 < run.returncode < 128 else "no merge"
    if run.returncode == 0:
        try:
            gone = _unbound(run.stdout) - _unbound(own) - _unbound(new.read_bytes())
        except (SyntaxError, ValueError):
            raise _refusal(mine, f"{_CHANGED}: {found}") from None
        if not gone:
            return _ended_as(mine.read_bytes(), run.stdout)
        found = f"together they lack {', '.join(sorted(gone))}"
    raise _refusal(mine, f"{_CHANGED}: {found}")


def _unbound(text: bytes) -> set[str]:
    """Names that a module reads, and nothing in it makes; of its classes, members.

    Raises SyntaxError, ValueError for what is no Python.
    """
    tree = ast.parse(text)
    reads, made = set[str](), set[str]()
    codes = [compile(tree, MODEL, "exec")]
    for code in codes:  # which grows
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
        for step in dis.get_instructions(code):
            reads |= {step.argval} if step.opname in _READS else set()
            made |= {step.argval} if step.opname in _MAKES else set()
    found = reads - made
    for part in tree.body:
        inside = list(ast.walk(part)) if isinstance(part, ast.ClassDef) else []
        own = [
            n
            for n in inside
            if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "self"
        ]
        members = {f"self.{n.attr}" for n in own if not isinstance(n.ctx, ast.Load)}
        members |= {f"self.{n.name}" for n in inside if isinstance(n, ast.FunctionDef)}
        members |= {f"self.{n.value!s}" for n in inside if isinstance(n, ast.Constant)}
        found |= {f"self.{n.attr}" for n in own} - members
    return found


def _ended_as(mine: bytes, text: bytes) -> bytes:
    """A text whose lines end as on Windows where most lines of a file do."""
    ends = 2 * mine.count(b"\r\n") > mine.count(b"\n")
    return in_lines(text).replace(b"\n", b"\r\n") if ends else text


def _refusal(path: Path, why: str) -> FairhandError:
    return FairhandError(
        f"{path.name} {why}",
        str(path),
        "nothing was replaced; compile into another folder with -o, or remove the file"
        " to have it written anew",
    )
