"""`fairhand compile` and `export`: what they say about what they wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...analysis.literals import one_line, shown
from ..pipeline import Package
from ..validate.verdict import emission_line
from ..verify.parity import summary

if TYPE_CHECKING:
    from ..export.onnx_file import Exported


def summary_rows(package: Package) -> list[tuple[str, str]]:
    """A label and a text for each line."""
    report = package.report
    source, lanes = report["source"], report.get("lanes")
    frozen = report.get("defaults")
    certificate = report.get("certificate", {})
    unproved = certificate.get("unproved", ())
    lines = (package.path / "model.py").read_text(encoding="utf-8").count("\n")
    size = report["weights_bytes"] / 1e6
    file = f"{shown(source['file'])}, opset {source['opset']}, {source['nodes']} nodes"
    return [
        ("package", str(package.path)),
        ("source", file),
        ("model.py", f"{lines} lines, {len(report['classes'])} classes"),
        ("weights", f"{report['parameters']:,} parameters, {size:.1f} MB"),
        *([("defaults", _frozen(frozen))] if frozen else []),
        *([("warning", _lost(certificate))] if unproved else []),
        *([("lanes", lanes["reason"])] if lanes else []),
        *([("cache", "all but the weights as written before")] * package.cached),
        *([("edits", _edits(package))] if package.edited else []),
        ("parity", summary(report["verification"])),
        *([("parallel", _devices(report["parallel"]))] if "parallel" in report else []),
        *_emission(report.get("emission")),
    ]


def _edits(package: Package) -> str:
    files, again = ", ".join(package.edited), f"fairhand verify {package.path}"
    return f"kept in {files}; what was verified is the text without them ({again})"


def _emission(found: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What is known for all inputs; other calls are worth a look."""
    line = emission_line(found)
    differs = found is not None and "differs" in found
    return [("warning" if differs else "emission", line)]


def _devices(plan: dict[str, Any]) -> str:
    sizes = {k: n if isinstance(n, list) else [n] for k, n in plan["degrees"].items()}
    degrees = ",".join(f"{k}={'+'.join(map(str, n))}" for k, n in sizes.items())
    return f"{degrees}, {max(plan['bytes']):,} bytes a device; {plan['check']}"


def _lost(certificate: dict[str, Any]) -> str:
    unproved, own = certificate["unproved"], certificate.get("rules")
    which = f"{len(unproved)} laws" if len(unproved) > 3 else ", ".join(unproved)
    how = "fairhand prove" + (f" --rules {own}" if own else "")
    return f"no valid proof, not applied: {which} ({how})"


def _frozen(names: list[str]) -> str:
    some = ", ".join(map(one_line, names[:3])) + (" ..." if len(names) > 3 else "")
    return f"{len(names)} inputs that have one are constants here: {some}"


def exported_rows(made: Exported) -> list[tuple[str, str]]:
    """The same of an ONNX file."""
    file = f"{made.path}, opset {made.opset}, {made.nodes} nodes"
    weights = ", weights beside it" if made.external else ""
    parity = f"{made.runs} runs on ONNX Runtime: worst relative error {made.worst:.3g}"
    newer = made.opset > made.wanted
    trained = ("mode", "it was in training; the file holds what it evaluates to")
    return [
        ("model", file + weights),
        ("names", f"{made.restored} nodes have the names of the original file"),
        *([("opset", f"not {made.wanted}: onnx has no way back to it")] * newer),
        *([trained] * made.was_training),
        ("parity", parity),
    ]
