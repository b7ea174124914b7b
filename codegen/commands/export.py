"""`fairhand export`: what it says about the file that it wrote."""

from __future__ import annotations

from ..export.onnx_file import Exported


def summary_rows(made: Exported) -> list[tuple[str, str]]:
    """A label and a text for each line."""
    file = f"{made.path}, opset {made.opset}, {made.nodes} nodes"
    weights = ", weights beside it" if made.external else ""
    parity = f"{made.runs} runs on ONNX Runtime: worst relative error {made.worst:.3g}"
    newer = made.opset > made.wanted
    return [
        ("model", file + weights),
        ("names", f"{made.restored} nodes have the names of the original file"),
        *([("opset", f"not {made.wanted}: an operator has no older form")] * newer),
        ("parity", parity),
    ]
