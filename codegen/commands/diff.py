"""What compiling another model would change in the model.py of a package."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path

from ...analysis.literals import one_line
from ..emit.model_file import model_text
from ..emit.package_files import read_report
from ..ir.identifiers import class_name
from ..load.given_shapes import with_shapes
from ..load.read_model import load
from ..pipeline import lower
from ..plan.make_plan import source_plan
from ..request.options import CompileOptions


def diff(folder: Path, model: Path) -> tuple[list[str], list[str]]:
    """Lines of a unified diff, and notes on what it leaves out. Nothing is written.

    The new text is made as if the model had the old one's file name and hash: they
    stand in every package, and say nothing about the network.
    """
    report = read_report(folder)
    source, lanes = report["source"], report.get("lanes", {})
    path = folder / "model.py"
    text = path.read_text(encoding="utf-8")
    loaded = with_shapes(load(model), source.get("shapes", {}))
    certificate, target = report.get("certificate", {}), report.get("target", {})
    options = CompileOptions(
        level=certificate.get("level", 1),
        exactness=certificate.get("exactness", "real"),
        lanes=lanes["asked"] if lanes.get("count", 1) > 1 else None,
        profile=lanes.get("profile", False),
        fusion=report.get("fusion"),
        target=target.get("name", "torch"),
        autotune=target.get("autotune", False),
    )
    alike = replace(
        source_plan(loaded), file=one_line(source["file"]), sha256=source["sha256"]
    )
    title = class_name(text.removeprefix('"""').partition(",")[0])
    plan = lower(loaded, options, alike, title).plan
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
