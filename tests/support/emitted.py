"""What the end-to-end tests share: models, packages imported by path, processes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE_MODELS = ("digits_cnn", "digits_transformer")
FILES = {
    "__init__.py",
    "model.py",
    "session.py",
    "weights.safetensors",
    "report.json",
    "provenance.json",
    "ort_interface.py",
    "test_parity.py",
}


def imported(folder: Path) -> ModuleType:
    """An emitted package as a module, under a name that no other test has used."""
    names = map("emitted_{}".format, count())
    name = next(name for name in names if name not in sys.modules)
    spec = importlib.util.spec_from_file_location(name, folder / "__init__.py")
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, caches left out."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def start(
    *arguments: str | Path, cwd: Path, **environment: str
) -> subprocess.Popen[str]:
    """A fresh Python on one thread, since several of them share two cores."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Its output, once it has ended well."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, f"{out}\n{err}"
    return out


def small_model(scale: float = 1.0, *, twice: bool = False) -> onnx.ModelProto:
    """relu(x @ w) + b; with `twice`, relu(relu(x @ w)) + b."""
    weight = np.arange(12, dtype=np.float32).reshape(4, 3) * scale - 5
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"], "product"),
            helper.make_node("Relu", ["h"], ["p" if twice else "r"], "relu"),
            *([helper.make_node("Relu", ["p"], ["r"], "again")] if twice else []),
            helper.make_node("Add", ["r", "b"], ["y"], "sum"),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [
            numpy_helper.from_array(weight, "w"),
            numpy_helper.from_array(weight[0], "b"),
        ],
    )
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)
