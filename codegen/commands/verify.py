"""`fairhand verify`: a package is compared with its model again."""

from __future__ import annotations

from pathlib import Path

from ..emit.package_files import of_package
from ..load.read_model import load
from ..verify import parity


def verify_again(
    package: Path, model: Path, inputs: Path | None, seeds: int | None
) -> list[str]:
    """What was compared, line by line, with so many random inputs of each size.

    Raises VerificationError where the two differ, FairhandError for another model.
    """
    loaded = of_package(package, load(model))
    found = parity.verify(package, loaded, inputs, range(seeds) if seeds else None)
    lines = []
    for case in found.cases:
        worst = max((e for _, e in case.errors), default=0.0)
        lines.append(f"{case.inputs}: relative error {worst:.3g}")
    lines += [f"skipped, ONNX Runtime refuses {text}" for text in found.skipped]
    return [*lines, f"worst relative error {found.worst:.3g}: verified"]
