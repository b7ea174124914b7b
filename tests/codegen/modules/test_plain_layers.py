"""Sequentials whose operators are layers: nn.ReLU, nn.Flatten, nn.ReflectionPad2d."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.emitted import imported
from support.traced import Traced

import fairhand


def _row(g: Traced, x: str, elsewhere: bool = False) -> str:
    """nn.Sequential(pad, conv, leaky, flatten, linear), and what reads its middle."""
    with g.module("body", "Sequential"):
        with g.module("0", "ReflectionPad2d"):
            pads = g.ints(0, 0, 1, 1, 0, 0, 1, 1)
            h = g("Pad", x, pads, mode="reflect")
        with g.module("1", "Conv2d"):
            h = middle = g("Conv", h, g.param("weight", 4, 3, 3, 3))
        with g.module("2", "LeakyReLU"):
            h = g("LeakyRelu", h, alpha=0.2)
        with g.module("3", "Flatten"):
            h = g("Flatten", h, axis=1)
        h = g.head(h, "4", 64, 2)
    return str(g("Mul", h, g("ReduceMax", middle, keepdims=0)) if elsewhere else h)


def _text(g: Traced, y: str, out: Path, level: int) -> str:
    fairhand.compile(g.model(y=y), out, level=level)
    return " ".join((out / "model.py").read_text("utf-8").split())


@pytest.mark.parametrize("level", [0, 1])
def test_a_sequential_of_layers_and_operators_stays_whole(
    tmp_path: Path, level: int
) -> None:
    g = Traced(x=["batch", 3, 4, 4])
    text = _text(g, _row(g, "x"), tmp_path / "net", level)
    assert (
        "nn.Sequential( nn.ReflectionPad2d(1), nn.Conv2d(3, 4, 3, bias=False), "
        "nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(64, 2), )" in text
    )
    assert "return self.body(x)" in text
    keys = imported(tmp_path / "net").load().state_dict().keys()
    assert {*keys} == {"body.1.weight", "body.4.weight", "body.4.bias"}


@pytest.mark.parametrize("op", ["GlobalAveragePool", "ReduceMean"])
def test_a_mean_over_an_image_is_a_pool(tmp_path: Path, op: str) -> None:
    g = Traced(x=["batch", 3, 4, 4])
    with g.module("body", "Sequential"):
        with g.module("0", "AdaptiveAvgPool2d"):
            axes = [g.ints(-1, -2)] if op == "ReduceMean" else []
            h = g(op, "x", *axes)
        h = g.conv2d(h, "1", (3, 4, 1))
    text = _text(g, h, tmp_path / "net", 0)
    assert "nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(3, 4, 1))" in text


def test_a_sequential_that_is_called_twice_is_one(tmp_path: Path) -> None:
    g = Traced(x=["batch", 3, 4, 4], z=["batch", 3, 4, 4])
    text = _text(g, g("Sub", _row(g, "x"), _row(g, "z")), tmp_path / "net", 1)
    assert "self.body(x) - self.body(z)" in text


def test_what_reads_the_middle_leaves_operators_in_forward(tmp_path: Path) -> None:
    g = Traced(x=["batch", 3, 4, 4])
    text = _text(g, _row(g, "x", elsewhere=True), tmp_path / "net", 1)
    assert "nn.LeakyReLU" not in text and "F.leaky_relu(" in text


def test_a_gap_in_the_numbers_keeps_the_files_keys(tmp_path: Path) -> None:
    g = Traced(x=["batch", 8])
    with g.module("body", "Sequential"):
        h = g.head("x", "0", 8, 4)
        with g.module("1", "ReLU"):
            h = g("Relu", h)
        h = g.head(h, "3", 4, 2)  # behind a dropout
    text = _text(g, h, tmp_path / "net", 0)
    assert "nn.ReLU(), nn.Identity(), nn.Linear(4, 2)" in text
    module = imported(tmp_path / "net").load()
    assert {*module.state_dict()} == {
        f"body.{n}.{kind}" for n in (0, 3) for kind in ("weight", "bias")
    }
    assert module(torch.zeros(2, 8)).shape == (2, 2)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_what_owns_a_parameter_and_no_layer_is_none_of_a_row(
    tmp_path: Path, level: int
) -> None:
    g = Traced(x=["batch", 8])
    with g.module("body", "Sequential"):
        h = g.head("x", "0", 8, 4)
        with g.module("1", "Scale"):
            h = g("Mul", h, g.param("scale", 4))
        with g.module("2", "ReLU"):
            h = g("Relu", h)
        h = g.head(h, "3", 4, 2)
    text = _text(g, h, tmp_path / "net", level)
    assert ("nn.ReLU()" in text) == (level == 2)  # where the scale is in a weight
    if level == 0:
        keys = imported(tmp_path / "net").load().state_dict().keys()
        layers = {f"body.{n}.{kind}" for n in (0, 3) for kind in ("weight", "bias")}
        assert {*keys} == {"body.1.scale", *layers}


def test_a_layer_that_has_6_0_where_its_function_has_6(tmp_path: Path) -> None:
    g = Traced(x=["batch", 3, 4, 4])
    with g.module("body", "Sequential"):
        h = g.conv2d("x", "0", (3, 4, 1))
        with g.module("1", "ReLU6"):
            bounds = [g.number(0), g.number(6)]
            h = g("Clip", h, *bounds)
    report = fairhand.compile(g.model(y=h), tmp_path / "net").report
    text = (tmp_path / "net" / "model.py").read_text("utf-8")
    assert "nn.ReLU6()" in text
    assert report["emission"]["validated"]
