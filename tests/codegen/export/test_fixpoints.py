"""What was exported compiles to the source that it was exported from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper
from support.emitter_models import Graph
from torch import Tensor, nn
from torch.nn import functional as F

import fairhand


def texts(model: onnx.ModelProto | Path, folder: Path) -> tuple[str, str, Path]:
    """Of a network, of what comes back of it, and the file that came back."""
    found, file = list[str](), folder / "back" / "net.onnx"
    for name in ("one", "two"):
        net = fairhand.compile(model, folder / name / "net", verify=False)
        text = (net.path / "model.py").read_text(encoding="utf-8")
        found.append(text[text.index("WEIGHTS = ") :])
        if name == "one":
            model = fairhand.export(net.path, None, file).path
    return found[0], found[1], file


def of_module(
    net: nn.Module, given: tuple[Tensor, ...], shapes: dict[str, tuple], folder: Path
) -> tuple[str, str]:
    file = fairhand.export(net.eval(), given, folder / "net.onnx", shapes=shapes).path
    one, two, _ = texts(file, folder)
    return one, two


FILES = {
    "the largest": """net (float[n, 5] x) => (float[n, 2] v, int64[n, 2] i)
        <int64[1] k = {2}> { v, i = TopK (x, k) }""",
    "nearly nothing": """net (float[n, 5] x) => (float[n, 5] y)
        <float tiny = {1e-8}, float one = {1.000001}> {
        a = Add (x, tiny) b = Mul (a, one) y = Sqrt (b) }""",
    "a pad of zeros": """net (float[n, 5] x) => (float[n, 1, 5] y)
        <int64[1] one = {1}, int64[6] pads = {0, 0, 1, 0, 0, 1}, float zero = {0},
        float[1, 1, 3] w = {1, 2, 3}> {
        a = Unsqueeze (x, one) b = Pad (a, pads, zero) y = Conv (b, w) }""",
    "places from either end": """net (int64[n, 5] x) => (float[n, 5] y)
        <float[2, 5] w = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, int64 one = {1},
        int64 two = {2}> {
        a = Sub (x, two) b = Abs (a) c = Sub (b, one) d = Mul (c, one)
        e = Add (d, b) f = Mod (e, two) y = GatherElements (w, f) }""",
    "sizes by other names": """net (float[n, 5] x) => (float[n, any] y)
        { y = Relu (x) }""",
}


@pytest.mark.parametrize("net", FILES)
@pytest.mark.parametrize("opset", [17, 20])
def test_of_a_file(net: str, opset: int, tmp_path: Path) -> None:
    head = f'<ir_version: 8, opset_import: ["": {opset}]> '
    model = onnx.parser.parse_model(head + FILES[net])
    one, two, back = texts(model, tmp_path)
    assert one == two
    x = np.abs(np.random.default_rng(0).normal(size=(2, 5))).astype(np.float32)
    x[0, 0] = 0
    x = x.astype(np.int64) if "int64[n, 5] x" in FILES[net] else x
    runs = [
        onnxruntime.InferenceSession(file).run(None, {"x": x})
        for file in (model.SerializeToString(), back)
    ]
    for was, now in zip(*runs, strict=True):
        np.testing.assert_allclose(was, now, rtol=1e-6)


class Timed(nn.Module):
    """Layers that are called in another order than results are read in."""

    def __init__(self, wide: int, out: int) -> None:
        super().__init__()
        self.first, self.time = nn.Conv1d(wide, out, 1), nn.Linear(3, out)
        self.second, self.skip = nn.Conv1d(out, out, 1), nn.Conv1d(wide, out, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.first(x).tanh() + self.time(time)[:, :, None]
        y = self.second(y.tanh())
        return self.skip(x) + y


class Steps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(1, 4), nn.SiLU(), nn.Linear(4, 3))
        self.start = nn.Conv1d(2, 4, 1)
        self.parts = nn.ModuleList([Timed(4, 5), Timed(5, 4)])

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        time = self.embed(t)
        y = self.start(x)
        time = F.silu(time)
        for part in self.parts:
            y = part(y, time)
        return y


def test_layers_in_another_order(tmp_path: Path) -> None:
    given = torch.randn(2, 2, 7), torch.randn(2, 1)
    shapes = {"x": ("n", 2, 7), "t": ("n", 1)}
    one, two = of_module(Steps(), given, shapes, tmp_path)
    assert one == two


class Hidden(nn.Module):
    """What is written as another operator than in the file has no place there."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.norm = nn.Embedding(9, 4), nn.LayerNorm(4)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, ids: Tensor) -> Tensor:
        seen = ids != 2
        x = self.norm(self.tokens(ids))
        x = x * seen[..., None].float()
        for layer in self.layers:
            scores = layer(x) @ x.transpose(1, 2)
            hidden = (seen.long() == 0).view(2, 1, 5).expand_as(scores)
            x = x + scores.masked_fill(hidden, -9.0).softmax(-1) @ x
            x = x * seen[..., None].float()
        return x


def test_what_no_node_of_the_file_stands_for(tmp_path: Path) -> None:
    given = (torch.arange(10).reshape(2, 5) % 9,)
    one, two = of_module(Hidden(), given, {"ids": (2, 5)}, tmp_path)
    assert one == two


class Rows(nn.Module):
    """A mask of which as many rows are read as there are queries."""

    def forward(self, q: Tensor, mask: Tensor) -> Tensor:
        rows, columns = (
            torch.arange(q.shape[0])[:, None],
            torch.arange(q.shape[2])[None],
        )
        shown = mask.bool()[rows, columns][:, None, None]
        return F.scaled_dot_product_attention(q, q, q, attn_mask=shown)


def test_rows_that_are_there(tmp_path: Path) -> None:
    given = torch.randn(2, 3, 5, 4), torch.ones(2, 5, dtype=torch.int64)
    shapes = {"q": ("n", 3, 5, 4), "mask": ("m", 5)}
    one, two = of_module(Rows(), given, shapes, tmp_path)
    assert one == two and "scaled_dot_product_attention" in one


class Parts(nn.Module):
    """Parts by their places, and of layers, of which the exporter makes others."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(2))
        self.register_buffer("order", torch.tensor([3, 4, 5, 0, 1, 2]))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        total = x.new_zeros(x.shape[0])
        for layer in self.layers:
            one, two = x.chunk(2, -1)
            a, b = layer(x).chunk(2, -1)
            x = torch.cat([one, two * a.tanh() + b], -1)[:, self.order]
            total = total + a.tanh().sum(-1)
        k, v = x.view(-1, 2, 3).transpose(0, 1).unbind(0)
        return k.exp() * v, total


def test_parts_and_places(tmp_path: Path) -> None:
    one, two = of_module(Parts(), (torch.randn(2, 6),), {"x": ("n", 6)}, tmp_path)
    assert one == two


TREES = {
    "nodes_treeids": [0] * 5 + [1] * 3,
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 1, 0, 0, 0, 2, 0, 0],
    "nodes_values": [0.5, -0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 2, 0, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [4, 3, 0, 0, 0, 2, 0, 0],
    "target_treeids": [0, 0, 0, 1, 1],
    "target_nodeids": [2, 3, 4, 1, 2],
    "target_ids": [0, 0, 0, 1, 1],
    "target_weights": [1.5, -2.25, 0.125, 7.0, 0.5],
    "n_targets": 2,
}


@pytest.mark.parametrize("kind", ["LEQ", "GT", "EQ"])
@pytest.mark.parametrize("reduce", ["SUM", "MAX"])
def test_trees_stay_trees(kind: str, reduce: str, tmp_path: Path) -> None:
    """And where nothing is known of a number, it goes where it went."""
    inner, leaf = f"BRANCH_{kind}", "LEAF"
    told = TREES | {"aggregate_function": reduce, "n_targets": 2 - (reduce == "MAX")}
    told["nodes_modes"] = [inner, inner, leaf, leaf, leaf, inner, leaf, leaf]
    told["nodes_missing_value_tracks_true"] = [1, 0, 0, 0, 0, 0, 0, 0]
    if reduce == "MAX":
        told["target_ids"] = [0] * 5
    g = Graph(x=("float32", ["n", 3]))
    y = g("TreeEnsembleRegressor", "x", domain="ai.onnx.ml", **told)
    model = g.model(y=y)
    one, two, back = texts(model, tmp_path)
    assert one == two
    (node,) = onnx.load(back).graph.node
    assert (node.op_type, node.domain) == ("TreeEnsembleRegressor", "ai.onnx.ml")
    rng = np.random.default_rng(0)
    x = rng.choice([0.5, -0.25, 0, 1, -1, np.nan], (40, 3)).astype(np.float32)
    was, now = (
        onnxruntime.InferenceSession(file).run(None, {"x": x})[0]
        for file in (model.SerializeToString(), back)
    )
    np.testing.assert_array_equal(was, now)


@pytest.mark.parametrize("size", [3, 40])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_codes_stay_codes(dtype: str, size: int, tmp_path: Path) -> None:
    """Short tables stand in the source, long ones among the weights."""
    keys = np.arange(size)[::-1] * 3
    side = "floats" if dtype == "float32" else "int64s"
    told = {f"keys_{side}": keys.astype(dtype).tolist(), "default_float": -7.0}
    told["values_floats"] = [float(key) + 0.5 for key in keys]
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **told)
    kinds = helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), onnx.TensorProto.FLOAT
    x, y = (
        helper.make_tensor_value_info(n, kind, ["n", 2])
        for n, kind in zip("xy", kinds, strict=True)
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 4)]
    graph = helper.make_graph([node], "net", [x], [y])
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    one, two, back = texts(model, tmp_path)
    assert one == two
    (node,) = onnx.load(back).graph.node
    assert node.op_type == "LabelEncoder"
    given = np.arange(0, 6 * size).reshape(-1, 2).astype(dtype)
    was, now = (
        onnxruntime.InferenceSession(file).run(None, {"x": given})[0]
        for file in (model.SerializeToString(), back)
    )
    np.testing.assert_array_equal(was, now)


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("pool", ["Average", "Max"])
def test_the_last_pool(pool: str, spatial: int, tmp_path: Path) -> None:
    g = Graph(x=("float32", ["n", 4, *[5] * spatial]))
    pooled = g(f"Global{pool}Pool", "x")
    y = g("Reshape", pooled, g.ints(0, -1))
    one, two, _ = texts(g.model(y=y), tmp_path)
    assert one == two and "keepdim" not in one and "flatten" not in one


def test_zeros_of_any_sizes_are_no_bias(tmp_path: Path) -> None:
    """So PyTorch's exporter writes Conv3d, and takes the type from what the network is
    given; the norm behind it is one with it all the same."""
    g = Graph(x=("float32", ["n", 3, 5, 5, 5]))
    zero = g("CastLike", g.weight("val_4", value=np.zeros((), np.float32)), "x")
    bias = g("Expand", zero, g.ints(4, 2))
    y = g("Conv", "x", g.weight("conv.weight", 4, 3, 3, 3, 3), bias)
    norm = [g.weight(f"norm.{name}", 4) for name in ("weight", "bias", "mean")]
    var = g.weight("norm.var", value=np.ones(4, np.float32))
    y = g("BatchNormalization", y, *norm, var)
    one, two, _ = texts(g.model(y=y), tmp_path)
    assert one == two and "BatchNorm" not in one


class Derived(nn.Module):
    """Weights that are read as others: those have no name of the file's."""

    def __init__(self) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.rand(4, 3))
        self.b = nn.Parameter(torch.rand(1, 5, 4))
        self.gain = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.exp(-self.log.exp().T[0] * x) @ self.b.transpose(1, 2)
        return y * self.gain.exp()


@pytest.mark.parametrize("dynamo", [False, True])
def test_weights_that_are_computed(dynamo: bool, tmp_path: Path) -> None:
    file, x = tmp_path / "net.onnx", torch.randn(2, 5, 4)
    torch.onnx.export(Derived().eval(), (x,), file, dynamo=dynamo)
    one, two, _ = texts(file, tmp_path)
    assert one == two and ".exp()" in one


class Stage(nn.Module):
    def __init__(self, wide: int, out: int, adds: bool) -> None:
        super().__init__()
        first = nn.Sequential(nn.Conv2d(wide, 2 * wide, 3, padding=1), nn.SiLU())
        last = nn.Conv2d(2 * wide, out, 1)
        self.block = nn.Sequential(first, last) if adds or wide != out else first
        self.block = self.block if out != 2 * wide else nn.Sequential(first)
        self.adds = adds

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x) + x if self.adds else self.block(x)


def test_classes_that_a_file_does_not_name(tmp_path: Path) -> None:
    """They stay one for what is of one kind, as in the file, whatever it was called."""
    net, stages = nn.Module(), (
        Stage(3, 6, False),
        Stage(6, 6, True),
        Stage(6, 4, False),
    )
    net.stages = nn.Sequential(*stages)
    net.forward = net.stages.forward
    file = tmp_path / "net.onnx"
    torch.onnx.export(net.eval(), (torch.randn(2, 3, 8, 8),), file, dynamo=False)
    one, two, back = texts(file, tmp_path)
    assert one == two
    noted = {
        each.key for node in onnx.load(back).graph.node for each in node.metadata_props
    }
    assert noted == {"pkg.torch.onnx.name_scopes"}
