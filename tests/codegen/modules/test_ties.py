"""Layers that share a matrix are one parameter, stored once."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_model
from support.emitted import imported
from support.emitter_models import Graph
from support.traced import Traced

import fairhand
from fairhand.codegen.classes.tied_weights import tied_lines
from fairhand.codegen.ir.package_plan import Item, MemberPath, path_text


def language_model(
    heads: int = 1, tied: bool = True, how: str = "turn"
) -> onnx.ModelProto:
    """Tokens to states and back, by one matrix if `tied`."""
    g = Traced(tokens=("int64", ["batch", "seq"]))
    with g.module("wte", "Embedding"):
        table = g.param("weight", 20, 8)
        x = g("Gather", table, "tokens")
    x = g.relu(g.fc(x, "fc", 8, 8))
    made = []
    for i in range(heads):
        x = g.fc(x, f"fc{i}", 8, 8) if i else x
        with g.module(f"head{i}", "Linear"):
            weight = table if tied else g.param("weight", 20, 8)
            if how == "turn":
                made.append(g("MatMul", x, g("Transpose", weight, perm=[1, 0])))
            else:
                flat = g("Reshape", x, g.ints(-1, 8))
                made.append(g("Gemm", flat, weight, transB=1))
    return g.model(**{f"scores{i}": scores for i, scores in enumerate(made)})


@pytest.mark.parametrize(("how", "level"), [("turn", 0), ("turn", 1), ("gemm", 1)])
def test_one_parameter_is_stored_once(how: str, level: int, tmp_path: Path) -> None:
    fairhand.compile(
        language_model(how=how), tmp_path / "net", level=level, verify=how == "gemm"
    )
    stored = load_file(tmp_path / "net" / "weights.safetensors")
    assert [tuple(t.shape) for t in stored.values()].count((20, 8)) == 1
    network = imported(tmp_path / "net").load()
    (head,) = [m for n, m in network.named_children() if n not in ("wte", "fc")]
    assert head.weight is network.wte.weight
    text = (tmp_path / "net" / "model.py").read_text(encoding="utf-8")
    assert ".weight = self.wte.weight\n" in text


@pytest.mark.parametrize("level", [0, 1])
def test_layers_of_the_same_zeros_are_no_one_layer(level: int, tmp_path: Path) -> None:
    """An exporter gives weights that are yet to be trained one array of zeros."""
    g = Traced(x=["batch", 4, 8, 8])
    zeros, x = g.weight("onnx::Conv_3", value=np.zeros((4, 4, 3, 3), np.float32)), "x"
    for i in range(2):
        with g.module(f"blocks.{i}", "Block"):
            with g.module("conv", "Conv2d"):
                y = g("Conv", x, zeros, pads=[1, 1, 1, 1])
            x = g.batch_norm(g("Add", x, y), "norm", 4)
    fairhand.compile(g.model(y=x), tmp_path / "net", level=level)
    network = imported(tmp_path / "net").load()
    convolutions = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len({id(m.weight) for m in convolutions}) == len(convolutions) == 2


def test_it_stays_one(tmp_path: Path) -> None:
    """After a step of training, after strict loading, and after saving."""
    fairhand.compile(language_model(heads=2), tmp_path / "net", verify=False)
    package = imported(tmp_path / "net")
    network = package.load().train().requires_grad_(True)
    torch.optim.SGD(network.parameters(), lr=0.1).zero_grad()
    scores = network(torch.arange(6).reshape(2, 3))
    sum(s.square().mean() for s in scores).backward()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter -= parameter.grad
    shared = {network.wte.weight, network.head0.weight}  # one layer, called twice
    assert len(shared) == 1 and len(list(network.parameters())) == 5
    state = network.state_dict()
    assert {"wte.weight", "head0.weight"} < state.keys()
    fresh = type(network)()
    fresh.load_state_dict(state, strict=True)
    assert fresh.head0.weight is fresh.wte.weight
    saved = str(tmp_path / "tuned.safetensors")
    save_model(network, saved, {"model_sha256": package.model.MODEL_SHA256})
    again = package.load(saved)
    assert torch.equal(again.wte.weight, network.wte.weight)
    again = again.to(torch.bfloat16)
    assert again.head0.weight is again.wte.weight


def test_the_other_name_of_a_module_may_come_first(tmp_path: Path) -> None:
    """A table that the file has under the name of the head alone, as exporters write it
    that turn the head's matrix themselves."""
    g = Traced(tokens=("int64", ["batch", "seq"]))
    with g.module("model", "Model"):
        with g.module("wte", "Embedding"):
            x = g("Gather", g.weight("head.weight", 20, 8), "tokens")
        x = g.fc(g.relu(x), "fc", 8, 8)
    fairhand.compile(g.model(y=x), tmp_path / "net", level=0)
    package = imported(tmp_path / "net")
    network = package.load()
    assert network.head is network.model.wte
    saved = str(tmp_path / "saved.safetensors")
    save_model(network, saved, {"model_sha256": package.model.MODEL_SHA256})
    assert {"head.weight"} <= load_file(saved).keys()
    again = package.load(saved)
    assert torch.equal(again.head.weight, network.head.weight)


def test_equal_shapes_are_not_shared(tmp_path: Path) -> None:
    fairhand.compile(language_model(tied=False), tmp_path / "net", verify=False)
    stored = load_file(tmp_path / "net" / "weights.safetensors")
    assert [tuple(t.shape) for t in stored.values()].count((20, 8)) == 2


def test_several_shared_parameters_are_told_apart(tmp_path: Path) -> None:
    """Three tables, each of which is also the matrix of a head."""
    g = Traced(tokens=("int64", ["batch", "seq"]))
    made = []
    for i in range(3):
        with g.module(f"tables.{i}", "Embedding"):
            table = g.param("weight", 20, 8)
            x = g("Gather", table, "tokens")
        with g.module(f"heads.{i}", "Linear"):
            flat = g("Reshape", g.relu(x), g.ints(-1, 8))
            made.append(g("Gemm", flat, table, transB=1))
    fairhand.compile(g.model(a=made[0], b=made[1], c=made[2]), tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text(encoding="utf-8")
    assert "for name, weight in model.named_parameters" in text
    assert (
        "        for i in range(3):\n"
        "            self.heads[i].linear.weight = self.tables[i].weight\n"
    ) in text
    network = imported(tmp_path / "net").load()
    assert len(list(network.parameters())) == 3
    assert network.heads[1].linear.weight is network.tables[1].weight


def test_lines_that_differ_in_a_number_are_a_loop() -> None:
    pairs: list[tuple[MemberPath, MemberPath]] = [
        (
            ("a", Item(i), "m", "list", Item(k), "weight"),
            ("b", Item(0), "m", "list", Item(k), "weight"),
        )
        for i in range(4)
        for k in range(3)
    ]
    assert tied_lines([*pairs, (("head", "weight"), ("wte", "weight"))]) == [
        "self.head.weight = self.wte.weight",
        "for i in range(4):",
        "    for j in range(3):",
        "        self.a[i].m.list[j].weight = self.b[0].m.list[j].weight",
    ]


def test_a_key_of_a_dictionary_is_no_number() -> None:
    pairs: list[tuple[MemberPath, MemberPath]] = [
        (("a", Item(str(i)), "weight"), ("b", Item(i), "weight")) for i in range(3)
    ]
    lines = [f'self.a["{i}"].weight = self.b[{i}].weight' for i in range(3)]
    assert tied_lines(pairs) == lines


@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), max_size=30))
def test_loops_say_what_the_lines_said(numbers: list[list[int]]) -> None:
    pairs: set[tuple[MemberPath, MemberPath]] = {
        (("x", Item(a), "y", Item(b), "w"), ("z", Item(c), "w")) for a, b, c in numbers
    }
    source = "\n".join(tied_lines(sorted(pairs)))
    said = re.sub(r"(self.*) = (self.*)", r"found.append(f'\1 = \2')", source)
    found: list[str] = []
    exec(re.sub(r"\[(\w+)\]", r"[{\1}]", said), {"found": found})
    assert sorted(found) == sorted(f"{path_text(a)} = {path_text(b)}" for a, b in pairs)


@pytest.mark.parametrize("ones", [False, True])
def test_a_vector_of_two_modules_is_one_unless_it_is_all_ones(
    ones: bool, tmp_path: Path
) -> None:
    """An exporter gives the norms of a network that never trained one array."""
    g = Traced(x=("float32", ["batch", 4, 4, 8]))
    numbers = np.ones(8) if ones else np.linspace(1, 2, 8)
    gain = g.weight("a.gain", value=numbers.astype(np.float32))
    x = "x"
    for name in "ab":
        with g.module(name, "Block"):
            y = g("Tanh", g("Mul", g("Tanh", g.fc(x, "fc", 8, 8)), gain))
            x = g("Add", x, g("Relu", g.fc(y, "out", 8, 8)))
    folder = tmp_path / "net"
    fairhand.compile(g.model(y=x), folder, level=1, verify=False, cache=False)
    network = imported(folder).load()
    vectors = {p for n, p in network.named_parameters() if "bias" not in n}
    assert len([v for v in vectors if v.dim() == 1]) == (2 if ones else 1)


def test_the_two_directions_of_a_layer_are_not_one(tmp_path: Path) -> None:
    """Keras begins both with the same bias, and the file has them in one tensor."""
    text = """<ir_version: 8, opset_import: ["": 15]>
        net (float[5, batch, 3] x, float[2, 8, 3] w, float[2, 8, 2] r)
        => (float[5, 2, batch, 2] y)
        <float[2, 16] b = {0,0, 0,0, 1,1, 0,0, 0,0, 0,0, 0,0, 0,0,
                           0,0, 0,0, 1,1, 0,0, 0,0, 0,0, 0,0, 0,0}>
        { y = LSTM <hidden_size = 2, direction = "bidirectional"> (x, w, r, b) }"""
    model = onnx.parser.parse_model(text)
    for weight in (model.graph.input.pop(), model.graph.input.pop()):
        shape = [d.dim_value for d in weight.type.tensor_type.shape.dim]
        numbers = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        stored = onnx.numpy_helper.from_array(numbers, weight.name)
        model.graph.initializer.append(stored)
    fairhand.compile(model, tmp_path / "net")
    assert (
        ".lstm = " not in (tmp_path / "net" / "model.py").read_text().split("LSTM(")[1]
    )
    lstm = imported(tmp_path / "net").load().lstm
    assert lstm.bias_ih_l0 is not lstm.bias_ih_l0_reverse


def test_a_module_of_two_names_has_both(tmp_path: Path) -> None:
    """enc2 = enc1: the file has the tensors under one name, and calls by both."""
    g = Traced(x=("float32", ["batch", 4, 6, 6]))
    conv = g.weight("enc2.0.weight", 4, 4, 1, 1)
    vectors = [
        g.weight(f"enc2.1.{name}", 4) for name in ("weight", "bias", "running_mean")
    ]
    spread = g.weight(
        "enc2.1.running_var", value=np.linspace(1, 2, 4).astype(np.float32)
    )
    x = "x"
    for name in ("enc1", "enc2"):
        with g.module(f"{name}.0", "Conv2d"):
            x = g("Conv", x, conv)
        with g.module(f"{name}.1", "BatchNorm2d"):
            x = g("BatchNormalization", x, *vectors, spread)
        x = g.relu(x)
    fairhand.compile(g.model(y=x), tmp_path / "net", level=0, cache=False)
    network = imported(tmp_path / "net").load()
    assert network.enc1[0] is network.enc2[0] and network.enc1[1] is network.enc2[1]
    assert {"enc1.1.running_mean", "enc2.0.weight"} < network.state_dict().keys()
    assert len(load_file(tmp_path / "net" / "weights.safetensors")) == 5


def test_a_layer_that_blocks_call_is_the_network_s(tmp_path: Path) -> None:
    """TorchScript calls /b1/norm what b1 calls of the network's `norm`."""
    g = Graph(x=["batch", 3, 8])
    gains = g.weight("norm.weight", 8), g.weight("norm.bias", 8)
    x = "x"
    for at in ("b1", "b2"):
        x = g("LayerNormalization", x, *gains, at=f"{at}/norm")
        x = g.linear(x, f"{at}.fc", 8, 8, at=f"{at}/fc")
    x = g("LayerNormalization", x, *gains, at="norm")
    fairhand.compile(g.model(y=x), tmp_path / "net", level=0, cache=False)
    found = imported(tmp_path / "net").load().state_dict().keys()
    assert {key.rpartition(".")[0] for key in found} == {"norm", "b1.fc", "b2.fc"}


def test_norms_that_saw_the_same_count_by_themselves(tmp_path: Path) -> None:
    """Exporters store equal statistics once; training tells the two apart."""
    g = Traced(x=["batch", 4, 6])
    mean, variance = (
        g.weight(f"left.norm.running_{kind}", value=np.arange(1, 5, dtype=np.float32))
        for kind in ("mean", "var")
    )
    made = []
    for side in ("left", "right"):
        with g.module(side, "Side"), g.module("norm", "BatchNorm1d"):
            own = (g.param(kind, 4) for kind in ("weight", "bias"))
            made.append(g("BatchNormalization", "x", *own, mean, variance))
    fairhand.compile(g.model(y=g("Mul", *made)), tmp_path / "net")
    network = imported(tmp_path / "net").load()
    buffers = dict(network.named_buffers(remove_duplicate=False))
    kept = [v for k, v in buffers.items() if k.endswith("running_mean")]
    assert len(kept) == 2 and kept[0] is not kept[1]
    assert torch.equal(*kept)
