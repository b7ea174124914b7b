"""What an emitted lanes.py does: threads, settings, errors, two callers, a fork."""

from __future__ import annotations

import gc
import importlib.util
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from support.emitted import finish, start
from torch import Tensor

from fairhand.codegen.emit.runtime_files import copied_whole

torch.set_num_threads(1)
X = torch.arange(6.0)


@pytest.fixture
def lanes(tmp_path: Path) -> Iterator[ModuleType]:
    """Each time a new one, with threads of its own."""
    path = tmp_path / "lanes.py"
    path.write_text(copied_whole("lanes.py"))
    spec = importlib.util.spec_from_file_location("lanes", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for pool in module._pools.values():
        pool.shutdown()


def wait_until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_results_come_in_order_and_lanes_run_at_once(lanes: ModuleType) -> None:
    """Each waits for the other one, so they would never end one after another."""
    barrier = threading.Barrier(2, timeout=30)

    def lane(x: Tensor, k: int) -> tuple[Tensor, int, str]:
        barrier.wait()
        return x + k, k, threading.current_thread().name

    (a, first, here), (b, second, there) = lanes.run_lanes((lane, X, 0), (lane, X, 1))
    assert (first, second) == (0, 1)
    assert torch.equal(a, X) and torch.equal(b, X + 1)
    assert here == threading.current_thread().name != there


def test_a_thread_serves_again_and_again(lanes: ModuleType) -> None:
    before = threading.active_count()
    for _ in range(50):
        lanes.run_lanes((torch.neg, X), (torch.neg, X), (torch.neg, X))
    assert threading.active_count() <= before + max(1, len(os.sched_getaffinity(0)) - 1)
    for pool in lanes._pools.values():
        pool.shutdown()
    assert threading.active_count() == before


@pytest.mark.parametrize("fails", [{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2}])
def test_the_first_error_comes_when_all_have_ended(
    lanes: ModuleType, fails: set[int]
) -> None:
    ended = []

    def lane(x: Tensor, k: int) -> Tensor:
        time.sleep(0.002 * max(0, 3 - k))
        ended.append(k)
        if k in fails:
            raise ValueError(f"lane {k}")
        return x

    with pytest.raises(ValueError, match=f"lane {min(fails)}"):
        lanes.run_lanes(*((lane, X, k) for k in range(3)))
    assert sorted(ended) == [0, 1, 2]
    assert lanes.run_lanes((lane, X, 3), (lane, X, 4)) == [X, X]


def test_more_lanes_than_threads_and_lanes_in_lanes(lanes: ModuleType) -> None:
    def nested(x: Tensor, depth: int) -> Tensor:
        if depth == 0:
            return x + 1
        parts = lanes.run_lanes(*[(nested, x, depth - 1)] * 3)
        return torch.stack(parts).sum(0)

    assert torch.equal(nested(X, 4), 81 * (X + 1))


def test_many_callers_at_once(lanes: ModuleType) -> None:
    wrong: list[object] = []

    def caller(number: int) -> None:
        for i in range(40):
            a, b = lanes.run_lanes((torch.add, X, number), (torch.mul, X, i))
            if not (torch.equal(a, X + number) and torch.equal(b, X * i)):
                wrong.append((number, i))

    threads = [threading.Thread(target=caller, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert wrong == []


def test_a_lane_has_the_callers_settings(lanes: ModuleType) -> None:
    def settings(x: Tensor) -> tuple[bool, bool, bool, torch.dtype]:
        return (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_autocast_enabled("cpu"),
            (x[:, None] @ x[None]).dtype,
        )

    for context in (
        torch.enable_grad(),
        torch.no_grad(),
        torch.inference_mode(),
        torch.autocast("cpu", dtype=torch.bfloat16),
        torch.autocast("cpu", dtype=torch.float16),
    ):
        with context:
            own, beside = lanes.run_lanes((settings, X), (settings, X))
            assert own == beside == settings(X)
    weight = torch.ones(6, requires_grad=True)
    a, b = lanes.run_lanes((torch.mul, X, weight), (torch.mul, weight, X))
    (a * b).sum().backward()
    assert torch.equal(weight.grad, 2 * X * X)


def test_a_forward_divides_the_threads_of_its_caller(lanes: ModuleType) -> None:
    def threads(x: Tensor) -> int:
        return torch.get_num_threads()

    def forward(x: Tensor, *, count: int = 2) -> list[int]:
        """Lanes, and what is in none of them."""
        return [threads(x), *lanes.run_lanes(*[(threads, x)] * count)]

    try:
        torch.set_num_threads(4)
        assert lanes.divides_threads(2)(forward)(X) == [2, 2, 2]
        assert lanes.divides_threads(3)(forward)(X, count=3) == [1, 1, 1, 1]
        assert lanes.divides_threads(8)(forward)(X) == [1, 1, 1]
        assert forward(X) == [4, 4, 4]
        with pytest.raises(TypeError):
            lanes.divides_threads(2)(forward)("no tensor", "and no count")
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(1)
    assert lanes.run_lanes((threads, X), (threads, X)) == [1, 1]


def test_tracing_sees_all_lanes(lanes: ModuleType) -> None:
    class Net(torch.nn.Module):
        @lanes.divides_threads(2)  # type: ignore[untyped-decorator]
        def forward(self, x: Tensor) -> Tensor:
            a, b = lanes.run_lanes((torch.sin, x), (torch.cos, x))
            return a + b

    wanted = torch.sin(X) + torch.cos(X)
    assert torch.equal(torch.export.export(Net(), (X,)).module()(X), wanted)
    traced = torch.jit.trace(Net(), X)
    assert torch.equal(traced(2 * X), torch.sin(2 * X) + torch.cos(2 * X))
    with torch.device("meta"):
        assert Net()(torch.empty(3)).shape == (3,)


def test_nothing_holds_the_tensors_of_a_lane_that_failed(lanes: ModuleType) -> None:
    def lane(x: Tensor) -> Tensor:
        raise ValueError(str(x.shape))

    gc.collect()
    gc.disable()
    try:
        x = torch.ones(3)
        seen = weakref.ref(x)
        with pytest.raises(ValueError, match="Size"):
            lanes.run_lanes((lane, x), (lane, x))
        del x
        wait_until(lambda: seen() is None)  # the other thread may still be on its way
    finally:
        gc.enable()


class Streams:
    """Stands in for torch.cuda, and notes who waits for whom."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.here = self.Stream("here")

    def Stream(self, name: str) -> SimpleNamespace:
        waits = SimpleNamespace(name="side" if name == "gpu" else "here")
        waits.wait_stream = lambda other: self.events.append(
            f"{waits.name} waits for {other.name}"
        )
        return waits

    def current_stream(self, device: object) -> SimpleNamespace:
        return self.here

    @contextmanager
    def stream(self, stream: SimpleNamespace) -> Iterator[None]:
        self.events.append(f"on {stream.name}")
        yield


@pytest.mark.parametrize("fails", [False, True])
def test_streams_part_and_meet_again(
    lanes: ModuleType, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """The order of waits; no GPU runs this."""
    streams = Streams()
    monkeypatch.setattr(torch, "cuda", streams)

    def lane(name: str) -> str:
        if fails and name == "b":
            raise ValueError(name)
        return name

    for _ in range(2):
        streams.events.clear()
        if fails:
            with pytest.raises(ValueError, match="b"):
                lanes._on_streams("gpu", ((lane, "a"), (lane, "b")))
        else:
            assert lanes._on_streams("gpu", ((lane, "a"), (lane, "b"))) == ["a", "b"]
        assert streams.events == [
            "side waits for here",
            "on here",
            "on side",
            "here waits for side",
        ]


FORKED = """
import os, sys, threading
import torch
sys.path.insert(0, sys.argv[1])
from lanes import run_lanes
x = torch.arange(6.0)
def busy(x):
    for _ in range(20):
        x = torch.sin(x)
    return x
run_lanes((busy, x), (busy, x))
child = os.fork()
for _ in range(20):
    a, b = run_lanes((busy, x), (busy, x))
assert torch.equal(a, b) and torch.equal(a, busy(x))
if child:
    assert os.waitpid(child, 0)[1] == 0
os.write(1, b"parent " if child else b"child ")
"""


def test_lanes_work_in_a_forked_process(lanes: ModuleType, tmp_path: Path) -> None:
    """And the interpreter ends by itself, whatever threads there are."""
    (tmp_path / "run.py").write_text(FORKED)
    said = finish(start(tmp_path / "run.py", tmp_path, cwd=tmp_path))
    assert said.split() == ["child", "parent"]
