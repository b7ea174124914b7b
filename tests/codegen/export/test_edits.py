"""Twenty edits that people make: the nodes that none touched come back as they were."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from support.emitted import EXAMPLES

import fairhand
from fairhand.codegen.emit.package_files import read_report
from fairhand.codegen.emit.source_map import same_lines

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
