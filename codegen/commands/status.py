"""`fairhand status`: the packages of a folder, a line each."""

from __future__ import annotations

from ...analysis.literals import one_line, shown
from ..compare.status import ABSENT, OTHER, PackageStatus

_NOTES = {OTHER: " (another one now)", ABSENT: " (not here)"}


def status_line(one: PackageStatus) -> str:
    """What there is to know of a package."""
    files = [f"{name} edited" for name in one.edited]
    files += [f"{name} missing" for name in one.missing]
    parity = "not verified" if one.is_as_written else "parity not known since"
    parity = parity if one.error is None else f"parity {one.error:.3g}"
    if not one.generator:
        return f"{one.package}: {', '.join(files)}: nothing is known of it"
    model = f"{shown(one.model)}{_NOTES.get(one.model_is, '')} {one.sha256[:12]}"
    by = f"opset {one.opset}, {one_line(one.generator)} -O{one.level}"
    return f"{one.package}: {model}, {by}; {', '.join(files) or 'as written'}; {parity}"
