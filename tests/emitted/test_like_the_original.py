"""Emitted modules behave like those that their files were exported from."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from support.emitted import imported
from support.emitter_models import Graph
from support.traced import Traced
from torch import nn

import fairhand

RANDOM = np.random.default_rng(1)
TABLE = RANDOM.integers(0, 90, (6, 40))
ANGLES = np.arange(64)[:, None] * 10000 ** (-np.arange(0, 8, 2) / 8)
WAVES = np.stack([np.sin(ANGLES), np.cos(ANGLES)], -1).reshape(64, 8)
ZEROS = np.zeros(5, np.float32)


def package(g: Graph, folder: Path, level: int = 0, **outputs: str) -> Any:
    fairhand.compile(g.model(**outputs), folder / "net", level=level)
    return imported(folder / "net")


def bare(made: Any) -> nn.Module:
    return type(made.load())().eval()


# ---- a network without `load`


def constants(g: Graph) -> str:
    """A literal, a count and a table, none of which the program has a name for."""
    small = g("Mul", "x", g.weight("val_1", value=np.float32([2, 3, 5, 7])))
    counted = g.weight("val_2", value=np.arange(9).reshape(9, 1).astype(np.float32))
    y = g("Relu", g("Add", g("Relu", small), counted))
    table = g.weight("val_3", value=RANDOM.normal(size=(9, 4)).astype(np.float32))
    return str(g.linear(g("Mul", y, table), "fc", 4, 4))


def test_constants_are_there_without_load(tmp_path: Path) -> None:
    g = Graph(x=["batch", 9, 4])
    made = package(g, tmp_path, y=constants(g))
    text = (tmp_path / "net" / "model.py").read_text()
    assert "torch.tensor([2.0, 3.0, 5.0, 7.0])" in text and "torch.arange(9" in text
    loaded, other = made.load(), bare(made)
    assert sorted(other.state_dict()) == ["fc.bias", "fc.weight"]
    other.load_state_dict(loaded.state_dict())
    x = torch.randn(2, 9, 4)
    for module in (other, copy.deepcopy(other), pickle.loads(pickle.dumps(other))):
        assert torch.equal(module(x), loaded(x))


@pytest.mark.parametrize("level", [0, 1])
def test_a_number_that_a_module_keeps(level: int, tmp_path: Path) -> None:
    """At -O0 it is one of the keys; else it is written out."""
    g = Graph(x=["batch", 4])
    beta = g.weight("act.beta", value=np.float32(0.75))
    h = g("Tanh", g("Mul", "x", beta, at="act"), at="act")
    made = package(g, tmp_path, level, y=g.linear(h, "fc", 4, 4))
    assert ("act.beta" in made.load().state_dict()) == (level == 0)


def test_weights_may_stand_elsewhere(tmp_path: Path) -> None:
    g = Graph(x=["batch", 9, 4])
    made = package(g, tmp_path, y=constants(g))
    wanted = made.load()(torch.ones(1, 9, 4))
    weights = tmp_path / "net" / "weights.safetensors"
    weights = weights.rename(tmp_path / "moved.safetensors")
    assert torch.equal(made.load(weights)(torch.ones(1, 9, 4)), wanted)


def test_buffers_that_originals_may_leave_out(tmp_path: Path) -> None:
    """PyTorch's programs differ in which buffers they store; files don't say."""
    g = Graph(x=("int64", ["batch", 40]))
    counts = g.weight("block.places", value=TABLE)
    mixed = g("Gather", counts, g.ints(4), axis=0, at="block")
    mixed = g("Add", "x", mixed, at="block")
    table = g.weight("block.table.weight", 190, 3)
    rows = g("Gather", table, mixed, at="block/table")
    made = package(g, tmp_path, y=rows)
    loaded = made.load()
    full = loaded.state_dict()
    assert torch.equal(full["block.places"], torch.from_numpy(TABLE))
    x = torch.arange(40)[None]
    for state in (full, {"block.table.weight": full["block.table.weight"]}):
        other = bare(made)
        other.load_state_dict(state, strict=True)
        assert torch.equal(other(x), loaded(x))
        holder = nn.ModuleDict({"inner": bare(made)})
        holder.load_state_dict({f"inner.{k}": v for k, v in state.items()})
        assert torch.equal(holder["inner"](x), loaded(x))
    with pytest.raises(RuntimeError, match="Missing key"):
        bare(made).load_state_dict({"block.places": full["block.places"]})


# ---- parameters and buffers


def names(made: Any) -> tuple[set[str], set[str]]:
    module = made.load()
    return set(dict(module.named_parameters())), set(dict(module.named_buffers()))


def test_addends_and_factors_train(tmp_path: Path) -> None:
    g = Graph(x=["batch", 5, 8])
    token = g("Expand", g.weight("cls_token", 1, 1, 8), g.ints(1, 1, 8))
    first = g("Slice", "x", g.ints(0), g.ints(1), g.ints(1))
    token = g("Add", token, g("Mul", first, g.weight("onnx::n", value=np.float32(0))))
    x = g("Concat", token, "x", axis=1)
    x = g("Add", x, g.weight("pos_embed", 1, 6, 8))
    x = g("Mul", g.linear(x, "fc", 8, 8), g.weight("gamma", 8))
    # A mask that counts give is added to the bias before both are, as in Swin.
    mask = g("Cast", g("Shape", "x"), to=1)
    mask = g("Add", g.weight("bias_table", 8), g("Slice", mask, g.ints(0), g.ints(1)))
    x = g("Add", x, mask)
    scale = g("Exp", g.weight("logit_scale", value=np.float32(2.6)))
    made = package(g, tmp_path, y=g("Mul", x, scale))
    found, buffers = names(made)
    assert {"cls_token", "pos_embed", "gamma", "bias_table", "logit_scale"} <= found
    assert not buffers & found


def test_frequencies_tables_and_scales_do_not(tmp_path: Path) -> None:
    g = Graph(x=["batch", 5, 8], ids=("int64", ["batch", 5]))
    positions = g("Unsqueeze", g("Cast", "ids", to=1), g.ints(-1))
    angle = g(
        "Mul", positions, g.weight("rotary.inv_freq", value=np.float32(ANGLES[1]))
    )
    angle = g("Concat", g("Cos", angle), g("Sin", angle), axis=-1)
    table = g.weight("embed.weights", value=WAVES.astype(np.float32))
    rows = g("Gather", table, g("Add", "ids", g.ints(2)))
    image = g("Sub", "x", g.weight("norm.mean", value=np.float32([0.485] * 8)))
    image = g("Div", image, g.weight("norm.std", 8))
    root = g.weight("embed.scale", value=np.float32(8**0.5))
    words = g("Mul", g("Gather", g.weight("words.weight", 90, 8), "ids"), root)
    x = g("Add", g.linear(image, "fc", 8, 8), words)
    made = package(g, tmp_path, y=g("Add", g("Add", x, rows), angle))
    assert names(made)[0] == {"fc.weight", "fc.bias", "words.weight"}


def test_frequencies_in_a_row_do_not(tmp_path: Path) -> None:
    """Two vectors of them are none the more trained for standing side by side."""
    g = Graph(x=["batch", 5, 8])
    counts = g.weight("val_1", value=np.arange(5, dtype=np.float32)[:, None])
    low, high = (g.weight(f"rotary.{part}_freq", 4) for part in ("low", "high"))
    angles = g("Concat", g("Mul", counts, low), g("Mul", counts, high), axis=-1)
    made = package(g, tmp_path, y=g("Mul", "x", g("Cos", angles)))
    assert not names(made)[0]


def test_weights_keep_their_names(tmp_path: Path) -> None:
    """A matrix called in_proj_weight is no nn.Linear's weight, nor a gain a norm's."""
    g = Graph(x=["batch", 5, 8])
    weight = g.weight("attn.in_proj_weight", 12, 8)
    x = g("MatMul", "x", g("Transpose", weight, perm=[1, 0]))
    x = g("Add", x, g.weight("attn.in_proj_bias", 12))
    one, zero = (g.weight(f"val_{i}", value=np.full(12, i, np.float32)) for i in (1, 0))
    x = g("LayerNormalization", x, one, zero, axis=-1)
    x = g("LayerNormalization", x, g.weight("norm.weight", 12), zero, axis=-1)
    made = package(g, tmp_path, y=x)
    assert set(made.load().state_dict()) == {
        *("attn.in_proj_weight", "attn.in_proj_bias", "norm.weight")
    }


# ---- half precision


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("level", [0, 1])
def test_half_precision(level: int, dtype: torch.dtype, tmp_path: Path) -> None:
    """Masks, counts and bounds take the type of what they meet."""
    g = Graph(x=["batch", 5, 8], mask=("int64", ["batch", 5]))
    x = g.linear("x", "fc", 8, 8)
    column = g("Unsqueeze", "mask", g.ints(-1))
    x = g("Mul", x, g("Cast", column, to=1))
    counts = g("Cast", g("CumSum", "mask", g.weight("val_0", value=np.int64(1))), to=1)
    x = g("Add", x, g("Unsqueeze", counts, g.ints(-1)))
    lowest = g.weight("val_1", value=np.finfo(np.float32).min)
    zero = g.weight("val_2", value=np.float32(0))
    row = g("Cast", g("Unsqueeze", "mask", g.ints(1)), to=9)
    bias = g("Where", row, zero, lowest)
    scores = g("MatMul", x, g("Transpose", x, perm=[0, 2, 1]))
    probs = g("Softmax", g("Add", scores, bias), axis=-1)
    made = package(g, tmp_path, level, y=g.linear(g("MatMul", probs, x), "out", 8, 3))
    model = made.load()
    names_ = list(sys.modules[f"{made.__name__}.model"].INPUTS)
    mask = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]])
    feed = {"x": torch.randn(2, 5, 8), "mask": mask}
    wanted = model(*(feed[name] for name in names_))
    feed["x"] = feed["x"].to(dtype)
    got = model.to(dtype)(*(feed[name] for name in names_))
    assert got.dtype == dtype and got.isfinite().all()
    assert torch.allclose(got.float(), wanted, atol=0.1, rtol=0.1)


def test_one_number_of_a_type_is_no_network_of_it(tmp_path: Path) -> None:
    """As the root that scales Gemma's embeddings, which is stored in bfloat16."""
    g = Graph(x=["batch", 4], mask=("int64", ["batch", 1]))
    root = g.weight("normalizer", value=np.float16(2.5))
    x = g("Mul", g.linear("x", "fc", 4, 4), g("Cast", root, to=1))
    x = g.linear(g("Mul", x, g("Cast", "mask", to=1)), "out", 4, 4)
    model = package(g, tmp_path, y=x).load().to(torch.bfloat16)
    made = model(torch.randn(3, 4).bfloat16(), torch.ones(3, 1).long())
    assert made.dtype == torch.bfloat16


def test_numbers_of_bfloat16_are_literals(tmp_path: Path) -> None:
    """NumPy has no such type: what a mask adds, a root that was drawn of a number."""
    model = onnx.parser.parse_model("""
        <ir_version: 11, opset_import: ["" : 21]>
        g (bfloat16[B, 4] x, bool[B, 4] seen) => (bfloat16[B, 4] y) {
            root = Sqrt(n)
            mask = Where(seen, zero, low)
            part = Div(x, root)
            sums = Add(part, mask)
            y = Softmax(sums)
        }""")
    for name, number in {"zero": 0.0, "low": -np.inf, "n": 16.0}.items():
        stored = onnx.helper.make_tensor(name, onnx.TensorProto.BFLOAT16, [], [number])
        model.graph.initializer.append(stored)
    fairhand.compile(model, tmp_path / "net", verify=False)
    network = bare(imported(tmp_path / "net"))
    assert not network.state_dict()
    x, seen = torch.randn(3, 4).bfloat16(), torch.tensor([[True, False, True, True]])
    wanted = (x / 4 + torch.where(seen, 0.0, -torch.inf).bfloat16()).softmax(-1)
    assert torch.equal(network(x, seen.expand(3, 4)), wanted)


def test_results_name_no_buffer(tmp_path: Path) -> None:
    """An exporter counts them: two layers would be two classes."""
    g = Graph(x=["batch", 5, 8])
    x = "x"
    for i in range(2):
        at = f"layers.{i}"
        count = g.weight(f"val_{i}", value=np.arange(5)[:, None])
        count = g("Cast", count, to=1, at=at, out=f"convert_element_type_{i}")
        x = g("Mul", x, count, at=at)
        x = g.linear(g("Relu", x, at=at), f"{at}.fc", 8, 8, at=f"{at}/fc")
    made = package(g, tmp_path, y=x)
    text = Path(made.__file__).with_name("model.py").read_text()
    assert "x * self.scale" in text and "Layer2" not in text


def test_zeros_are_of_the_type_of_what_is_written_into_them(tmp_path: Path) -> None:
    g = Graph(x=["batch", 4], at=("int64", ["batch", 2]))
    x = g.linear("x", "fc", 4, 4)
    zeros = g("ConstantOfShape", g("Shape", "x"))
    few = g("Slice", x, g.ints(0), g.ints(2), g.ints(1))
    y = g("ScatterElements", zeros, "at", few, axis=1)
    model = package(g, tmp_path, y=y).load().to(torch.bfloat16)
    made = model(torch.randn(3, 4).bfloat16(), torch.tensor([[0, 1], [2, 3], [1, 0]]))
    assert made.dtype == torch.bfloat16


def test_a_mask_of_all_layers_is_no_layer_s(tmp_path: Path) -> None:
    """Its type is that of what all layers are given, not of what is inside of one."""
    g = Graph(ids=("int64", ["batch", 5]), mask=("int64", ["batch", 5]))
    x = g("Gather", g.weight("embed.weight", 30, 8), "ids", at="embed")
    bias = ""
    for i in range(3):
        at = f"layers.{i}"
        q, k = (g.linear(x, f"{at}.{n}", 8, 8, at=f"{at}/{n}") for n in "qk")
        if not bias:
            row = g("Cast", g("Unsqueeze", "mask", g.ints(1)), to=9)
            lowest = g.weight("val_1", value=np.finfo(np.float32).min)
            bias = g("Where", row, g.weight("val_2", value=np.float32(0)), lowest)
        scores = g("MatMul", q, g("Transpose", k, perm=[0, 2, 1], at=at), at=at)
        probs = g("Softmax", g("Add", scores, bias, at=at), axis=-1, at=at)
        x = g("Add", x, g("MatMul", probs, x, at=at), at=at)
    package(g, tmp_path, 1, y=g.linear(x, "out", 8, 3))
    text = (tmp_path / "net" / "model.py").read_text()
    assert "x = self.embed(ids)" in text and "torch.finfo(x.dtype).min" in text


# ---- weights that one module has and another reads, and names for one tensor


def keys(made: Any) -> set[str]:
    module = bare(made)
    module.load_state_dict(made.load().state_dict(), strict=True)
    return set(module.state_dict())


def test_what_layers_share_stays_where_it_was_learned(tmp_path: Path) -> None:
    """A bias of positions of all layers is the first one's, as in T5."""
    g = Graph(ids=("int64", ["batch", 6]))
    x = g("Gather", g.weight("embed.weight", 90, 8), "ids", at="embed")
    bias = ""
    for i in range(2):
        at = f"block.{i}"
        if not bias:
            table = g.weight(f"{at}.positions.weight", 40, 6)
            places = g.weight("val_1", value=TABLE[:, :6] % 40)
            bias = g("Gather", table, places, at=f"{at}/positions")
            bias = g("Transpose", g("ReduceSum", bias, g.ints(0), keepdims=0, at=at))
        x = g("Add", g.linear(x, f"{at}.fc", 8, 8, at=f"{at}/fc"), x, at=at)
        x = g("MatMul", g("Softmax", bias, axis=-1, at=at), x, at=at)
    found = keys(package(g, tmp_path, y=g.linear(x, "out", 8, 3)))
    assert "block.0.positions.weight" in found and "block.1.fc.weight" in found


@pytest.mark.parametrize("filler", ["val", "onnx::BatchNormalization"])
def test_a_norm_over_the_batch_without_a_scale(filler: str, tmp_path: Path) -> None:
    """The ones and zeros that an exporter puts in are none of its parameters."""
    g = Graph(x=["batch", 4, 3, 3])
    ones = g.weight(f"{filler}_1", value=np.ones(4, np.float32))
    zeros = g.weight(f"{filler}_2", value=np.zeros(4, np.float32))
    mean = g.weight("bn.running_mean", 4)
    var = g.weight("bn.running_var", value=np.float32([1, 2, 3, 4]))
    y = g("BatchNormalization", "x", ones, zeros, mean, var, at="bn")
    made = package(g, tmp_path, y=g("Relu", y))
    learned = {"weight", "bias"} if filler != "val" else set()
    kept = {key.rpartition(".")[2] for key in keys(made)} - {"num_batches_tracked"}
    assert kept == {"running_mean", "running_var"} | learned


@pytest.mark.parametrize("product", [True, False])
def test_a_codebook_is_a_module_and_its_weight_a_tensor(
    product: bool, tmp_path: Path
) -> None:
    """Its rows are taken by a layer; the distances from them read the same weight."""
    g = Graph(x=["batch", 4])
    book = g.weight("quantizer.codebook.weight", 5, 4)
    square = g("ReduceSum", g("Mul", book, book), g.ints(-1), keepdims=0)
    distances = g("MatMul", "x", g("Transpose", book, perm=[1, 0])) if product else "x"
    if not product:
        distances = g("ReduceSum", "x", g.ints(-1))
    index = g("ArgMax", g("Sub", distances, square), axis=-1, keepdims=0)
    rows = g("Gather", book, index, at="quantizer/codebook")
    change = g("Sub", rows, "x")
    loss = g("ReduceMean", g("Mul", change, change), keepdims=0)
    made = package(g, tmp_path, y=g("Add", "x", change), loss=loss)
    assert keys(made) == {"quantizer.codebook.weight"}
    x = torch.randn(3, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(made.load()(x)[0].sum(), x)
    assert gradient.equal(torch.ones(3, 4))


def test_a_bias_that_is_added_elsewhere(tmp_path: Path) -> None:
    """F.multi_head_attention_forward takes three layers' tensors, and joins biases."""
    g = Graph(x=["batch", 5, 4])
    names_ = [f"attn.{n}_proj" for n in "qkv"]
    bias = g("Concat", *(g.weight(f"{n}.bias", 4) for n in names_), axis=0)
    parts = g("Split", bias, axis=0, num_outputs=3, outputs=3)
    q, k, v = (
        g("Add", g("MatMul", "x", g("Transpose", g.weight(f"{n}.weight", 4, 4))), b)
        for n, b in zip(names_, parts, strict=True)
    )
    scores = g("MatMul", q, g("Transpose", k, perm=[0, 2, 1]))
    made = package(g, tmp_path, y=g("MatMul", g("Softmax", scores), v))
    assert keys(made) == {f"{n}.{word}" for n in names_ for word in ("weight", "bias")}


def test_a_router_with_a_correction(tmp_path: Path) -> None:
    """A module that has more than a linear layer has its weight; what only chooses
    among experts has no gradient, and is a buffer."""
    g = Graph(x=["batch", 8])
    weight, correction = g.weight("gate.weight", 4, 8), g.weight("gate.correction", 4)
    scores = g("Sigmoid", g("Gemm", "x", weight, transB=1))
    _, best = g("TopK", g("Add", scores, correction), g.ints(2), outputs=2)
    chosen = g("GatherElements", scores, best, axis=1)
    y = g("Expand", chosen, g("Shape", best))
    module = package(g, tmp_path, level=0, y=y)
    assert {name for name, _ in module.load().named_parameters()} == {"gate.weight"}
    assert set(module.load().state_dict()) == {"gate.weight", "gate.correction"}


def test_a_weight_that_is_computed(tmp_path: Path) -> None:
    """As by PyTorch's parametrizations, whose function owns none of what it reads."""
    g = Graph(x=["batch", 6, 9])
    at = "conv/parametrizations.weight/parametrizations.weight.0"
    v = g.weight("conv.parametrizations.weight.original1", 4, 6, 3)
    gain = g.weight("conv.parametrizations.weight.original0", 1, 1, 3)
    norm = g("ReduceL2", v, g.ints(0, 1), keepdims=1, at=at)
    weight = g("Mul", v, g("Div", gain, norm, at=at), at=at)
    nothing = g("Shape", v, start=0, end=1, at="conv")
    zeros = g("Expand", g.weight("val_1", value=np.float32(0)), nothing, at="conv")
    x = g("Conv", "x", weight, zeros, at="conv")
    x = g("Conv", x, g.weight("fc.weight", 5, 4, 1), at="fc")
    x = g("Conv", x, g.weight("up.weight", 5, 5, 1), g.weight("val_2", value=ZEROS))
    assert keys(package(g, tmp_path, y=x)) == {
        "conv.parametrizations.weight.original0",
        "conv.parametrizations.weight.original1",
        "fc.weight",
        "up.weight",
    }


def test_buffers_of_modules_that_are_none_here(tmp_path: Path) -> None:
    """A table of waves that is added as it is, of an nn.Embedding, and a mask."""
    g = Graph(x=["batch", 64, 8])
    x = g("Add", "x", g.weight("positions.weight", value=WAVES.astype(np.float32)))
    mask = np.where(np.tri(64) > 0, 0, -100).astype(np.float32)
    at = "block.0/block.0.attn"
    mask = g("Unsqueeze", g.weight("block.0.mask", value=mask), g.ints(0), at=at)
    q = g.linear(x, "block.0.attn.q", 8, 8, at=f"{at}/block.0.attn.q")
    scores = g("MatMul", q, g("Transpose", q, perm=[0, 2, 1], at=at), at=at)
    x = g("MatMul", g("Softmax", g("Add", scores, mask, at=at), axis=-1, at=at), x)
    made = package(g, tmp_path, y=g.linear(x, "block.1.fc", 8, 8))
    _, buffers = names(made)
    assert buffers == {"positions.weight", "block.0.mask"} < keys(made)


def test_one_tensor_of_several_modules(tmp_path: Path) -> None:
    """The file's own name for it is a module that nothing calls."""
    g = Graph(left=("int64", ["batch", 6]), right=("int64", ["batch", 6]))
    table = g.weight("shared.weight", 90, 8)
    x, y = (g("Gather", table, at, at=f"{at}/embed") for at in ("left", "right"))
    x = g.linear(x, "left.fc", 8, 8, at="left/fc")
    y = g.linear(y, "right.fc", 8, 8, at="right/fc")
    made = package(g, tmp_path, y=g("Mul", x, y))
    assert {"shared.weight", "left.embed.weight", "right.embed.weight"} < keys(made)
    module = made.load()
    assert module.shared is module.left.embed


def test_a_norm_of_what_is_scaled(tmp_path: Path) -> None:
    """A factor that the residual has too is no part of the norm, nor of its epsilon."""
    g = Graph(ids=("int64", ["batch", 6]))
    rows = g("Gather", g.weight("embed.weight", 90, 8), "ids", at="embed")
    x = g("Mul", rows, g.weight("onnx::n", value=np.float32(3)), at="embed")
    square = g("ReduceMean", g("Mul", x, x, at="norm"), g.ints(-1), at="norm")
    small = g.weight("val_1", value=np.float32(1e-6))
    root = g("Sqrt", g("Add", square, small, at="norm"), at="norm")
    gain = g.weight("norm.weight", 8)
    y = g("Mul", g("Div", x, root, at="norm"), gain, at="norm")
    package(g, tmp_path, 1, y=g("Add", g.linear(y, "fc", 8, 8), x))
    assert "nn.RMSNorm(8, eps=1e-6)" in (tmp_path / "net" / "model.py").read_text()


def test_equal_parameters_that_an_exporter_merged(tmp_path: Path) -> None:
    """TorchScript's leaves each its name, whatever the numbers are."""
    g = Graph(x=["batch", 6, 8])
    for name, shape in (("b", [8]), ("fc", [8, 8])):
        g.weight(f"layers.0.{name}", *shape)
        g("Identity", f"layers.0.{name}", out=f"layers.1.{name}")
    g("Identity", "layers.0.b", out="gain")
    x = "x"
    for i in range(2):
        at = f"layers.{i}"
        x = g("Add", g("MatMul", x, f"{at}.fc", at=at), f"{at}.b", at=at)
    made = package(g, tmp_path, y=g("Mul", x, "gain"))
    assert keys(made) == {
        "gain",
        *(f"layers.{i}.{n}" for i in (0, 1) for n in "b fc".split()),
    }
    assert len(set(made.load().parameters())) == 5


@pytest.mark.parametrize("state", ["", "zeros"])
def test_recurrent_weights_are_those_of_the_layer(state: str, tmp_path: Path) -> None:
    """PyTorch's exporters bring them into the order of ONNX's gates."""
    g = Graph(x=[5, 2, 3])
    joined: dict[str, list[str]] = {"weight_ih": [], "weight_hh": [], "bias": []}
    for end in ("_l0", "_l0_reverse"):
        for name, shape in (
            *(("weight_ih", [16, 3]), ("weight_hh", [16, 4])),
            *(("bias_ih", [16]), ("bias_hh", [16])),
        ):
            weight = g.weight(f"rnn.{name}{end}", *shape)
            gates = [
                g("Slice", weight, g.ints(4 * i), g.ints(4 * i + 4), at="rnn")
                for i in (0, 3, 1, 2)
            ]
            weight = str(g("Concat", *gates, axis=0, at="rnn"))
            joined["bias" if "bias" in name else name].append(weight)
    operands = []
    for name, parts in joined.items():
        if name == "bias":
            both = zip(parts[::2], parts[1::2], strict=True)
            parts = [str(g("Concat", *pair, axis=0, at="rnn")) for pair in both]
        rows = [g("Unsqueeze", part, g.ints(0), at="rnn") for part in parts]
        operands.append(g("Concat", *rows, axis=0, at="rnn"))
    zeros = [g.weight("val_1", value=np.zeros((2, 2, 4), np.float32))] * 2
    rest = ["", *zeros] if state else []
    kind = {"hidden_size": 4, "direction": "bidirectional"}
    y = g("LSTM", "x", *operands, *rest, at="rnn", **kind)
    found = keys(package(g, tmp_path, y=g("Tanh", y)))
    ends = ("_l0", "_l0_reverse")
    names_ = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    assert found == {f"rnn.{name}{end}" for name in names_ for end in ends}


def test_a_factor_of_a_result_stays_one(tmp_path: Path) -> None:
    """It would be another weight, also where that is transposed first."""
    g = Graph(ids=("int64", ["batch", 6]))
    x = g("Gather", g.weight("embed.weight", 90, 8), "ids", at="embed")
    x = g("Relu", g.linear(x, "fc", 8, 8))
    head = g("Transpose", g.weight("head.weight", 90, 8), perm=[1, 0], at="head")
    y = g("Mul", g("MatMul", x, head, at="head"), g.weight("n", value=np.float32(0.5)))
    package(g, tmp_path, y=y)
    text = (tmp_path / "net" / "model.py").read_text()
    assert "self.head = nn.Linear(8, 90, bias=False)" in text


# ---- what exporters spell by more than there was


def test_a_weight_that_is_standardised_trains(tmp_path: Path) -> None:
    """By a batch norm without statistics of its own, as in ResNets of big transfer."""
    g = Graph(x=["batch", 3, 9, 9])
    rows = g("Reshape", g.weight("conv.weight", 4, 3, 3, 3), g.ints(1, 4, -1))
    mean = g("ReduceMean", rows, g.ints(0, 2), keepdims=0)
    off = g("Sub", rows, g("ReduceMean", rows, g.ints(0, 2), keepdims=1))
    var = g("ReduceMean", g("Mul", off, off), g.ints(0, 2), keepdims=0)
    gain = g("Reshape", g.weight("conv.gain", 4, 1, 1, 1), g.ints(-1))
    zeros = g.weight("val_1", value=np.zeros(4, np.float32))
    weight = g("BatchNormalization", rows, gain, zeros, mean, var)
    weight = g("Reshape", weight, g.ints(4, 3, 3, 3))
    made = package(g, tmp_path, y=g("Conv", "x", weight, g.weight("conv.bias", 4)))
    module = made.load().requires_grad_(True)
    module(torch.randn(2, 3, 9, 9)).square().sum().backward()
    found = {name for name, p in module.named_parameters() if p.grad.any()}
    assert found == {"conv.weight", "conv.gain", "conv.bias"}


def test_parts_by_way_of_a_sequence(tmp_path: Path) -> None:
    g = Graph(x=["batch", 5, 9])
    whole = g.linear("x", "qkv", 9, 12)
    three = g("SplitToSequence", whole, g.weight("val_1", value=np.int64(4)), axis=-1)
    ends = g("SplitToSequence", whole, g.ints(5, 7), axis=2)
    place = [g.weight(f"val_{i + 2}", value=np.int64(i)) for i in range(3)]
    q, k, v = (g("SequenceAt", three, i) for i in place)
    y = g("SequenceAt", ends, place[1])
    x = g("MatMul", g("Mul", g("Add", q, k), v), g("Transpose", v, perm=[0, 2, 1]))
    package(g, tmp_path, y=g("Concat", x, y, axis=-1))
    text = (tmp_path / "net" / "model.py").read_text()
    assert "q, k, v = " in text or ".chunk(3, dim=-1)" in text


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_number_that_trains_is_none_of_the_source_below_2(
    level: int, tmp_path: Path
) -> None:
    """CLIP's logit_scale.exp()."""
    g = Graph(x=["batch", 8])
    scale = g("Exp", g.weight("logit_scale", value=np.float32(1.5)))
    made = package(g, tmp_path, level, y=g("Mul", g.linear("x", "fc", 8, 3), scale))
    assert ("logit_scale" in keys(made)) == (level < 2)


@pytest.mark.parametrize("level", [0, 1])
def test_a_module_that_is_called_twice_is_one(level: int, tmp_path: Path) -> None:
    """With all that it has: norms, biases, and what no layer of PyTorch holds."""
    g = Traced(x=["batch", 5, 8])
    x = "x"
    for _ in range(2):
        with g.module("block", "Block"):
            x = g.norm(x, "norm", 8)
            turned = g("Transpose", g.param("own", 6, 8), perm=[1, 0])
            x = g("MatMul", g("Tanh", g("MatMul", x, turned)), g.param("back", 6, 8))
            x = g("Relu", g.fc(x, "fc", 8, 8))
    found = keys(package(g, tmp_path, level, y=g.fc(x, "out", 8, 3)))
    own = {"norm.weight", "norm.bias", "own", "back", "fc.weight", "fc.bias"}
    if level == 0:
        assert found == {f"block.{key}" for key in own} | {"out.weight", "out.bias"}
    else:
        assert len(found) == len(own) + 2


@pytest.mark.parametrize("level", [0, 1])
def test_a_layer_that_is_written_in_two_ways_is_one(level: int, tmp_path: Path) -> None:
    """Of two axes torch's exporter makes a Gemm, of three a product and a sum."""
    g = Traced(x=["batch", 5, 8])
    with g.module("bridge", "Linear"):
        weight, bias = g.param("weight", 8, 8), g.param("bias", 8)
    first = g(
        "Gemm", g("ReduceMean", "x", g.ints(1), keepdims=0), weight, bias, transB=1
    )
    y = g("Unsqueeze", first, g.ints(1))
    for _ in range(2):
        product = g("MatMul", "x", g("Transpose", weight, perm=[1, 0]))
        y = g("Mul", y, g("Tanh", g("Add", product, bias)))
    assert keys(package(g, tmp_path, level, y=y)) == {"bridge.weight", "bridge.bias"}


def test_what_is_computed_from_parameters_alone_trains(tmp_path: Path) -> None:
    """A bias for each pair of positions, from a table for each distance."""
    g = Graph(x=["batch", 6, 8])
    x = g.linear("x", "fc", 8, 6)
    places = g.weight("val_1", value=TABLE[:, :6] % 40)
    bias = g("Gather", g.weight("attn.table", 40), places)
    network = package(g, tmp_path, 1, y=g("Add", x, bias)).load()
    assert (6, 6) in [tuple(p.shape) for p in network.parameters()]


def test_what_trains_stays_whatever_its_numbers_are(tmp_path: Path) -> None:
    """A gain of one and a shift of zero of a network that was never trained."""
    g = Graph(x=["batch", 6, 8])
    x = g.linear("x", "fc", 8, 8, at="fc")
    x = g("Mul", x, g.weight("lab.scale", value=np.ones(1, np.float32)), at="lab")
    x = g("Add", x, g.weight("lab.bias", value=np.zeros(1, np.float32)), at="lab")
    x = g("Add", x, g.weight("places", value=np.zeros((1, 6, 8), np.float32)))
    found = keys(package(g, tmp_path, y=g.linear(x, "out", 8, 3, at="out")))
    assert {"lab.scale", "lab.bias", "places"} < found


@pytest.mark.parametrize("level", [1, 2])
def test_a_layer_keeps_what_it_trains(level: int, tmp_path: Path) -> None:
    """A bias in front of another layer, a gain and a shift behind one."""
    g = Graph(x=["batch", 6, 8])
    x = g.linear(g.linear("x", "a", 8, 8, at="a"), "b", 8, 8, at="b")
    x = g("Mul", x, g.weight("gain.scale", 8), at="gain")
    x = g("Add", x, g.weight("shift.bias", 8), at="shift")
    found = keys(package(g, tmp_path, level, y=x))
    assert len(found) == (6 if level == 1 else 2)


def test_words_that_are_no_identifiers(tmp_path: Path) -> None:
    """As of torchvision's RegNet, whose blocks are `block1-0`."""
    g = Graph(x=["batch", 6, 8])
    x = "x"
    for i in range(2):
        at = f"trunk.block-{i}"
        x = g.linear(x, f"{at}.a", 8, 8, at=f"trunk/{at}/{at}.a")
        x = g.linear(
            g("Relu", x, at=f"trunk/{at}"), f"{at}.b", 8, 8, at=f"trunk/{at}/b"
        )
    found = keys(package(g, tmp_path, y=x))
    assert {key[:13] for key in found} == {"trunk.block-0", "trunk.block-1"}


def test_a_layer_of_a_dictionary_that_is_called_again(tmp_path: Path) -> None:
    """As X-MOD's norm, which a method of `output` calls behind an adapter of it."""
    g = Traced(x=["batch", 5, 8])
    x = "x"

    def norm(x: str, name: str) -> str:
        with g.module(name, "LayerNorm"):
            weights = g.param("weight", 8), g.param("bias", 8)
            return str(g("LayerNormalization", x, *weights, axis=-1))

    for i in range(2):
        with g.module(f"layer.{i}", "Layer"):
            with g.module("output", "Output"):
                x = norm(g.fc(x, "dense", 8, 8), "norm")
            with g.module("output.adapter", "Adapter"):
                y = g.fc(g("Tanh", g.fc(x, "down", 8, 4)), "up", 4, 8)
            x = norm(g("Add", x, y), "output.norm")
    parts = ("dense", "norm", "adapter.down", "adapter.up")
    assert keys(package(g, tmp_path, y=x)) == {
        f"layer.{i}.output.{part}.{w}"
        for i in range(2)
        for part in parts
        for w in ("weight", "bias")
    }


def test_what_two_towers_share_has_a_name_in_each(tmp_path: Path) -> None:
    """The exporter joins equal calls, and has one of the names for the weights."""
    g = Traced(x=["batch", 5, 8])
    for i in range(2):
        with g.module(f"towers.{i}", "Sequential"), g.module("0", "Linear"):
            weight, bias = g.param("weight", 8, 8), g.param("bias", 8)
    with g.module("towers.0", "Sequential"):
        with g.module("0", "Linear"):
            turned = g("Transpose", weight, perm=[1, 0])
            x = g("Relu", g("Add", g("MatMul", "x", turned), bias))
        y = g.fc(x, "3", 8, 2)
    with g.module("towers.1", "Sequential"):
        y = g("Mul", y, g.fc(x, "3", 8, 2))
    module = package(g, tmp_path, y=y).load()
    assert module.towers[1]["0"] is module.towers[0]["0"]


def _noted(g: Graph, y: str, folder: Path, level: int, **kinds: str) -> nn.Module:
    """The network of a file in which torch's exporter says what constants are."""
    proto = g.model(y=y)
    for name, kind in kinds.items():
        info = proto.graph.value_info.add(name=name)
        info.type.tensor_type.elem_type = 1
        key = "pkg.torch.export.graph_signature.InputSpec.kind"
        info.metadata_props.add(key=key, value=kind)
    fairhand.compile(proto, folder / "net", level=level)
    return imported(folder / "net").load()


@pytest.mark.parametrize("level", [0, 1])
def test_a_number_that_torch_calls_a_parameter(level: int, tmp_path: Path) -> None:
    g = Graph(x=["batch", 4])
    temperature = g.weight("temperature", value=np.float32(0.7))
    y = g("Div", g.linear("x", "fc", 4, 4), temperature)
    network = _noted(g, y, tmp_path, level, temperature="PARAMETER")
    assert "temperature" in dict(network.named_parameters())


@pytest.mark.parametrize("level", [0, 1])
def test_a_buffer_that_is_added_to_a_product_is_no_bias(
    level: int, tmp_path: Path
) -> None:
    g = Graph(x=["batch", 3, 4])
    product = g("MatMul", "x", g.weight("head.weight", 4, 5))
    y = g("Add", product, g.weight("final_bias", 1, 5))
    network = _noted(g, y, tmp_path, level, final_bias="BUFFER")
    assert [name for name, _ in network.named_buffers()] == ["final_bias"]
    assert [name for name, _ in network.named_parameters()] == ["head.weight"]


def test_zeros_of_sizes_of_the_input_are_traced(tmp_path: Path) -> None:
    g = Graph(x=["batch", 4])
    zeros = g("ConstantOfShape", g("Concat", g.size("x", 0), g.ints(3), axis=0))
    made = package(g, tmp_path, y=g("Concat", zeros, g("Relu", "x"), axis=1)).load()
    x = torch.randn(5, 4)
    assert torch.equal(torch.fx.symbolic_trace(made)(x), made(x))
