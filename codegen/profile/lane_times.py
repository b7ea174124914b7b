"""What lanes take here, beside what one lane takes: `--lanes auto`, or `--profile`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..ir.engine_plan import EnginePlan
from ..lanes.divide import EAGER, Divided, Times
from .engine_times import times

SECONDS = 8.0  # for both packages together
PAUSE = 0.02  # seconds; GNU's OpenMP lets threads wait awake for about 10 ms

Write = Callable[[Path], tuple[Any, EnginePlan, Any]]


def measured(
    divided: Divided, alone: Write, lanes: Write, feed: Mapping[str, Any]
) -> Divided:
    """With the times of both packages.

    `alone` writes the one without lanes. Where lanes share the threads that it has, it
    runs on whatever engine suits it; else on the engine of lanes, as one of them.
    """
    costed = divided.costed
    with tempfile.TemporaryDirectory() as folder:
        packages = Path(folder) / "alone", Path(folder) / "lanes"
        for package in packages:
            package.mkdir()
        _, runs_on, _ = alone(packages[0])
        lanes(packages[1])
        whole = costed.count * costed.share
        engine = "" if costed.threads >= whole else EAGER
        candidates = [
            (packages[0], engine, costed.threads),
            (packages[1], "", max(whole, costed.threads)),
        ]
        rows = times(candidates, feed, SECONDS, PAUSE)
    # Other work on the machine makes calls slower, and those of more threads most.
    took = [row["fastest_ms"] / 1e3 for row in rows]
    return replace(divided, measured=Times(took[0], took[1], engine or runs_on.name))
