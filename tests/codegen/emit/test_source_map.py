"""Every node of the model is behind a line of model.py, or it is said why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper
from support.emitted import EXAMPLES
from support.emitter_models import Graph
from support.golden_images import densenet, resnet
from support.networks import looped, residual, transformer

import fairhand
from fairhand.codegen.cli import main
from fairhand.codegen.commands.where import lines_of, nodes_behind
from fairhand.codegen.emit.package_files import read_report

Capture = pytest.CaptureFixture[str]


def example() -> onnx.ModelProto:
    return onnx.load(EXAMPLES / "digits_transformer.onnx")


MODELS = [residual, lambda: transformer(1), lambda: transformer(3), looped, example]
MODELS += [lambda: densenet((3, 5))]
NAMES = ["residual", "one layer", "three layers", "looped", "example", "dense"]


def made(model: onnx.ModelProto, folder: Path, **options: Any) -> dict[str, Any]:
    package = fairhand.compile(model, folder, verify=False, **options)
    found = package.report["source_map"]
    assert found == read_report(folder)["source_map"]
    return dict(found)


def carrying(model: onnx.ModelProto) -> set[str]:
    """Nodes that an input's elements pass through; those that only see sizes aside."""
    reached = {value.name for value in model.graph.input}
    found = set()
    for node in model.graph.node:
        if node.op_type not in ("Shape", "Identity") and reached & set(node.input):
            found.add(node.name)
        if node.op_type != "Shape" and reached & set(node.input):
            reached.update(node.output)
    return found


def behind_lines(found: dict[str, Any]) -> set[str]:
    groups = (names for of in found["lines"].values() for names in of.values())
    return {name for names in groups for name in names}


def code(line: str) -> str:
    return line.partition("  #")[0].strip()


@pytest.mark.parametrize("make", MODELS, ids=NAMES)
@pytest.mark.parametrize("rules", [(), None], ids=["as it is", "rewritten"])
def test_every_node_is_found(
    make: Callable[[], onnx.ModelProto], rules: tuple[()] | None, tmp_path: Path
) -> None:
    model = make()
    found = made(model, tmp_path / "net", rules=rules)
    lines = behind_lines(found)
    elsewhere = {n: why for why, names in found["elsewhere"].items() for n in names}
    assert not lines & set(elsewhere)
    assert lines | set(elsewhere) == {node.name for node in model.graph.node}
    missing = carrying(model) - lines
    # A proven rewrite may take a node away; nothing else may.
    assert [n for n in missing if rules == () or elsewhere[n][:5] != "rule "] == []


@pytest.mark.parametrize(
    ("make", "word", "line"),
    [
        (residual, "layer1.1/conv1/Conv", "self.conv"),
        (residual, "layer2.0/downsample.0/Conv", "self.downsample"),
        (residual, "layer2.0/bn1/BatchNormalization", "self.conv"),
        (residual, "layer1.0/Add", "+"),
        (lambda: transformer(3), "layers.2/Softmax", "scaled_dot_product_attention("),
        (lambda: transformer(3), "layers.1/norm/LayerNorm", "self.norm"),
        (lambda: transformer(3), "layers.1/key/Add", "self.key"),
        (looped, "layers.1/fc1/MatMul", "self.fc1"),
        (looped, "shared_1/fc2/Add", "self.fc2"),
        (looped, "shared/Tanh", "torch.tanh("),
    ],
)
def test_a_node_is_behind_the_line_that_computes_it(
    make: Callable[[], onnx.ModelProto], word: str, line: str, tmp_path: Path
) -> None:
    model = make()
    found = made(model, tmp_path / "net")
    (name,) = [n.name for n in model.graph.node if f"/{word}" in f"/{n.name}"]
    text = (tmp_path / "net" / "model.py").read_text().splitlines()
    spans = [
        s for s, of in found["lines"].items() if any(name in n for n in of.values())
    ]
    assert spans
    for span in spans:
        first, _, last = span.partition("-")
        whole = "\n".join(text[int(first) - 1 : int(last or first)])
        assert line in whole and len(spans) <= 2, whole


def test_a_class_has_the_nodes_of_all_its_instances(tmp_path: Path) -> None:
    found = made(looped(), tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text().splitlines()
    here = {code(text[int(span) - 1]): of for span, of in found["lines"].items()}
    first = here["self.fc1 = nn.Linear(8, 16)"]
    assert list(first) == ["layers.0", "layers.1", "layers.2"]
    assert all(len(names) == 2 for names in first.values())  # MatMul and Add
    calls = {code(text[int(span) - 1]): of for span, of in found["calls"].items()}
    assert calls["x = layer(x)"] == {"": ["layers.0", "layers.1", "layers.2"]}
    both = next(of for line, of in here.items() if "torch.tanh(" in line)
    assert [n.partition("/Tanh")[0] for n in both["shared"] if "Tanh" in n] == [
        "/shared",
        "/shared_1",
    ]


def test_a_layer_that_only_some_instances_have_is_theirs_alone(tmp_path: Path) -> None:
    """Those that lack it are switched off there: they do none of its nodes' work."""
    found = fairhand.compile(resnet(), tmp_path / "net", verify=False)
    owners: dict[str, set[str]] = {}
    for groups in found.report["source_map"]["lines"].values():
        for path, names in groups.items():
            for name in names:
                owners.setdefault(name, set()).add(path)
    assert {len(paths) for paths in owners.values()} == {1}


def test_a_statement_on_several_lines_is_behind_each_of_them(tmp_path: Path) -> None:
    g = Graph(image=["batch", 4, 8, 8])
    name = "a_layer_that_has_a_rather_long_name"
    model = g.model(y=g.conv("image", name, (4, 4, 3), 2, at=name))
    found = made(model, tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text().splitlines()
    first = text.index(f"        self.{name} = nn.Conv2d(") + 1
    assert text[first + 1].strip() == ")"
    assert found["lines"][f"{first}-{first + 2}"] == {"": [f"/{name}/Conv_1"]}
    said = [nodes_behind(tmp_path / "net", str(first + i)) for i in range(3)]
    assert said[0] == said[1] == said[2] and f"/{name}/Conv_1" in said[0][2]


def test_what_a_function_computes_is_behind_its_call(tmp_path: Path) -> None:
    body = [
        helper.make_node("Tanh", ["a"], ["t"], name="inner_tanh"),
        helper.make_node("Mul", ["t", "t"], ["b"], name="inner_mul"),
    ]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    function = helper.make_function("local", "Twice", ["a"], ["b"], body, opsets[:1])
    g = Graph(x=["batch", 4])
    calls = [g("Twice", "x", domain="local", at=f"part{i}") for i in range(2)]
    graph = helper.make_graph(
        g.nodes,
        "net",
        g.inputs,
        [helper.make_tensor_value_info(c, 1, ["batch", 4]) for c in calls],
    )
    model = helper.make_model(
        graph, opset_imports=opsets, functions=[function], ir_version=10
    )
    found = made(model, tmp_path / "net", rules=())
    assert behind_lines(found) <= {node.name for node in model.graph.node}
    assert behind_lines(found) and "inner_tanh" not in json.dumps(found)


# ---- the command


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("where") / "net"
    fairhand.compile(looped(), folder, verify=False)
    return folder


def line_of(package: Path, text: str) -> int:
    lines = (package / "model.py").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if code(line) == text)


def test_where_shows_the_nodes_of_a_line(package: Path, capfd: Capture) -> None:
    number = line_of(package, "out = self.fc2(F.relu(self.fc1(x)))")
    assert main(["where", str(package), f"model.py:{number}"]) == 0
    printed = capfd.readouterr().out.splitlines()
    assert printed[0] == f"model.py:{number}  out = self.fc2(F.relu(self.fc1(x)))"
    assert printed[1:7] == [
        "  layers.0",
        "    /layers.0/fc1/MatMul_1",
        "    /layers.0/fc1/Add_2",
        "    /layers.0/act/Relu_3",
        "    /layers.0/fc2/MatMul_4",
        "    /layers.0/fc2/Add_5",
    ]
    assert printed[7] == "  layers.1" and len(printed) == 19
    number = line_of(package, "x = layer(x)")
    assert nodes_behind(package, str(number))[1] == "  calls layers.0: 8 nodes"
    assert nodes_behind(package, "2")[1].startswith("no node")


def test_where_shows_the_lines_of_a_node(package: Path, capfd: Capture) -> None:
    assert main(["where", str(package), "--node", "/layers.1/fc1/MatMul_9"]) == 0
    init, forward = (
        line_of(package, text)
        for text in (
            "self.fc1 = nn.Linear(8, 16)",
            "out = self.fc2(F.relu(self.fc1(x)))",
        )
    )
    assert capfd.readouterr().out.splitlines() == [
        f"model.py:{init}  self.fc1 = nn.Linear(8, 16)  (layers.1)",
        f"model.py:{forward}  out = self.fc2(F.relu(self.fc1(x)))  (layers.1)",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["100000"], "lines"),
        (["model.py:x"], "is no line of model.py"),
        (["--node", "/layers.1/fc1/MatMul"], "there is /layers.1/fc1/MatMul_9"),
    ],
)
def test_what_is_not_there_is_refused(
    arguments: list[str], said: str, package: Path, capfd: Capture
) -> None:
    assert main(["where", str(package), *arguments]) == 1
    assert said in capfd.readouterr().err


def test_one_question_at_a_time(package: Path) -> None:
    for arguments in ([], ["3", "--node", "x"]):
        with pytest.raises(SystemExit) as stopped:
            main(["where", str(package), *arguments])
        assert stopped.value.code == 2


def test_lines_that_an_edit_left_alone_are_those_of_their_nodes(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "net"
    lines = fairhand.compile(residual(), folder).report["source_map"]["lines"]
    path = folder / "model.py"
    edited = path.read_text().splitlines()
    first, *_, last = (span for span in lines if span.isdecimal())
    edited[int(last) - 1] += "  # mine"
    path.write_text("\n".join(["# mine", *edited]) + "\n")
    kept, gone = (next(iter(lines[span].values()))[0] for span in (first, last))
    now = int(first) + 1
    assert [x for x in lines_of(folder, kept) if x.startswith(f"model.py:{now}  ")]
    assert nodes_behind(folder, str(now))[0].startswith(f"model.py:{now}  ")
    assert f"behind no line: {gone} was on lines that were edited" in lines_of(
        folder, gone
    )
    (folder / "provenance.json").unlink()
    with pytest.raises(fairhand.FairhandError, match="has no source map"):
        nodes_behind(folder, "3")


def test_names_of_nodes_stay_on_their_line(tmp_path: Path, capfd: Capture) -> None:
    g = Graph(x=["batch", 4])
    model = g.model(y=g("Relu", "x"))
    name = 'a\n"""\x1b[2Jb'
    model.graph.node[0].name = name
    folder = tmp_path / "net"
    fairhand.compile(model, folder, verify=False)
    printed = [*lines_of(folder, name), *nodes_behind(folder, "1")]
    number = line_of(folder, "return F.relu(x)")
    printed += nodes_behind(folder, str(number))
    assert main(["where", str(folder), str(number)]) == 0
    printed += capfd.readouterr().out.splitlines()
    assert all(line.isprintable() for line in printed)
    assert "    a?????[2Jb" in printed
    assert lines_of(folder, "a?????[2Jb")  # as it is printed
