"""Speed on the CPU: emitted packages beside ONNX Runtime, call by call in turn.

    python benchmarks/cpu.py models/ --seconds 20
    python benchmarks/cpu.py models/ --threads 1 --columns eager compile onnx2torch aot
    python benchmarks/cpu.py models/ --results build/cpu.json --page docs/performance.md

Every model and number of threads is measured in a process of its own, for about
--seconds. A round is a turn of everything, in an order that rotates: a pause, calls
that don't count, then calls that do, and their median. A ratio is the median of (ONNX
Runtime's time / ours) over the rounds, so over 1 we win. ONNX Runtime has all its
optimisations. Results are kept in --results and the page is written anew after each: a
run that was stopped goes on where it was, and one with more --columns measures only
what a model lacks. `cpu` is the share of a core per thread that the process got: well
under 1, something else was running.

Inputs are those in <model>.npz (arrays `in:<name>`) where there is one, else random.
Packages are compiled once, into --packages.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import cpu_page
import cpu_plot
import pages
from cpu_rivals import onnx2torch

PRECISIONS = ("float32", "bf16", "int8")
COLUMNS = ("eager", "packed", "onednn", "compile", "aot", "openvino", "onnx2torch")
WARM_CALLS = 4  # the third runs what the second prepared
# Threads of a call that is over go on spinning, on cores that the next one wants: ONNX
# Runtime's for 50 ms, PyTorch's for 10.
PAUSE = 0.1
# After it, those that sleep have to be woken and the caches are another's: the first
# call takes up to twice as long as the fifth.
WARM = 0.02  # seconds of calls that don't count, in a turn
COUNTED = 0.03  # and of those that do; one at least of each
FEWEST = 7  # rounds

Call = Callable[[], object]
Row = dict[str, Any]


# ---- one process: one model, one number of threads


def measure(
    model: Path, package: Path, threads: int, seconds: float, columns: list[str]
) -> Row:
    import numpy as np
    import onnxruntime as ort
    import torch

    torch.set_num_threads(threads)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    reference = ort.InferenceSession(
        str(model), options, providers=["CPUExecutionProvider"]
    )
    feed = inputs(model, reference)
    calls: dict[str, Call] = {"onnxruntime": lambda: reference.run(None, feed)}
    sys.path.insert(0, str(package.parent))
    module = __import__(package.name)
    session = module.Session(threads=threads)
    calls["package"] = lambda: session.run(None, feed)
    row: Row = {"engine": sys.modules[f"{package.name}.session"].ENGINE, "failed": {}}
    made_in = dict.fromkeys(calls, 0.0)
    for name in columns:
        start = time.perf_counter()
        try:
            calls[name] = another(name, module, model, feed, threads)
            made_in[name] = time.perf_counter() - start
        except Exception as error:  # what others can't convert is a result
            row["failed"][name] = f"{type(error).__name__}: {error}"[:200]
    wanted = calls["onnxruntime"]()
    assert isinstance(wanted, list)
    for name, call in list(calls.items()):
        try:
            first = made_in[name] + timed(call)
            for _ in range(WARM_CALLS):
                found = call()
            assert isinstance(found, list)
            error_ = max(
                float(np.abs(np.subtract(a, b, dtype=np.float64)).max())
                / max(1e-3, float(np.abs(b).max()))
                for a, b in zip(found, wanted, strict=True)
            )
        except Exception as error:
            row["failed"][name] = f"{type(error).__name__}: {error}"[:200]
            del calls[name]
            continue
        row[name] = {"first_s": first, "error": error_}
    return row | race(calls, row, seconds, threads)


def inputs(model: Path, reference: Any) -> dict[str, Any]:
    import numpy as np

    from fairhand.codegen.load.read_model import load
    from fairhand.codegen.verify.input_sizes import first_sizes
    from fairhand.codegen.verify.inputs import make_inputs

    beside = model.with_suffix(".npz")
    if beside.exists():
        with np.load(beside) as file:
            return {i.name: file[f"in:{i.name}"] for i in reference.get_inputs()}
    loaded = load(model).model
    return dict(make_inputs(loaded, 0, first_sizes(loaded)))


def another(
    name: str, module: Any, model: Path, feed: dict[str, Any], threads: int
) -> Call:
    """A call of the package on this engine, or of another tool's module."""
    if name == "onnx2torch":
        return onnx2torch(model, feed)
    session = module.Session(engine=name, threads=threads)
    return lambda: session.run(None, feed)


def race(calls: dict[str, Call], row: Row, seconds: float, threads: int) -> Row:
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    start = time.perf_counter()
    used = passed = 0.0
    while time.perf_counter() - start < seconds or len(times["onnxruntime"]) < FEWEST:
        for name in order:
            time.sleep(PAUSE)
            repeated(calls[name], WARM)
            before = time.perf_counter(), time.process_time()
            times[name].append(statistics.median(repeated(calls[name], COUNTED)))
            passed += time.perf_counter() - before[0]
            used += time.process_time() - before[1]
        order.append(order.pop(0))
    theirs, package = times["onnxruntime"], times.get("package", [])
    share = used / passed / threads
    found: Row = {"rounds": len(theirs), "cpu": share, "load": os.getloadavg()[0]}
    for name, ours in times.items():
        ratios = sorted(a / b for a, b in zip(theirs, ours, strict=True))
        quarter = len(ratios) // 4
        found[name] = row[name] | {
            "ms": 1e3 * statistics.median(ours),
            "ratio": statistics.median(ratios),
            "low": ratios[quarter],
            "high": ratios[-1 - quarter],
        }
        if package:  # its lead
            leads = [a / b for a, b in zip(ours, package, strict=True)]
            found[name]["lead"] = statistics.median(leads)
    return found


def repeated(call: Call, seconds: float) -> list[float]:
    """Times of calls; those in which another process took a core only if all were."""
    start, times, quiet = time.perf_counter(), list[float](), list[float]()
    while not times or time.perf_counter() - start < seconds:
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        times.append(timed(call))
        if resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw == switches:
            quiet.append(times[-1])
    return quiet or times


def timed(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# ---- all of them


def compiled(model: Path, folder: Path, options: argparse.Namespace) -> Path:
    """The package of a model, compiled and verified unless it is there."""
    import fairhand

    name = f"net_{model.stem}_{options.precision}"
    package = folder / re.sub(r"\W", "_", name)
    if not (package / "report.json").exists():
        fairhand.compile(
            model,
            package,
            verify=not options.no_verify,
            precision=options.precision,
        )
    return package


def added(row: Row, more: Row) -> Row:
    """A row with the columns of another measurement; their ratios are of its rounds."""
    if "broken" in more:
        return row or more
    if not row:
        return more
    failed = row["failed"] | more["failed"]
    return more | row | {"failed": failed}


def run(
    model: Path, threads: int, columns: Iterable[str], options: argparse.Namespace
) -> Row:
    """One measurement in a process of its own, or how it failed."""
    try:
        package = compiled(model, options.packages, options)
    except Exception as error:
        return {"broken": f"{type(error).__name__}: {error}"[:300]}
    command = [sys.executable, __file__, "--child", model, package, threads]
    command += [options.seconds, *columns]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    try:
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            env=environment,
            timeout=20 * options.seconds + 600,
        )
    except subprocess.TimeoutExpired:
        return {"broken": "took too long"}
    if done.returncode != 0:
        return {"broken": (done.stderr.strip().splitlines() or ["crashed"])[-1][:300]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def ceilings() -> tuple[float, float]:
    """What one core reaches: GFLOP/s of a product by oneDNN, GB/s of reading memory."""
    import torch

    torch.set_num_threads(1)
    x = torch.randn(512, 1024)
    packed = torch.ops.mkldnn._reorder_linear_weight(torch.randn(1024, 1024), 512)
    product = torch.ops.mkldnn._linear_pointwise
    seconds = min(
        timed(lambda: product(x, packed, None, "none", [], "")) for _ in range(30)
    )
    big = torch.ones(64 * 2**20)
    reading = min(timed(big.sum) for _ in range(10))
    return 2 * 512 * 1024 * 1024 / seconds / 1e9, 4 * big.numel() / reading / 1e9


def machine() -> str:
    """A paragraph that says what was measured on."""
    import onnxruntime as ort
    import torch

    name, flags = platform.processor() or platform.machine(), set[str]()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line.partition(":") for line in info.read_text().splitlines()]
        fields = {key.strip(): value.strip() for key, _, value in lines}
        name, flags = fields.get("model name", name), set(fields["flags"].split())
    known = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
    has = ", ".join(flag for flag in known if flag in flags) or "no AVX"
    flops, reading = ceilings()
    return (
        f"Machine: {name}, {os.cpu_count()} cores ({has}); "
        f"PyTorch {torch.__version__}, onnxruntime {ort.__version__}, "
        f"Python {platform.python_version()}. One core reaches {flops:.0f} GFLOP/s in "
        f"a product of matrices by oneDNN and reads {reading:.0f} GB/s."
    )


def write_page(results: dict[str, Any], path: Path) -> None:
    """The page, and its picture beside it."""
    picture = path.with_suffix(".svg")
    pages.write(path, cpu_page.parts(results, COLUMNS, picture.name))
    cpu_plot.plot(results["threads"], picture)


def models(paths: Iterable[Path], pattern: str) -> Iterator[Path]:
    for path in paths:
        found = sorted(path.glob("*.onnx")) if path.is_dir() else [path]
        yield from (each for each in found if each.match(pattern))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path, help=".onnx files or folders")
    parser.add_argument("--only", default="*", metavar="GLOB", help="of file names")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--columns", nargs="*", default=[], choices=COLUMNS)
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--again", action="store_true", help="what was measured, too")
    parser.add_argument("--packages", type=Path, default=Path("build/cpu_packages"))
    parser.add_argument("--results", type=Path, default=Path("build/cpu.json"))
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    options.packages = options.packages.resolve()
    results: dict[str, Any] = {"threads": {}}
    if options.results.exists():
        results = json.loads(options.results.read_text("utf-8"))
    measured = False
    for model in models(options.models, options.only):
        for threads in options.threads:
            rows = results["threads"].setdefault(str(threads), {})
            row = {} if options.again else rows.get(model.stem, {})
            known = {
                *row,
                *row.get("failed", ()),
                *(COLUMNS if "broken" in row else ()),
            }
            columns = [name for name in options.columns if name not in known]
            if row and not columns:
                continue
            if not measured:
                results["machine"], measured = machine(), True
            more = run(model.resolve(), threads, columns, options)
            row = rows[model.stem] = added(row, more)
            ratio = row.get("package", {}).get("ratio", math.nan)
            note = row.get("broken") or f"{row['engine']} {ratio:.2f} {row['failed']}"
            print(f"{model.stem} x{threads}: {note}", file=sys.stderr, flush=True)
            options.results.parent.mkdir(parents=True, exist_ok=True)
            options.results.write_text(json.dumps(results, indent=1), "utf-8")
            if options.page is not None:
                write_page(results, options.page)
    if options.page is None:
        print(*cpu_page.parts(results, COLUMNS, "-").values(), sep="\n")
    elif not measured:  # the text alone is new
        write_page(results, options.page)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        model_, package_, threads_, seconds_, *columns_ = sys.argv[2:]
        made_ = measure(
            Path(model_), Path(package_), int(threads_), float(seconds_), columns_
        )
        print(json.dumps(made_))
    else:
        sys.exit(main(sys.argv[1:]))
