"""A network to compare: a package as it stands, or what an ONNX file would become."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...analysis.errors import FairhandError
from ...analysis.literals import one_line
from ..emit.kept_edits import MODEL, edited_files
from ..emit.model_file import model_text
from ..emit.package_files import WEIGHTS, read_report
from ..emit.source_map import names_in_file, source_map
from ..emit.weights import TYPE_NAMES, as_stored
from ..ir.identifiers import class_name
from ..load.given_shapes import with_shapes
from ..load.read_model import load
from ..pipeline import lower
from ..plan.make_plan import source_plan
from ..request.options import CompileOptions

_NUMPY = {name: numpy for numpy, name in TYPE_NAMES.items()}

# Of a weight: type, shape and a hash of its content.
Weight = tuple[str, tuple[int, ...], str]
NodesByLine = Mapping[str, Mapping[str, list[str]]]


@dataclass(frozen=True)
class Side:
    """The source of a network with the nodes behind its lines, and its weights.

    `lines` leaves out what speaks of the file alone: the first docstring, the hash;
    the network has the same name in all. `hash` is the file's, or that of the one a
    package was made from, and `origin` it and the shapes given to it; "" for a package
    that is not as written. `laws` counts the rewrites that led to the source. `emitted`
    is what the source map is about, which is another text if the package was edited.
    `kinds` has the operator of each node, and a digest of its attributes.
    """

    path: Path
    hash: str
    origin: str
    lines: Mapping[int, str]
    text: str
    emitted: str
    nodes: NodesByLine
    kinds: Mapping[str, tuple[str, str]]
    weights: Mapping[str, Weight]
    laws: Mapping[str, int]
    is_model: bool


def two_sides(one: Path, other: Path) -> tuple[Side, Side]:
    """Both, where an ONNX file is lowered as the package on the other side was, and
    under its name. Raises FairhandError for what is neither."""
    alike = next((path for path in (one, other) if path.is_dir()), None)
    report = read_report(alike) if alike is not None else {}
    text = _source(alike).removeprefix('"""') if alike is not None else "net"
    title = class_name(text.partition(",")[0])  # of the network, as it was emitted
    first, second = (
        _package(path) if path.is_dir() else _file(path, report, title)
        for path in (one, other)
    )
    return first, second


def _source(folder: Path) -> str:
    try:
        return (folder / MODEL).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise FairhandError(f"{MODEL} can't be read: {error}", str(folder)) from error


def options_of(report: Mapping[str, Any]) -> CompileOptions:
    """What a package was compiled with, as far as it shapes its text."""
    lanes, certificate = report.get("lanes", {}), report.get("certificate", {})
    target = report.get("target", {})
    return CompileOptions(
        level=certificate.get("level", 1),
        exactness=certificate.get("exactness", "real"),
        lanes=lanes["asked"] if lanes.get("count", 1) > 1 else None,
        profile=lanes.get("profile", False),
        fusion=report.get("fusion"),
        target=target.get("name", "torch"),
        autotune=target.get("autotune", False),
    )


def _file(path: Path, report: Mapping[str, Any], title: str) -> Side:
    source = report.get("source", {})
    loaded = with_shapes(load(path), source.get("shapes", {}))
    alike = replace(
        source_plan(loaded),
        file=one_line(source.get("file", "net")),
        sha256=source.get("sha256", ""),
    )
    made = lower(loaded, options_of(report), alike, title)
    text = model_text(made.plan)
    found = source_map(text, made.plan, made.graph, made.rewriting.history)
    weights = {w.key: _weight(as_stored(w.array())) for w in made.weights}
    laws = made.rewriting.counts()
    return Side(
        path,
        loaded.sha256,
        _origin(loaded.sha256, source),
        _lines(text),
        text,
        text,
        found["lines"],
        _kinds(names_in_file(loaded.model, made.graph, ())),
        weights,
        laws,
        True,
    )


def _package(folder: Path) -> Side:
    report, text = read_report(folder), _source(folder)
    try:
        lines = _lines(text)
    except (SyntaxError, ValueError) as error:
        raise FairhandError(f"{MODEL} can't be read: {error}", str(folder)) from error
    found, source = report.get("source_map", {}), report["source"]
    edited = edited_files(folder, report)
    return Side(
        folder,
        source["sha256"],
        "" if edited else _origin(source["sha256"], source),
        lines,
        text,
        found.get("text", text),
        found.get("lines", {}),
        _kinds(found),
        dict(_stored(folder / WEIGHTS)),
        report.get("rewrites", {}),
        False,
    )


def _kinds(found: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    told = found.get("attributes", {})
    operators = found.get("operators", {})
    return {name: (kind, told.get(name, "")) for name, kind in operators.items()}


def _origin(sha256: str, source: Mapping[str, Any]) -> str:
    return f"{sha256} {sorted(source.get('shapes', {}).items())}"


def _lines(text: str) -> dict[int, str]:
    """The lines of a module that speak of the network, by their numbers.

    The class that load() returns has the same name in all of them; a long one breaks
    the line that says so.
    """
    body = ast.parse(text, MODEL).body
    left_out = {*range(1, (body[0].end_lineno or 0) + 1)} if body else set()
    for node in body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "MODEL_SHA256"
        ):
            left_out |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    lines, network, plain = text.splitlines(), class_name("net"), class_name("net")
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == "load" and node.returns:
            head = range(node.lineno, node.body[0].lineno)
            network = ast.unparse(node.returns)
            lines[head[0] - 1] = "".join(lines[n - 1].strip() for n in head)
            left_out |= {*head[1:]}
    return {
        number: re.sub(rf"\b{re.escape(network)}\b", plain, line)
        for number, line in enumerate(lines, 1)
        if number not in left_out
    }


def _weight(array: np.ndarray) -> Weight:
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return array.dtype.name, array.shape, hashlib.sha256(content).hexdigest()


def _stored(path: Path) -> dict[str, Weight]:
    """The weights of a safetensors file, one in memory at a time."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > path.stat().st_size:
                raise ValueError("the header is longer than the file")
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            found = {}
            for key, entry in header.items():
                start, end = entry["data_offsets"]
                file.seek(8 + length + start)
                content = file.read(end - start)
                if len(content) != end - start:
                    raise ValueError(f"it ends within {key}")
                digest = hashlib.sha256(content).hexdigest()
                name = _NUMPY.get(entry["dtype"], entry["dtype"])
                found[key] = (name, tuple(entry["shape"]), digest)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise FairhandError(f"{path.name} can't be read: {error}", str(path)) from error
    return found
