"""`fairhand where`: lines of model.py and nodes of the ONNX file, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..emit.source_map import line_facts, node_facts, printed


def nodes_behind(folder: Path, line: str) -> list[str]:
    """`model.py:87` or `87`: the nodes behind that line, one a line of text."""
    return list(_shown(line_facts(folder, line)))


def lines_of(folder: Path, name: str) -> list[str]:
    """The lines that a node of the model is behind, or why there is none."""
    return list(_shown(node_facts(folder, name)))


def _shown(found: Mapping[str, Any]) -> Iterator[str]:
    for line in found["lines"]:
        place = f"model.py:{line['line']}  {line['text']}"
        if "module" in line:
            yield f"{place}  ({_module(line['module'])})"
            continue
        yield place
        for path, names in line["nodes"].items():
            yield f"  {_module(path)}"
            yield from (f"    {printed(name)}" for name in names)
        yield from (f"  calls {p}: {n} nodes" for p, n in line["calls"].items())
        if not line["nodes"] and not line["calls"]:
            yield "no node of the model is known to be behind this line"
    for reason in found.get("elsewhere", ()):
        yield f"behind no line: {printed(found['node'])} {reason}"


def _module(path: str) -> str:
    return path or "the network"
