"""Edits that people make: the nodes that none touched come back as they were."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from support.emitted import EXAMPLES

import fairhand
from fairhand.codegen.emit.package_files import WEIGHTS, read_report
from fairhand.codegen.emit.source_map import same_lines
from fairhand.codegen.export.onnx_file import imported

_MEAN = "mean = self.norm(x).mean(dim=1)  # [batch, 48]"
_LOOP = "        for layer in self.layers:\n            x = layer(x)\n"
_QUERY = "        q = self.query(x).unflatten(2, (4, 12)).transpose(1, 2)\n"
_VALUE = "v = self.value(x).unflatten(2, (4, 12)).transpose(1, 2)"

EDITS: dict[str, tuple[tuple[str, str], ...]] = {
    "a comment": (
        ("        x = self.embed", "        # Positions.\n        x = self.embed"),
    ),
    "a blank line": (
        ("        return self.head(mean)", "\n        return self.head(mean)"),
    ),
    "a renamed variable": (
        (_MEAN, "pooled = self.norm(x).mean(dim=1)"),
        ("self.head(mean)", "self.head(pooled)"),
    ),
    "another activation": (("nn.GELU()", "nn.SiLU()"),),
    "an activation of another kind": (("nn.GELU()", 'nn.GELU(approximate="tanh")'),),
    "no residual": (("return x + self.mlp(", "return self.mlp("),),
    "residuals the other way round": (
        ("x + self.attention(", "1.0 * x + self.attention("),
    ),
    "a softmax at the end": (
        ("return self.head(mean)", "return self.head(mean).softmax(-1)"),
    ),
    "a temperature": (("return self.head(mean)", "return self.head(mean) / 2.5"),),
    "the largest in the mean's place": ((".mean(dim=1)", ".amax(dim=1)"),),
    "the first position": ((_MEAN, "mean = self.norm(x)[:, 0]"),),
    "a layer less": (("in self.layers:", "in self.layers[:1]:"),),
    "each layer twice": ((_LOOP, _LOOP + "            x = layer(x)\n"),),
    "a norm more": (("x = layer(x)", "x = F.layer_norm(layer(x), (48,))"),),
    "inputs brought to a range": (
        (
            "        image = image.reshape",
            "        image = image / 16\n        image = image.reshape",
        ),
    ),
    "a clamp": (("image = image.reshape", "image = image.clamp(0, 1).reshape"),),
    "another order of axes": (
        (
            ".transpose(2, 3).reshape(-1, 16, 4)",
            ".permute(0, 3, 1, 2, 4).reshape(-1, 16, 4)",
        ),
    ),
    "attention of another scale": (("(q, k, v)", "(q, k, v, scale=0.2)"),),
    "values that are keys": ((_VALUE, "v = k"),),
    "a line moved": (
        (_QUERY, ""),
        (
            f"        {_VALUE}\n",
            f"        {_VALUE}\n{_QUERY}",
        ),
    ),
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled") / "digits"
    model = EXAMPLES / "digits_transformer.onnx"
    fairhand.compile(model, folder, verify=False, cache=False)
    return folder


@pytest.fixture(scope="module")
def unedited(compiled: Path) -> onnx.ModelProto:
    """What comes back of the package as it is: laws may have changed some nodes."""
    path = compiled.with_suffix(".onnx")
    fairhand.export(compiled, None, path)
    return onnx.load(path)


def untouched(package: Path) -> set[str]:
    """The nodes of the original file behind lines that are as they were."""
    found = read_report(package)["source_map"]
    text = (package / "model.py").read_text("utf-8")
    kept = set(same_lines(text, found["text"]).values())
    alike, other = set[str](), set[str]()
    for span, groups in found["lines"].items():
        first, _, last = span.partition("-")
        lines = {*range(int(first), int(last or first) + 1)}
        names = {name for group in groups.values() for name in group}
        (alike if lines <= kept else other).update(names)
    return alike - other


def values(model: onnx.ModelProto, names: set[str]) -> dict[str, Any]:
    """What values of a model are, for one and the same input."""
    held = {value.name for value in model.graph.output}
    for name in sorted(names - held):
        model.graph.output.append(onnx.ValueInfoProto(name=name))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    image = np.random.default_rng(0).random((3, 1, 8, 8), np.float32)
    wanted = sorted(names)
    return dict(zip(wanted, session.run(wanted, {"image": image}), strict=True))


def before(model: onnx.ModelProto, changed: set[str]) -> set[str]:
    """Values of a model that hang on nothing that one of the nodes made."""
    off = set[str]()
    for node in model.graph.node:
        if node.name in changed or off.intersection(node.input):
            off.update(node.output)
    return {value for node in model.graph.node for value in node.output} - off


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] * (i != 17))
        for i, n in enumerate(EDITS)
    ],
)
def test_what_no_edit_touched_comes_back_as_it_was(
    name: str, compiled: Path, unedited: onnx.ModelProto, tmp_path: Path
) -> None:
    package = tmp_path / "digits"
    shutil.copytree(compiled, package)
    path = package / "model.py"
    text = path.read_text("utf-8")
    for old, new in EDITS[name]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text, "utf-8")
    fairhand.export(package, None, tmp_path / "new.onnx")
    was = onnx.ModelProto()
    was.CopyFrom(unedited)
    now = onnx.load(tmp_path / "new.onnx")
    nodes = {node.name: node for node in now.graph.node}
    same = untouched(package) & {node.name for node in was.graph.node}
    if name == "a layer less":
        same = {n for n in same if not n.startswith("layers.1") and n in nodes}
    assert len(same) > 15
    for node in was.graph.node:
        if node.name in same:
            new = nodes[node.name]
            assert (new.op_type, list(new.output)) == (node.op_type, list(node.output))
    weights = {tensor.name: tensor for tensor in was.graph.initializer}
    for tensor in now.graph.initializer:
        if tensor.name in weights and tensor.name.endswith(("weight", "bias")):
            arrays = map(onnx.numpy_helper.to_array, (tensor, weights[tensor.name]))
            np.testing.assert_array_equal(*arrays)
    changed = {node.name for node in was.graph.node} - same
    others = {n for n in nodes if n not in same}
    common = before(was, changed) & before(now, others)
    for key, value in values(was, common).items() if common else ():
        np.testing.assert_allclose(values(now, common)[key], value, atol=2e-5)


Weights = dict[str, torch.Tensor]
_INPUT = '    "image": ("float32", ("batch", 1, 8, 8)),\n'
_OUTPUT = '    "logits": ("float32", ("batch", 10)),\n'
_LAYERS = "nn.ModuleList(Layer() for _ in range(2))"
_TEN = "self.head = nn.Linear(48, 10)"


def _new(*shape: int) -> torch.Tensor:
    return 0.1 * torch.randn(shape, generator=torch.Generator().manual_seed(3))


def _renamed(weights: Weights, old: str, new: str) -> None:
    for key in [key for key in weights if old in key]:
        weights[key.replace(old, new)] = weights.pop(key)


def _deeper(weights: Weights) -> None:
    copies = {key: x.clone() for key, x in weights.items() if "layers.1" in key}
    weights |= {key.replace("layers.1", "layers.2"): x for key, x in copies.items()}


def _shallower(weights: Weights) -> None:
    for key in [key for key in weights if "layers.1" in key]:
        del weights[key]


def _adapted(weights: Weights) -> None:
    for i in range(2):
        weights[f"layers.{i}.attention.query_a"] = _new(4, 48)
        weights[f"layers.{i}.attention.query_b"] = _new(48, 4)


# What is another network then: changes of the text, and of the weights.
SURGERY: dict[str, tuple[list[tuple[str, str]], Callable[[Weights], Any]]] = {
    "3 classes": (
        [(_TEN, _TEN.replace("10", "3")), (_OUTPUT, _OUTPUT.replace("10", "3"))],
        lambda w: w.update({"head.weight": _new(3, 48), "head.bias": _new(3)}),
    ),
    "an inserted layer": (
        [
            (_TEN, f"self.extra = nn.Linear(48, 48)\n        {_TEN}"),
            ("self.head(mean)", "self.head(F.relu(self.extra(mean)))"),
        ],
        lambda w: w.update({"extra.weight": _new(48, 48), "extra.bias": _new(48)}),
    ),
    "a removed block": ([(_LAYERS, _LAYERS.replace("2", "1"))], _shallower),
    "a layer more": ([(_LAYERS, _LAYERS.replace("2", "3"))], _deeper),
    "a LoRA": (
        [
            (
                "self.output = nn.Linear(48, 48)",
                "self.output = nn.Linear(48, 48)\n"
                "        self.query_a = nn.Parameter(torch.empty(4, 48))\n"
                "        self.query_b = nn.Parameter(torch.empty(48, 4))",
            ),
            (
                "q = self.query(x)",
                "q = (self.query(x) + x @ self.query_a.T @ self.query_b.T)",
            ),
        ],
        _adapted,
    ),
    "an output more": (
        [
            ("Tensor) -> Tensor:\n        image", "Tensor):\n        image"),
            ("return self.head(mean)", "return self.head(mean), mean"),
            (_OUTPUT, _OUTPUT + '    "features": ("float32", ("batch", 48)),\n'),
        ],
        len,
    ),
    "an input more": (
        [
            ("image: Tensor)", "image: Tensor, scale: Tensor)"),
            ("return self.head(mean)", "return self.head(mean * scale)"),
            (_INPUT, _INPUT + '    "scale": ("float32", (48,)),\n'),
        ],
        len,
    ),
    "another number of heads": ([("(4, 12)", "(6, 8)")], len),
    "another eps": (
        [("self.norm = nn.LayerNorm(48", "self.norm = nn.LayerNorm(48, eps=1e-3")],
        len,
    ),
    "a dropout": (
        [("nn.GELU(), nn", "nn.GELU(), nn.Dropout(0.1), nn")],
        lambda w: _renamed(w, "mlp.2", "mlp.3"),
    ),
    "renamed parameters": (
        [("self.head", "self.classifier")],
        lambda w: _renamed(w, "head", "classifier"),
    ),
    "frozen but for the head, in training": (
        [
            (
                "return model.eval().requires_grad_(False)",
                "model.requires_grad_(False).head.requires_grad_(True)\n"
                "    return model.train()",
            )
        ],
        len,
    ),
    "a bias removed": (
        [(_TEN, _TEN.replace("10", "10, bias=False"))],
        lambda w: w.pop("head.bias"),
    ),
    "tied keys and values": ([("v = self.value(x)", "v = self.key(x)")], len),
    "layers by name": (
        [(_LOOP, "        x = self.layers[1](self.layers[0](x))\n")],
        len,
    ),
    "a head in half": (
        [
            (
                "return self.head(mean)",
                "return F.linear(mean.half(), self.head.weight.half())",
            ),
            (_OUTPUT, _OUTPUT.replace("float32", "float16")),
        ],
        len,
    ),
    "results of doubles": (
        [
            ("return self.head(mean)", "return self.head(mean).double()"),
            (_OUTPUT, _OUTPUT.replace("float32", "float64")),
        ],
        len,
    ),
    "the class alone": (
        [
            ("return self.head(mean)", "return self.head(mean).argmax(-1)"),
            (_OUTPUT, '    "logits": ("int64", ("batch",)),\n'),
        ],
        len,
    ),
    "a fixed batch": (
        [
            (_INPUT, _INPUT.replace('"batch"', "3")),
            (_OUTPUT, _OUTPUT.replace('"batch"', "3")),
        ],
        len,
    ),
    "three channels": (
        [
            (_INPUT, _INPUT.replace("1, 8", "3, 8")),
            ("image = image.reshape", "image = image.mean(1).reshape"),
        ],
        len,
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] * (i != 2))
        for i, n in enumerate(SURGERY)
    ],
)
def test_another_network_comes_back_with_the_names_of_what_it_kept(
    name: str, compiled: Path, unedited: onnx.ModelProto, tmp_path: Path
) -> None:
    package = tmp_path / "digits"
    shutil.copytree(compiled, package)
    path, stored = package / "model.py", package / WEIGHTS
    text = path.read_text("utf-8")
    changes, change = SURGERY[name]
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text, "utf-8")
    with safe_open(stored, framework="pt") as file:
        meta = file.metadata()
    weights = {key: x.clone() for key, x in load_file(stored).items()}
    change(weights)
    save_file(weights, stored, meta)
    fairhand.export(package, None, tmp_path / "new.onnx")
    now = onnx.load(tmp_path / "new.onnx")
    nodes = {node.name: node for node in now.graph.node}
    kept = untouched(package)
    same = [n for n in unedited.graph.node if n.name in kept and n.name in nodes]
    lost = {n.name for n in unedited.graph.node} & kept - nodes.keys()
    assert len(same) > 15 and all(name.startswith("/layers.1/") for name in lost)
    given = {value.name for value in now.graph.output}
    for node in same:
        new = nodes[node.name]
        assert new.op_type == node.op_type
        assert new.output[0] in given or [*new.output] == [*node.output]
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in now.graph.initializer}
    old, shared = load_file(compiled / WEIGHTS), 0
    for tensor in unedited.graph.initializer:
        key = tensor.name
        is_kept = key in old and key in weights and torch.equal(old[key], weights[key])
        if is_kept and key in arrays:
            array = onnx.numpy_helper.to_array(tensor)
            np.testing.assert_array_equal(arrays[key], array)
            shared += 1
    assert shared > 8
    session = onnxruntime.InferenceSession(now.SerializeToString())
    draw = np.random.default_rng(1)
    feed = {
        x.name: draw.random([n if isinstance(n, int) else 3 for n in x.shape], "f")
        for x in session.get_inputs()
    }
    made = imported(package).load().eval()(*map(torch.from_numpy, feed.values()))
    for ours, got in zip(
        made if isinstance(made, tuple) else [made],
        session.run(None, feed),
        strict=True,
    ):
        bound = 2e-3 if got.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(got, ours.numpy(force=True), bound, bound)
