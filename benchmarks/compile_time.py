"""How long fairhand takes to compile a model, and how much memory.

    python benchmarks/compile_time.py resnet50.onnx bert_base.onnx --repeat 3
    python benchmarks/compile_time.py --nodes 1000 2000 5000 10000 --plot growth.svg
    python benchmarks/compile_time.py bert_base.onnx --repeat 7 --targets torch triton

Every run is a fresh process that compiles without verification and without the cache:

    nodes       of the model's file
    seconds     wall time of the compilation, once all is imported
    cpu         CPU time of the same
    import      wall time of the imports, PyTorch's included
    anonymous   peak of RssAnon: heap and private memory, without mapped files (Linux)
    resident    peak resident memory, mapped files included
    weights     size of the package's weights
    ratio       anonymous / weights

With --repeat, times are medians (the range of seconds beside them) and memory is the
maximum. Of several --targets each has a row, and they take turns. --nodes makes
decoders of about so many nodes (synthetic.py); --plot draws time and memory over nodes.
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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from synthetic import write_decoder

SAMPLE_SECONDS = 0.005
MB = 1e6
COLUMNS = "model nodes seconds cpu import anonymous resident weights ratio".split()


class RunFailed(Exception):
    """The compiling process ended with an error; the message is its stderr."""


@dataclass(frozen=True)
class Run:
    """One compilation: seconds, and sizes in bytes."""

    nodes: int
    seconds: float
    cpu: float
    import_seconds: float
    resident: int
    anonymous: int  # 0 where the system doesn't say
    weights: int


def compile_here(model: str, package: str, result: str, target: str) -> None:
    """The measured process."""
    start = time.perf_counter()
    from fairhand.codegen.pipeline import compile

    imported, cpu = time.perf_counter(), time.process_time()
    done = compile(Path(model), package, target=target, verify=False, cache=False)
    end, cpu = time.perf_counter(), time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = {
        "nodes": done.report["source"]["nodes"],
        "seconds": end - imported,
        "cpu": cpu,
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


def measure(model: Path, target: str) -> Run:
    """Compile `model` in a fresh process and watch it from here.

    A thread inside would miss peaks: native code that holds the GIL stops it.
    """
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / re.sub(r"\W", "_", model.stem)
        result, errors = Path(folder) / "result.json", Path(folder) / "errors.txt"
        command = [sys.executable, __file__, "--child", model, package, result, target]
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


def row(name: str, runs: list[Run]) -> tuple[str, ...]:
    seconds = sorted(run.seconds for run in runs)
    spread = f" ({seconds[0]:.2f}-{seconds[-1]:.2f})" if len(runs) > 1 else ""
    anonymous = max(run.anonymous for run in runs)
    weights = runs[0].weights
    return (
        name,
        f"{runs[0].nodes:,}",
        f"{statistics.median(seconds):.2f}{spread}",
        f"{statistics.median(run.cpu for run in runs):.2f}",
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


def decoders(folder: Path, nodes: list[int]) -> Iterator[Path]:
    for count in nodes:
        path = folder / f"decoder_{count}.onnx"
        write_decoder(path, nodes=count)
        yield path


def plot(runs: list[Run], path: Path) -> None:
    """Seconds of CPU and anonymous memory over nodes, side by side; by matplotlib."""
    from matplotlib.figure import Figure

    runs = sorted(runs, key=lambda run: run.nodes)
    memory = [run.anonymous / MB for run in runs]
    figure = Figure(figsize=(9, 3.2))
    panels = figure.subplots(1, 2)
    for panel, title, values in (
        (panels[0], "CPU seconds", [run.cpu for run in runs]),
        (panels[1], "MB of anonymous memory", memory),
    ):
        panel.plot([run.nodes for run in runs], values, "o-")
        panel.set(title=title, xlabel="nodes", xlim=(0, None), ylim=(0, None))
    figure.savefig(path, bbox_inches="tight")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path, metavar="model.onnx")
    parser.add_argument("--nodes", nargs="+", type=int, default=[])
    parser.add_argument("--plot", type=Path, metavar="FILE.svg")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="runs each")
    parser.add_argument(
        "--targets", nargs="+", choices=("torch", "triton"), default=["torch"]
    )
    options = parser.parse_args(arguments)
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    rows, failed = [], 0
    points: list[Run] = []
    with tempfile.TemporaryDirectory() as folder:
        for model in [*options.models, *decoders(Path(folder), options.nodes)]:
            runs = dict[str, list[Run]]()
            try:
                for target in options.targets * options.repeat:
                    made = measure(model.resolve(), target)
                    runs.setdefault(target, []).append(made)
            except RunFailed as error:
                failed += 1
                print(f"{model} can't be compiled:\n{error}\n", file=sys.stderr)
                continue
            for target, found in runs.items():
                name = model.name + f", {target}" * (len(runs) > 1)
                rows.append(row(name, found))
                print(f"{name}: {rows[-1][2]} s", file=sys.stderr)
            first = runs[options.targets[0]]
            points.append(sorted(first, key=lambda run: run.cpu)[len(first) // 2])
    if options.plot:
        plot(points, options.plot)
    cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
    print(f"{options.repeat} fresh process(es) each, {len(cores)} cores\n")
    print_table(rows)
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        compile_here(*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
