"""compile(), end to end: ONNX files in, packages out that a user can work with."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import black
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper
from safetensors.torch import save_file
from support.emitted import (
    EXAMPLE_MODELS,
    EXAMPLES,
    FILES,
    contents,
    finish,
    imported,
    small_model,
    start,
)

import fairhand
from fairhand.codegen.emit.package_files import read_report
from fairhand.rewrites.simplify import Rewriting, simplify

CNN = EXAMPLES / "digits_cnn.onnx"
RUFF = Path(sys.executable).with_name("ruff")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, fairhand.Package]:
    """The two example models, compiled and verified."""
    out = tmp_path_factory.mktemp("packages")
    return {
        name: fairhand.compile(EXAMPLES / f"{name}.onnx", out / name)
        for name in EXAMPLE_MODELS
    }


@pytest.fixture(scope="module")
def modules(packages: dict[str, fairhand.Package]) -> dict[str, ModuleType]:
    return {name: imported(package.path) for name, package in packages.items()}


@pytest.fixture(scope="module")
def sample() -> Any:
    with np.load(EXAMPLES / "digits_sample.npz") as file:
        return {name: file[name] for name in file}


# ------------------------------------------------------------------- what is written


@pytest.mark.parametrize("name", EXAMPLE_MODELS)
def test_the_package(name: str, packages: dict[str, fairhand.Package]) -> None:
    package = packages[name]
    assert {path.name for path in package.path.iterdir()} >= FILES
    assert {p.name for p in package.path.iterdir()} - FILES <= {"__pycache__"}
    assert [p.name for p in package.path.parent.glob(".*")] == []
    assert read_report(package.path) == package.report


@pytest.mark.parametrize("name", EXAMPLE_MODELS)
def test_the_report(
    name: str, packages: dict[str, fairhand.Package], modules: dict[str, ModuleType]
) -> None:
    path = EXAMPLES / f"{name}.onnx"
    proto = onnx.load(path)
    report = packages[name].report
    assert report["generator"] == f"fairhand {fairhand.__version__}"
    assert report["source"] == {
        "file": f"{name}.onnx",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "external_data": [],
        "opset": proto.opset_import[0].version,
        "nodes": len(proto.graph.node),
    }
    assert report["meta"]["producer_name"] == proto.producer_name
    assert report["meta"]["graph_name"] == proto.graph.name
    assert [sizes["batch"] for sizes in report["sizes"]] == [1, 3]
    state = modules[name].load().state_dict()
    assert report["parameters"] == sum(tensor.numel() for tensor in state.values())
    weights = packages[name].path / "weights.safetensors"
    assert report["weights_bytes"] == weights.stat().st_size
    own = [c for c in vars(modules[name].model).values() if isinstance(c, type)]
    classes = {c.__name__ for c in own if c.__module__ == modules[name].model.__name__}
    assert set(report["classes"]) == classes

    found = report["verification"]
    assert found["oracle"] == f"onnxruntime {ort.__version__}, optimisation off"
    inputs = [case["inputs"] for case in found["cases"]]
    assert inputs == ["seed 0, batch=1", "seed 1, batch=1", "seed 0, batch=3"]
    errors = [error for case in found["cases"] for error in case["errors"].values()]
    assert max(errors) == found["worst_relative_error"] <= report["tolerance"]["logits"]
    assert report["tolerance"]["logits"] < 1e-3


@pytest.mark.parametrize("name", EXAMPLE_MODELS)
def test_the_text_is_as_the_linters_want_it(
    name: str, packages: dict[str, fairhand.Package]
) -> None:
    folder = packages[name].path
    for path in folder.glob("*.py"):
        text = path.read_text("ascii")
        assert text == black.format_str(text, mode=black.Mode()), path
        assert max(map(len, text.splitlines())) <= 88, path
        assert str(EXAMPLES) not in text and str(folder) not in text
    if not RUFF.is_file():
        pytest.skip("ruff isn't installed")
    rules = ["--extend-select", "I,UP,B", "--target-version", "py310"]
    command = [RUFF, "check", "--isolated", "--no-cache", *rules, folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# ------------------------------------------------------------------- what it computes


@pytest.mark.parametrize("name", EXAMPLE_MODELS)
def test_session_predicts_what_onnxruntime_does(
    name: str, modules: dict[str, ModuleType], sample: Any
) -> None:
    path = str(EXAMPLES / f"{name}.onnx")
    reference = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = {"image": sample["image"]}
    (wanted,) = reference.run(None, feed)
    (logits,) = modules[name].Session().run(["logits"], feed)
    assert logits.argmax(axis=1).tolist() == sample["labels"].tolist()
    np.testing.assert_allclose(logits, wanted, rtol=0, atol=1e-4)
    (alone,) = modules[name].Session().run(None, {"image": sample["image"][:1]})
    np.testing.assert_allclose(alone, wanted[:1], rtol=0, atol=1e-4)


def test_every_weight_is_a_parameter(tmp_path: Path) -> None:
    """Of layers, and those that the file names like attributes."""
    made = small_model()
    for tensor, name in zip(
        made.graph.initializer, ("fc.weight", "shift.bias"), strict=True
    ):
        tensor.name = name
    made.graph.node[0].input[1], made.graph.node[2].input[1] = "fc.weight", "shift.bias"
    fairhand.compile(made, tmp_path / "net", verify=False)
    net = imported(tmp_path / "net").load()
    assert sorted(p.numel() for p in net.parameters()) == [3, 12]
    assert list(net.buffers()) == []


def test_a_constant_that_is_an_output(tmp_path: Path) -> None:
    made = small_model()
    made.graph.output.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, [3]))
    fairhand.compile(made, tmp_path / "net")
    x = np.zeros((2, 4), np.float32)
    _, b = imported(tmp_path / "net").Session().run(None, {"x": x})
    assert b.tolist() == [-5, -4, -3]


@pytest.mark.parametrize("name", EXAMPLE_MODELS)
def test_the_model_trains_and_its_weights_come_back(
    name: str, modules: dict[str, ModuleType], sample: Any, tmp_path: Path
) -> None:
    module = modules[name]
    model = module.load()
    assert type(model) is module.Model and isinstance(model, torch.nn.Module)
    assert not model.training
    assert not any(p.requires_grad for p in model.parameters())
    image = torch.from_numpy(sample["image"])
    labels = (torch.from_numpy(sample["labels"]) + 1) % 10  # something new to learn
    before = model(image)

    model.train().requires_grad_(True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(model(image), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())
    assert losses[-1] < losses[0]

    # As the safetensors documentation has it; the module's own check wants the hash.
    after = model.eval()(image)
    state = {key: tensor.contiguous() for key, tensor in model.state_dict().items()}
    meta = {"model_sha256": module.model.MODEL_SHA256}
    save_file(state, tmp_path / "tuned.safetensors", metadata=meta)
    tuned = module.load(tmp_path / "tuned.safetensors")
    assert torch.equal(tuned(image), after) and not torch.equal(before, after)
    assert torch.equal(module.load()(image), before)


@pytest.mark.parametrize("name", EXAMPLE_MODELS)
def test_the_model_exports(
    name: str, modules: dict[str, ModuleType], sample: Any
) -> None:
    model = modules[name].load()
    image = torch.from_numpy(sample["image"])
    sizes = {"image": {0: torch.export.Dim("batch")}}
    exported = torch.export.export(model, (image,), dynamic_shapes=sizes)
    three = image[:3]
    assert torch.allclose(exported.module()(three), model(three), atol=1e-5)


def test_weights_of_another_model_are_refused(
    packages: dict[str, fairhand.Package], modules: dict[str, ModuleType]
) -> None:
    other = packages["digits_transformer"].path / "weights.safetensors"
    sha256 = packages["digits_transformer"].report["source"]["sha256"]
    for load in (modules["digits_cnn"].load, modules["digits_cnn"].Session):
        with pytest.raises(ValueError, match=f"weights of another model: {sha256}"):
            load(weights=other)


def test_a_package_needs_no_fairhand_and_no_onnx(
    packages: dict[str, fairhand.Package], tmp_path: Path
) -> None:
    folder = packages["digits_cnn"].path.parent
    names = ", ".join(EXAMPLE_MODELS)
    script = f"""
import sys
before = set(sys.modules)
sys.path.insert(0, {str(folder)!r})
import {names}
for package in ({names}):
    package.Session()
roots = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(sorted(roots & {{"fairhand", "onnx", "onnx_ir", "onnxruntime", "sympy"}}))
print("torch" in roots)
"""
    (tmp_path / "script.py").write_text(script)
    out = finish(start("script.py", cwd=tmp_path))
    assert out.splitlines() == ["[]", "True"]


def test_the_emitted_test_passes_and_can_fail(
    packages: dict[str, fairhand.Package], tmp_path: Path
) -> None:
    shutil.copytree(packages["digits_cnn"].path, tmp_path / "right")
    shutil.copytree(packages["digits_cnn"].path, tmp_path / "wrong")
    model = tmp_path / "wrong" / "model.py"
    model.write_text(model.read_text().replace("F.relu(", "F.gelu("))
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "right", "wrong"]
    process = start(*command, cwd=tmp_path, ONNX_MODEL=str(CNN))
    out, _ = process.communicate(timeout=300)
    assert "4 failed, 6 passed" in out and "FAILED right" not in out, out


# ------------------------------------------------------------------- determinism

TWICE = """
import sys
import fairhand

for name, verify in {models!r}.items():
    model, out = f"{examples}/{{name}}.onnx", f"{{sys.argv[1]}}/{{name}}"
    fairhand.compile(model, out, verify=verify)
"""


@pytest.mark.slow
def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    models = {"digits_cnn": False, "digits_transformer": True}
    (tmp_path / "twice.py").write_text(TWICE.format(models=models, examples=EXAMPLES))
    processes = [
        start("twice.py", f"out{seed}", cwd=tmp_path, PYTHONHASHSEED=seed)
        for seed in ("1", "2")
    ]
    for process in processes:
        finish(process)
    first, second = contents(tmp_path / "out1"), contents(tmp_path / "out2")
    assert len(first) == 2 * len(FILES)
    assert [name for name in first if first[name] != second.get(name)] == []


def test_an_object_gives_the_model_that_its_file_gives(tmp_path: Path) -> None:
    paths = [EXAMPLES / f"{name}.onnx" for name in EXAMPLE_MODELS]
    for path in paths:
        proto = onnx.load(path)
        proto.graph.name = path.stem  # which titles the module where there is no file
        made = {}
        for kind, model in {
            "path": path,
            "text": str(path),
            "proto": proto,
            "ir": ir.from_proto(proto),
        }.items():
            out = tmp_path / path.stem / kind
            package = fairhand.compile(model, out, verify=False)
            text = (out / "model.py").read_text()
            made[kind] = without_source(text, package.report["source"])
        assert made["path"] == made["text"] == made["proto"] == made["ir"]


def without_source(text: str, source: dict[str, Any]) -> str:
    """The module without the file's name and hash, and the title taken from it."""
    head, _, rest = text.partition("\n")
    assert head.endswith(f"generated from {source['file']}.")
    assert text.count(source["sha256"]) == 1
    rest = rest.replace(source["sha256"], "HASH")
    return rest.replace(f"{source['file']},", "FILE,")


# ------------------------------------------------------------------- options


def test_unverified_is_said(tmp_path: Path) -> None:
    package = fairhand.compile(small_model(), tmp_path / "net", verify=False)
    assert package.report["verification"] is None
    assert (
        json.loads((tmp_path / "net/report.json").read_text())["verification"] is None
    )


def test_debug_writes_every_stage_as_a_model_that_runs(
    tmp_path: Path, sample: Any
) -> None:
    stages = tmp_path / "deep" / "stages"
    path = EXAMPLES / "digits_transformer.onnx"
    said: list[str] = []
    package = fairhand.compile(
        path, tmp_path / "net", verify=False, debug=stages, progress=said.append
    )
    names = ["1-load", "2-normalise", "3-fold", "4-rewrite"]
    assert sorted(file.stem for file in stages.glob("*.onnx")) == names
    assert said == ["load", "load", "normalise", "fold", "rewrite", "plan", "emit"]
    feed = {"image": sample["image"]}
    wanted = imported(package.path).Session().run(None, feed)
    counts = []
    for name in names:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(str(stages / f"{name}.onnx"), options)
        np.testing.assert_allclose(session.run(None, feed), wanted, rtol=0, atol=1e-4)
        counts.append(len(onnx.load(stages / f"{name}.onnx").graph.node))
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]


def drop_relu(model: ir.Model) -> int:
    """A rewrite that changes what is computed."""
    count = 0
    for node in list(model.graph):
        if node.op_type == "Relu":
            node.outputs[0].replace_all_uses_with(node.inputs[0])
            model.graph.remove(node, safe=True)
            count += 1
    return count


def test_rules_are_applied_and_certified(tmp_path: Path) -> None:
    package = fairhand.compile(
        small_model(twice=True), tmp_path / "net", debug=tmp_path / "stages"
    )
    assert package.report["rewrites"]["relu_of_relu"] == 1
    assert package.report["verification"] is not None
    (applied,) = package.report["certificate"]["applications"]
    assert applied["rule"] == "relu_of_relu"
    assert (tmp_path / "stages/4-rewrite.onnx").is_file()
    plain = fairhand.compile(
        small_model(twice=True), tmp_path / "plain", rules=(), verify=False
    )
    assert plain.report["certificate"]["applications"] == []


def test_a_wrong_rewrite_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(model: ir.Model, *arguments: object) -> Rewriting:
        done = simplify(model, rules=())
        drop_relu(model)
        return done

    monkeypatch.setattr("fairhand.codegen.pipeline.simplify", wrong)
    with pytest.raises(fairhand.VerificationError, match="output y differs"):
        fairhand.compile(small_model(), tmp_path / "net")
    assert list(tmp_path.iterdir()) == []
