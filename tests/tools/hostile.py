"""Compile files that are wrong or ask too much, each in a process of its own.

    python -m tests.tools.hostile [--every N] [--only TEXT] [--no-verify] [--jobs N]

tests/support/hostile_files.py makes them. Each is compiled and verified, or refused in
words, within limits of time and memory. What else happens (another exception, a fault
of ours in the words, a dead process, a file that ONNX Runtime loads neither before nor
after) is printed. Processes are forks of this one, on systems that have them.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import fairhand
from fairhand.analysis.errors import FairhandError, VerificationError

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.hostile_files import Case, cases

SECONDS, BYTES = 60, 2 << 30  # of processor time, as a machine may be busy
LONGEST = 900.0  # seconds by the clock
REFUSED, COMPILED = "refused", "compiled"
FAULT = "fault in fairhand"


def outcome(case: Case, verify: bool) -> tuple[str, str]:
    """What becomes of one file, and the words for it."""
    with tempfile.TemporaryDirectory() as folder:
        reading, writing = os.pipe()
        begun, pid = time.monotonic(), os.fork()
        if not pid:
            os.close(reading)
            _compile(case, Path(folder), verify, writing)
        os.close(writing)
        hung = not _ends(pid, begun + LONGEST)
        with open(reading, "rb") as pipe:
            told = b"" if hung else pipe.read()
    if hung:
        return "hangs", f"not done in {LONGEST:.0f} s"
    if not told:
        return "dies", f"without a word, or after {SECONDS} s of processor time"
    kind, words, used = json.loads(told)
    return ("takes memory", f"{used >> 20} MiB") if used > BYTES else (kind, words)


def _ends(pid: int, limit: float) -> bool:
    """Whether a process ends in time; it is killed, with all it began, if not."""
    while time.monotonic() < limit:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.005)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def _compile(case: Case, folder: Path, verify: bool, told: int) -> None:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    kind, words = COMPILED, ""
    try:
        fairhand.compile(case(folder), folder / "out", verify=verify, cache=False)
    except FairhandError as error:
        kind, words = REFUSED, str(error)
        if FAULT in words:
            kind = "our fault"
        elif isinstance(error, VerificationError) and (error.feed or error.off):
            kind = "wrong"  # though it is refused for that
    except BaseException:
        kind, words = "raises", traceback.format_exc()
    used = 1024 * max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    try:
        os.write(told, json.dumps([kind, words[-1500:], used]).encode())
    finally:
        os._exit(0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--every", type=int, default=1, help="of these only each Nth")
    parser.add_argument("--only", default="", help="those with this in their names")
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    chosen = {n: case for n, case in cases().items() if given.only in n}
    names = list(chosen)[:: given.every]
    run = partial(outcome, verify=not given.no_verify)
    counts: collections.Counter[str] = collections.Counter()
    with ThreadPoolExecutor(given.jobs) as threads:
        found = threads.map(run, (chosen[name] for name in names))
        for name, (kind, words) in zip(names, found, strict=True):
            counts[kind] += 1
            if kind not in (REFUSED, COMPILED):
                print(f"{name}: {kind}\n{words}\n", flush=True)
    print(len(names), "files:", dict(counts))
    return int(bool(counts.keys() - {REFUSED, COMPILED}))


if __name__ == "__main__":
    sys.exit(main())
