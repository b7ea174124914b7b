"""What a package is made of, and its report.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...analysis.errors import FairhandError
from ..load.given_shapes import with_shapes
from ..load.read_model import Loaded

# Those that are text and hold nothing measured.
SOURCES = (
    "__init__.py model.py session.py ort_interface.py engines.py kernels.py graphs.py "
    "lanes.py plan.json test_parity.py"
).split()
# Anything else in a package's folder belongs to the user.
WEIGHTS = "weights.safetensors"
GENERATED = [*SOURCES, WEIGHTS, "report.json", "__pycache__"]


def read_report(folder: Path) -> dict[str, Any]:
    """The report of an emitted package; raises FairhandError where there is none."""
    try:
        found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    generator = found.get("generator") if isinstance(found, dict) else None
    if str(generator).split()[:1] != ["fairhand"]:
        raise FairhandError(
            f"{folder} is not a package that fairhand wrote",
            hint="give the folder that holds model.py and report.json",
        )
    return found


def is_package(folder: Path) -> bool:
    """Whether fairhand wrote this folder."""
    try:
        read_report(folder)
    except FairhandError:
        return False
    return True


def of_package(folder: Path, loaded: Loaded) -> Loaded:
    """The model of a package, with the shapes that were given to its inputs.

    Raises FairhandError unless the package in `folder` was made from `loaded`.
    """
    source = read_report(folder)["source"]
    if source["sha256"] != loaded.sha256:
        raise FairhandError(
            f"{folder} was not generated from {loaded.path or loaded.name}",
            hint="compile the model again",
        )
    return with_shapes(loaded, source.get("shapes", {}))


def note_files(folder: Path, report: dict[str, Any]) -> None:
    """Enter the hash of each file of a package, and write the report: it is done."""
    report["files"] = file_hashes(folder, [*SOURCES, WEIGHTS])
    write_report(folder, report)


def file_hashes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of those of the files that are there."""
    found = {}
    for name in names:
        with suppress(FileNotFoundError), (folder / name).open("rb") as file:
            digest = hashlib.sha256()
            while part := file.read(2**22):
                digest.update(part)
            found[name] = digest.hexdigest()
    return found


def write_report(folder: Path, report: dict[str, Any]) -> None:
    """Write report.json, indented, keys in the order that they were entered."""
    text = json.dumps(report, indent=1, ensure_ascii=True)
    (folder / "report.json").write_text(text + "\n", encoding="utf-8", newline="\n")
