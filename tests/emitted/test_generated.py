"""The packages in generated/: what fairhand writes today, to the byte, and running.

A package whose model is in examples/ is emitted again and compared. The others are
sources alone: imported, built without weights, and run for the shapes they give.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from support.emitted import imported

import fairhand
from fairhand.codegen.emit.package_files import read_report
from fairhand.codegen.generation.generate_files import GENERATION

ROOT = Path(__file__).parents[2]
GENERATED, EXAMPLES = ROOT / "generated", ROOT / "examples"
PACKAGES = sorted(p.parent.name for p in GENERATED.glob("*/model.py"))
MODELS = sorted(path.stem for path in EXAMPLES.glob("*.onnx"))
SOURCES = {
    "__init__.py",
    "model.py",
    "session.py",
    "ort_interface.py",
    "test_parity.py",
    "report.json",
    "provenance.json",
}
# What a reviewer is asked to read at most.
HAVE_HELPERS = ("llama_int4", "mobilenet_v2_int8", "wine_pipeline")
MOST_LINES = dict.fromkeys(
    """resnet50 bert_base bert_base_triton convnext_tiny_triton efficientnet_b0_triton
    llama_triton llama_step whisper_encoder whisper_decoder
    yolov5s mobilenet_v2_int8""".split(),
    250,
)
MOST_LINES["llama_int4"] = 450  # 250 are of attention and layers that PyTorch hasn't
IMPORTS = {"torch", "numpy", "safetensors", *sys.stdlib_module_names}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "remade" in metafunc.fixturenames:
        update = metafunc.config.getoption("--update-goldens")
        names = MODELS if update else [name for name in PACKAGES if name in MODELS]
        metafunc.parametrize("remade", names, indirect=True)
    elif "name" in metafunc.fixturenames:
        metafunc.parametrize("name", PACKAGES)


@pytest.fixture
def remade(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The package as it is written now; put in the old one's place when asked to."""
    folder = tmp_path / request.param
    fairhand.compile(EXAMPLES / f"{request.param}.onnx", folder)
    if request.config.getoption("--update-goldens"):
        old = GENERATED / request.param
        if not old.is_dir() or differences(folder, old):
            shutil.rmtree(old, ignore_errors=True)
            shutil.copytree(folder, old)
    return folder


def differences(folder: Path, old: Path) -> list[str]:
    """Files that are in one of the packages alone, or differ."""
    found = {path.name for path in (*folder.iterdir(), *old.iterdir())}
    return sorted(
        name
        for name in found - {"__pycache__"}
        if not (folder / name).is_file()
        or not (old / name).is_file()
        or contents(folder / name) != contents(old / name)
    )


def contents(path: Path) -> object:
    """Bytes; of the report, all that doesn't depend on the machine that measured."""
    if path.name != "report.json":
        return path.read_bytes()
    report = json.loads(path.read_bytes())
    found = report["verification"]
    del found["oracle"], found["worst_relative_error"]
    for case in found["cases"]:
        case["errors"] = sorted(case["errors"])
        case["noise"] = sorted(case.get("noise", ()))
    return report


def test_package_is_what_is_written_now(remade: Path) -> None:
    old = GENERATED / remade.name
    changed = differences(remade, old)
    for name in changed:  # the text first, since that is what its reader looks at
        if name.endswith(".py") and (old / name).is_file():
            assert (old / name).read_text("utf-8") == (remade / name).read_text("utf-8")
    assert changed == [], "pytest --update-goldens writes it anew"


def test_package_is_complete(name: str) -> None:
    files = {p.name for p in (GENERATED / name).iterdir()} - {"__pycache__"}
    weights = {"weights.safetensors"} if name in MODELS else set()
    report = read_report(GENERATED / name)
    engines = set() if report["engine"]["name"] == "eager" else {"engines.py"}
    kernels = {"kernels.py"} if "target" in report else set()
    session = (GENERATED / name / "session.py").read_text("utf-8")
    graphs = {"graphs.py"} if "from .graphs import" in session else set()
    caches = set(GENERATION) if "generation" in report else set()
    sources = SOURCES | engines | kernels | graphs | caches
    assert weights <= files and files - {"weights.safetensors"} == sources
    text = (GENERATED / name / "model.py").read_text("utf-8")
    assert f'MODEL_SHA256 = "{report["source"]["sha256"]}"' in text
    classes = re.findall(r"^class (\w+)", text, re.MULTILINE)
    helpers = len(classes) - len(report["classes"])  # layers that PyTorch hasn't
    assert classes[helpers:] == report["classes"]
    assert not helpers or name in HAVE_HELPERS
    assert report["verification"] is not None, "written with --no-verify"


def test_package_is_short_and_stands_alone(name: str) -> None:
    for path in (GENERATED / name).glob("*.py"):
        text = path.read_text("utf-8")
        assert max(map(len, text.splitlines())) <= 88, path.name
        allowed = IMPORTS
        if path.name == "test_parity.py":
            allowed = IMPORTS | {"pytest", "onnxruntime"}
        if path.name == "for_transformers.py":
            allowed = IMPORTS | {"transformers"}
        if path.name == "kernels.py":
            allowed = IMPORTS | {"triton"}
        assert modules_of(text) <= allowed, path.name
        if path.name == "model.py":
            assert text.count("\n") < MOST_LINES.get(name, 400)


def modules_of(text: str) -> set[str]:
    """The packages that a file imports, its own left out."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(str(node.module).partition(".")[0])
    return found


def test_package_gives_the_shapes_it_declares(name: str) -> None:
    """On the meta device, which has no memory: BERT-base would take half a gigabyte."""
    package = imported(GENERATED / name)
    module = sys.modules[package.Model.__module__]
    report = read_report(GENERATED / name)
    for sizes in report["sizes"]:
        # A loop that ends when its values say so needs values.
        with torch.device("cpu" if name == "page_rank" else "meta"):
            model = package.Model().eval()
            feeds = [
                torch.zeros(shape_of(spec, sizes, name), dtype=getattr(torch, spec[0]))
                for name, spec in module.INPUTS.items()
            ]
        session = vars(import_module(f"{package.__name__}.session"))
        nested = session.get("flat_network", lambda network: network)
        results = nested(model)(*feeds)
        results = (results,) if isinstance(results, torch.Tensor) else results
        for got, (label, spec) in zip(results, module.OUTPUTS.items(), strict=True):
            wanted = shape_of(spec, sizes, label)
            assert str(got.dtype) == f"torch.{spec[0]}"
            assert len(got.shape) == len(wanted)
            for size, dim in zip(got.shape, wanted, strict=True):
                assert size == dim or not isinstance(dim, int), label
    stored = model.state_dict(keep_vars=True).values()  # a tied one has several names
    assert sum(p.numel() for p in set(stored)) == report["parameters"]


def shape_of(
    spec: tuple[str, Sequence[int | str | None]], sizes: Mapping[str, int], name: str
) -> list[Any]:
    """With numbers for the dimensions that the report has sizes for."""
    keys = [f"{name}#{i}" if dim is None else dim for i, dim in enumerate(spec[1])]
    return [sizes.get(str(key), key) for key in keys]


def test_there_are_packages() -> None:
    found = any(GENERATED.glob("*/model.py"))
    assert found, "generated/ is empty: pytest --update-goldens writes what it can"
