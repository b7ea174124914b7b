"""The form of emitted code, on models small enough to say what a person would write.

Every model is compiled with verification, so that none of this is wrong code.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from support.emitter_models import Emitted, Graph

torch.set_num_threads(1)
Emit = Callable[[onnx.ModelProto], Emitted]


# ---- repetition: classes, lists, loops


def place(style: str, path: str, *classes: str) -> dict[str, Any]:
    """Where a node stands: layers.0.fc1 as a TorchScript path, or as metadata."""
    words = path.split(".")
    if style == "paths":
        first = ".".join(words[:2]) if words[0] == "layers" else words[0]
        return {"at": "/".join([first, *words[2:]])}
    if style == "metadata":
        start = 2 if words[0] == "layers" else 1
        paths = [".".join(words[:i]) for i in range(start, len(words) + 1)]
        return {"scopes": list(zip(paths, classes, strict=False))}
    return {}


def feed_forward(style: str, layers: int = 3) -> tuple[onnx.ModelProto, set[str]]:
    """Pre-norm residual layers and a head; the model, and its parameters' names."""
    g = Graph(x=["batch", "seq", 8])
    x = "x"
    for i in range(layers):
        path = f"layers.{i}"

        def inside(leaf: str, kind: str, path: str = path) -> dict[str, Any]:
            return place(style, f"{path}.{leaf}".rstrip("."), "FeedForward", kind)

        y = g.norm(x, f"{path}.norm", 8, **inside("norm", "LayerNorm"))
        y = g.linear(y, f"{path}.fc1", 8, 16, **inside("fc1", "Linear"))
        y = g("Relu", y, **inside("act", "ReLU"))
        y = g.linear(y, f"{path}.fc2", 16, 8, **inside("fc2", "Linear"))
        x = g("Add", x, y, **inside("", ""))
    x = g.linear(x, "head", 8, 4, **place(style, "head", "Linear"))
    return g.model(scores=x), set(g.weights)


@pytest.mark.parametrize(
    ("style", "name"), [("paths", "Layer"), ("metadata", "FeedForward")]
)
def test_repeated_blocks_are_a_class_a_list_and_a_loop(
    style: str, name: str, emitted: Emit
) -> None:
    model, parameters = feed_forward(style)
    found = emitted(model)
    assert found.classes == [name, "Net"]
    assert f"self.layers = nn.ModuleList({name}() for _ in range(3))" in found.source()
    assert found.body() == [
        "for layer in self.layers:",
        "x = layer(x)",
        "return self.head(x)",
    ]
    assert found.body(name) == [
        "out = F.relu(self.fc1(self.norm(x)))",
        "return x + self.fc2(out)",
    ]
    assert set(found.weights) == parameters
    assert found.report["classes"] == found.classes


def test_without_scopes_what_repeats_is_a_class_named_after_its_weights(
    emitted: Emit,
) -> None:
    found = emitted(feed_forward("none")[0])
    assert found.classes == ["Layer", "Net"]
    assert found.body("Layer") == [
        "out = F.relu(self.fc1(self.norm(x)))",
        "return x + self.fc2(out)",
    ]
    assert found.body() == [
        "for layer in self.layers:",
        "x = layer(x)",
        "return self.head(x)",
    ]


def test_numbers_that_differ_become_parameters(emitted: Emit) -> None:
    g = Graph(image=["batch", 3, 16, 16])
    x = g("Relu", g.conv("image", "stem", (3, 8, 3), at="stem"))
    for i, (a, b, stride) in enumerate([(8, 8, 1), (8, 16, 2), (16, 32, 2)]):
        at = f"blocks.{i}"
        y = g("Relu", g.conv(x, f"{at}.conv1", (a, b, 3), stride, f"{at}/conv1"), at=at)
        y = g.conv(y, f"{at}.conv2", (b, b, 3), at=f"{at}/conv2")
        skip = g.conv(x, f"{at}.skip", (a, b, 1), stride, f"{at}/skip")
        x = g("Relu", g("Add", y, skip, at=at), at=at)
    found = emitted(g.model(y=g("ReduceMean", x, g.ints(2, 3), keepdims=0)))
    block = found.source("Block")
    assert (
        "def __init__(self, in_channels: int, out_channels: int, stride: int):" in block
    )
    assert "nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1)" in block
    assert "nn.Conv2d(out_channels, out_channels, 3, padding=1)" in block
    assert (
        "[Block(8, 8, stride=1), Block(8, 16, stride=2), Block(16, 32, stride=2)]"
        in (" ".join(found.source().split()).replace("[ ", "[").replace("( ", "("))
    )
    assert "for block in self.blocks:" in found.body()


def test_a_chain_of_layers_is_sequential(emitted: Emit) -> None:
    g = Graph(image=["batch", 3, 8, 8])
    x = "image"
    for i, sizes in enumerate([(3, 8, 3), (8, 8, 3), (8, 16, 1)]):
        x = g.conv(x, f"features.{i}", sizes, at=f"features/features.{i}")
    found = emitted(g.model(y=g("Relu", x)))
    assert found.classes == ["Net"]
    assert "self.features = nn.Sequential(" in found.source()
    assert found.body() == ["return F.relu(self.features(image))"]
    assert set(found.weights) == set(g.weights)


def test_what_differs_is_another_class(emitted: Emit) -> None:
    """Blocks that differ in an operator share a list and a loop, not a class."""
    g = Graph(x=["batch", 4])
    x = "x"
    for i, op in enumerate(["Sin", "Exp", "Sin"]):
        at = f"layers.{i}"
        y = g(op, g.linear(x, f"{at}.fc1", 4, 4, at=f"{at}/fc1"), at=at)
        x = g("Add", x, g.linear(y, f"{at}.fc2", 4, 4, at=f"{at}/fc2"), at=at)
    found = emitted(g.model(y=x))
    assert found.classes == ["Layer", "LayerWithExp", "Net"]
    made = "self.layers = nn.ModuleList([Layer(), LayerWithExp(), Layer()])"
    assert made in found.source()
    assert found.body() == ["for layer in self.layers:", "x = layer(x)", "return x"]


def test_a_shared_module_is_one_member_called_again(emitted: Emit) -> None:
    g = Graph(x=["batch", "seq", 8])
    x = "x"
    for i in range(4):
        at = f"layer_{i}" if i else "layer"  # TorchScript numbers the calls
        y = g("Tanh", g.linear(x, "layer.fc", 8, 8, at=f"{at}/fc"), at=at)
        x = g("Add", x, y, at=at)
    found = emitted(g.model(y=g.linear(x, "head", 8, 2, at="head")))
    assert found.classes == ["Layer", "Net"]
    assert found.source().count("Layer()") == 1
    assert found.body() == [
        "for _ in range(4):",
        "x = self.layer(x)",
        "return self.head(x)",
    ]
    assert set(found.weights) == set(g.weights)


def test_a_layer_that_some_instances_lack_is_a_switch(emitted: Emit) -> None:
    g = Graph(image=["batch", 3, 8, 8])
    x, channels = "image", 3
    for stage, width in enumerate([8, 16], start=1):
        for i in range(2):
            at, path = f"layer{stage}/layer{stage}.{i}", f"layer{stage}.{i}"
            y = g.conv(x, f"{path}.conv1", (channels, width, 3), at=f"{at}/conv1")
            y = g.conv(
                g("Relu", y, at=at),
                f"{path}.conv2",
                (width,) * 2 + (3,),
                at=f"{at}/conv2",
            )
            if channels != width:
                down = f"{at}/downsample/downsample.0"
                x = g.conv(x, f"{path}.downsample.0", (channels, width, 1), at=down)
            x, channels = g("Relu", g("Add", x, y, at=at), at=at), width
    found = emitted(g.model(y=x))
    assert found.classes == ["Layer", "Net"]
    stages = [line for line in found.source().splitlines() if "self.layer" in line][:2]
    assert stages == [
        "self.layer1 = nn.Sequential(Layer(3, 8, downsample=True), Layer(8, 8))",
        "self.layer2 = nn.Sequential(Layer(8, 16, downsample=True), Layer(16, 16))",
    ]


def test_a_class_with_too_many_parameters_is_two(emitted: Emit) -> None:
    g = Graph(image=["batch", 2, 4, 4])
    x, channels = "image", 2
    for i in range(2):
        at = f"blocks.{i}"
        outs = [3 * (k + 1) + i * k for k in range(9)]
        ys = [
            g.conv(x, f"{at}.branch{k}", (channels, out, 1), at=f"{at}/branch{k}")
            for k, out in enumerate(outs)
        ]
        x, channels = g("Concat", *ys, axis=1, at=at), sum(outs)
    found = emitted(g.model(y=x))
    assert len(found.classes) == 3
    assert "def __init__(self):" in found.source(found.classes[0])


def test_a_block_that_joins_its_inputs_is_given_them_joined(emitted: Emit) -> None:
    """As in DenseNet: each layer reads one map more than the one before it."""
    g = Graph(image=["batch", 4, 4, 4])
    maps = ["image"]
    for i in range(1, 4):
        at = f"layers.{i}"
        x = g("Concat", *maps, axis=1, at=at) if i > 1 else "image"
        y = g.conv(x, f"{at}.conv1", (4 * i, 8, 1), at=f"{at}/conv1")
        y = g.conv(g("Relu", y, at=at), f"{at}.conv2", (8, 4, 3), at=f"{at}/conv2")
        maps.append(y)
    found = emitted(g.model(y=g("Concat", *maps, axis=1)))
    assert found.classes == ["Layer", "Net"]
    assert found.arguments("Layer") in (["x: Tensor"], ["image: Tensor"])


def test_a_module_of_plain_operators_around_a_parameter_is_a_class(
    emitted: Emit,
) -> None:
    """RMSNorm, as exporters spell it. What others read of it doesn't dissolve it."""
    g = Graph(x=["batch", "seq", 8])
    x = "x"
    two, small = (g.weight(f"onnx::{n}", value=np.float32(n)) for n in ("2", "1e-5"))
    for i in range(2):
        at, norm = f"layers.{i}", f"layers.{i}/norm"
        y = g("ReduceMean", g("Pow", x, two, at=norm), g.ints(-1), at=norm)
        y = g("Div", x, g("Sqrt", g("Add", y, small, at=norm), at=norm), at=norm)
        y = g("Mul", y, g.weight(f"layers.{i}.norm.weight", 8), at=norm)
        gate, up = (
            g.linear(y, f"{at}.{n}", 8, 8, at=f"{at}/{n}") for n in ("gate", "up")
        )
        y = g("Mul", g("Sigmoid", gate, at=at), up, at=at)
        x = g("Add", x, g.linear(y, f"{at}.down", 8, 8, at=f"{at}/down"), at=at)
    found = emitted(g.model(y=x))
    assert found.classes == ["Norm", "Layer", "Net"]
    assert "self.norm = Norm()" in found.source("Layer")
    assert "self.weight = nn.Parameter(torch.empty((8,)))" in found.source("Norm")


def test_no_line_nests_more_than_a_reader_can_follow(emitted: Emit) -> None:
    g = Graph(x=["batch", 4])
    x = "x"
    for op in ["Tanh", "Erf", "Sin", "Sigmoid", "Cos", "Softsign", "Abs", "Sqrt"]:
        x = g(op, x)
    found = emitted(g.model(y=x))

    def nested(node: ast.AST) -> int:
        inner = max(map(nested, ast.iter_child_nodes(node)), default=0)
        return inner + isinstance(node, ast.Call)

    assert [nested(ast.parse(line)) for line in found.body()[:-1]] == [3, 3]
    assert nested(ast.parse(found.body()[-1].removeprefix("return "))) == 2


def test_cuts_that_are_joined_stand_in_one_list(emitted: Emit) -> None:
    """As every second row and column: none has a line of its own, or all have."""
    g = Graph(x=["batch", 8, 8, 4])
    ends, axes, steps = g.ints(99, 99), g.ints(1, 2), g.ints(2, 2)
    starts = [g.ints(*start) for start in ((0, 0), (1, 0), (0, 1), (1, 1))]
    cuts = [g("Slice", "x", start, ends, axes, steps) for start in starts]
    joined = g("Concat", *cuts, axis=-1)
    body = emitted(g.model(y=g.linear(joined, "fc", 16, 8))).body()
    assert body[0] == "x = torch.cat(" and body[-1] == "return self.fc(x)"
    whole = "[x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2]]"
    assert body[1].strip().startswith(whole) and len(body) == 4


# ---- sizes


def attention(g: Graph, x: str) -> str:
    """Split into heads and back by Shape -> Gather -> Concat -> Reshape."""
    batch, seq = (lambda: g.size("x", 0)), (lambda: g.size("x", 1))
    y = g.reshape(g.linear(x, "query", 8, 8, at="query"), batch(), seq(), g.ints(2, 4))
    y = g("Softmax", g("Transpose", y, perm=[0, 2, 1, 3]), axis=-1)
    return g.reshape(g("Transpose", y, perm=[0, 2, 1, 3]), batch(), seq(), g.ints(8))


def test_size_computations_disappear(emitted: Emit) -> None:
    g = Graph(x=["batch", "seq", 8])
    found = emitted(g.model(y=attention(g, "x")))
    assert [n.op_type for n in g.nodes].count("Shape") == 4
    assert found.body() == [
        "query = self.query(x).unflatten(2, (2, 4)).transpose(1, 2)",
        "return query.softmax(dim=-1).transpose(1, 2).flatten(2)",
    ]


def test_a_size_used_again_gets_the_name_the_file_gives_it(emitted: Emit) -> None:
    g = Graph(ids=("int64", ["batch", "seq"]))
    zero, one = (g.weight(f"onnx::{n}", value=np.int64(n)) for n in (0, 1))
    length = g("Squeeze", g.size("ids", 1))
    positions = g("Range", zero, length, one)
    x = g(
        "Add",
        g("Gather", g.weight("words.weight", 20, 8), "ids", at="words"),
        g("Gather", g.weight("places.weight", 64, 8), positions, at="places"),
    )
    square = g("Concat", g.size("ids", 1), g.size("ids", 1), axis=0)
    low = g("Expand", g.weight("low", value=np.full((1, 1), -9, np.float32)), square)
    y = g("MatMul", x, g("Transpose", x, perm=[0, 2, 1]))
    y = g("Softmax", g("Add", y, g("Trilu", low, one, upper=1)), axis=-1)
    found = emitted(g.model(y=g("MatMul", y, x)))
    body = found.body()
    assert body[0] == "seq = ids.shape[1]"
    assert body[1] == "positions = torch.arange(seq, device=ids.device)"
    assert any("expand(seq, seq)" in line for line in body)
    assert sum("shape" in line for line in body) == 1


def test_a_size_used_once_is_read_in_place(emitted: Emit) -> None:
    g = Graph(x=["batch", 8])
    shape = g("Concat", g.size("x", 0), g.ints(8), axis=0)
    bias = g("Expand", g.weight("bias", 8), shape)
    found = emitted(g.model(y=g("Concat", "x", bias, axis=1)))
    assert "x.shape[0]" in "".join(found.body()) and "batch =" not in found.text


def test_a_size_that_no_argument_has_is_passed(emitted: Emit) -> None:
    g = Graph(x=["batch", "seq", 8])
    x = g("Reshape", "x", g.ints(-1, 8))
    for i in range(2):
        at = f"layers.{i}"
        x = g.linear(x, f"{at}.fc", 8, 8, at=f"{at}/fc")
        y = g.reshape(x, g.ints(-1), g.size("x", 1, at), g.ints(8), at=at)
        x = g("Reshape", g("Softmax", y, axis=1, at=at), g.ints(-1, 8), at=at)
    found = emitted(g.model(y=x))
    assert found.arguments("Layer") == ["x: Tensor", "seq: int"]
    assert found.body()[0] == "seq = x.shape[1]"
    assert found.body()[-3:] == [
        "for layer in self.layers:",
        "x = layer(x, seq)",
        "return x",
    ]


# ---- what several modules use


def masked(steps: int) -> onnx.ModelProto:
    """Layers with one mask, computed in the first by `steps` nodes."""
    g = Graph(x=["batch", "seq", 8], mask=["batch", 1, "seq"])
    x, bias = "x", ""
    for i in range(3):
        at = f"layers.{i}"
        q, k, v = (
            g.linear(x, f"{at}.{n}", 8, 8, at=f"{at}/{n}") for n in ("q", "k", "v")
        )
        scores = g("MatMul", q, g("Transpose", k, perm=[0, 2, 1], at=at), at=at)
        if not bias:
            bias = g("Mul", "mask", g.weight("onnx::m", value=np.float32(-99)), at=at)
            for _ in range(steps - 1):
                bias = g("Tanh", bias, at=at)
        probs = g("Softmax", g("Add", scores, bias, at=at), axis=-1, at=at)
        x = g("Add", x, g("MatMul", probs, v, at=at), at=at)
    return g.model(y=x)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_mask_that_all_blocks_use_is_computed_before_them(
    steps: int, emitted: Emit
) -> None:
    found = emitted(masked(steps))
    assert found.classes == ["Layer", "Net"]
    assert found.body() == [
        "mask = " + "torch.tanh(" * (steps - 1) + "mask * -99.0" + ")" * (steps - 1),
        "for layer in self.layers:",
        "x = layer(x, mask)",
        "return x",
    ]


@pytest.mark.parametrize(("first", "slices"), [((0, 0), 0), ((0, 1), 1), ((1, 1), 2)])
def test_places_that_are_slices_are_written_as_such(
    first: tuple[int, int], slices: int, emitted: Emit
) -> None:
    """As TorchScript writes `x[:, 1:] = y`; all of x is y, and no places are kept."""
    g = Graph(x=[2 + first[0], 3 + first[1]], y=[2, 3])
    grid = np.moveaxis(np.indices((2, 3)), 0, -1) + first
    places = g.weight("places", value=grid)
    text = emitted(g.model(z=g("Neg", g("ScatterND", "x", places, "y")))).text
    assert text.count("slice_scatter") == slices
    assert "places" not in text and "index_put" not in text


def test_a_place_from_the_end_is_written_as_a_slice(emitted: Emit) -> None:
    """As TorchScript writes `x[:, -1:] = y`."""
    g = Graph(x=[2, 3], y=[2, 1])
    places = g.weight("places", value=np.array([[[0, -1]], [[1, -1]]]))
    text = emitted(g.model(z=g("Neg", g("ScatterND", "x", places, "y")))).text
    assert "x.slice_scatter(y, dim=1, start=2, end=3)" in text
