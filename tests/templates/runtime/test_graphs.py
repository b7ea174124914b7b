"""graphs.py of emitted packages, with stand-ins for a GPU: none is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from support.emitted import imported
from support.emitter_models import run_here
from support.golden_sequences import SEQUENCES
from torch import Tensor

import fairhand
from fairhand.codegen.kernels import kernel_set
from fairhand.codegen.verify import parity


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    folder = tmp_path_factory.mktemp("graphs") / "graphed_net"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parity, "run_package", run_here)
        patch.setattr(kernel_set, "MIN_SAVED", 0.0)
        patch.setattr(kernel_set, "SMALL_PRODUCT", 0.0)
        patch.setattr(kernel_set, "SAVED_BYTES", 0.0)
        fairhand.compile(SEQUENCES["masked_pool"](), folder, target="triton")
    return imported(folder)


class Card:
    """A GPU's part: what is captured is done again, on the same tensors."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.mode: Any = "default"
        self.capturing: StandInGraph | None = None
        self.written: list[tuple[Tensor, Tensor]] = []

    device = torch.device("cpu")

    def graph_pool_handle(self) -> str:
        return "pool"

    def Stream(self, device: Any) -> Any:
        return self

    def synchronize(self) -> None:
        """What the GPU was to write into memory of the CPU is there now."""
        self.log.append("synchronize")
        for tensor, source in self.written:
            Tensor.copy_(tensor, source)
        self.written.clear()

    current_stream = Stream

    def wait_stream(self, other: Any) -> None:
        self.log.append("wait")

    def stream(self, stream: Any) -> Any:
        return nullcontext()

    def CUDAGraph(self) -> StandInGraph:
        return StandInGraph(self.log)

    @contextmanager
    def graph(
        self, graph: StandInGraph, pool: str, stream: Any, capture_error_mode: str
    ) -> Iterator[None]:
        assert (pool, capture_error_mode) == ("pool", "thread_local")
        self.capturing = graph
        try:
            yield
        finally:
            self.capturing = None

    def get_sync_debug_mode(self) -> Any:
        return self.mode

    def set_sync_debug_mode(self, mode: Any) -> None:
        self.mode = mode


class Pinned(Tensor):
    """Memory of the CPU, which a GPU writes to in its own time."""

    card: Card

    def copy_(self, source: Tensor, non_blocking: bool = False) -> Tensor:
        if not non_blocking:
            return super().copy_(source)
        self.card.written.append((self, source))
        return self


def pinned_like(card: Card, x: Tensor) -> Tensor:
    made = torch.full_like(x, 99).as_subclass(Pinned)
    made.card = card
    return made


class StandInGraph:
    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.steps: list[tuple[Callable[..., Tensor], tuple[Tensor, ...], Tensor]] = []

    def replay(self) -> None:
        self.log.append("replay")
        for function, inputs, output in self.steps:
            output.copy_(function(*inputs))


@pytest.fixture
def card(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Card:
    card, graphs = Card(), sys.modules[f"{package.__name__}.graphs"]
    stand_in = ModuleType("torch")
    stand_in.cuda = card  # type: ignore[attr-defined]
    monkeypatch.setattr(graphs, "torch", stand_in)
    monkeypatch.setattr(graphs, "pinned_like", partial(pinned_like, card))
    return card


class Network:
    def __init__(self, card: Card, waits: bool = False) -> None:
        self.card, self.waits, self.calls = card, waits, 0

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        self.calls += 1
        captures = self.card.capturing is not None
        if self.waits and (captures or self.card.mode == "error"):
            raise RuntimeError("called a synchronizing CUDA operation")
        result = x * 2 + y
        if self.card.capturing is not None:
            step = (lambda a, b: a * 2 + b, (x, y), result)
            self.card.capturing.steps.append(step)
        return result


def graphed(package: ModuleType, network: Network, patience: float = 0) -> Any:
    graphs = sys.modules[f"{package.__name__}.graphs"]
    return graphs.Graphed(network, torch.device("cpu"), patience)


def test_a_graph_is_replayed_on_what_is_given(package: ModuleType, card: Card) -> None:
    network = Network(card)
    call = graphed(package, network)
    for seed in range(3):
        torch.manual_seed(seed)
        x, y = torch.randn(3, 2), torch.randn(3, 2)
        assert torch.equal(call(x, y), x * 2 + y)
    assert network.calls == 5  # three to warm up, one that may not wait, one captured
    assert card.log == ["wait", "wait", *["replay", "synchronize"] * 3]
    assert card.mode == "default"


def test_results_are_not_overwritten(package: ModuleType, card: Card) -> None:
    call = graphed(package, Network(card))
    first = call(torch.ones(2), torch.ones(2))
    assert call(torch.zeros(2), torch.ones(2)).tolist() == [1.0, 1.0]
    assert first.tolist() == [3.0, 3.0]


def test_each_set_of_shapes_has_a_graph(package: ModuleType, card: Card) -> None:
    network = Network(card)
    call = graphed(package, network)
    for size in [*range(1, 10), 9, 2]:
        assert call(torch.ones(size), torch.ones(size)).tolist() == [3.0] * size
    assert network.calls == 5 * 9
    assert len(call.graphs) == 8
    call(torch.ones(1), torch.ones(1))  # was not used for longest, so it went
    assert network.calls == 5 * 10


def test_a_forward_that_waits_is_refused(package: ModuleType, card: Card) -> None:
    call = graphed(package, Network(card, waits=True))
    with pytest.raises(RuntimeError, match="can't be a CUDA graph: called a synchron"):
        call(torch.ones(2), torch.ones(2))
    assert card.mode == "default" and not call.graphs


def test_left_open_a_graph_is_of_shapes_that_come_again(
    package: ModuleType, card: Card
) -> None:
    call = graphed(package, Network(card), patience=2)
    graphs = []
    for size in (2, 3, 2, 2, 3, 2):
        assert call(torch.ones(size), torch.ones(size)).tolist() == [3.0] * size
        graphs.append(len(call.graphs))
    assert graphs == [0, 0, 0, 1, 1, 1]
    assert card.log.count("replay") == 2


def test_left_open_a_forward_that_waits_runs_as_it_is(
    package: ModuleType, card: Card
) -> None:
    network = Network(card, waits=True)
    call = graphed(package, network, patience=1)
    for _ in range(4):
        assert call(torch.ones(2), torch.ones(2)).tolist() == [3.0, 3.0]
        assert card.mode == "default"
    assert not call.graphs
    assert network.calls == 4 + 4 + 1  # three to warm up, a check and the capture: once


def test_graphs_are_of_a_gpu(package: ModuleType) -> None:
    with pytest.raises(ValueError, match="graph=True needs a CUDA device"):
        package.Session(graph=True)


def test_plain_packages_have_no_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parity, "run_package", run_here)
    folder = tmp_path / "plain"
    fairhand.compile(SEQUENCES["masked_pool"](), folder)
    assert not (folder / "graphs.py").exists()
    assert "graph: bool" not in (folder / "session.py").read_text("utf-8")
