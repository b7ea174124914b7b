"""The packages of a folder: what they came from, and whether they are as written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...analysis.errors import FairhandError
from ..emit.kept_edits import MODEL, edited_files
from ..emit.package_files import PROVENANCE, REPORT, is_package, read_report
from ..load.read_model import load

FOUND, OTHER, ABSENT = "found", "other", "absent"


@dataclass(frozen=True)
class PackageStatus:
    """One package. `model_is` says whether the ONNX file of its name, in its folder or
    the two above, is the one that it was made from: "found", "other" or "absent".
    `verified` and `error`, the largest one that verification measured, are of the files
    that are there: False and None where some were edited since or are gone, or nothing
    was verified. Where the report can't be read, that is all that is known."""

    package: str
    generator: str
    model: str
    sha256: str
    opset: int
    level: int
    edited: tuple[str, ...]
    missing: tuple[str, ...]
    verified: bool
    error: float | None
    model_is: str

    @property
    def is_as_written(self) -> bool:
        """Whether the report is about the files that are there."""
        return not self.edited and not self.missing

    def as_dict(self) -> dict[str, Any]:
        """As `--json` prints it: docs/schemas/status.json."""
        return asdict(self)


def packages_in(folder: Path) -> Iterator[PackageStatus]:
    """The packages at or below a folder, by their paths. Raises FairhandError where
    there is no such folder."""
    if not folder.is_dir():
        raise FairhandError(f"{folder} is no folder")
    marks = (*folder.rglob(REPORT), *folder.rglob(PROVENANCE))
    for at in sorted({mark.parent for mark in marks}):
        if is_package(at):
            yield _status(at)
        elif (at / MODEL).is_file() and (at / "test_parity.py").is_file():
            yield _unreadable(at)


def _unreadable(folder: Path) -> PackageStatus:
    """Of a package whose report or provenance is gone, or says nothing."""
    names = (REPORT, PROVENANCE)
    missing = tuple(name for name in names if not (folder / name).is_file())
    edited = () if missing else names[:1]
    return PackageStatus(
        str(folder), "", "", "", 0, 0, edited, missing, False, None, ABSENT
    )


def _status(folder: Path) -> PackageStatus:
    report = read_report(folder)
    edited = edited_files(folder, report)
    source = report["source"]
    missing = missing_files(folder, report)
    known = not edited and not missing  # else it is of other text
    verification = report.get("verification") if known else None
    return PackageStatus(
        str(folder),
        str(report["generator"]),
        str(source["file"]),
        str(source["sha256"]),
        source["opset"],
        report.get("certificate", {}).get("level", 1),
        tuple(edited),
        tuple(missing),
        verification is not None,
        (verification or {}).get("worst_relative_error"),
        _model_is(folder, source),
    )


def missing_files(folder: Path, report: dict[str, Any] | None = None) -> list[str]:
    """Files of a package that were written and are gone; raises FairhandError for what
    is no package."""
    report = read_report(folder) if report is None else report
    written = (*report.get("files", {}), PROVENANCE)
    return [name for name in written if not (folder / name).is_file()]


def _model_is(folder: Path, source: dict[str, Any]) -> str:
    path = model_of(folder, source)
    if path is None:
        return ABSENT
    with suppress(FairhandError):
        return FOUND if load(path).sha256 == source["sha256"] else OTHER
    return OTHER


def model_of(folder: Path, source: dict[str, Any]) -> Path | None:
    """The file of the name that a package's report has as its `source`, in the
    package's folder or the two above; None if there is none."""
    folder = folder.resolve()
    # A report may have been written by anybody: the name is looked for, no path.
    name = Path(str(source["file"])).name
    places = (place / name for place in (folder, *folder.parents[:2]))
    return next((path for path in places if path.is_file()), None)
