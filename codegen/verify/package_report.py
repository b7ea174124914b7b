"""report.json: what the package came from, and what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx_ir as ir

from ... import __version__
from ...analysis.errors import FairhandError
from ..ir.package_plan import PackagePlan
from ..load.random_outputs import drawn_outputs
from ..load.read_model import Loaded
from .input_sizes import free_inputs, inlined
from .inputs import dynamic_sizes, input_ranges
from .tolerances import TOLERANCES
from .vocabulary import known_words, map_parts


def make_report(
    loaded: Loaded, plan: PackagePlan, applied: dict[str, int], weights_bytes: int
) -> dict[str, Any]:
    """Everything but the verification; no time stamp, no path, no machine."""
    graph = loaded.model.graph
    ranges = input_ranges(loaded.model)
    drawn = drawn_outputs(loaded.model)
    return {
        "generator": f"fairhand {__version__}",
        "source": {
            "file": plan.source.file,
            "sha256": loaded.sha256,
            "external_data": list(loaded.external_data),
            "opset": loaded.opset,
            "nodes": loaded.node_count,
        },
        "meta": {
            "producer_name": loaded.model.producer_name or "",
            "graph_name": graph.name or "",
            "domain": loaded.model.domain or "",
            "description": loaded.model.doc_string or "",
            "graph_description": graph.doc_string or "",
            "version": _version(loaded.model.model_version),
            "custom_metadata_map": dict(sorted(loaded.model.metadata_props.items())),
        },
        "inputs": {
            tensor.name: dict(zip(("low", "high"), ranges[tensor.name], strict=True))
            for tensor in plan.inputs
            if tensor.name in ranges
        }
        | _words(loaded),
        "sizes": dynamic_sizes(loaded.model) or [{}],
        "tolerance": {
            tensor.name: TOLERANCES.get(_numbers_of(tensor.dtype), 0.0)
            for tensor in plan.outputs
            if tensor.name not in drawn
        },
        "parameters": plan.parameters,
        "weights_bytes": weights_bytes,
        "rewrites": applied,
        "classes": [c.name for c in plan.classes],
        "verification": None,
    }


def _words(loaded: Loaded) -> dict[str, Any]:
    """What random inputs of strings and maps are made of."""
    found: dict[str, Any] = {}
    for value in free_inputs(inlined(loaded.model)):
        parts = map_parts(value)
        if parts is not None:
            found[str(value.name)] = parts
        elif value.dtype == ir.DataType.STRING:
            found[str(value.name)] = {"words": known_words(value)}
    return found


def _numbers_of(dtype: str) -> str:
    """The NumPy type of the numbers in a list, in an optional or in maps."""
    inner = dtype.split("(")[-1].rstrip(")")
    return "float32" if inner == "float" else inner


def _version(declared: int | None) -> int:
    """As ONNX Runtime reports it, which takes the largest int64 for "not given"."""
    return 2**63 - 1 if declared is None else declared


def read_report(folder: Path) -> dict[str, Any]:
    """The report of an emitted package; raises FairhandError where there is none."""
    try:
        found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    generator = found.get("generator") if isinstance(found, dict) else None
    if not str(generator).startswith("fairhand "):
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


def check_source(folder: Path, loaded: Loaded) -> None:
    """Raise FairhandError unless the package in `folder` was made from `loaded`."""
    if read_report(folder)["source"]["sha256"] != loaded.sha256:
        raise FairhandError(
            f"{folder} was not generated from {loaded.path or loaded.name}",
            hint="compile the model again",
        )


def write_report(folder: Path, report: dict[str, Any]) -> None:
    text = json.dumps(report, indent=1, ensure_ascii=True)
    (folder / "report.json").write_text(text + "\n", encoding="utf-8", newline="\n")
