"""Compiles that are killed, that a full disk stops, and that run two at a time.

    python -m tests.tools.interrupted [--kills 200] [--full 20] [--pairs 10]

Two models take turns to be compiled into one folder. Whatever happens to a compile,
the package that stands there afterwards must be, byte for byte, that of one of them;
processes that it had started must end soon; and the compile after that clears away what
is left beside it. Compiles are forks of this process, on systems that have them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

import fairhand

LINGER_S = 5.0  # what a killed compile started may go on for, or as long as one takes
COMPILE_S = 300


def models(folder: Path) -> list[Path]:
    """Two models that differ in their weights and in an operator."""
    files = []
    for number, activation in enumerate(("Relu", "Tanh")):
        text = f"""<ir_version: 9, opset_import: ["" : 20]>
            g (float[n, 3, 16, 16] x) => (float[n, m] y) {{
            c = Conv(x, k) r = {activation}(c) p = GlobalAveragePool(r)
            f = Flatten(p) h = MatMul(f, w) a = {activation}(h) y = MatMul(a, v) }}"""
        made = onnx.parser.parse_model(text)
        rng = np.random.default_rng(number)
        for name, shape in {
            "k": (64, 3, 3, 3),
            "w": (64, 1000),
            "v": (1000, 500),
        }.items():
            weight = rng.standard_normal(shape).astype(np.float32)
            made.graph.initializer.append(numpy_helper.from_array(weight, name))
        files.append(folder / f"model{number}.onnx")
        onnx.save(made, files[-1])
    return files


def contents(package: Path) -> dict[str, str]:
    """The files of a package by their hashes, without what tells of one run alone."""
    found = {}
    for path in sorted(package.rglob("*")):
        name = str(path.relative_to(package))
        if not path.is_file() or "__pycache__" in name:
            continue
        data = path.read_bytes()
        if name == "report.json":
            report = json.loads(data)
            data = json.dumps({k: report[k] for k in ("source", "sizes")}).encode()
        found[name] = hashlib.sha256(data).hexdigest()
    return found


def begun(model: Path, out: Path, before: Callable[[], None] = lambda: None) -> int:
    """Compile in a fork that leads a group of processes; returns its number."""
    child = os.fork()
    if child:
        return child
    os.setsid()
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        before()
        fairhand.compile(model, out, cache=False)
        code = 0
    except (fairhand.FairhandError, OSError):
        code = 2
    finally:
        os._exit(code)


def ended(child: int) -> int | None:
    """The exit code of a compile; None if a signal or the limit of time ended it."""
    end = time.monotonic() + COMPILE_S
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def lingers(group: int, seconds: float) -> bool:
    """Whether processes of a group are still there after a while; they are ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.05)
    os.killpg(group, signal.SIGKILL)
    return True


class Trial:
    """A folder that compiles write into, and what went wrong there."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.files = models(folder)
        self.out = folder / "packages" / "net"
        self.rng = random.Random(seed)
        self.faults: list[str] = []
        self.whole: list[dict[str, str]] = []
        self.seconds = 0.0
        for file in self.files:
            start = time.monotonic()
            if ended(begun(file, self.out)) != 0:
                raise SystemExit(f"{file} can't be compiled")
            self.seconds = time.monotonic() - start
            self.whole.append(contents(self.out))

    def check(self, what: str) -> None:
        """Note it if the package isn't that of one of the models."""
        if contents(self.out) not in self.whole:
            self.faults.append(f"{what}: the package isn't whole")

    def left(self) -> list[str]:
        """What stands beside the package."""
        return [p.name for p in self.out.parent.iterdir() if p != self.out]

    def kill(self, number: int) -> None:
        """Kill a compile, at a random moment."""
        child = begun(self.files[number % 2], self.out)
        time.sleep(self.rng.uniform(0, 1.1 * self.seconds))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if lingers(child, max(LINGER_S, self.seconds)):
            self.faults.append(f"kill {number}: a process outlives it")
        self.check(f"kill {number}")

    def fill(self, number: int) -> None:
        """Compile where no file may be larger than so much."""
        most = int(10 ** self.rng.uniform(2, 6.5))

        def limit() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

        code = ended(begun(self.files[number % 2], self.out, limit))
        if code not in (0, 2):
            self.faults.append(f"{most} bytes: exit code {code}")
        self.check(f"{most} bytes")

    def pair(self, number: int) -> None:
        """Two compiles, the second a random while after the first."""
        first = begun(self.files[0], self.out)
        time.sleep(self.rng.uniform(0, self.seconds / 4))
        second = begun(self.files[1], self.out)
        codes = [ended(first), ended(second)]
        if 0 not in codes or not set(codes) <= {0, 2}:
            self.faults.append(f"pair {number}: exit codes {codes}")
        self.check(f"pair {number}")

    def clear(self) -> None:
        """A whole compile, after which nothing is left beside the package."""
        code, left = ended(begun(self.files[0], self.out)), self.left()
        if code != 0 or left:
            self.faults.append(f"the next compile: exit code {code}, left {left}")
        self.check("the next compile")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--full", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trial, seen = Trial(Path(folder), given.seed), 0
        plan = {
            trial.kill: given.kills,
            trial.fill: given.full,
            trial.pair: given.pairs,
        }
        for attempt, count in plan.items():
            for number in range(count):
                attempt(number)
                seen = max(seen, len(trial.left()))
            trial.clear()
    print(f"{given.kills} kills, {given.full} full disks, {given.pairs} pairs:")
    print(f"a compile alone takes {trial.seconds:.1f} s")
    print(f"{len(trial.faults)} faults; at most {seen} folders left beside the package")
    print("\n".join(trial.faults))
    return 1 if trial.faults else 0


if __name__ == "__main__":
    sys.exit(main())
