"""Quantised layers with their weights converted once: the same bits."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.emitted import imported
from support.emitter_models import Graph
from support.quantized import HOW, quantized
from torch import Tensor
from torch.overrides import TorchFunctionMode

import fairhand


def convolutions() -> Any:
    """Two convolutions, the second of enough terms for float64, and a linear layer."""
    g = Graph(x=[1, 3, 6, 6])
    x = "x"
    for channels, before in ((700, 3), (8, 700)):
        weight = np.abs(g.random.normal(0, 0.1, (channels, before, 3, 3)))
        name = g.weight(f"w{channels}", value=weight.astype(np.float32))
        x = g("Relu", g("Conv", x, name, pads=[1, 1, 1, 1]))
    y = g("MatMul", g("Flatten", x), g.weight("w", 288, 5))
    return g.model(y=y)


class Conversions(TorchFunctionMode):
    """Counts what is done to weights of 8 bits."""

    def __init__(self, weights: set[int]) -> None:
        super().__init__()
        self.weights, self.count = weights, 0

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = [x for x in args if isinstance(x, Tensor) and not x.is_mkldnn]
        self.count += any(x.data_ptr() in self.weights for x in given)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("how", HOW)
def test_weights_are_converted_once_to_the_same_bits(how: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    feeds = [{"x": rng.standard_normal((1, 3, 6, 6), np.float32)} for _ in range(3)]
    model = quantized(convolutions(), how, feeds)
    report = fairhand.compile(model, tmp_path / "a", engine="packed").report
    assert report["engine"]["name"] == "packed"
    module = imported(tmp_path / "a")
    plain, packed = module.Session(engine="eager"), module.Session()
    for feed in feeds:
        wanted, found = plain.run(None, feed), packed.run(None, feed)
        if how != "qdq" or not torch.cpu._is_vnni_supported():
            np.testing.assert_array_equal(found, wanted)
    models = (plain.model, packed.model)
    buffers = [
        t
        for model in models
        for t in model.buffers()
        if t.dtype == torch.int8 and t.ndim > 1
    ]
    weights, x = {t.data_ptr() for t in buffers}, torch.from_numpy(feeds[0]["x"])
    assert weights
    counts = []
    for network in (plain.network, packed.network):
        with torch.inference_mode(), Conversions(weights) as mode:
            network(x)
        counts.append(mode.count)
    assert counts[0] >= 2 and counts[1] == 0
    layers = [type(layer).__name__ for layer in packed.network.modules()]
    if how == "qdq" and not torch.cpu._is_vnni_supported():
        assert "Rounding" in layers and "FakeQuantize" not in layers
    if how == "qoperator":
        kinds = {
            layer.dtype
            for layer in packed.network.modules()
            if type(layer).__name__ == "Requantized"
        }
        assert kinds == {torch.float32, torch.float64}


def test_a_session_whose_engine_is_prepared_is_copied(tmp_path: Path) -> None:
    fairhand.compile(convolutions(), tmp_path / "a", engine="onednn")
    session = imported(tmp_path / "a").Session()
    feed = {"x": np.ones((1, 3, 6, 6), np.float32)}
    results = [session.run(None, feed) for _ in range(4)]
    for again in (copy.deepcopy(session), pickle.loads(pickle.dumps(session))):
        np.testing.assert_allclose(again.run(None, feed), results[0], rtol=1e-5)


def test_weights_are_converted_once_where_a_size_depends_on_values(
    tmp_path: Path,
) -> None:
    g = Graph(x=[1, 600])
    y = g("Relu", g("MatMul", "x", g.weight("w", 600, 600)))
    model = quantized(g.model(y=g("NonZero", y)), "dynamic")
    report = fairhand.compile(model, tmp_path / "a", verify=False).report
    assert report["engine"]["name"] == "auto"
    session = imported(tmp_path / "a").Session(engine="packed")
    assert "Ranged" in [type(layer).__name__ for layer in session.runs_on.modules()]


def test_an_empty_batch_has_no_range(tmp_path: Path) -> None:
    g = Graph(x=["n", 6])
    model = quantized(g.model(y=g("MatMul", "x", g.weight("w", 6, 4))), "dynamic")
    fairhand.compile(model, tmp_path / "a", engine="packed", verify=False)
    module = imported(tmp_path / "a")
    for engine in ("eager", "packed"):
        (found,) = module.Session(engine=engine).run(
            None, {"x": np.ones((0, 6), np.float32)}
        )
        assert found.shape == (0, 4)


class Calls(TorchFunctionMode):
    """Counts calls of one function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function, self.count = function, 0

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += function is self.function
        return function(*args, **(kwargs or {}))


def test_what_several_products_take_is_rounded_once(tmp_path: Path) -> None:
    g = Graph(x=["n", 6])
    first = g("Relu", g("MatMul", "x", g.weight("first", 6, 7)))
    parts = [g("MatMul", first, g.weight(name, 7, 4)) for name in "qkv"]
    model = quantized(g.model(y=g("Concat", *parts, axis=1)), "dynamic")
    fairhand.compile(model, tmp_path / "a", engine="packed", verify=False)
    module = imported(tmp_path / "a")
    plain, packed = module.Session(engine="eager"), module.Session()
    for rows in (3, 1, 3):
        feed = {"x": np.random.default_rng(rows).normal(size=(rows, 6)).astype("f")}
        with Calls(Tensor.aminmax) as calls:
            found = packed.run(None, feed)
        assert calls.count == 2
        np.testing.assert_array_equal(found, plain.run(None, feed))


def test_what_is_written_to_between_two_products_is_rounded_anew(
    tmp_path: Path,
) -> None:
    g = Graph(x=["n", 6])
    first = g("Relu", g("MatMul", "x", g.weight("first", 6, 7)))
    parts = [g("MatMul", first, g.weight(name, 7, 4)) for name in "qk"]
    model = quantized(g.model(y=g("Concat", *parts, axis=1)), "dynamic")
    fairhand.compile(model, tmp_path / "a", engine="packed", verify=False)
    session = imported(tmp_path / "a").Session()
    *_, q, k = (m for m in session.network.modules() if type(m).__name__ == "Ranged")
    x = torch.ones(3, 7)
    with torch.no_grad():
        before = k(x).clone()
        q(x)
        x += torch.arange(7)
        assert not torch.equal(k(x), before)


def test_sums_that_weights_of_both_signs_bound_stay_in_float32(tmp_path: Path) -> None:
    g = Graph(x=["n", 900])
    weight = np.where(np.arange(900) % 2, 1, -1)[:, None] * np.ones((900, 2))
    y = g("MatMul", "x", g.weight("w", value=weight.astype(np.float32)))
    fairhand.compile(
        quantized(g.model(y=y), "dynamic"), tmp_path / "a", engine="packed"
    )
    session = imported(tmp_path / "a").Session()
    (layer,) = (m for m in session.network.modules() if type(m).__name__ == "Ranged")
    assert layer.dtype == torch.float32


@pytest.mark.parametrize("how", HOW)
def test_weights_of_images_have_their_channels_innermost(
    how: str, tmp_path: Path
) -> None:
    feeds = [{"x": np.ones((1, 3, 6, 6), np.float32)}]
    model = quantized(convolutions(), how, feeds)
    fairhand.compile(model, tmp_path / "a", engine="packed")
    layers = [*imported(tmp_path / "a").Session().network.modules()]
    made = [m for m in layers if getattr(m, "sizes", None) and hasattr(m, "weight")]
    assert how == "qdq" or len(made) == 2
    for layer in made:
        assert layer.weight.is_contiguous(memory_format=torch.channels_last)
