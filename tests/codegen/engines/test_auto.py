"""A Session takes the engine that is the fastest here, and none that is wrong."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from support.emitted import imported
from support.emitter_models import Graph
from support.networks import decoder, transformer
from torch import Tensor, nn

import fairhand


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x).relu()


class Clock:
    """Time passes where an engine says so: a machine may be busy."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    monotonic = perf_counter


clock = Clock()


class Engine:
    """The network as it stands, after so many seconds and off by so much."""

    def __init__(self, model: nn.Module, name: str, seconds: float, off: float = 0.0):
        self.model, self.name, self.seconds, self.off = model, name, seconds, off

    def __call__(self, *feeds: Tensor) -> Any:
        clock.now += self.seconds
        return self.model(*feeds) + self.off


class Table(dict[str, Any]):
    """ENGINES whose calls take so many seconds; `made` are those that were begun."""

    def __init__(self, **given: Any):
        self.made: list[str] = []
        super().__init__({name: self.maker(name, x) for name, x in given.items()})

    def maker(self, name: str, given: Any) -> Any:
        def make(model: nn.Module) -> Engine:
            self.made.append(name)
            if isinstance(given, Exception):
                raise given
            return Engine(model, name, *np.atleast_1d(given))

        return make


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """One with engines.py."""
    folder = tmp_path_factory.mktemp("auto") / "net"
    fairhand.compile(transformer(1), folder, engine="onednn", verify=False)
    return imported(folder)


@pytest.fixture
def engines(
    package: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ModuleType:
    """What is measured is kept in a folder here."""
    monkeypatch.setenv("FAIRHAND_CACHE", str(tmp_path))
    engines = sys.modules[f"{package.__name__}.engines"]
    monkeypatch.setattr(engines, "time", clock)
    return engines


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


X = torch.ones(2, 4)
FAST, PLAIN, SLOW = 0.001, 0.01, 0.03  # seconds
FASTEST: dict[str, tuple[dict[str, Any], str]] = {
    "packed": ({"packed": FAST, "onednn": SLOW}, "of all sizes"),
    "onednn": ({"packed": SLOW, "onednn": FAST}, "of these sizes"),
    "eager": ({"packed": SLOW, "onednn": SLOW}, "none gains"),
    "eager ": ({"packed": SLOW, "onednn": [FAST, 0.1]}, "one is wrong"),
    "eager  ": ({"packed": RuntimeError("a gap"), "onednn": SLOW}, "one fails"),
    "packed ": (
        {"packed": FAST, "onednn": AttributeError("jit")},
        "one is of the past",
    ),
}


@pytest.mark.parametrize("name", FASTEST, ids=[why for _, why in FASTEST.values()])
def test_the_fastest_is_chosen(
    engines: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = Table(eager=PLAIN, **FASTEST[name][0])
    monkeypatch.setattr(engines, "ENGINES", times)
    model = Net().eval()
    auto = engines.Auto(model)
    for _ in range(engines.CALLS):
        assert not auto.measured
        assert torch.equal(auto(X), model(X))
    assert auto.chosen[torch.get_num_threads(), (2, 4)].name == name.strip()
    # Another process doesn't measure: it makes what was chosen, and nothing else.
    times.made.clear()
    again = engines.Auto(model)
    for _ in range(engines.CALLS):
        again(X)
    assert again.chosen[torch.get_num_threads(), (2, 4)].name == name.strip()
    assert set(times.made) == {"eager", name.strip()}
    assert [row["ms"] for row in again.measured] == [row["ms"] for row in auto.measured]


def test_sizes_that_do_not_recur_run_on_what_takes_all(
    engines: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = Table(eager=PLAIN, packed=FAST, onednn=FAST)
    monkeypatch.setattr(engines, "ENGINES", times)
    auto = engines.Auto(Net().eval())
    for size in range(12):  # an empty one among them
        auto(torch.ones(size, 4))
    assert auto.base.name == "packed" and not auto.chosen
    assert times.made == ["eager", "packed"]
    monkeypatch.setattr(engines, "TIMED", 0.0)
    for size in range(120 * engines.CALLS):
        auto(torch.ones(size % 12, 4))
    assert len(auto.chosen) == engines.MOST_SIZES
    for size in range(2 * engines.MOST_SEEN):
        auto(torch.ones(size, 4))
    assert len(auto.spent) < 2 * engines.MOST_SEEN


def test_more_sizes_are_measured_once_their_calls_took_as_long(
    engines: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes that change all the time would be measured all the time."""
    times = Table(eager=PLAIN, onednn=FAST)
    monkeypatch.setattr(engines, "ENGINES", times)
    auto, sizes, spent = engines.Auto(Net().eval()), range(1, 7), clock.now
    for _ in range(2 * engines.CALLS):
        for size in sizes:
            auto(torch.ones(size, 4))
    assert len(auto.chosen) == 1
    calls = 2 * engines.CALLS * len(sizes) * PLAIN
    assert clock.now - spent < 2 * calls + auto.price
    while len(auto.chosen) == 1:
        auto(torch.ones(2, 4))
    calls, seconds = auto.spent[torch.get_num_threads(), (2, 4)]
    assert seconds - PLAIN < auto.price <= seconds + FAST


def test_what_is_over_in_no_time_is_not_measured(
    engines: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some rows of a network whose sizes are free, where many are worth it."""
    quick = Table(eager=engines.QUICK / 2, packed=0.0, onednn=0.0)
    monkeypatch.setattr(engines, "ENGINES", quick)
    auto = engines.Auto(Net().eval())
    for _ in range(3 * engines.CALLS):
        auto(X)
    assert not auto.measured and quick.made == ["eager"]


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", '{"": "fast"}', '{"onednn": 1.0}', "[" * 100_000),
        *('{"": NaN, "onednn": NaN}', '{"": 1.0, "onednn": null}'),
        *('{"": -1.0, "onednn": 1.0}', '{"": 9.0, "onednn": 1.0, "evil": 0.1}'),
    ],
    ids=range(10),
)
def test_a_file_that_is_broken_is_measured_anew(
    engines: ModuleType, tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "ENGINES", Table(eager=PLAIN, onednn=FAST))
    model = Net().eval()
    for _ in range(2):
        auto = engines.Auto(model)
        for _ in range(engines.CALLS):
            auto(X)
        assert auto.measured[-1]["engine"] == "onednn"
        for file in (tmp_path / "engines").iterdir():
            file.write_text(content)


def test_no_engine_is_tried_where_weights_have_no_room(
    engines: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = Table(eager=PLAIN, packed=FAST, onednn=FAST)
    monkeypatch.setattr(engines, "ENGINES", times)
    monkeypatch.setattr(engines, "has_room", lambda model: False)
    auto = engines.Auto(Net().eval())
    for _ in range(engines.CALLS):
        auto(X)
    assert times.made == ["eager"] and auto.measured == []


def test_an_engine_that_takes_too_long_is_given_up(
    engines: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "ENGINES", Table(eager=FAST, packed=SLOW, onednn=SLOW))
    monkeypatch.setenv("FAIRHAND_SECONDS", "0")
    auto = engines.Auto(Net().eval())
    for _ in range(engines.CALLS):
        auto(X)
    for_all, by_size = auto.measured
    assert for_all["ms"]["packed"] == by_size["ms"]["onednn"] == math.inf
    monkeypatch.setenv("FAIRHAND_SECONDS", "ten")
    assert engines.budget() == engines.SECONDS


def test_others_do_not_wait_while_one_measures(
    engines: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "ENGINES", Table(eager=FAST, packed=FAST, onednn=FAST))
    auto = engines.Auto(Net().eval())
    with auto.lock:
        for _ in range(engines.CALLS):
            auto(X)
    assert auto.measured == []
    auto(X)
    assert auto.measured


WITHOUT_JIT = """
import sys, warnings
import numpy as np, torch

def gone(*_, **__):
    raise RuntimeError("torch.jit is gone")

for name in ("trace", "script", "freeze", "enable_onednn_fusion"):
    setattr(torch.jit, name, gone)
sys.path.insert(0, sys.argv[1])
import net

feed = {
    name: np.ones([n if isinstance(n, int) else 2 for n in shape], dtype)
    for name, (dtype, shape) in net.model.INPUTS.items()
}
wanted = net.Session(engine="eager").run(None, feed)
for engine in ("auto", "packed"):
    session = net.Session(engine=engine)
    for _ in range(net.engines.CALLS + 1):
        for got, right in zip(session.run(None, feed), wanted):
            np.testing.assert_allclose(got, right, rtol=0, atol=1e-5 * abs(right).max())
"""


@pytest.mark.parametrize(
    "model", [transformer(2), decoder(64)], ids=["encoder", "step"]
)
def test_packages_run_without_torch_jit(model: Any, tmp_path: Path) -> None:
    """PyTorch is removing it."""
    fairhand.compile(model, tmp_path / "net", engine="packed", verify=False)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JIT, str(tmp_path)],
        env=os.environ | {"FAIRHAND_CACHE": str(tmp_path / "kept")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def perceptron() -> Any:
    g = Graph(x=[3, 16])
    y = g("Relu", g.linear("x", "fc", 16, 32, at="fc"))
    return g.model(y=g.linear(y, "out", 32, 8, at="out"))


LIBRARY = """
import sys
import numpy as np, torch

sys.path.insert(0, sys.argv[1])
import net

# What a fast library takes a minute for.
net.engines.INDUCTOR |= {
    "max_autotune": False,
    "aot_inductor.compile_wrapper_opt_level": "O0",
}
feed = {"x": np.ones(net.model.INPUTS["x"][1], np.float32)}
session = net.Session(engine="aot", threads=1)
wanted = net.Session(engine="eager", threads=1).run(None, feed)
for _ in range(3):
    for got, right in zip(session.run(None, feed), wanted):
        np.testing.assert_allclose(got, right, rtol=0, atol=1e-5 * abs(right).max())
(run,) = session.runs_on.prepared.values()
assert run is not session.runs_on.model
"""


def test_openvino_gives_the_same(
    package: ModuleType, engines: ModuleType, recwarn: pytest.WarningsRecorder
) -> None:
    pytest.importorskip("openvino", reason="it is an extra of its own")
    sizes = [size if isinstance(size, int) else 2 for size in x_shape(package)]
    x = {"tokens": np.random.default_rng(0).random(sizes, np.float32)}
    session = package.Session(engine="openvino")
    wanted = package.Session(engine="eager").run(None, x)
    for _ in range(3):
        for got, right in zip(session.run(None, x), wanted, strict=True):
            np.testing.assert_allclose(got, right, rtol=0, atol=1e-5)
    (run,) = session.runs_on.prepared.values()
    assert run is not session.model and not recwarn.list


def x_shape(package: ModuleType) -> list[Any]:
    ((_, shape),) = package.model.INPUTS.values()
    return list(shape)


@pytest.mark.slow  # the compiler of C++ takes half a minute
def test_a_library_that_was_made_needs_no_compiler(tmp_path: Path) -> None:
    """Nor what compiles: it is of this source, these weights and sizes."""
    kept = tmp_path / "kept"
    fairhand.compile(perceptron(), tmp_path / "net", engine="onednn", verify=False)
    env = os.environ | {"FAIRHAND_CACHE": str(kept)}

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error:the network runs", "-c", LIBRARY]
        return subprocess.run(
            [*command, str(tmp_path)], env=env | more, capture_output=True, text=True
        )

    assert (done := run()).returncode == 0, done.stderr[-2000:]
    (library,) = (kept / "engines").glob("*.pt2")
    without = {"CXX": "/bin/false", "PATH": "", "TORCHINDUCTOR_CACHE_DIR": str(kept)}
    assert (done := run(**without)).returncode == 0, done.stderr[-2000:]
    library.unlink()
    done = run(**without)
    assert done.returncode != 0 and "no library" in done.stderr


def test_nothing_is_kept_where_there_is_no_place_or_no_source(
    engines: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "ENGINES", Table(eager=PLAIN, onednn=FAST))
    model = Net().eval()
    places = {"FAIRHAND_CACHE": "", "HOME": "/proc/none", "XDG_CACHE_HOME": ""}
    for name, place in places.items():
        monkeypatch.setenv(name, place)
        assert name != "FAIRHAND_CACHE" or engines.kept(model, (X,), ".json") is None
        auto = engines.Auto(model)
        for _ in range(engines.CALLS):
            auto(X)
        assert auto.measured[-1]["engine"] == "onednn"
        monkeypatch.delenv("FAIRHAND_CACHE", raising=False)
    monkeypatch.setattr(engines.inspect, "getsource", _no_source)
    assert engines.kept(model, (X,), ".json") is None


def _no_source(module: ModuleType) -> str:
    raise OSError("source code not available")
