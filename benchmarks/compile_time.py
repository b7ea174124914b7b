"""How long fairhand takes to compile a model, and how much memory.

    python benchmarks/compile_time.py resnet50.onnx bert_base.onnx --repeat 3

Every run is a fresh process that compiles without verification:

    seconds     wall time in that process, imports of fairhand and PyTorch included
    import      the part of it that `import fairhand` took
    anonymous   peak of RssAnon: heap and private memory, without mapped files (Linux)
    resident    peak resident memory, mapped files included
    weights     size of the package's weights
    ratio       anonymous / weights

With --repeat, seconds are medians (the range beside them) and memory is the maximum.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SAMPLE_SECONDS = 0.005
MB = 1e6
COLUMNS = ("model", "seconds", "import", "anonymous", "resident", "weights", "ratio")


class RunFailed(Exception):
    """The compiling process ended with an error; the message is its stderr."""


@dataclass(frozen=True)
class Run:
    """One compilation: seconds, and sizes in bytes."""

    seconds: float
    import_seconds: float
    resident: int
    anonymous: int  # 0 where the system doesn't say
    weights: int


def compile_here(model: str, package: str, result: str) -> None:
    """The measured process."""
    start = time.perf_counter()
    import fairhand

    imported = time.perf_counter()
    fairhand.compile(model, package, verify=False)
    end = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = {
        "seconds": end - start,
        "import_seconds": imported - start,
        "resident": peak * (1 if sys.platform == "darwin" else 1024),
        "weights": sum(f.stat().st_size for f in Path(package).glob("*.safetensors")),
    }
    Path(result).write_text(json.dumps(found), "utf-8")


def anonymous_bytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
    except OSError:  # another system, or the process has just ended
        return 0
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def measure(model: Path) -> Run:
    """Compile `model` in a fresh process and watch it from here.

    A thread inside would miss peaks: native code that holds the GIL stops it.
    """
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / re.sub(r"\W", "_", model.stem)
        result, errors = Path(folder) / "result.json", Path(folder) / "errors.txt"
        command = [sys.executable, __file__, "--child", model, package, result]
        peak = 0
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr
            )
            try:
                while process.poll() is None:
                    peak = max(peak, anonymous_bytes(process.pid))
                    time.sleep(SAMPLE_SECONDS)
            finally:
                process.kill()
        if process.returncode:
            raise RunFailed(errors.read_text("utf-8", "replace").strip())
        return Run(anonymous=peak, **json.loads(result.read_text("utf-8")))


def row(model: Path, runs: list[Run]) -> tuple[str, ...]:
    seconds = sorted(run.seconds for run in runs)
    spread = f" ({seconds[0]:.2f}-{seconds[-1]:.2f})" if len(runs) > 1 else ""
    anonymous = max(run.anonymous for run in runs)
    weights = runs[0].weights
    return (
        model.name,
        f"{statistics.median(seconds):.2f}{spread}",
        f"{statistics.median(run.import_seconds for run in runs):.2f}",
        f"{anonymous / MB:.0f} MB" if anonymous else "-",
        f"{max(run.resident for run in runs) / MB:.0f} MB",
        f"{weights / MB:.1f} MB",
        f"{anonymous / weights:.2f}" if anonymous and weights else "-",
    )


def print_table(rows: list[tuple[str, ...]]) -> None:
    """A Markdown table, so that it can be pasted as it is."""
    rule = tuple("---" if i == 0 else "---:" for i in range(len(COLUMNS)))
    for cells in (COLUMNS, rule, *rows):
        print(f"| {' | '.join(cells)} |")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path, metavar="model.onnx")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="runs each")
    options = parser.parse_args(arguments)
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    rows, failed = [], 0
    for model in options.models:
        try:
            runs = [measure(model.resolve()) for _ in range(options.repeat)]
        except RunFailed as error:
            failed += 1
            print(f"{model} can't be compiled:\n{error}\n", file=sys.stderr)
            continue
        rows.append(row(model, runs))
        print(f"{model}: {rows[-1][1]} s", file=sys.stderr)
    cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
    print(f"{options.repeat} fresh process(es) each, {len(cores)} cores\n")
    print_table(rows)
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        compile_here(*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
