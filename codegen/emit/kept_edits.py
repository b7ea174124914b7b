"""What a user changed in a package is kept when the package is written anew.

The report has the hash of each file as it was written, and the text of model.py. So it
shows which files were edited since, and three ways to merge: where fairhand would write
the same as before, the edit stays as it is; model.py is merged by `git merge-file`; for
all else the compile ends, and nothing is replaced.
"""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...analysis.errors import FairhandError
from .package_files import SOURCES, file_hashes, is_package, read_report

MODEL = "model.py"


def edited_files(folder: Path, report: dict[str, Any] | None = None) -> list[str]:
    """Files of a package that are not as they were written; none that are gone.

    Raises FairhandError for what is no package.
    """
    report = read_report(folder) if report is None else report
    written = dict(report.get("files", {}))
    if not written and "source_map" in report:  # of a version that noted no others
        written[MODEL] = report["source_map"]["sha256"]
    now = file_hashes(folder, written)
    return [name for name, digest in now.items() if digest != written[name]]


def keep_edits(folder: Path, draft: Path) -> list[str]:
    """Put what was edited in the package at `folder` into the finished draft of a new
    one; returns the names of these files.

    Raises FairhandError where that can't be done, or would leave a conflict.
    """
    if not is_package(folder):
        return []
    report = read_report(folder)
    names = edited_files(folder, report)
    for name in names:
        mine, new = folder / name, draft / name
        merged = mine.read_bytes()
        if not _is_as_written(new, name, report):
            base = report.get("source_map", {}).get("text") if name == MODEL else None
            if name not in SOURCES or base is None or not new.is_file():
                raise _refusal(mine, "what fairhand writes there has changed too")
            merged = _merge(mine, base, new)
        new.write_bytes(merged)
    return names


def _is_as_written(new: Path, name: str, report: dict[str, Any]) -> bool:
    """Whether fairhand writes what it wrote before."""
    if not new.is_file():
        return False
    return file_hashes(new.parent, [name])[name] == report.get("files", {}).get(name)


def _merge(mine: Path, base: str, new: Path) -> bytes:
    with TemporaryDirectory() as at:
        before = Path(at) / "as_written.py"
        before.write_text(base, encoding="utf-8", newline="\n")
        labels = [
            part
            for label in ("edited", "written before", "new")
            for part in ("-L", label)
        ]
        try:
            run = subprocess.run(
                ["git", "merge-file", "-p", "--diff3", *labels, mine, before, new],
                capture_output=True,
            )
        except OSError:
            raise _refusal(
                mine, "git, which would merge the two, isn't there"
            ) from None
    try:
        if run.returncode == 0 and ast.parse(run.stdout):
            return run.stdout
    except (SyntaxError, ValueError):
        pass
    found = f"{run.returncode} conflicts" if 0 < run.returncode < 128 else "no merge"
    raise _refusal(mine, f"what fairhand writes there has changed too: {found}")


def _refusal(path: Path, why: str) -> FairhandError:
    return FairhandError(
        f"{path.name} was edited by hand, and {why}",
        str(path),
        "nothing was replaced; compile into another folder with -o, or remove the file"
        " to have it written anew",
    )
