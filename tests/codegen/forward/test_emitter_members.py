"""What an emitted module owns, and what its parts are called.

Every model is compiled with verification, so that none of this is wrong code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from onnx import numpy_helper
from safetensors import safe_open
from support.emitter_models import Emitted, Graph
from support.traced import Traced

import fairhand

torch.set_num_threads(1)
Emit = Callable[[onnx.ModelProto], Emitted]


# ---- layers and weights


@pytest.mark.parametrize("form", ["MatMul, Add", "Add first", "Gemm", "Gemm, transB"])
def test_products_with_a_constant_are_linear(form: str, emitted: Emit) -> None:
    g = Graph(x=["batch", 8])
    trans = form.endswith("transB")
    weight = g.weight("fc.weight", *((4, 8) if trans else (8, 4)))
    bias = g.weight("fc.bias", 4)
    if form.startswith("Gemm"):
        y = g("Gemm", "x", weight, bias, transB=int(trans), at="fc")
    elif form == "Add first":
        y = g("Add", bias, g("MatMul", "x", weight, at="fc"), at="fc")
    else:
        y = g("Add", g("MatMul", "x", weight, at="fc"), bias, at="fc")
    found = emitted(g.model(y=y))
    assert "self.fc = nn.Linear(8, 4)" in found.source()
    assert found.body() == ["return self.fc(x)"]
    kept = numpy_helper.to_array(g.weights["fc.weight"])
    assert torch.equal(
        found.weights["fc.weight"], torch.tensor(kept if trans else kept.T)
    )


def test_one_value_throughout_is_stored_once(emitted: Emit) -> None:
    g = Graph(x=["batch", 64])
    half = numpy_helper.from_array(np.array([0.5], np.float32))
    weight = g("ConstantOfShape", g.ints(64, 32), value=half)
    bias = g("ConstantOfShape", g.ints(32), value=half)
    y = g("Add", g("MatMul", "x", weight, at="fc"), bias, at="fc")
    found = emitted(g.model(y=y))
    file = found.folder / "weights.safetensors"
    assert file.stat().st_size < 1000
    with safe_open(file, framework="pt") as stored:
        assert stored.get_tensor("fc.weight").numel() == 1
    full = found.weights["fc.weight"]
    assert full.shape == (32, 64) and bool((full == 0.5).all())
    assert full.is_contiguous() and full.untyped_storage().nbytes() == 4 * 32 * 64
    assert found.report["parameters"] == 32 * 64 + 32


def test_named_floats_are_parameters_and_other_constants_buffers(
    emitted: Emit,
) -> None:
    g = Graph(x=["batch", 4])
    y = g("Mul", "x", g.weight("scale.gamma", 4))
    y = g("Add", y, g.weight("onnx::Add_7", 4))
    order = g.weight("order.index", value=np.array([[3, 2], [1, 0]]))
    found = emitted(g.model(y=g("Gather", y, order, axis=1)))
    model = found.module.load()
    assert list(dict(model.named_parameters())) == ["scale_gamma"]
    buffers = dict(model.named_buffers())
    assert [b.dtype for b in buffers.values()].count(torch.float32) == 1
    assert not any(p.requires_grad for p in model.parameters())
    assert "onnx" not in found.text.partition("from __future__")[2]


def test_a_layer_that_takes_in_a_scale_beside_it_stays_in_its_module(
    tmp_path: Path,
) -> None:
    g, x = Traced(x=["batch", 8]), "x"
    for i in range(2):
        with g.module(f"blocks.{i}", "Block"):
            with g.module("mlp", "Mlp"):
                y = g.fc(g("Relu", g.fc(x, "fc1", 8, 12)), "fc2", 12, 8)
            with g.module("scale", "LayerScale"):
                y = g("Mul", y, g.param("gamma", 8))
            x = g("Add", x, y)
    fairhand.compile(g.model(y=x), tmp_path / "net", level=2)
    text = (tmp_path / "net" / "model.py").read_text()
    assert "return self.fc2(F.relu(self.fc1(x)))" in text
    assert "return x + self.mlp(x)" in text and "LayerScale" not in text


def test_a_weight_that_a_forward_makes_is_in_no_state_dict(tmp_path: Path) -> None:
    """As TorchScript's exporter writes a filter that isn't persistent."""
    g = Graph(x=["batch", 3, 8, 8])
    weight = g.weight("/aa/Constant_output_0", 3, 1, 3, 3)
    y = g("Conv", "x", weight, group=3, at="aa")
    fairhand.compile(g.model(y=y), tmp_path / "net", level=0)
    text = (tmp_path / "net" / "model.py").read_text()
    assert "nn.Conv2d" not in text and "persistent=False" in text


def test_a_list_of_one_is_written_as_a_list(tmp_path: Path) -> None:
    g = Traced(x=["batch", 8])
    y = g.head("x", "heads.0", 8, 4)
    fairhand.compile(g.model(y=g("Relu", y)), tmp_path / "net", level=0)
    text = (tmp_path / "net" / "model.py").read_text()
    assert "self.heads = nn.ModuleList([nn.Linear(8, 4)])" in text


def test_blocks_of_a_list_stay_a_list_and_are_gone_through(tmp_path: Path) -> None:
    """As the stages of hierarchical transformers have them, one of depth 1."""
    g = Traced(x=["batch", 8])
    x = "x"
    for i, (kind, depth) in enumerate([("First", 1), ("Second", 2)]):
        with g.module(f"stages.{i}", kind):
            x = g("Tanh", g.fc(x, "down", 8, 8))
            for j in range(depth):
                with g.module(f"blocks.{j}", "Block"):
                    y = g.fc(g("Relu", g.fc(x, "fc1", 8, 12)), "fc2", 12, 8)
                    x = g("Add", x, y)
            x = g("Tanh", x)
    fairhand.compile(g.model(y=x), tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text()
    assert "self.blocks = nn.ModuleList([Block()])" in text
    assert "        for block in self.blocks:\n            x = block(x)" in text


def stages(heads: tuple[int, ...], tapped: bool = False) -> onnx.ModelProto:
    """Blocks of attention in stages of depth 1, 2, ..., each with more heads; if
    `tapped`, the network gives what the last but one makes too."""
    g = Traced(x=["batch", 6, 8])
    x = "x"
    for i, n in enumerate(heads):
        with g.module(f"stages.{i}", "Stage"):
            x = g("Tanh", g.fc(x, "down", 8, 8))
            for j in range(i + 1):
                with g.module(f"blocks.{j}", "Block"):
                    q, k, v = (
                        g.split_heads(g.fc(x, name, 8, 8), n, 8 // n) for name in "qkv"
                    )
                    y = g.join_heads(g.attend(q, k, v, (8 / n) ** -0.5), 8)
                    last, x = x, g("Add", x, g.fc(y, "out", 8, 8))
            x = g("Tanh", x)
    return g.model(y=x, z=last) if tapped else g.model(y=x)


@pytest.mark.parametrize("heads", [(2, 4, 4), (1, 2, 4)])
def test_depths_and_heads_are_told_to_one_class(
    heads: tuple[int, ...], tmp_path: Path
) -> None:
    fairhand.compile(stages(heads), tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text()
    assert re.findall(r"^class (\w+)", text, re.MULTILINE) == ["Block", "Stage", "Net"]
    assert "nn.Sequential(*(Block(heads, head_dim) for _ in range(depth)))" in text
    assert "unflatten(2, (self.heads, self.head_dim))" in text


def lists_of_lists(
    depths: tuple[int, ...], read_again: bool, kind: str = "FeedForward"
) -> onnx.ModelProto:
    """Pairs of modules in lists, as vit-pytorch has them, in networks of some depths;
    if `read_again`, the next pair takes what stands within a pair, too."""
    g = Traced(x=["batch", 6, 8])
    x = within = "x"
    for i, depth in enumerate(depths):
        with g.module(f"stages.{i}", "Transformer"):
            for j in range(depth):
                with g.module(f"layers.{j}.0", "Mixer"):
                    given = g("Mul", x, within) if read_again and j else x
                    y = g.fc(g("Tanh", g.fc(given, "a", 8, 6)), "b", 6, 8)
                x = within = g("Add", y, x)
                ffn, net = (f"layers.{j}.1", kind), ("net", "Sequential")
                with g.module(*ffn), g.module(*net):
                    turned = g("Softmax", x)
                    y = g.fc(g.fc(turned, "1", 8, 12), "3", 12, 8)
                x = g("Add", y, x)
            x = g("Tanh", x)
    return g.model(y=x)


def test_what_a_list_of_lists_has_at_a_number_is_a_module(tmp_path: Path) -> None:
    fairhand.compile(lists_of_lists((1, 3), False), tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text()
    assert re.findall(r"^class (\w+)", text, re.MULTILINE) == [
        *("Mixer", "FeedForward", "Layer", "Transformer", "Net")
    ]
    assert "self.layers = nn.ModuleList([Mixer(), FeedForward()])" in text
    assert "nn.Sequential(*(Layer() for _ in range(depth)))" in text
    assert "for layer in self.layers:\n            x = layer(x) + x\n" in text


def test_a_list_of_lists_that_is_read_within_is_none_of_modules(tmp_path: Path) -> None:
    fairhand.compile(lists_of_lists((3,), True), tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text()
    assert "self.layers_2 = nn.ModuleList([Mixer(), FeedForward()])" in text


@pytest.mark.parametrize("kind", ["FeedForward", ""])
def test_layers_between_operators_are_a_sequential(kind: str, tmp_path: Path) -> None:
    """As those of vit-pytorch's patches, behind a Rearrange; and a module that has one,
    and no more, keeps its name, if the file has it."""
    fairhand.compile(lists_of_lists((1, 1), False, kind), tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text()
    assert ("class FeedForward" in text) is bool(kind)
    assert "self.net = nn.Sequential(nn.Linear(8, 12), nn.Linear(12, 8))" in text
    assert "return self.net(x.softmax(dim=-1))" in text


@pytest.mark.parametrize("way", ["Gather<axis = 1>", "Unsqueeze"])
def test_one_head_is_only_what_has_its_axis_put_in(way: str, tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["": 23]> net (float[b,3,4] x,
        float[b,2,3,4] z) => (float[b,1,3,4] y, float[b,2,3,4] u)
        <int64[1,3] places = {2, 0, 1}, int64[1] one = {1}> {
        q = WAY (x, AT) w = Tanh (x) k = Unsqueeze (w, one)
        y = Attention (q, k, k) u = Attention (z, z, z) }"""
    text = text.replace("AT", "places" if "Gather" in way else "one", 1)
    model = onnx.parser.parse_model(text.replace("WAY", way))
    fairhand.compile(model, tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text()
    assert ("unflatten(2, (1, 4))" in text) is (way == "Unsqueeze")


def test_a_list_that_is_read_within_is_no_sequential(tmp_path: Path) -> None:
    fairhand.compile(stages((2, 4, 4), tapped=True), tmp_path / "net")
    assert "nn.Sequential" not in (tmp_path / "net" / "model.py").read_text()


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_indices_of_an_embedding_are_called_after_it(
    dtype: str, tmp_path: Path
) -> None:
    g = Traced(ids=("int64", ["batch", "seq"]))
    sizes = g("Shape", "ids")
    zero = numpy_helper.from_array(np.zeros(1, dtype))
    kinds = g("ConstantOfShape", sizes, value=zero)
    with g.module("embeddings", "Embeddings"):
        found = []
        for name, given in (("word", "ids"), ("kind", kinds)):
            with g.module(f"{name}_embeddings", "Embedding"):
                found.append(g("Gather", g.param("weight", 9, 8), given))
        x = g("Tanh", g("Add", *found))
    fairhand.compile(g.model(y=g("Relu", g.fc(x, "head", 8, 8))), tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text()
    assert "kind_ids: Tensor" in text
    assert ("torch.zeros_like(ids)" in text) is (dtype == "int64"), text


def test_a_layer_that_is_used_twice_is_one_member(emitted: Emit) -> None:
    g = Graph(x=["batch", 8])
    y = g("Relu", g.linear("x", "fc", 8, 8, at="fc"))
    y = g.linear(y, "fc", 8, 8, at="fc_1")  # the same weights
    found = emitted(g.model(y=g.linear(y, "head", 8, 8, at="head")))
    assert set(dict(found.module.load().named_children())) == {"fc", "head"}
    assert found.body() == ["x = self.fc(F.relu(self.fc(x)))", "return self.head(x)"]


def test_layers_that_an_exporter_merged_are_two_again(emitted: Emit) -> None:
    """Two norms with equal weights share one name in the file."""
    g = Graph(x=["batch", 8])
    x = "x"
    shared = g.weight("layers.0.norm.weight", value=np.ones(8, np.float32))
    offset = g.weight("layers.0.norm.bias", value=np.zeros(8, np.float32))
    for i in range(2):
        at = f"layers.{i}"
        y = g("LayerNormalization", x, shared, offset, axis=-1, at=f"{at}/norm")
        y = g("Relu", g.linear(y, f"{at}.fc", 8, 8, at=f"{at}/fc"), at=at)
        x = g("Add", x, y, at=at)
    found = emitted(g.model(y=x))
    assert found.classes == ["Layer", "Net"]
    norms = {f"layers.{i}.norm.{leaf}" for i in range(2) for leaf in ("weight", "bias")}
    assert norms <= set(found.weights)


# ---- names


def test_outputs_keep_their_names_and_their_order(emitted: Emit) -> None:
    g = Graph(x=["batch", 4])
    y = g("Relu", "x")
    found = emitted(g.model(total=g("ReduceSum", y, g.ints(1)), features=y))
    assert found.body()[-1] in (
        "return total, features",
        "return features.sum(dim=1, keepdim=True), features",
    )
    assert [o.name for o in found.module.Session().get_outputs()] == [
        "total",
        "features",
    ]


def test_outputs_may_be_inputs_constants_or_equal(emitted: Emit) -> None:
    g = Graph(x=["batch", 4])
    y = g("Relu", "x")
    copies = {"same": g("Identity", "x"), "twice": g("Identity", y)}
    rows = g("Identity", g.weight("table", 3))
    found = emitted(g.model(y=y, **copies, rows=rows))
    x = np.array([[-1, 0, 1, 2]], np.float32)
    first, same, twice, constant = found.module.Session().run(None, {"x": x})
    assert same.tolist() == x.tolist() and first.tolist() == twice.tolist()
    assert constant.shape == (3,)


def test_hostile_names_stay_names(emitted: Emit) -> None:
    bad = 'x"""; import os'
    g = Graph(**{bad: ["n", 4]})
    y = g("Relu", bad, at='a"\nimport os;b.0/class')
    y = g.linear(y, "forward", 4, 4, at="forward")
    y = g.linear(y, "lambda", 4, 4, at="lambda/None")
    found = emitted(g.model(**{"return": y, "__import__('os')": g("Neg", y)}))
    tree = ast.parse(found.text)
    calls = {
        n.func.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    assert "__import__" not in calls
    modules = {
        a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names
    }
    assert modules == {"torch", "torch.nn.functional"}
    assert set(dict(found.module.load().named_children())) == {"forward_", "lambda_"}
    assert found.module.Session().get_inputs()[0].name == bad


@pytest.mark.parametrize("names", [("resize", "y"), ("x", "resize"), ("F", "torch")])
def test_no_variable_hides_a_helper_or_a_module(
    names: tuple[str, str], emitted: Emit
) -> None:
    given, made = names
    g = Graph(**{given: ["n", 1, 4, 4]})
    scales = g.weight("scales", value=np.array([1, 1, 2, 2], np.float32))
    form = {"mode": "cubic", "coordinate_transformation_mode": "asymmetric"}
    y = g("Add", g("Resize", given, "", scales, **form), g.weight("one", 1))
    found = emitted(g.model(**{made: y, "again": g("Relu", y)}))
    tree = ast.parse(found.text)
    bound = {
        n.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    helpers = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    assert helpers and not bound & (helpers | {"torch", "F", "nn", "math"})


def test_no_size_hides_the_list_of_caches_that_it_is_of(emitted: Emit) -> None:
    caches = ", ".join(f"float[b, past, 4] past_{i}" for i in range(4))
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
        net (float[b, t, 4] x, {caches}) => (float[b, more, 4] y)
            <int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] last = {{-1}},
             int64[1] few = {{3}}, int64[1] far = {{99}}> {{
            sizes = Shape (past_0)
            past = Slice (sizes, one, two)
            high = Sub (past, few)
            low = Max (high, last)
            long = Concat <axis = 1> (x, x, x)
            cut = Slice (long, low, past, one)
            start = Slice (x, last, past, one)
            ends = Slice (x, past, far, one)
            z = Concat <axis = 1> (cut, start, ends, past_0, past_1)
            w = Exp (z)
            y = Concat <axis = 1> (w, past_2, past_3)
        }}"""
    found = emitted(onnx.parser.parse_model(text))
    assert "past2 = past[0].shape[1]" in found.text
