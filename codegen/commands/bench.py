"""`fairhand bench`: a package beside ONNX Runtime, the two in turn in one process."""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime as ort
from rich.console import Console

from ...analysis.lazy import lazy
from ..emit.package_files import of_package
from ..load.read_model import load
from ..verify.input_sizes import first_sizes
from ..verify.inputs import make_inputs

torch = lazy("torch")


def bench(
    package: Path, model: Path, rounds: int, threads: int | None, out: Console
) -> None:
    """Print medians and the median of the per-round ratios (over 1: we win)."""
    loaded = of_package(package, load(model))
    feed = make_inputs(loaded.model, 0, first_sizes(loaded.model))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if threads is not None:
        options.intra_op_num_threads = threads
        torch.set_num_threads(threads)
    reference = ort.InferenceSession(
        str(model), options, providers=["CPUExecutionProvider"]
    )
    session = _session(package)
    theirs, ours = [], []
    for i in range(rounds + 3):
        a = _seconds(lambda: reference.run(None, feed))
        b = _seconds(lambda: session.run(None, feed))
        if i >= 3:  # the first calls set up caches on both sides
            theirs.append(a)
            ours.append(b)
    ratio = statistics.median(a / b for a, b in zip(theirs, ours, strict=True))
    out.print(f"onnxruntime {statistics.median(theirs) * 1e3:9.3f} ms (median)")
    out.print(f"package     {statistics.median(ours) * 1e3:9.3f} ms (median)")
    out.print(f"ratio       {ratio:9.2f}    (over 1: the package is faster)")


def _session(package: Path) -> Any:
    """The package's Session, whatever its folder is called."""
    name = "fairhand_bench_package"
    spec = importlib.util.spec_from_file_location(name, package / "__init__.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    inner = [k for k in sys.modules if k.partition(".")[0] == name]
    for key in inner:  # of the package that was measured before
        del sys.modules[key]
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module.Session()


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
