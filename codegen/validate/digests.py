"""Names of calls and constants: short, and equal for equal things alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any


def digest(*parts: object) -> str:
    """A short name for a tree of texts and numbers."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def content_digest(dtype: str, shape: Sequence[int], rows: Iterable[Any]) -> str:
    """The name of a constant; `rows` are its bytes in order, in any number of parts."""
    found = hashlib.sha256(f"{dtype} {tuple(shape)}".encode())
    for part in rows:
        found.update(part)
    return found.hexdigest()[:24]
