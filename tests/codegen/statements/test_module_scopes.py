"""Where nodes stood in the original, by their own names and those of weights."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from support.emitter_models import Graph
from torch import nn

import fairhand

WEIGHTS = {
    f"net.blocks.{i}.{name}": shape
    for i in range(2)
    for name, shape in (
        ("attn.qkv.weight", (4, 4)),
        ("attn.table", (5, 4)),
        ("mlp.0.weight", (4, 4)),
        ("mlp.2.weight", (4, 4)),
    )
} | {
    "net.gamma.0": (4,),
    "net.gamma.1": (4,),
    "out.parametrizations.weight.original0": (4, 4),
}


def _traced() -> onnx.ModelProto:
    """A list of dictionaries of modules, as TorchScript calls its nodes."""
    nodes, x = [], "x"

    def add(kind: str, name: str, *inputs: str) -> str:
        out = f"{name}_output"
        nodes.append(helper.make_node(kind, inputs, [out], name=name))
        return out

    index = "net.blocks.0.attn.index"
    for i, again in enumerate(("", "_1")):
        if again:
            add("Identity", "Identity_7", index)
            index = nodes[-1].output[0] = "net.blocks.1.attn.index"
        block = f"net.blocks.{i}"
        qkv = f"/net/attn/qkv{again}/MatMul"
        x = add("MatMul", qkv, x, f"{block}.attn.qkv.weight")
        flat = add("Reshape", f"/net/attn{again}/Reshape", index, "flat")
        taken = add("Gather", f"/net/attn{again}/Gather", f"{block}.attn.table", flat)
        x = add("Add", f"/net/attn{again}/Add", x, taken)
        x = add("MatMul", f"/net/mlp/mlp.0{again}/M", x, f"{block}.mlp.0.weight")
        x = add("Tanh", f"/net/mlp/mlp.1{again}/Tanh", x)
        x = add("MatMul", f"/net/mlp/mlp.2{again}/M", x, f"{block}.mlp.2.weight")
    for i in range(2):  # alike, but for the weight
        x = add("Mul", f"/net/Mul_{i}", x, f"net.gamma.{i}")
    w = add("Exp", "/out/weight/weight.0/Exp", [*WEIGHTS][-1])
    nodes.append(helper.make_node("MatMul", [x, w], ["y"], name="/out/MatMul"))
    draw = np.random.default_rng(0).standard_normal
    stored = {k: draw(shape).astype(np.float32) for k, shape in WEIGHTS.items()}
    stored["net.blocks.0.attn.index"] = np.arange(64).reshape(8, 8) % 5
    stored["flat"] = np.array([64])
    floats = [helper.make_tensor_value_info(n, 1, [64, 4]) for n in "xy"]
    weights = [numpy_helper.from_array(v, k) for k, v in stored.items()]
    graph = helper.make_graph(nodes, "traced", floats[:1], floats[1:], weights)
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def test_what_nobody_calls_holds_what_weights_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fairhand.compile(_traced(), tmp_path / "held", level=0)
    monkeypatch.syspath_prepend(str(tmp_path))
    network = import_module("held").load()
    own = {f"net.blocks.{i}.attn.index" for i in range(2)}
    assert set(network.state_dict()) == {*WEIGHTS, *own}
    assert isinstance(network.net.gamma, torch.nn.ParameterList)
    assert set(dict(network.named_parameters())) == set(WEIGHTS)


class _Stages(nn.Module):
    """Norms in dictionaries that nobody calls, called as the one outside them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.stages = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(4), "mix": nn.Linear(4, 4)})
            for _ in range(2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.stages:
            x = x + stage["mix"](stage["norm"](x)).tanh()
        return self.norm(x)


class _Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor, inner: nn.Module) -> torch.Tensor:
        return x + inner(self.norm(x))


class _Given(nn.Module):
    """Modules that are called by another, which their owner gives them to."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.ModuleDict(
            {"up": nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))}
        )
        self.around = nn.ModuleList(_Residual() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.around[1](self.around[0](x, self.mix["up"]), torch.tanh)


@pytest.mark.parametrize("kind", [_Stages, _Given])
@pytest.mark.parametrize("opset", [14, 17])  # without LayerNormalization, and with it
def test_a_weight_that_a_node_reads_says_which_of_equal_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opset: int, kind: type[nn.Module]
) -> None:
    network = kind().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    x, name = torch.randn(3, 4), f"{kind.__name__.strip('_')}_{opset}"
    torch.onnx.export(
        network,
        (x,),
        str(tmp_path / "stages.onnx"),
        dynamo=False,
        do_constant_folding=False,
        opset_version=opset,
    )
    fairhand.compile(tmp_path / "stages.onnx", tmp_path / name, level=0)
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded = import_module(name).load()
    loaded.load_state_dict(network.state_dict())
    torch.testing.assert_close(loaded(x), network(x))


class _Untrained(nn.Module):
    """Biases that are all zeros: the exporter gives them the name of the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.Sequential(
            nn.Sequential(nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4))),
            nn.Sequential(nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4))),
            nn.Sequential(nn.Sequential(nn.Identity(), nn.Conv2d(4, 4, 1))),
        )
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.zeros_(layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.stages(x)


def test_a_weight_of_equal_numbers_elsewhere_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = torch.randn(1, 4, 8, 8)
    file = tmp_path / "untrained.onnx"
    torch.onnx.export(_Untrained().eval(), (given,), str(file), dynamo=False)
    fairhand.compile(file, tmp_path / "stages_alike", level=0)
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded = import_module("stages_alike").load()
    found = {name: m for name, m in loaded.named_modules() if type(m) is nn.Conv2d}
    assert set(found) == {"stages.0.0.0", "stages.1.0.0", "stages.2.0.1"}
    assert all(layer.bias is not None for layer in found.values())


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(7, 4), nn.LayerNorm(4)
        self.head = nn.Linear(4, 7, bias=False)
        self.embed.weight = self.head.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.embed(ids)))


def test_layers_that_share_a_weight_keep_their_own_names(tmp_path: Path) -> None:
    """The file has it under that of one of them alone, or folds it for the other."""
    given = (torch.zeros(2, 3, dtype=torch.int64),)
    file = tmp_path / "tied.onnx"
    torch.onnx.export(_Tied().eval(), given, str(file), dynamo=True, verbose=False)
    fairhand.compile(file, tmp_path / "tied", verify=False)
    text = (tmp_path / "tied/model.py").read_text("utf-8")
    assert "self.head.weight = self.embed.weight" in text


def test_of_joined_names_the_commonest_module_counts(tmp_path: Path) -> None:
    """As TensorFlow Lite names what it fuses."""
    g = Graph(x=["batch", 2, 8, 8])
    kernel = g.weight("const_fold_opt__1", 3, 2, 3, 3)
    y = g("Conv", "x", kernel, g.weight("const_fold_opt__2", 3))
    g.nodes[-1].name = (
        "net/act_3/Relu;net/conv_3/BiasAdd/Read;net/conv_4/BiasAdd;net/conv_4/Conv2D1"
    )
    y = g("Relu", y)
    g.nodes[-1].name = "Relu__38"
    y = g("Conv", y, g.weight("const_fold_opt__3", 3, 3, 3, 3))
    g.nodes[-1].name = "net/conv_5/Conv2D"
    fairhand.compile(g.model(y=y), tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text(encoding="utf-8")
    assert "conv_4 = nn.Conv2d(2, 3, 3)" in text and "act_3" not in text


def test_a_negative_number_is_taken_away(tmp_path: Path) -> None:
    g = Graph(x=["batch", 2])
    half = g("Constant", value_float=-0.5)
    y = g("Sub", g("Relu", g("Add", "x", half)), half)
    fairhand.compile(g.model(y=y), tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text(encoding="utf-8")
    assert "F.relu(x - 0.5) + 0.5" in text


class Batched(nn.Module):
    """Attention with heads in the batch, written out in the forward of the network."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            layer(x).view(2, 5, 2, 4).permute(0, 2, 1, 3).reshape(4, 5, 4)
            for layer in (self.query, self.key, self.value)
        )
        scores = torch.bmm(q * 0.5, k.transpose(1, 2)).view(2, 2, 5, 5) + mask
        return torch.bmm(scores.view(4, 5, 5).softmax(-1), v)


def test_what_the_network_itself_does_stays_in_its_forward(tmp_path: Path) -> None:
    """What replaces nodes of its own; and its inputs without names have letters."""
    file = str(tmp_path / "heads.onnx")
    given = torch.randn(2, 5, 8), torch.zeros(2, 1, 1, 5)
    torch.onnx.export(Batched().eval(), given, file, dynamo=False, opset_version=17)
    fairhand.compile(file, tmp_path / "heads")
    text = (tmp_path / "heads/model.py").read_text("utf-8")
    assert text.count("nn.Module") == 1
    assert "def forward(self, x: Tensor, y: Tensor)" in text
