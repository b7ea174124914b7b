"""Modules whose statements differ in numbers; every package is verified."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from support.emitter_models import Emitted
from support.traced import Traced
from torch import nn

import fairhand
from fairhand.codegen.classes.statement_numbers import products

Emit = Callable[[onnx.ModelProto], Emitted]
Body = Callable[[Traced, str, int], str]


def staged(*stages: tuple[int, Body]) -> onnx.ModelProto:
    """One class, called on maps of several sizes: [batch, 3 n n] for each n."""
    g, x, width = Traced(x=["batch", 8]), "x", 8
    for i, (size, body) in enumerate(stages):
        with g.module(f"stages.{i}", "Stage"):
            x = body(g, g.fc(x, "fc", width, 3 * size**2), size)
        width = 3 * size**2
    return g.model(y=x)


def turned(g: Traced, x: str, size: int) -> str:
    x = g("Reshape", x, g.ints(-1, size, size, 3))
    x = g("Transpose", g("Relu", x), perm=[0, 2, 1, 3])
    x = g("Softmax", g("Reshape", x, g.ints(-1, size**2, 3)), axis=1)
    return str(g("Reshape", x, g.ints(-1, 3 * size**2)))


def test_sizes_are_given_to_one_class(emitted: Emit) -> None:
    found = emitted(staged((2, turned), (3, turned), (4, turned), (2, turned)))
    assert found.text.count("class Stage") == 1
    assert "def __init__(self, in_features: int, out_features: int, size: int)" in (
        found.text
    )
    assert "unflatten(1, (self.size, self.size, 3))" in found.text
    assert "Stage(27, 48, 4)" in found.text


def test_a_number_is_called_after_the_parameter_that_it_is(emitted: Emit) -> None:
    g, x, width = Traced(x=["batch", 4, 8]), "x", 8
    for i, out in enumerate((16, 24, 12)):
        with g.module(f"stages.{i}", "Stage"):
            x = g.fc(x, "fc", width, out)
            x = g("Reshape", g("Relu", x), g.ints(-1, out, 4))
            x = g("Transpose", x, perm=[0, 2, 1])
        width = out
    found = emitted(g.model(y=x))
    assert "self.out_features = out_features" in found.source("Stage")
    assert ".reshape(-1, self.out_features, 4)" in found.source("Stage")


def test_areas_and_multiples_are_computed() -> None:
    side, area, wide = ("8", "4", "2"), ("64", "16", "4"), ("56", "28", "14")
    assert products([side, area, wide], {1, 7}) == {area: (side, side), wide: (side, 7)}
    assert products([side, wide], {1, 2, 3}) == {}
    assert products([("0.5", "0.25"), side], {1, 7}) == {}
    assert products([("0", "0", "1"), ("0", "0", "2")], {2}) == {}


def test_a_number_alike_everywhere_is_written_out(emitted: Emit) -> None:
    text = emitted(staged((2, turned), (2, turned))).text
    assert "self.size" not in text


def rooted(g: Traced, x: str, size: int) -> str:
    scale = g.weight(f"root_{size}", value=np.float32(size**-0.5))
    return str(g("Relu", g("Mul", x, scale)))


def test_roots_are_numbers(emitted: Emit) -> None:
    """As scores are divided by, in stages of 3, 4 and 5 channels a head."""
    found = emitted(staged((3, rooted), (4, rooted), (5, rooted)))
    assert found.text.count("class Stage") == 1
    assert "F.relu(self.fc(x) * self.scale)" in found.text
    assert "math.sqrt(1 / 3))" in found.text and ", 0.5)" in found.text


def test_what_one_alone_has_is_as_wide_as_it_is_there(emitted: Emit) -> None:
    """Two layers of the last block have a gate, which are not of one width."""
    g, x = Traced(x=["batch", 8]), "x"
    for i, widths in enumerate([(), (), (), (2, 3)]):
        with g.module(f"blocks.{i}", "Block"):
            for j in range(2):
                with g.module(f"layers.{j}", "Layer"):
                    x = g.relu(g.fc(x, "up", 8, 8))
                    for width in widths[j : j + 1]:
                        with g.module("gate", "Gate"):
                            h = g("Tanh", g.fc(x, "fc1", 8, width))
                            x = g("Mul", x, g("Sigmoid", g.fc(h, "fc2", width, 8)))
                    x = g.fc(x, "down", 8, 8)
    emitted(g.model(y=x))


def several(g: Traced, x: str, size: int) -> str:
    """Differs in more numbers than a reader keeps in mind."""
    for number in (size, size + 5, size**2 + 2, size**3 + 1):
        x = str(
            g("Mul", g("Relu", x), g.weight(f"by_{number}", value=np.float32(number)))
        )
    return x


def test_many_numbers_are_another_class(emitted: Emit) -> None:
    text = emitted(staged((2, several), (3, several))).text
    assert "class LastStage" in text and "self.scale" not in text


def crowded(g: Traced, x: str, size: int) -> str:
    """As many numbers, of a body that has eight times as many."""
    for _ in range(4):
        x = turned(g, x, size)
    return several(g, x, size)


def test_a_long_body_is_told_more_numbers(emitted: Emit) -> None:
    text = emitted(staged((2, crowded), (3, crowded))).text
    assert text.count("Stage(nn.Module)") == 1


def parted(g: Traced, x: str, size: int) -> str:
    """As many numbers, but for one all are those of its layers."""
    x, wide = turned(g, x, size), (size + 1, size + 4, 3 * size**2 - 2 * size - 5)
    parts = g("Split", x, g.ints(*wide), axis=1, outputs=3)
    parts = [g.fc(*a, n, n) for *a, n in zip(parts, "abc", wide, strict=True)]
    return str(g("Concat", *parts, axis=1))


def test_numbers_of_layers_are_told_anyway(emitted: Emit) -> None:
    text = emitted(staged((3, parted), (4, parted), (5, parted))).text
    assert text.count("Stage(nn.Module)") == 1


def gated(g: Traced, x: str, size: int) -> str:
    """As CoaT: what each stage shares among its blocks has a number of its own."""
    with g.module(f"gate{size}", "Gate"):
        y = g("Sigmoid", g.fc(x, "fc", 3 * size**2, 3 * size**2))
    return str(g("Mul", x, g("Relu", y)))


def test_members_told_apart_by_numbers_keep_one_class(emitted: Emit) -> None:
    text = emitted(staged((2, gated), (3, gated), (4, gated))).text
    assert text.count("Stage(nn.Module)") == 1 and "self.gate(x)" in text


# ---- rolls, there and back


def shifted(by: int) -> Body:
    def rolled(g: Traced, x: str, first: int, rest: int) -> str:
        a, b = g("Split", x, g.ints(first, rest), axis=1, outputs=2)
        return str(g("Concat", b, a, axis=1))

    def body(g: Traced, x: str, size: int) -> str:
        rest = 3 * size**2 - by
        x = rolled(g, x, by, rest) if by else x
        x = g("Relu", g.fc(x, "mix", rest + by, rest + by))
        return rolled(g, x, rest, by) if by else x

    return body


@pytest.mark.parametrize("shifts", [(0, 3, 0, 3), (3, 0, 0), (0, 3)])
def test_a_shift_is_a_switch(shifts: tuple[int, ...], emitted: Emit) -> None:
    """As in Swin, where every second block attends in windows that are shifted."""
    found = emitted(staged(*((2, shifted(by)) for by in shifts)))
    assert found.text.count("class Stage") == 1
    assert found.text.count(" if self.shifted else x") == 2
    assert found.text.count("shifted=") == len({*shifts} - {0}) * shifts.count(3)


def test_two_shifts_are_two_classes(emitted: Emit) -> None:
    text = emitted(
        staged((2, shifted(3)), (2, shifted(0)), (2, activated("Relu")))
    ).text
    assert text.count("class Stage") == 2


# ---- activations


def activated(op: str, gate: str = "Sigmoid") -> Body:
    def body(g: Traced, x: str, size: int) -> str:
        y = g("Mul", g(op, x), g(gate, g.fc(x, "gate", 3 * size**2, 3 * size**2)))
        return g(op, g.fc(y, "out", 3 * size**2, 3 * size**2))

    return body


def test_an_activation_is_given_to_one_class(emitted: Emit) -> None:
    stages = (2, activated("Relu")), (2, activated("HardSwish")), (2, activated("Relu"))
    found = emitted(staged(*stages))
    assert found.classes == ["Stage", "Net"]
    assert "activation: Callable[[Tensor], Tensor]" in found.text
    assert "Stage(12, F.hardswish), Stage(12, F.relu)" in found.text
    assert found.body("Stage")[-1] == "return self.activation(x)"
    assert "torch.sigmoid(self.gate(x))" in found.source("Stage")
    tried = found.module.Model()
    torch.export.export(tried, (torch.zeros(2, 8),))


def test_two_activations_are_two_arguments(emitted: Emit) -> None:
    stages = (2, activated("Relu")), (2, activated("HardSwish", "Tanh"))
    found = emitted(staged(*stages))
    assert found.text.count("class Stage") == 1
    assert "F.hardswish, torch.tanh" in found.text


def test_what_is_no_activation_is_another_class(emitted: Emit) -> None:
    found = emitted(staged((2, activated("Relu")), (2, activated("Abs"))))
    assert found.text.count("Stage(nn.Module)") == 2


# ---- depths


def of_depth(depth: int, kind: str = "Block") -> Body:
    """A list of residual modules, under a name that a class has for it."""

    def body(g: Traced, x: str, size: int) -> str:
        with g.module("m", "Sequential"):
            for i in range(depth):
                with g.module(str(i), kind):
                    y = g("Relu", g.fc(x, "fc1", 3 * size**2, 6))
                    x = g("Add", x, g.fc(y, "fc2", 6, 3 * size**2))
        return str(g("Tanh", x))

    return body


def test_lists_of_several_depths_are_of_one_class(emitted: Emit) -> None:
    found = emitted(staged((2, of_depth(1)), (3, of_depth(3)), (2, of_depth(2))))
    assert found.classes == ["Block", "Stage", "Net"]
    assert "nn.Sequential(*(Block(out_features) for _ in range(depth)))" in found.text
    assert (
        "Stage(8, 12, depth=1), Stage(12, 27, depth=3), Stage(27, 12, depth=2)"
        in found.text
    )
    assert {f"stages.{i}.m.0.fc1.weight" for i in range(3)} <= set(found.weights)
    assert "stages.1.m.2.fc1.weight" in found.weights


Block = tuple[int, int, int]  # how many features enter, are inside, and leave


def in_stages(*stages: tuple[Block, ...]) -> onnx.ModelProto:
    """Rows of blocks, `layers`; those that change the width have a shortcut."""
    g, x = Traced(x=["batch", stages[0][0][0]]), "x"
    for i, blocks in enumerate(stages):
        with g.module(f"stages.{i}", "Stage"), g.module("layers", "Sequential"):
            for k, (into, inner, out) in enumerate(blocks):
                with g.module(str(k), "Block"):
                    y = g.fc(g("Relu", g.fc(x, "fc1", into, inner)), "fc2", inner, out)
                    x = g("Add", y, x if into == out else g.fc(x, "short", into, out))
    return g.model(y=g("Relu", x))


def resized(into: int, inner: int, out: int, depth: int) -> tuple[Block, ...]:
    """The first block changes the width."""
    return (into, inner, out), *[(out, inner, out)] * (depth - 1)


def test_the_first_of_a_row_may_differ(emitted: Emit) -> None:
    found = emitted(
        in_stages(
            resized(8, 2, 10, 3),
            resized(10, 4, 20, 2),
            resized(20, 6, 30, 4),
            resized(30, 8, 40, 1),
        )
    )
    assert found.classes == ["Block", "Stage", "Net"]
    text = " ".join(found.source("Stage").split())
    assert "in_features: int, hidden: int, depth: int" in text
    first = "nn.Sequential( Block(in_features, hidden, short=True), "
    others = "*(Block(5 * hidden, hidden) for _ in range(depth - 1)), )"
    assert first + others in text
    assert "Stage(30, 8, depth=1)" in found.text


def test_a_row_of_one_is_not_given_what_only_another_row_has(emitted: Emit) -> None:
    """What no parameter tells is a number, and says nothing of those that lack it."""
    longer = ((8, 2, 10), (10, 7, 10), (10, 7, 10))
    found = emitted(in_stages(longer, resized(10, 3, 20, 1), resized(20, 5, 30, 1)))
    assert "depth" not in found.text and "7" not in found.source("Stage")


def of_rows(rows: int) -> Body:
    """A list of lists of two residual modules."""

    def body(g: Traced, x: str, size: int) -> str:
        with g.module("rows", "Sequential"):
            for i in range(rows):
                with g.module(str(i), "Sequential"):
                    for k in range(2):
                        with g.module(str(k), "Block"):
                            y = g("Relu", g.fc(x, "fc1", 3 * size**2, 6))
                            x = g("Add", x, g.fc(y, "fc2", 6, 3 * size**2))
        return str(g("Tanh", x))

    return body


def test_a_list_of_lists_has_its_depth(emitted: Emit) -> None:
    found = emitted(staged((2, of_rows(2)), (3, of_rows(3))))
    assert found.classes == ["Block", "Stage", "Net"]
    row = (
        "nn.Sequential(Block(out_features), Block(out_features)) for _ in range(depth)"
    )
    assert row in " ".join(found.text.split())


def test_a_list_of_one_is_no_list_where_none_is_longer(emitted: Emit) -> None:
    text = emitted(staged((2, of_depth(1)), (3, of_depth(1)))).text
    assert "Sequential" not in text and "depth" not in text


def numbered(*depths: int) -> onnx.ModelProto:
    """Stages of modules called block1, block2 ..., the first ones of other sizes."""
    g, x, width = Traced(x=["batch", 8]), "x", 8
    for i, depth in enumerate(depths):
        with g.module(f"stages.{i}", "Stage"):
            for k in range(1, depth + 1):
                with g.module(f"block{k}", "Block"):
                    x = g("Relu", g.fc(x, "fc1", width, 4 * i + 4))
                    width = 8 * i + 6
                    x = g.fc(x, "fc2", 4 * i + 4, width)
    return g.model(y=x)


def test_modules_that_are_numbered_by_name_have_a_depth(emitted: Emit) -> None:
    found = emitted(numbered(2, 5, 3))
    assert found.classes == ["Block", "Stage", "Net"]
    text = found.source("Stage")
    assert "for i in range(2, depth + 1):" in text
    assert 'self.add_module(f"block{i}", Block(' in text
    assert "for layer in self.children():" in text
    assert "Stage(8, 4, 6, depth=2)" in found.text


def test_few_modules_that_are_numbered_are_written_out(emitted: Emit) -> None:
    text = emitted(numbered(3, 3)).source("Stage")
    assert "self.block3 = Block(" in text
    assert "add_module" not in text
    assert "x = self.block2(x)" in text


def rows_of(*rows: nn.Module) -> onnx.ModelProto:
    """Modules in turn on [3, 8], as TorchScript's exporter writes them."""
    made = io.BytesIO()
    net = nn.Sequential(*rows).eval()
    torch.onnx.export(net, (torch.randn(3, 8),), made, dynamo=False)
    return onnx.load_model_from_string(made.getvalue())


class Named(nn.Module):
    """Calls the modules of these names in turn."""

    def __init__(self, order: str = "", **members: nn.Module) -> None:
        super().__init__()
        self.order = order.split() or [*members]
        for name, member in members.items():
            self.add_module(name, member)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in self.order:
            x = getattr(self, name)(x)
        return x


class Layer(Named):
    """A linear layer and what its sizes don't change."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__(fc1=nn.Linear(8, 8), fc2=nn.Linear(8, 8, bias))


class Stem(Named):
    """Layers of its own, numbered too."""

    def __init__(self, depth: int) -> None:
        super().__init__(**{f"part{i}": Layer() for i in range(depth)})


def test_a_depth_within_is_not_that_of_the_row_around_it(emitted: Emit) -> None:
    """block1 has a depth of its own in the one, and block2 begins the row."""
    rows = [{"block1": Stem(n), "block2": Layer(), "block3": Layer()} for n in (4, 6)]
    found = emitted(rows_of(*(Named(**row) for row in rows)))
    assert "self.block1 = BlockWithPart(depth=depth)" in found.text
    assert "self.block3 = BlockWithFc()" in found.text
    assert found.text.count("add_module") == 1


def test_a_layer_that_is_called_again_is_none_that_others_lack(emitted: Emit) -> None:
    fewer = Named(a=nn.Linear(8, 8), b=nn.Linear(8, 8))
    found = emitted(
        rows_of(Named("a b b", a=nn.Linear(8, 8), b=nn.Linear(8, 8)), fewer)
    )
    assert "self.b(self.b(" in found.text or found.text.count("= self.b(x)") > 1


def test_lists_as_long_everywhere_are_written_out(emitted: Emit) -> None:
    text = emitted(staged((2, of_depth(2)), (3, of_depth(2)))).text
    assert "nn.Sequential(Block(out_features), Block(out_features))" in text
    assert "depth" not in text


@pytest.mark.parametrize("swapped", [False, True])
def test_attention_to_oneself_is_of_the_same_class(
    swapped: bool, emitted: Emit
) -> None:
    """One value for two arguments, unless what is done with them differs."""
    g = Traced(x=["batch", 5, 8], memory=["batch", 5, 8])

    def attended(x: str, y: str) -> str:
        x, y = (y, x) if swapped and x != y else (x, y)
        k, v = (g.fc(y, name, 8, 8) for name in ("k", "v"))
        scores = g("MatMul", g.fc(x, "q", 8, 8), g("Transpose", k, perm=[0, 2, 1]))
        return str(g.fc(g("MatMul", g("Relu", scores), v), "out", 8, 8))

    x = "x"
    for i in range(2):
        with g.module(f"layers.{i}", "Layer"):
            with g.module(f"layers.{i}.self", "Attention"):
                y = attended(x, x)
            x = str(g("Add", x, y))
            with g.module(f"layers.{i}.other", "Attention"):
                y = attended(x, "memory")
            x = str(g("Add", x, y))
    text = emitted(g.model(y=x)).text
    assert text.count("class Attention") == 1
    assert "self.self(x, x)" in text and "self.other(" in text


class Windows(nn.Module):
    """Attention within maps of [batch, 4, 4, 8 heads]."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = (nn.Linear(8 * heads, n * heads) for n in (24, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        qkv = self.qkv(x).view(len(x), 16, self.heads, 24).transpose(1, 2)
        q, k, v = qkv.chunk(3, dim=-1)
        weights = (q * 8**-0.5 @ k.transpose(-2, -1)).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(x.shape))


class Images(nn.Module):
    """Attention within maps of [batch, 8 heads, 4, 4]."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = (nn.Conv2d(8 * heads, n * heads, 1) for n in (24, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).view(len(x), self.heads, 24, 16).chunk(3, dim=2)
        weights = (q.transpose(-2, -1) @ k * 8**-0.5).softmax(-1)
        return self.proj((v @ weights.transpose(-2, -1)).reshape(x.shape))


@pytest.mark.parametrize(
    ("attention", "between", "heads", "line"),
    [
        (Windows, nn.Linear, (1, 2), ".reshape(2, 16, self.heads, 24)"),
        (Images, partial(nn.Conv2d, kernel_size=1), (2, 4), "(2, self.heads, 24, 16)"),
    ],
)
def test_heads_are_told_wherever_they_stand(
    attention: type, between: Any, heads: Sequence[int], line: str, tmp_path: Path
) -> None:
    """One head is written as several are, so that one class serves for all."""
    few, more = heads
    layers = attention(few), between(8 * few, 8 * more), attention(more)
    net = nn.ModuleDict({"layers": nn.Sequential(*layers)}).eval()
    net.forward = net["layers"].forward
    shape = (2, 4, 4, 8 * few) if attention is Windows else (2, 8 * few, 4, 4)
    file, x = tmp_path / "net.onnx", torch.randn(shape)
    torch.onnx.export(net, (x,), str(file), dynamo=False, opset_version=17)
    fairhand.compile(file, tmp_path / "net")
    text = (tmp_path / "net/model.py").read_text("utf-8")
    assert text.count("F.scaled_dot_product_attention") == 1
    assert line in text
