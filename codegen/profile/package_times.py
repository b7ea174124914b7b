"""What packages take here, with lanes and without."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...analysis.errors import VerificationError
from ...analysis.literals import one_line
from ...analysis.oracle import child
from ..ir.engine_plan import EnginePlan
from ..lanes.divide import EAGER, Divided, Times
from ..verify.parity import TIME_LIMIT_S
from . import stopwatch

SECONDS = 8.0  # for both packages
PAUSE = 0.02  # seconds; GNU's OpenMP lets threads wait awake for about 10 ms
Write = Callable[[Path], tuple[Any, EnginePlan]]


def times(
    candidates: Sequence[tuple[Path, str, int | None]],
    feed: Mapping[str, Any],
    seconds: float,
    pause: float = 0.0,
) -> list[dict[str, float]]:
    """Of packages, each on an engine ("": its own) and so many threads (None: those
    that PyTorch takes), as stopwatch.py has it."""
    if not candidates:
        return []
    with tempfile.TemporaryDirectory() as folder:
        cases = Path(folder) / "inputs"
        with cases.open("wb") as file:
            child.write(file, list(feed.values()))
        command = [sys.executable, stopwatch.__file__, cases, seconds, pause]
        for package, engine, threads in candidates:
            command += [package, engine, threads or 0]
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
        )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise VerificationError(f"the package can't be timed: {one_line(last, 300)}")
    return list(json.loads(done.stdout.splitlines()[-1]))


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
        _, runs_on = alone(packages[0])
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
