"""Files that packages beside each other have in common, once: `--shared-runtime`.

What Session is made of says nothing of a network, but which of its parts are there. So
packages of one kind have the same files, byte for byte, and may read them from a folder
beside them that is named by their content:

    out/runtime/4f1c2ab9/   session.py, ort_interface.py, engines.py ..., parity.py
    out/one/  out/other/    __init__.py, model.py, weights, reports, test_parity.py

`__init__.py` adds that folder to its package's `__path__`: each package has modules of
its own, `one.session`, that were read from one file. A package of another kind, or of
another version of fairhand, has another folder, and none is ever written over.
"""

from __future__ import annotations

import ast
import hashlib
import re
from pathlib import Path
from typing import Any

from ...analysis.errors import FairhandError

RUNTIME = "runtime"
# Files of a package that are shared, and what they are called there.
SHARED = {
    name: name
    for name in (
        "session.py",
        "ort_interface.py",
        "engines.py",
        "graphs.py",
        "lanes.py",
    )
} | {
    "test_parity.py": "parity.py"
}  # where pytest would take it for a test
_PATH = """\
# {files} are those of all packages of this kind.
__path__.append(str(Path(__file__).parents[1] / "{runtime}" / "{kind}"))
"""
_TEST = '''\
"""The check again: {runtime}/{kind}/parity.py, for this package."""

from .parity import *  # noqa: F403
'''


def check_beside(folder: Path, shared: bool) -> None:
    """Raises FairhandError where what is `shared` has no room."""
    beside = folder.resolve().parent / RUNTIME
    taken = folder.resolve() == beside or (beside.exists() and not beside.is_dir())
    if shared and taken:
        raise FairhandError(
            f"{beside} is where the files go that packages share",
            hint="let no package, and nothing but a folder, have that name",
        )


def share(draft: Path, report: dict[str, Any]) -> None:
    """Move what a finished draft has in common with others to a folder beside it, and
    enter that into its report."""
    texts = {
        there: (draft / here).read_bytes()
        for here, there in SHARED.items()
        if (draft / here).is_file()
    }
    digest = hashlib.sha256()
    for name, text in texts.items():
        digest.update(f"{name} {len(text)} ".encode() + text)
    kind = digest.hexdigest()[:8]
    folder = draft.parent / RUNTIME / kind
    folder.mkdir(parents=True)
    for here, there in SHARED.items():
        if there in texts:
            (draft / here).rename(folder / there)
    report[RUNTIME] = kind
    files = ", ".join(name for name in texts if name in SHARED)
    init = draft / "__init__.py"
    added = _PATH.format(files=files, runtime=RUNTIME, kind=kind)
    init.write_text(_with_path(init.read_text("utf-8"), added), "utf-8", newline="\n")
    test = _TEST.format(runtime=RUNTIME, kind=kind)
    (draft / "test_parity.py").write_text(test, "utf-8", newline="\n")


def _with_path(text: str, added: str) -> str:
    """__init__.py, where `added` stands before what is imported."""
    lines = text.splitlines()
    imports = [n for n in ast.parse(text).body if isinstance(n, ast.ImportFrom)]
    for node in imports:
        lines[node.lineno - 1] += "  # noqa: E402"
    first = imports[0].lineno - 1
    parts = [*lines[:first], "from pathlib import Path", "", *added.splitlines(), ""]
    return "\n".join([*parts, *lines[first:]]) + "\n"


def shared_files(report: dict[str, Any]) -> list[str]:
    """The names that files of a package's kind may have, as seen from its folder."""
    kind = report.get(RUNTIME)
    if not isinstance(kind, str) or re.fullmatch("[0-9a-f]{8}", kind) is None:
        return []
    return [f"../{RUNTIME}/{kind}/{name}" for name in SHARED.values()]


def place(draft: Path, folder: Path, report: dict[str, Any]) -> None:
    """Put the shared files of a draft beside `folder`, unless they are there."""
    if RUNTIME not in report:
        return
    new, old = (p.parent / RUNTIME / report[RUNTIME] for p in (draft, folder.resolve()))
    old.parent.mkdir(exist_ok=True)
    if not old.exists():
        try:
            new.rename(old)
        except OSError:
            if not old.exists():  # else another compiler was quicker
                raise
