"""What a package is made of, its report.json, which people read, and provenance.json,
which only tools do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...analysis.errors import FairhandError
from ...analysis.literals import shown
from ..load.given_shapes import with_shapes
from ..load.read_model import Loaded
from .shared_runtime import shared_files

# Those that are text and hold nothing measured.
SOURCES = (
    "__init__.py model.py session.py ort_interface.py engines.py kernels.py graphs.py "
    "lanes.py plan.json parallel.py devices.py slices.py generate.py caches.py "
    "for_transformers.py test_parity.py"
).split()
# Anything else in a package's folder belongs to the user.
WEIGHTS = "weights.safetensors"
REPORT, PROVENANCE = "report.json", "provenance.json"
GENERATED = [*SOURCES, WEIGHTS, REPORT, PROVENANCE, "__pycache__"]
# What of a report stands in provenance.json, and what of its entry "target" does.
TRACED, OF_TARGET = ("source_map", "certificate", "files"), "groups"
# What is read of reports, by its place: who edited one may have written anything.
_KINDS = {
    **dict.fromkeys(("generator", "source.file", "source.sha256", "files.*"), str),
    **{"source.opset": int, "source.shapes.*": list, "rewrites.*": int},
    **{"certificate.level": int | None, "source_map.text": str | None},
    **{"verification.worst_relative_error": float | int | None},
    **{f"source_map.{part}.*.*": str for part in ("lines.*", "calls.*", "elsewhere")},
}
_WIDTH, _SHORT = 88, 44  # characters of a line, and of what shares one


def require_weights(folder: Path) -> None:
    """Raises FairhandError where the weights don't stand in a package's folder."""
    if not (folder / WEIGHTS).is_file():
        raise FairhandError(
            f"the package has no {WEIGHTS}, which its network is run with",
            f"folder {folder}",
            hint="put the file there, or compile the model again",
        )


def read_report(folder: Path) -> dict[str, Any]:
    """The report of an emitted package, and its provenance; raises FairhandError where
    there is none."""
    try:
        found = json.loads((folder / REPORT).read_text(encoding="utf-8"))
        with suppress(FileNotFoundError):
            traced = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))
            traced["source_map"]["text"] = "\n".join(traced["source_map"]["text"])
            for key, part in traced.items():
                found[key] = found.get(key, {}) | part
        _require_kinds(found)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        found = None
    if found is None or found["generator"].split()[:1] != ["fairhand"]:
        raise FairhandError(
            f"{folder} is not a package that fairhand wrote",
            hint="give the folder that holds model.py and report.json",
        )
    return found


def _require_kinds(found: Any) -> None:
    """Raises TypeError or AttributeError for a report that can't be read."""
    for place, kind in _KINDS.items():
        parts = [found]
        for key in place.split("."):
            parts = [{} if part is None else part for part in parts]
            if key == "*":
                lists = [
                    part if type(part) is list else part.values() for part in parts
                ]
                parts = [each for one in lists for each in one]
            else:
                parts = [part.get(key) for part in parts]
        if not all(isinstance(part, kind) for part in parts):
            raise TypeError(place)


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
            f"{folder} was not generated from {loaded.path or loaded.name}, "
            f"but from another {shown(source['file'])}",
            hint="give that file, or compile this one",
        )
    return with_shapes(loaded, source.get("shapes", {}))


def note_files(folder: Path, report: dict[str, Any]) -> None:
    """Enter the hash of each file of a package, and write the report: it is done."""
    names = [*SOURCES, *shared_files(report), WEIGHTS]
    report["files"] = file_hashes(folder, names)
    write_report(folder, report)


def file_hashes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of those of the files that are there; of text, whatever ends its lines,
    since git may have brought it into another system's form."""
    found = {}
    for name in names:
        with suppress(FileNotFoundError), (folder / name).open("rb") as file:
            digest = hashlib.sha256()
            is_text = name.endswith(".py") or name in SOURCES
            while part := file.read() if is_text else file.read(2**22):
                digest.update(in_lines(part) if is_text else part)
            found[name] = digest.hexdigest()
    return found


def in_lines(text: bytes) -> bytes:
    """Text whose lines end as those that fairhand writes."""
    return text.replace(b"\r\n", b"\n")


def write_report(folder: Path, report: dict[str, Any]) -> None:
    """Write report.json and provenance.json, keys in the order that they were entered.

    The text of model.py is there line by line, for who compares two of them.
    """
    traced = {key: report[key] for key in TRACED if key in report}
    rest = {key: value for key, value in report.items() if key not in traced}
    if "source_map" in traced:
        lines = traced["source_map"]["text"].split("\n")
        traced["source_map"] = traced["source_map"] | {"text": lines}
    if OF_TARGET in rest.get("target", {}):
        rest["target"] = dict(rest["target"])
        traced["target"] = {OF_TARGET: rest["target"].pop(OF_TARGET)}
    for name, part in ((REPORT, rest), (PROVENANCE, traced)):
        if part:
            text = _laid_out(part, "") + "\n"
            (folder / name).write_text(text, encoding="utf-8", newline="\n")


def _laid_out(value: Any, indent: str) -> str:
    """JSON; what has room on one line stands there, and short parts share lines."""
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=True)
    inner = indent + " "
    if isinstance(value, dict):
        pairs = ((json.dumps(str(key)), each) for key, each in value.items())
        parts = [f"{key}: {_laid_out(each, inner)}" for key, each in pairs]
        first, last = "{", "}"
    else:
        parts = [_laid_out(each, inner) for each in value]
        first, last = "[", "]"
    line = f"{first}{', '.join(parts)}{last}"
    if "\n" not in line and len(indent) + len(line) <= _WIDTH:
        return line
    rows, is_open = list[str](), False
    for part in parts:
        is_short = bool(indent) and len(part) <= _SHORT
        if is_short and is_open and len(f"{inner}{rows[-1]}, {part},") <= _WIDTH:
            rows[-1] += f", {part}"
        else:
            rows.append(part)
        is_open = is_short
    body = ",\n".join(inner + row for row in rows)
    return f"{first}\n{body}\n{indent}{last}"
