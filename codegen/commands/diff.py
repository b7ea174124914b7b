"""What compiling another model would change in the model.py of a package."""

from __future__ import annotations

import difflib
from pathlib import Path

from ... import __version__
from ...analysis.literals import one_line
from ..emit.model_file import model_text
from ..ir.identifiers import class_name
from ..ir.package_plan import SourcePlan
from ..load.read_model import load
from ..plan.compiled_model import planned
from ..request.options import CompileOptions
from ..verify.package_report import read_report


def diff(folder: Path, model: Path) -> tuple[list[str], list[str]]:
    """Lines of a unified diff, and notes on what it leaves out. Nothing is written.

    The new text is made as if the model had the old one's file name and hash: they
    stand in every package, and say nothing about the network.
    """
    report = read_report(folder)
    source, lanes = report["source"], report.get("lanes", {})
    path = folder / "model.py"
    text = path.read_text(encoding="utf-8")
    loaded = load(model)
    plan = planned(
        loaded,
        SourcePlan(
            file=one_line(source["file"]),
            opset=loaded.opset,
            nodes=loaded.node_count,
            sha256=source["sha256"],
            version=__version__,
        ),
        class_name(text.removeprefix('"""').partition(",")[0]),
        CompileOptions(
            level=report.get("certificate", {}).get("level", 1),
            exactness=report.get("certificate", {}).get("exactness", "real"),
            lanes=lanes["asked"] if lanes.get("count", 1) > 1 else None,
            profile=lanes.get("profile", False),
            fusion=report.get("fusion"),
            target=report.get("target", {}).get("name", "torch"),
            autotune=report.get("target", {}).get("autotune", False),
        ),
    ).plan
    new = model_text(plan)
    lines = list(
        difflib.unified_diff(
            text.splitlines(),
            new.splitlines(),
            str(path),
            f"{path}, from {model}",
            lineterm="",
        )
    )
    notes = [] if lines else ["model.py would say the same"]
    if loaded.sha256 != source["sha256"]:
        was, now = source["sha256"][:12], loaded.sha256[:12]
        notes.append(f"the model's hash would change in model.py: {was} to {now}")
    return lines, notes
