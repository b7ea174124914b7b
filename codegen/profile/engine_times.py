"""`compile --profile`: the fastest engine of those that agree with ONNX Runtime."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...analysis.errors import VerificationError
from ...analysis.literals import one_line
from ..verify import runner
from ..verify.parity import TIME_LIMIT_S, Verification
from . import stopwatch

SECONDS = 8.0  # for all engines of a package together
# A measured difference smaller than this is noise; the simpler engine has it then.
WORTH = 1.03

Measured = dict[str, dict[str, Any]]


def measure(
    package: Path,
    engines: Iterable[str],
    feed: Mapping[str, Any],
    check: Callable[[str], Verification],
    seconds: float = SECONDS,
) -> Measured:
    """For each engine its parity, then its times, one call of each in turn.

    `check` verifies the package on an engine; one that fails isn't timed.
    """
    table: Measured = {}
    for engine in engines:
        try:
            worst = check(engine).worst
        except VerificationError as error:
            table[engine] = {"failed": one_line(error.what, 200)}
        else:
            table[engine] = {"worst_relative_error": float(f"{worst:.3g}")}
    passed = [engine for engine, row in table.items() if "failed" not in row]
    candidates = [(package, engine, None) for engine in passed]
    for engine, row in zip(passed, times(candidates, feed, seconds), strict=True):
        table[engine] |= {n: float(f"{row[n]:.3g}") for n in ("ms", "first_calls_s")}
    return table


def fastest(table: Measured) -> str:
    """Engines come in order of simplicity; each has to beat the best before it."""
    best = ""
    for engine, row in table.items():
        if "ms" in row and (not best or table[best]["ms"] > WORTH * row["ms"]):
            best = engine
    return best


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
        runner.write(Path(folder) / "in_0.npz", list(feed.values()))
        command = [sys.executable, stopwatch.__file__, folder, seconds, pause]
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
