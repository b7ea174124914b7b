"""What operators and hand-offs take on this machine, measured once and remembered."""

from __future__ import annotations

import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import onnx_ir as ir

from ..analysis.dataflow import Dataflow
from ..analysis.device import CPU, Profile
from ..analysis.lanes import HAND_OFF
from ..analysis.shapes import Shapes
from ..analysis.sizes import Sizes
from ..analysis.spell import (
    TORCH_DTYPES,
    DeviceOf,
    DimOf,
    HelperRef,
    Leaf,
    Ref,
    leaves,
    render,
)
from .blocks import Block, make_steps
from .emit import render_python
from .names import unused
from .steps import LayerRef, Step

LARGEST = 2**30  # bytes that an operator may read and write to be measured
ENOUGH = 0.02  # seconds that one operator is measured for
LONGEST = 120.0  # seconds that all of them may take


def cache_folder() -> Path:
    """Where what was measured is kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "fairhand" / "profile"


def stored_profile() -> Profile:
    """What has been measured on this machine before."""
    import torch

    parts = [platform.machine(), _processor(), str(os.cpu_count()), torch.__version__]
    return Profile(cache_folder(), ", ".join(parts))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((x.partition(":")[2].strip() for x in lines if "model name" in x), "")


def measured_profile(
    model: ir.Model,
    shapes: Shapes,
    flow: Dataflow,
    threads: Iterable[int] = (1,),
    progress: Callable[[str], None] = lambda text: None,
) -> Profile:
    """Measures what is missing, for so many threads per operator.

    What can't be run by itself, is too large, or comes too late, is left to estimates.
    """
    import torch

    profile = stored_profile()
    nodes = [n for n in model.graph if n.domain or n.op_type != "Constant"]
    missing: dict[tuple[str, int], ir.Node] = {}
    for node, op in zip(nodes, flow.operators, strict=True):
        for count in threads:
            known = profile.seconds(CPU.name, [op.signature], count)
            if known is None and op.moved_bytes <= LARGEST:
                missing.setdefault((op.signature, count), node)
    bench = _Bench(model, shapes, flow) if missing else None
    before, end = torch.get_num_threads(), time.monotonic() + LONGEST
    try:
        for i, ((signature, count), node) in enumerate(missing.items(), start=1):
            progress(f"measure {i} of {len(missing)} operators")
            torch.set_num_threads(count)
            seconds = bench.seconds(node) if bench is not None else None
            if seconds is not None:
                profile.add(CPU.name, [signature], seconds, count)
            if time.monotonic() > end:
                break
        torch.set_num_threads(1)
        if profile.seconds(CPU.name, HAND_OFF) is None:
            profile.add(CPU.name, HAND_OFF, _hand_off())
    finally:
        torch.set_num_threads(before)
    return profile


def least(call: Callable[[], object]) -> float:
    """Seconds of the run that was disturbed least, after one that warms up."""
    call()
    best, spent, runs = math.inf, 0.0, 0
    while runs < 3 or (spent < ENOUGH and runs < 100):
        start = time.perf_counter()
        call()
        took = time.perf_counter() - start
        best, spent, runs = min(best, took), spent + took, runs + 1
    return best


def _hand_off() -> float:
    """What passes until a lane begins in a thread that sleeps, as all do in between."""
    import torch

    names: dict[str, Any] = {"__name__": "lanes"}
    exec(compile(render_python("lanes.py.jinja"), "lanes.py", "exec"), names)
    square = torch.ones(256, 256)
    begun: list[float] = []

    def works(seconds: float) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            torch.mm(square, square)

    def begins(x: torch.Tensor) -> None:
        begun.append(time.perf_counter())

    def waited() -> float:
        works(2e-3)
        start = time.perf_counter()
        names["run_lanes"]((works, 1e-3), (begins, square))
        return begun[-1] - start

    try:
        return statistics.median(waited() for _ in range(50))
    finally:
        for pool in names["_pools"].values():
            pool.shutdown()


class _Bench:
    """Runs what is emitted for one node, on inputs of its types and sizes."""

    def __init__(self, model: ir.Model, shapes: Shapes, flow: Dataflow) -> None:
        self.sizes = Sizes(shapes, flow.assumed)
        self.steps: dict[ir.Node, list[Step]] = {}
        for step in make_steps(model, shapes):
            if step.node is not None:
                self.steps.setdefault(step.node, []).append(step)

    def seconds(self, node: ir.Node) -> float | None:
        """None for what can't be run by itself."""
        import torch

        steps = self.steps.get(node, [])
        if not steps or any(isinstance(step, Block) for step in steps):
            return None
        try:
            codes = [self.code(step) for step in steps]
            with torch.inference_mode():
                # Our own text, from identifiers and literals that we made.
                return least(lambda: [eval(code, names) for code, names in codes])
        except Exception:  # of any kind: the estimate serves as well
            return None

    def code(self, step: Step) -> tuple[Any, dict[str, Any]]:
        import numpy as np
        import torch

        from .bisect import build_layer

        names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "np": np}
        names["math"] = math
        labels: dict[object, str] = {}

        def bind(key: object, thing: Callable[[], Any]) -> str:
            if key not in labels:
                labels[key] = unused("x", names)
                names[labels[key]] = thing()
            return labels[key]

        def name(leaf: Leaf) -> str:
            if isinstance(leaf, DimOf):
                return str(self.sizes.number(leaf.dim))
            if isinstance(leaf, DeviceOf):
                return '"cpu"'
            if isinstance(leaf, LayerRef):
                form = leaf.form
                return bind(form, lambda: build_layer(form))
            assert isinstance(leaf, Ref)
            value = leaf.value
            return bind(value, lambda: self.tensor(value))

        for leaf in leaves(step.expr):
            if isinstance(leaf, HelperRef):
                names[leaf.function.__name__] = leaf.function
        return compile(render(step.expr, name), "step", "eval"), names

    def tensor(self, value: ir.Value) -> Any:
        """Random numbers; whole numbers are 0, which is good for an index too."""
        import torch

        from .bisect import to_torch

        if value.const_value is not None:
            return to_torch(value.const_value.numpy())
        dims = self.sizes.dims(value)
        assert dims is not None and value.dtype is not None
        made = torch.zeros(dims, dtype=getattr(torch, TORCH_DTYPES[value.dtype]))
        return made.normal_() if made.is_floating_point() else made
