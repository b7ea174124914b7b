"""Lanes: methods of the network that run side by side.

    y, (z, u) = run_lanes((self.lane0, x), (self.lane1, x))

calls self.lane0(x) here and self.lane1(x) in another thread, and waits for both. Each
lane is handed what it needs as arguments, and what it returns is all that comes of it.
PyTorch gives up Python's lock inside its operators, so lanes do run at the same time.
On a GPU each lane has a stream instead of a thread.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

Call = tuple[Any, ...]  # a function and its arguments

_pools: dict[int, ThreadPoolExecutor] = {}  # by process: threads don't outlive a fork
_streams: dict[tuple[torch.device, int], torch.cuda.Stream] = {}


def divides_threads(lanes: int) -> Callable[[Callable], Callable]:
    """A forward in which all have the share of one lane of the caller's threads.

    Once for the whole forward: the threads of an operator that is over wait some
    milliseconds for the next one, each at a core that it keeps busy, in a lane's way.
    """

    def decorate(forward: Callable) -> Callable:
        @functools.wraps(forward)
        def divided(*given: Any, **named: Any) -> Any:
            if _traced():
                return forward(*given, **named)
            threads = torch.get_num_threads()
            _set_threads(max(1, threads // lanes))
            try:
                return forward(*given, **named)
            finally:
                _set_threads(threads)

        return divided

    return decorate


def run_lanes(*calls: Call) -> list[Any]:
    """The results of all calls, in order.

    All of them have ended when this returns or raises; of several errors the first
    lane's is raised. Each lane has as many intra-op threads as this thread.
    """
    tensors = (x for _, *given in calls for x in given if isinstance(x, Tensor))
    device = next((x.device for x in tensors), torch.device("meta"))
    if device.type == "cuda":
        return _on_streams(device, calls)
    if device.type == "cpu" and not _traced():
        return _on_threads(calls)
    return [function(*given) for function, *given in calls]


def _traced() -> bool:
    """Whether somebody writes down what this thread does, and sees no other thread."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def _on_threads(calls: tuple[Call, ...]) -> list[Any]:
    pool, beside = _pool(), _beside(torch.get_num_threads())
    futures = [pool.submit(beside, call) for call in calls[1:]]
    results, errors = [], []
    try:
        for i, (function, *given) in enumerate(calls):
            try:
                # What no thread has begun is done here: nobody waits for a free one.
                own = i == 0 or futures[i - 1].cancel()
                result = function(*given) if own else futures[i - 1].result()
                results.append(result)
            except BaseException as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return results
    finally:
        # Tracebacks of errors hold this frame, which is to hold neither of these.
        futures.clear()
        errors.clear()


def _beside(threads: int) -> Callable[[Call], Any]:
    """Runs a call with this thread's settings, of which each thread has its own."""
    grad = torch.is_grad_enabled()
    inference = torch.is_inference_mode_enabled()
    casts, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def run(call: Call) -> Any:
        _set_threads(threads)
        function, *given = call
        with (
            torch.inference_mode(inference),
            torch.set_grad_enabled(grad),
            torch.autocast("cpu", dtype=dtype, enabled=casts),
        ):
            return function(*given)

    return run


def _set_threads(count: int) -> None:
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)


def _pool() -> ThreadPoolExecutor:
    """The threads of this process: one for each core but that of the caller."""
    process = os.getpid()
    if process not in _pools:
        # glibc gives back to the system, which fills it with zeros, what is free beyond
        # twice the largest block that it ever got back: after this one, up to 62 MB
        # stay for the next forward.
        torch.empty(31 * 2**20, dtype=torch.uint8, device="cpu")
        cores = os.cpu_count() or 1
        if hasattr(os, "sched_getaffinity"):
            cores = len(os.sched_getaffinity(0))
        _pools.setdefault(process, ThreadPoolExecutor(max(1, cores - 1), "lane"))
    return _pools[process]


def _on_streams(device: torch.device, calls: tuple[Call, ...]) -> list[Any]:
    """Each lane on a stream of its own, which CUDA graphs can capture."""
    here = torch.cuda.current_stream(device)
    others = []
    for i in range(1, len(calls)):
        if (device, i) not in _streams:
            _streams.setdefault((device, i), torch.cuda.Stream(device))
        others.append(_streams[device, i])
        others[-1].wait_stream(here)
    results = []
    try:
        for stream, (function, *given) in zip([here, *others], calls, strict=True):
            with torch.cuda.stream(stream):
                results.append(function(*given))
    finally:
        for stream in others:
            here.wait_stream(stream)
    for result in results[1:]:
        for x in result if isinstance(result, tuple) else (result,):
            if isinstance(x, Tensor):
                x.record_stream(here)  # its memory is in use there
    return results
