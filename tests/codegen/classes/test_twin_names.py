"""Classes of one name whose bodies differ; every package is verified."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import onnx
import pytest
from support.emitter_models import Emitted
from support.traced import Traced

Emit = Callable[[onnx.ModelProto], Emitted]
Part = Callable[[Traced, str], str]


def stacked(
    *parts: tuple[str, Part], ends: str = "Tanh", name: str = "block"
) -> onnx.ModelProto:
    """A list of layers, each with a norm and a part that has a class of its own; the
    norm of the last one ends otherwise."""
    g, x = Traced(x=["batch", 8]), "x"
    for i, (kind, part) in enumerate(parts):
        with g.module(f"layers.{i}", "Layer"):
            last = i + 1 == len(parts)
            h = g(ends if last else "Tanh", g.fc(x, "norm", 8, 8))
            with g.module(name, kind):
                h = part(g, h)
            x = str(g("Add", x, h))
    return g.model(y=x)


def gated(g: Traced, x: str) -> str:
    return str(g("Mul", g.fc(x, "gate", 8, 8), g("Sigmoid", g.fc(x, "up", 8, 8))))


def plain(g: Traced, x: str) -> str:
    return g.fc(str(g("Relu", g.fc(x, "up", 8, 8))), "down", 8, 8)


def chosen(g: Traced, x: str) -> str:
    return g.fc(str(g("Softmax", g.fc(x, "up", 8, 8), axis=-1)), "down", 8, 8)


def test_a_class_is_called_after_the_part_that_is_another(emitted: Emit) -> None:
    text = emitted(stacked(("Mlp", plain), ("Gate", gated), ends="Sin")).text
    assert "class Layer(" in text and "class GateLayer(" in text


@pytest.mark.parametrize(
    ("name", "told"), [("block", "block"), ("self", "self_"), ("nn", "nn_")]
)
def test_a_class_is_given_the_part_that_is_another(
    name: str, told: str, emitted: Emit
) -> None:
    """As it is in the original, which couldn't know their classes."""
    found = emitted(stacked(*[("Mlp", plain), ("Gate", gated)] * 2, name=name))
    assert found.classes == ["Mlp", "Gate", "Layer", "Net"]
    assert f"def __init__(self, {told}: nn.Module):" in found.source("Layer")
    assert f"self.{name} = {told}" in found.source("Layer")
    assert found.source("Net").count("Layer(Mlp())") == 2
    assert found.source("Net").count("Layer(Gate())") == 2


def test_what_wraps_is_given_what_it_wraps_in_rows_too(emitted: Emit) -> None:
    """Residual(PreNorm(Mlp(24))), of other sizes here and there."""
    g, x = Traced(x=["batch", 8]), "x"
    for i, (kind, size) in enumerate([("Mlp", 24)] * 4 + [("Gate", 8), ("Mlp", 16)]):
        with g.module(f"layers.{i}", "Residual"):
            with g.module("fn", "PreNorm"):
                h = g.layer_norm(x, "norm", 8)
                with g.module("fn", kind):
                    up = g("Relu", g.fc(h, "up", 8, size)) if kind == "Mlp" else h
                    h = g.fc(up, "down", size, 8) if kind == "Mlp" else gated(g, h)
            x = str(g("Add", h, x))
    found = emitted(g.model(y=x))
    assert found.classes == ["Mlp", "Gate", "PreNorm", "Residual", "Net"]
    made = "*(Residual(PreNorm(Mlp(24))) for _ in range(4)), Residual(PreNorm(Gate()))"
    assert made in " ".join(found.source("Net").split())


def smooth(g: Traced, x: str, **how: str) -> str:
    return g.fc(str(g("Gelu", g.fc(x, "up", 8, 8), **how)), "down", 8, 8)


def test_a_class_is_called_after_what_it_asks_for(emitted: Emit) -> None:
    tanh = partial(smooth, approximate="tanh")
    parts = [("Mlp", part) for part in (smooth, tanh, smooth, smooth)]
    text = emitted(stacked(*parts)).text
    assert "class ApproximateMlp(" in text and "Mlp2" not in text


def test_a_class_is_called_after_where_it_stands_last(emitted: Emit) -> None:
    parts = [("Mlp", plain)] * 2 + [("Mlp", chosen)]
    text = emitted(stacked(*parts)).text
    assert "class LastMlp(" in text and "class LastLayer(" in text
    assert "Layer2" not in text and "Mlp2" not in text


def rows(*rows: str) -> onnx.ModelProto:
    """A list of layers, each with one list of linear layers (l), each behind a ReLU (r)
    or a Tanh (t), and of blocks (b)."""
    g, x = Traced(x=["batch", 8]), "x"
    for i, row in enumerate(["lll", *rows]):
        with g.module(f"layers.{i}", "Layer" if i else "Stem"):
            h = x
            for k, kind in enumerate(x for x in row if x in "lb"):
                with g.module(f"block.{k}", "Gate" if kind == "b" else ""):
                    h = gated(g, h) if kind == "b" else g.fc(h, "", 8, 8)
                more = row.replace("b", "l").split("l")[k + 1]
                for kind in more:
                    h = str(g({"r": "Relu", "t": "Tanh"}[kind], h))
            x = str(g("Add", x, h))
    return g.model(y=x)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("lrlrl", "ltltl", "lrbl", "ltbl"), "LayerWithGate"),
        (("lrl", "lrlrl", "ltltl"), "FirstLayer"),
        (("lrlrl", "lrll", "lrlrl"), "LayerWithRelu"),
    ],
)
def test_a_class_is_called_after_what_is_in_its_list(
    given: tuple[str, ...], named: str, emitted: Emit
) -> None:
    text = emitted(rows(*given)).text
    assert f"class {named}(" in text and "class Layer(" in text
    assert "Layer2" not in text


def test_a_list_of_such_layers_is_named_whole(emitted: Emit) -> None:
    g, x = Traced(x=["batch", 8]), "x"
    for path in ("blocks.0", "blocks.1", "blocks_token_only.0", "blocks_token_only.1"):
        with g.module(path, ""):
            h = g("Tanh", g.fc(x, "norm", 8, 8))
            x = str(g("Add", x, (gated if "only" in path else plain)(g, h)))
    text = emitted(g.model(y=x)).text
    assert "class Block(" in text and "class TokenOnlyBlock(" in text


def test_what_is_taken_out_of_qkv_is_q_k_and_v(emitted: Emit) -> None:
    g = Traced(x=["batch", 4, 8])
    with g.module("attn", "Attn"):
        qkv = g("Reshape", g.fc("x", "qkv", 8, 24), g.ints(0, 0, 3, 8))
        q, k, v = g("Split", qkv, axis=2, num_outputs=3, outputs=3)
        g("Tanh", g("Add", g("Mul", q, g("Sigmoid", k)), g("Mul", k, v)), out="y")
    assert "q, k, v = " in emitted(g.model(y="y")).text


def test_a_list_is_not_called_after_where_its_part_stands(emitted: Emit) -> None:
    """A stage whose first block is another one is no first stage."""
    g, x = Traced(x=["batch", 8]), "x"
    for i, first in enumerate([gated, gated, chosen]):
        with g.module(f"stages.{i}", "Stage"):
            for k, part in enumerate([first, plain, plain]):
                with g.module(f"stages.{i}.blocks.{k}", "Block"):
                    x = str(g("Add", x, part(g, x)))
    text = emitted(g.model(y=x)).text
    assert "FirstStage" not in text
