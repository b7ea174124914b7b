"""What operators and hand-offs take on this machine, measured once and remembered."""

from __future__ import annotations

import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import onnx_ir as ir

from ...analysis.cost.device import CPU, Profile
from ...analysis.dataflow.dataflow import Dataflow
from ...analysis.fusion.cost_model import Timer
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.lazy import lazy
from ...analysis.schedule.lanes import HAND_OFF
from ..emit.runtime_files import copied_whole
from ..engines.choose import takes_images
from .op_runner import Trial, Trials

torch = lazy("torch")

LARGEST = 2**30  # bytes that an operator may read and write to be measured
ENOUGH = 0.02  # seconds that one operator is measured for
LONGEST = 120.0  # seconds that all of them may take


def _stored_profile(images: bool = False) -> Profile:
    """What has been measured on this machine before; images have a layout of theirs."""
    parts = [platform.machine(), _processor(), str(os.cpu_count()), torch.__version__]
    parts += ["channels last"] if images else []
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Profile(home / "fairhand" / "profile", ", ".join(parts))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((x.partition(":")[2].strip() for x in lines if "model name" in x), "")


def measured_profile(
    model: ir.Model,
    shapes: ShapeFacts,
    flow: Dataflow,
    threads: Iterable[int] = (1,),
    progress: Callable[[str], None] = lambda text: None,
) -> Profile:
    """Measures what is missing, for so many threads per operator.

    What can't be run by itself, is too large, or comes too late, is left to estimates.
    """
    profile = _stored_profile(takes_images(model, shapes))
    nodes = [n for n in model.graph if n.domain or n.op_type != "Constant"]
    missing: dict[tuple[str, int], ir.Node] = {}
    for node, op in zip(nodes, flow.operators, strict=True):
        for count in threads:
            known = profile.seconds(CPU.name, [op.signature], count)
            if known is None and op.moved_bytes <= LARGEST:
                missing.setdefault((op.signature, count), node)
    trials = cache(partial(Trials, model, shapes, flow))
    before, end = torch.get_num_threads(), time.monotonic() + LONGEST
    try:
        for i, ((signature, count), node) in enumerate(missing.items(), start=1):
            progress(f"measure {i} of {len(missing)} operators")
            torch.set_num_threads(count)
            found = _seconds(partial(trials().alone, node))
            if found is not None:
                profile.add(CPU.name, [signature], found[0], count)
            if time.monotonic() > end:
                break
        torch.set_num_threads(1)
        if profile.seconds(CPU.name, HAND_OFF) is None:
            profile.add(CPU.name, HAND_OFF, _hand_off())
    finally:
        torch.set_num_threads(before)
    return profile


def pair_timer(model: ir.Model, shapes: ShapeFacts, flow: Dataflow) -> Timer:
    """Times pairs of groups of a rewritten graph, while there is time left for it.

    A group is what it becomes on a CPU: PyTorch's one call for it where there is one,
    else a function of its statements. Both sides take turns, so that they find caches
    and clocks alike.
    """
    nodes = [n for n in model.graph if n.domain or n.op_type != "Constant"]
    trials = cache(partial(Trials, model, shapes, flow))
    end = time.monotonic() + LONGEST

    def times(
        first: Sequence[int], second: Sequence[int]
    ) -> tuple[float, float] | None:
        moved = sum(flow.operators[i].moved_bytes for i in (*first, *second))
        if moved > LARGEST or time.monotonic() > end:
            return None
        one, other = ([nodes[i] for i in group] for group in (first, second))
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            found = _seconds(partial(trials().pair, one, other))
        finally:
            torch.set_num_threads(before)
        return None if found is None else (found[0], found[1])

    return times


def _seconds(make: Callable[[], Sequence[Trial]]) -> list[float] | None:
    """Of each trial that is made; None if there are none, or they fail."""
    try:
        with torch.inference_mode():
            calls = make()
            return in_turn(calls) if calls else None
    except Exception:  # of any kind: the estimate serves as well
        return None


def in_turn(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Of each, seconds of the run that was disturbed least, after one that warms up.

    Where times are compared they are this thread's, which other work doesn't prolong.
    """
    compared = len(calls) > 1
    clock = time.thread_time if compared else time.perf_counter
    fewest = 10 if compared else 3
    for call in calls:
        call()
    best, spent, rounds = [math.inf] * len(calls), 0.0, 0
    while rounds < fewest or (spent < ENOUGH * len(calls) and rounds < 100):
        for i, call in enumerate(calls):
            start = clock()
            call()
            took = clock() - start
            best[i], spent = min(best[i], took), spent + took
        rounds += 1
    return best


def _hand_off() -> float:
    """What passes until a lane begins in a thread that sleeps, as all do in between."""
    names: dict[str, Any] = {"__name__": "lanes"}
    exec(compile(copied_whole("lanes.py"), "lanes.py", "exec"), names)
    square = torch.ones(256, 256)
    begun: list[float] = []

    def works(seconds: float) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            torch.mm(square, square)

    def begins(x: object) -> None:
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
