"""Retrained, a model gives the same text; changed, it changes the lines it must."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from safetensors import safe_open
from support.emitted import EXAMPLE_MODELS, EXAMPLES, contents
from support.emitter_models import Graph
from support.networks import looped, residual, transformer

import fairhand
from fairhand.codegen.cli import main
from fairhand.codegen.compare.comparison import compare
from fairhand.codegen.emit.package_files import read_report

Capture = pytest.CaptureFixture[str]


def retrained(model: onnx.ModelProto) -> onnx.ModelProto:
    """Every float weight moved, single numbers among them."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    random = np.random.default_rng(1)
    for tensor in other.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and not tensor.name.startswith("onnx::"):
            moved = array + random.normal(0, 0.02, array.shape)
            new = numpy_helper.from_array(moved.astype(np.float32), tensor.name)
            tensor.CopyFrom(new)
    return other


def saved(model: onnx.ModelProto, folder: Path, name: str = "net.onnx") -> Path:
    folder.mkdir(exist_ok=True)
    onnx.save(model, folder / name)
    return folder / name


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "residual": residual,
    "transformer": lambda: transformer(2),
    "looped": looped,
    **{n: lambda n=n: onnx.load(EXAMPLES / f"{n}.onnx") for n in EXAMPLE_MODELS},
}


@pytest.mark.parametrize("name", MODELS)
def test_other_weights_change_the_hash_and_the_weights_alone(
    name: str, tmp_path: Path
) -> None:
    model = MODELS[name]()
    folders = []
    for i, version in enumerate((model, retrained(model))):
        path = saved(version, tmp_path / f"in{i}")
        folders.append(tmp_path / f"out{i}")
        fairhand.compile(path, folders[-1], verify=False)
    old, new = map(contents, folders)
    assert set(old) == set(new)
    changed = {name for name in old if old[name] != new[name]}
    assert changed == {
        *("model.py", "report.json", "provenance.json", "weights.safetensors")
    }
    maps = [read_report(folder)["source_map"] for folder in folders]
    for found in maps:
        del found["sha256"], found["text"]
    assert maps[0] == maps[1]
    texts = [files["model.py"].decode().splitlines() for files in (old, new)]
    pairs = [(a, b) for a, b in zip(*texts, strict=True) if a != b]
    (pair,) = pairs
    assert all("MODEL_SHA256 = " in line for line in pair)
    assert keys(folders[0]) == keys(folders[1])
    assert compare(folders[0], path).verdict == "weights"
    assert compare(tmp_path / "in0" / "net.onnx", path).verdict == "weights"


def keys(folder: Path) -> dict[str, tuple[int, ...]]:
    with safe_open(folder / "weights.safetensors", framework="np") as file:
        names = file.keys()
        return {name: tuple(file.get_slice(name).get_shape()) for name in names}


def test_a_learned_number_is_a_parameter(tmp_path: Path) -> None:
    """Printed, it would make two classes of two layers, and another text each time."""
    folder = tmp_path / "net"
    fairhand.compile(looped(), folder, verify=False)
    text = (folder / "model.py").read_text()
    assert "self.gain = nn.Parameter(torch.empty(()))" in text
    assert keys(folder)["layers.2.gain"] == ()
    assert text.count("class Layer") == 1


def test_a_constant_that_an_exporter_counts_is_printed(tmp_path: Path) -> None:
    g = Graph(x=["batch", 4])
    number = g.weight("helper.constant.3", value=np.float32(0.3))
    fairhand.compile(g.model(y=g("Mul", "x", number)), tmp_path / "net", verify=False)
    assert "x * 0.3" in (tmp_path / "net" / "model.py").read_text()


# ---- what a change of the architecture changes


def hunks(old: onnx.ModelProto, new: onnx.ModelProto, at: Path) -> list[set[str]]:
    """Lines taken away and lines added, without their shape comments."""
    fairhand.compile(old, at / "package", verify=False)
    before = contents(at / "package")
    found = compare(at / "package", saved(new, at))
    assert contents(at / "package") == before and found.verdict == "changed"
    return [
        {p.text.partition("  #")[0].strip() for p in side if p is not None} - {""}
        for side in zip(*found.rows, strict=True)
    ]


Case = tuple[Callable[..., onnx.ModelProto], dict[str, Any], list[str], list[str]]
CHANGES: dict[str, Case] = {
    "one activation": (
        looped,
        {"shared": "Sigmoid"},
        ["return self.fc2(torch.tanh(self.fc1(x)))"],
        ["return self.fc2(torch.sigmoid(self.fc1(x)))"],
    ),
    "the activation of a class": (
        looped,
        {"acts": ["Tanh"] * 3},
        ["out = self.fc2(F.relu(self.fc1(x)))"],
        ["out = self.fc2(torch.tanh(self.fc1(x)))"],
    ),
    "the width of all layers": (
        looped,
        {"widths": [24] * 3},
        ["self.fc1 = nn.Linear(8, 16)", "self.fc2 = nn.Linear(16, 8)"],
        ["self.fc1 = nn.Linear(8, 24)", "self.fc2 = nn.Linear(24, 8)"],
    ),
    "the width of one layer": (
        looped,
        {"widths": [16, 24, 16]},
        [
            "def __init__(self):",
            "self.fc1 = nn.Linear(8, 16)",
            "self.fc2 = nn.Linear(16, 8)",
            "self.layers = nn.ModuleList(Layer() for _ in range(3))",
        ],
        [
            "def __init__(self, hidden: int):",
            "self.fc1 = nn.Linear(8, hidden)",
            "self.fc2 = nn.Linear(hidden, 8)",
            "self.layers = nn.ModuleList([Layer(16), Layer(24), Layer(16)])",
        ],
    ),
    "one more layer": (
        looped,
        {"widths": [16] * 4, "acts": ["Relu"] * 4},
        [
            "self.layers = nn.ModuleList(Layer() for _ in range(3))",
        ],
        [
            "self.layers = nn.ModuleList(Layer() for _ in range(4))",
        ],
    ),
    "the width of a stage": (
        residual,
        {"width": 12},
        [
            "Layer(8, 16, stride=2, downsample=True), Layer(16, 16)",
            "self.fc = nn.Linear(16, 5)",
        ],
        [
            "Layer(8, 12, stride=2, downsample=True), Layer(12, 12)",
            "self.fc = nn.Linear(12, 5)",
        ],
    ),
    "the number of classes": (
        residual,
        {"classes": 7},
        [
            '"scores": ("float32", ("batch", 5)),',
            "self.fc = nn.Linear(16, 5)",
        ],
        [
            '"scores": ("float32", ("batch", 7)),',
            "self.fc = nn.Linear(16, 7)",
        ],
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_changes_its_lines(what: str, tmp_path: Path) -> None:
    make, change, gone, came = CHANGES[what]
    found = hunks(make(), retrained(make(**change)), tmp_path)
    # A line whose shape comment alone changes is the same line here.
    assert found[0] - found[1] == set(gone)
    assert found[1] - found[0] == set(came)


def test_one_other_layer_is_one_more_class(tmp_path: Path) -> None:
    acts = ("Relu", "Relu", "Sin")
    gone, came = hunks(looped(), looped(acts=acts), tmp_path)
    assert gone == {"self.layers = nn.ModuleList(Layer() for _ in range(3))"}
    assert "class LastLayer(nn.Module):" in came
    assert any("sin(" in line for line in came)
    assert not [line for line in came if "shared" in line.lower()]


def test_one_other_activation_is_an_argument(tmp_path: Path) -> None:
    acts = ("Relu", "Relu", "Tanh")
    gone, came = hunks(looped(), looped(acts=acts), tmp_path)
    assert gone == {
        "self.layers = nn.ModuleList(Layer() for _ in range(3))",
        "def __init__(self):",
        "out = self.fc2(F.relu(self.fc1(x)))",
    }
    assert "[Layer(F.relu), Layer(F.relu), Layer(torch.tanh)]" in "".join(came)
    assert "self.activation = activation" in came


# ---- the command


def test_diff_writes_nothing_and_names_nodes(tmp_path: Path, capfd: Capture) -> None:
    folder = tmp_path / "package"
    fairhand.compile(saved(looped(), tmp_path, "one.onnx"), folder, verify=False)
    other = saved(retrained(looped(shared="Sigmoid")), tmp_path, "two.onnx")
    before = contents(tmp_path)
    assert main(["diff", str(folder), str(other)]) == 0
    printed = capfd.readouterr().out
    assert contents(tmp_path) == before and len(printed.splitlines()) <= 5
    assert printed.startswith("1 : 1 lines differ; ")
    assert "torch.tanh" in printed and "torch.sigmoid" in printed
    assert main(["diff", str(folder), str(other), "--markdown"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line[:1] for line in lines if line[:1] in "-+" and line] == ["-", "+"]
    assert any(line.startswith("ONNX nodes before: `") for line in lines)


def test_diff_of_equal_networks(tmp_path: Path, capfd: Capture) -> None:
    folder = tmp_path / "package"
    path = saved(looped(), tmp_path)
    fairhand.compile(path, folder, verify=False, exactness="bitwise")
    for pair in ((folder, path), (path, folder), (folder, folder), (path, path)):
        assert main(["diff", *map(str, pair)]) == 0
        assert capfd.readouterr().out == "the same\n"
    text = (folder / "model.py").read_text()
    (folder / "model.py").write_text(text.replace("torch.tanh", "torch.sin"))
    assert main(["diff", str(folder), str(path)]) == 0
    assert "torch.tanh(" in capfd.readouterr().out
    assert main(["diff", str(tmp_path), str(path)]) == 1
    assert "is not a package" in capfd.readouterr().err


def test_a_rewritten_graph_is_the_same_up_to_laws(tmp_path: Path) -> None:
    g = Graph(x=["batch", 4])
    weight = g.weight("fc.weight", 4, 4)
    plain = g.model(y=g("MatMul", g("Relu", "x"), weight))
    g = Graph(x=["batch", 4])
    weight = g.weight("fc.weight", 4, 4)
    twice = g.model(y=g("MatMul", g("Relu", g("Relu", "x")), weight))
    found = compare(saved(plain, tmp_path, "a.onnx"), saved(twice, tmp_path, "b.onnx"))
    assert found.verdict == "laws" and found.laws == {"relu_of_relu": (0, 1)}
