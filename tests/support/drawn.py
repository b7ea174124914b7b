"""Of many cases that watch one thing: which of them a commit tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

# The file and the test of whole families, and of how many cases a commit tests one.
FAMILIES = {
    ("analysis/ops/test_ml.py", "test_operator"): 4,
    ("analysis/ops/test_operators.py", "test_operator"): 3,
    ("analysis/ops/test_versions.py", "test_a_version_means_what_it_did"): 3,
    ("codegen/kernels/launch/test_tuning.py", None): 3,
    ("codegen/kernels/test_half_precision.py", None): 3,
    ("codegen/kernels/test_kernels.py", "test_group_on_odd_sizes"): 4,
    ("codegen/kernels/test_kernels.py", "test_kernels_of_a_network"): 4,
    ("codegen/statements/test_picking.py", "test_places_in_their_order"): 3,
    ("rewrites/proof/test_denotations.py", None): 4,
    ("rewrites/proof/test_denotations_congruent.py", None): 4,
    ("rewrites/second_opinion/test_operators.py", None): 3,
    ("rewrites/test_adapters.py", "test_adapted_nodes_compute_the_same"): 4,
}


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


def draw_families(items: Iterable[pytest.Item], tests: Path) -> None:
    """Mark the cases of FAMILIES that this commit doesn't test."""
    for item in items:
        file = item.path.relative_to(tests).as_posix()
        name = getattr(item, "originalname", None)
        if hasattr(item, "callspec"):
            one_in = FAMILIES.get((file, name)) or FAMILIES.get((file, None), 1)
            for mark in drawn(item.nodeid, one_in):
                item.add_marker(mark)


def some(names: Iterable[Any], one_in: int) -> list[Any]:
    """Parameters of a test: one in so many of these names, the others are slow."""
    return [pytest.param(name, marks=drawn(str(name), one_in)) for name in names]
