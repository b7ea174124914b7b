"""`fairhand verify`: a package is compared with its model again."""

from __future__ import annotations

from pathlib import Path

from ..emit.package_files import check_source
from ..load.read_model import load
from ..verify import parity


def verify_again(
    package: Path, model: Path, inputs: Path | None, seeds: int
) -> list[str]:
    """What was compared, line by line, with so many random inputs of each size.

    Raises VerificationError where the two differ, FairhandError for another model.
    """
    loaded = load(model)
    check_source(package, loaded)
    found = parity.verify(package, loaded, inputs, range(seeds))
    lines = []
    for case in found.cases:
        worst = max((e for _, e in case.errors), default=0.0)
        lines.append(f"{case.inputs}: relative error {worst:.3g}")
    lines += [f"skipped, ONNX Runtime refuses {text}" for text in found.skipped]
    return [*lines, f"worst relative error {found.worst:.3g}: verified"]
