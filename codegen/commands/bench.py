"""`fairhand bench`: a package beside ONNX Runtime, the two in turn in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import onnxruntime as ort
from rich.console import Console

from ...analysis.lazy import lazy
from ...analysis.literals import one_line
from ..emit.package_files import of_package, read_report
from ..export.onnx_file import imported
from ..load.read_model import load
from ..verify.inputs import make_inputs
from ..verify.parity import oracle_source

torch = lazy("torch")


def bench(
    package: Path, model: Path, rounds: int, threads: int | None, out: Console
) -> None:
    """Print what runs, medians, and medians of a round's ratios (over 1: we win).

    ONNX Runtime runs twice, with all its optimisations and with none of them. Sizes are
    the first that the package was verified at.
    """
    loaded, report = of_package(package, load(model)), read_report(package)
    sizes = (report["sizes"] or [{}])[0]
    feed = make_inputs(loaded.model, 0, sizes)
    if threads is not None:
        torch.set_num_threads(threads)
    session = imported(package).Session()
    runs = {"package": session.run}
    for name, level in _LEVELS.items():
        runs[name] = _reference(oracle_source(loaded), level, threads).run
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for i in range(rounds + 3):
        for name, run in runs.items():
            seconds = _seconds(lambda run=run: run(None, feed))  # type: ignore[misc]
            if i >= 3:  # the first calls set up caches on all sides
                taken[name].append(seconds)
    text = (
        ", ".join(f"{one_line(key)}={n}" for key, n in sizes.items()) or "as declared"
    )
    count = threads or torch.get_num_threads()
    out.print(f"sizes {text}; {count} threads; engine {report['engine']['name']}")
    for row in session.engines():
        ms = ", ".join(f"{name or _BASE} {t:.3g} ms" for name, t in row["ms"].items())
        out.print(f"measured by the session: {ms}; taken: {row['engine'] or _BASE}")
    for name, times in taken.items():
        out.print(f"{name:34} {statistics.median(times) * 1e3:9.3f} ms (median)")
    for name in _LEVELS:
        rows = zip(taken[name], taken["package"], strict=True)
        ratio = statistics.median(theirs / ours for theirs, ours in rows)
        out.print(f"{'ratio to ' + name:34} {ratio:9.2f}    (over 1: we are faster)")


_BASE = "what it had"  # of engines: what is taken where none of the others gains
_LEVELS = {
    "onnxruntime": "ORT_ENABLE_ALL",
    "onnxruntime unoptimised": "ORT_DISABLE_ALL",
}


def _reference(
    model: str | bytes, level: str, threads: int | None
) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.intra_op_num_threads = threads or torch.get_num_threads()
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
