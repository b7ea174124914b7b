"""Times emitted packages or their engines in turn, in a process of its own.

    python stopwatch.py CASES SECONDS PAUSE (PACKAGE ENGINE THREADS)...

CASES is a file of the inputs in their order, as child.py writes it; "" for ENGINE is
the package's own, 0 for THREADS what PyTorch takes. Prints a JSON list: for each the
median of a call in milliseconds, the fastest call, and the seconds that its first three
calls took. PAUSE are seconds after which each is called twice, and timed once: threads
that wait for more of another one's call fall asleep.
"""

import sys

if __name__ == "__main__":
    # This file's folder would hide modules of the standard library, such as inspect.
    del sys.path[0]

import importlib
import importlib.util
import json
import statistics
import time
from pathlib import Path

FEWEST = 5  # rounds
CHILD = Path(__file__).parents[2] / "analysis" / "oracle" / "child.py"


def main() -> None:
    """Print how long each candidate takes on the cases, as JSON."""
    cases, seconds, pause = Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    candidates = list(zip(*(sys.argv[start::3] for start in (4, 5, 6)), strict=True))
    spec = importlib.util.spec_from_file_location("child", CHILD)
    assert spec is not None and spec.loader is not None
    child = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(child)
    with cases.open("rb") as file:
        arrays = child.read(file)
    first, calls = [], []
    for folder, engine, threads in candidates:
        module = child.imported(folder)
        given = {"engine": engine} if engine else {}
        session = module.Session(threads=int(threads) or None, **given)
        names = [tensor.name for tensor in session.get_inputs()]
        feed = dict(zip(names, arrays, strict=True))
        calls.append((session, feed))
        first.append(sum(_timed(session, feed) for _ in range(3)))
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < FEWEST:
        for taken, call in zip(times, calls, strict=True):
            if pause:
                time.sleep(pause)
                _timed(*call)  # has the caches to itself again
            taken.append(_timed(*call))
    rows = zip(times, first, strict=True)
    found = [
        {
            "ms": 1e3 * statistics.median(taken),
            "fastest_ms": 1e3 * min(taken),
            "first_calls_s": before,
        }
        for taken, before in rows
    ]
    print(json.dumps(found))


def _timed(session, feed) -> float:  # type: ignore[no-untyped-def]
    start = time.perf_counter()
    session.run(None, feed)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
