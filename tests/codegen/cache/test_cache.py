"""The compile cache: what is found again is what would be written anew."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.emitted import contents
from support.emitter_models import Graph

import fairhand
from fairhand.analysis.errors import LoadError
from fairhand.codegen import pipeline
from fairhand.codegen.cache import store
from fairhand.codegen.commands.compile import summary_rows
from fairhand.codegen.load.read_model import load
from fairhand.codegen.request.options import CompileOptions, CompileRequest
from fairhand.codegen.verify import parity

Change = Callable[[np.ndarray], np.ndarray]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("FAIRHAND_CACHE", str(tmp_path / "cache"))
    # Other tests of this process may have registered operators.
    monkeypatch.setattr("fairhand.codegen.request.options.registered", {})
    yield tmp_path / "cache"


def network() -> Graph:
    """Layers of several kinds; of `fc` the stored weight is transposed."""
    g = Graph(x=("float32", ["batch", 4, 6, 6]))
    y = g("Conv", "x", g.weight("stem.weight", 8, 4, 3, 3), g.weight("stem.bias", 8))
    y = g("Tanh", y)
    y = g("Conv", y, g.weight("next.weight", 8, 8, 1, 1), g.weight("next.bias", 8))
    statistics = (g.weight(f"norm.{name}", 8) for name in ("scale", "bias", "mean"))
    variance = g.weight("norm.var", value=np.linspace(0.5, 1, 8, dtype=np.float32))
    y = g("BatchNormalization", y, *statistics, variance)
    y = g("Mul", y, g.weight("mask", value=np.ones((8, 4, 4), np.float32)))
    y = g("Reshape", y, g.ints(-1, 8 * 16))
    y = g("MatMul", y, g.weight("fc.weight", 128, 128))
    y = g("MatMul", g("Relu", y), g.weight("tied.weight", 128, 128))
    g.weights["tied.weight"].raw_data = g.weights["fc.weight"].raw_data
    y = g("Mul", y, g.weight("fc.temperature", value=np.float32(1.5)))  # learned
    g("Mul", g("Relu", y), g.weight("gain", value=np.float32(0.3)), out="z")
    return g


def model(changes: dict[str, Change] | None = None) -> onnx.ModelProto:
    g = network()
    for name, change in (changes or {}).items():
        array = change(numpy_helper.to_array(g.weights[name]))
        g.weights[name] = numpy_helper.from_array(array, name)
    return g.model(y="z")


def written(tmp_path: Path, what: onnx.ModelProto, **options: Any) -> fairhand.Package:
    path = tmp_path / "net.onnx"
    onnx.save(what, path)
    options = {"verify": False, **options}
    return fairhand.compile(path, tmp_path / "out", **options)


def test_a_second_run_plans_and_formats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = written(tmp_path, model())
    files = contents(first.path)
    for stage in ("simplify", "model_text"):
        monkeypatch.delattr(pipeline, stage)
    again = written(tmp_path, model())
    assert (first.cached, again.cached) == (False, True)
    assert contents(again.path) == files
    assert again.report == first.report


def test_a_verdict_that_was_made_with_other_weights_says_so(tmp_path: Path) -> None:
    first = written(tmp_path, model(), verify=True)
    again = written(tmp_path, model({"next.weight": lambda w: w / 2}), verify=True)
    assert again.cached
    assert again.report["emission"] == {**first.report["emission"], "recalled": True}
    assert "first written with" in dict(summary_rows(again))["emission"]


def test_every_file_of_a_package_is_found_again(tmp_path: Path) -> None:
    for options in ({"engine": "onednn"}, {"lanes": 2}, {"target": "triton"}):
        first = written(tmp_path, model(), **options)
        files = contents(first.path)
        again = written(tmp_path, model(), **options)
        assert again.cached
        assert contents(again.path) == files


both = {"fc.weight": lambda w: w + 1, "tied.weight": lambda w: w + 1}


def test_weights_of_a_type_that_does_not_fit_are_refused(tmp_path: Path) -> None:
    written(tmp_path, model())
    with pytest.raises(LoadError, match="inconsistent type"):
        written(tmp_path, model({"stem.bias": lambda b: b.astype(np.float64)}))


@pytest.mark.parametrize(
    ("changes", "hit"),
    [
        ({"stem.weight": lambda w: w * 2, "stem.bias": lambda b: b - 1}, True),
        (both, True),  # they are tied as before
        ({"fc.weight": lambda w: w + 1}, False),  # and now they are not
        ({"norm.var": lambda v: v * 2}, True),  # folded
        ({"next.bias": lambda v: v * 2}, True),
        ({"mask": lambda m: m * np.arange(8)[:, None, None].astype(m.dtype)}, False),
        ({"stem.bias": np.zeros_like}, False),  # a bias of zeros may be left out
        ({"gain": lambda g: g * 2}, False),  # printed
    ],
)
def test_other_weights(tmp_path: Path, changes: dict[str, Change], hit: bool) -> None:
    """A hit or not, the package is the one that is written without a cache."""
    written(tmp_path, model())
    found = written(tmp_path, model(changes))
    files = contents(found.path)
    assert found.cached == hit
    plain = written(tmp_path, model(changes), cache=False)
    assert not plain.cached
    assert contents(plain.path) == files
    assert written(tmp_path, model(changes)).cached


def test_a_hit_is_verified(tmp_path: Path, emitted: object) -> None:
    written(tmp_path, model(), verify=True)
    found = written(tmp_path, model(both), verify=True)
    assert found.cached
    assert found.report["verification"]["worst_relative_error"] < 1e-5
    assert found.report["source"]["sha256"] == load(tmp_path / "net.onnx").sha256


def test_what_fails_to_verify_is_made_anew(
    tmp_path: Path, emitted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, model(), verify=True)
    genuine, calls = parity.verify, list[int]()

    def once(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise fairhand.VerificationError("differs")
        return genuine(*arguments, **options)

    monkeypatch.setattr(parity, "verify", once)
    found = written(tmp_path, model(both), verify=True)
    assert not found.cached
    assert found.report["verification"] is not None


OPTIONS: list[dict[str, Any]] = [
    {},
    {"level": 0},
    {"level": 2},
    {"exactness": "bitwise"},
    {"lanes": 2},
    {"lanes": "auto"},
    {"lanes": 2, "profile": True},
    {"fusion": "dnnfusion"},
    {"target": "triton"},
]


def test_every_option_counts(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "net.onnx")
    onnx.save(model(), tmp_path / "other.onnx")
    loaded = load(tmp_path / "net.onnx")

    def key(of: Any, engine: str = "auto", precision: str = "float32", **o: Any) -> str:
        request = CompileRequest(CompileOptions(**o), engine, precision, True, None)
        found = store.key_of(of, request)
        assert found is not None
        return found

    keys = [key(loaded, **options) for options in OPTIONS]
    keys += [key(loaded, "eager"), key(loaded, precision="bf16")]
    keys += [key(load(tmp_path / "other.onnx"))]  # its name is in the text
    assert len(set(keys)) == len(keys)
    assert key(load(tmp_path / "net.onnx")) == keys[0]


def test_no_cache_where_code_decides(tmp_path: Path, folder: Path) -> None:
    for options in ({"rules": ()}, {"debug": tmp_path / "stages"}, {"cache": False}):
        written(tmp_path, model(), **options)
    assert not folder.exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: _checked(b"\0" * 100),
        lambda data: _checked(data[32:40] + b"{}"),
        lambda data: _checked((50).to_bytes(8, "little") + b"[]"),
    ],
)
def test_a_damaged_entry_is_a_miss(
    tmp_path: Path, folder: Path, damage: Callable[[bytes], bytes]
) -> None:
    first = written(tmp_path, model())
    files = contents(first.path)
    (entry,) = folder.iterdir()
    entry.write_bytes(damage(entry.read_bytes()))
    found = written(tmp_path, model())
    assert not found.cached
    assert contents(found.path) == files
    assert written(tmp_path, model()).cached


def _checked(data: bytes) -> bytes:
    return store.hashlib.sha256(data).digest() + data


def test_the_folder_is_bounded(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(store, "LARGEST", 5000)
    for i in range(9):
        store.store(f"key{i}", bytes(1000))
        (made,) = folder.glob(f"key{i}.*")
        os.utime(made, (i, i))
    kept = sorted(path.name[:4] for path in folder.iterdir())
    assert kept == ["key5", "key6", "key7", "key8"]
    monkeypatch.setattr(store, "LARGEST_ENTRY", 10)
    store.store("large", bytes(11))
    assert not list(folder.glob("large*"))


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FAIRHAND_CACHE", "")
    assert store.folder() is None
    store.store("key", b"")
    assert not list(store.entries("key"))
    monkeypatch.delenv("FAIRHAND_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert store.folder() == tmp_path / "xdg/fairhand"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the standard forbids
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store.folder() == tmp_path / ".cache/fairhand"


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FAIRHAND_CACHE", str(tmp_path / "file/below"))
    assert not written(tmp_path, model()).cached
    assert not written(tmp_path, model()).cached


def _hammer(number: int) -> None:
    for i in range(60):
        key, content = f"key{i % 5}", bytes([i % 5]) * 1000
        store.store(key, content)
        for found in store.entries(key):
            assert found == content


def test_processes_share_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LARGEST", 3500)  # three of five fit
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map(_hammer, range(4))
    assert not list(folder.glob(".*"))


def test_threads_compile_at_once(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "net.onnx")

    def one(i: int) -> dict[str, bytes]:
        out = tmp_path / f"{i}/net"
        fairhand.compile(tmp_path / "net.onnx", out, verify=False)
        return contents(out)

    with ThreadPoolExecutor(3) as pool:
        first, *others = pool.map(one, range(3))
    assert all(other == first for other in others)
    assert written(tmp_path, model()).cached
