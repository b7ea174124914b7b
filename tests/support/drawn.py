"""Of many cases that watch one thing: which of them a commit tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest


@cache
def _commit() -> str:
    """The one that is checked out; the same for ever where there is no repository."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True)
    except OSError:
        return ""
    return done.stdout.decode() if done.returncode == 0 else ""


def drawn(name: str, one_in: int) -> list[pytest.MarkDecorator]:
    """Marks of a case: none for one in so many, which each commit draws anew; the
    others are slow."""
    number = int.from_bytes(sha256(f"{_commit()} {name}".encode()).digest()[:8], "big")
    return [] if number % one_in == 0 else [pytest.mark.slow]


def some(names: Iterable[Any], one_in: int) -> list[Any]:
    """Parameters of a test: one in so many of these names, the others are slow."""
    return [pytest.param(name, marks=drawn(str(name), one_in)) for name in names]
