"""Times the engines of an emitted package in turn, in a process of its own.

    python stopwatch.py PACKAGE CASES SECONDS ENGINE...

CASES holds in_0.npz, as runner.py takes it. Prints a JSON object: for each engine the
median of a call in milliseconds, and the seconds that its first three calls took.
"""

import sys

if __name__ == "__main__":
    # This file's folder would hide modules of the standard library, such as inspect.
    own = sys.path.pop(0)

import importlib
import importlib.util
import json
import statistics
import time
from pathlib import Path

FEWEST = 5  # rounds


def main() -> None:
    package, cases = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    seconds, engines = float(sys.argv[3]), sys.argv[4:]
    spec = importlib.util.spec_from_file_location("runner", Path(own) / "runner.py")
    assert spec is not None and spec.loader is not None
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    sys.path.insert(0, str(package.parent))
    module = importlib.import_module(package.name)
    arrays = runner.read(cases / "in_0.npz")
    first, calls = {}, {}
    for engine in engines:
        session = module.Session(engine=engine)
        names = [tensor.name for tensor in session.get_inputs()]
        feed = dict(zip(names, arrays, strict=True))
        calls[engine] = (session, feed)
        first[engine] = sum(timed(session, feed) for _ in range(3))
    times: dict[str, list[float]] = {engine: [] for engine in engines}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[engines[0]]) < FEWEST:
        for engine, call in calls.items():
            times[engine].append(timed(*call))
    found = {
        engine: {
            "ms": 1e3 * statistics.median(times[engine]),
            "first_calls_s": first[engine],
        }
        for engine in engines
    }
    print(json.dumps(found))


def timed(session, feed) -> float:  # type: ignore[no-untyped-def]
    start = time.perf_counter()
    session.run(None, feed)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
