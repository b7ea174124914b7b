"""`fairhand compile`: what it says about the package that it wrote."""

from __future__ import annotations

from ..pipeline import Package
from ..verify.parity import summary


def summary_rows(package: Package) -> list[tuple[str, str]]:
    """A label and a text for each line."""
    report = package.report
    source, lanes = report["source"], report.get("lanes")
    lines = (package.path / "model.py").read_text(encoding="utf-8").count("\n")
    size = report["weights_bytes"] / 1e6
    file = f"{source['file']}, opset {source['opset']}, {source['nodes']} nodes"
    return [
        ("package", str(package.path)),
        ("source", file),
        ("model.py", f"{lines} lines, {len(report['classes'])} classes"),
        ("weights", f"{report['parameters']:,} parameters, {size:.1f} MB"),
        *([("lanes", lanes["reason"])] if lanes else []),
        *([("cache", "all but the weights as written before")] * package.cached),
        ("parity", summary(report["verification"])),
    ]
