"""Runs an emitted package on saved inputs, in a process that knows nothing of fairhand.

    python runner.py PACKAGE CASES [ENGINE]

CASES holds in_0.npz, in_1.npz ...; out_0.npz ... are written beside them. This file is
started by path, so it imports nothing of ours, and neither may the package.
"""

import sys

if __name__ == "__main__":
    # This file's folder would hide modules of the standard library, such as inspect.
    del sys.path[0]

import importlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    package, cases = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    sys.path.insert(0, str(package.parent))
    module = importlib.import_module(package.name)
    banned = {"fairhand", "onnx", "onnxruntime", "onnx_ir"} & set(sys.modules)
    if banned:
        raise ImportError(f"the emitted package imports {', '.join(sorted(banned))}")
    # An engine that gives a network up has nothing to offer but its preparations.
    warnings.filterwarnings("error", "the network runs as it stands")
    chosen = {"engine": sys.argv[3]} if len(sys.argv) > 3 else {}
    session = module.Session(**chosen)
    names = [tensor.name for tensor in session.get_outputs()]
    for i in range(len(list(cases.glob("in_*.npz")))):
        inputs = [tensor.name for tensor in session.get_inputs()]
        feed = dict(zip(inputs, read(cases / f"in_{i}.npz"), strict=True))
        session.run(None, feed)  # engines take a size for granted from its second call
        results = session.run(None, feed)
        assert len(results) == len(names)
        write(cases / f"out_{i}.npz", results)


def write(path: Path, values: list[Any]) -> None:
    """Save arrays, arrays of strings, and lists and maps of the like."""
    arrays: list[np.ndarray] = []
    tree = json.dumps([_packed(value, arrays) for value in values])
    saved = {f"a{k}": array for k, array in enumerate(arrays)}
    np.savez(path, tree=np.array(tree), **saved)  # type: ignore[arg-type]


def read(path: Path) -> list[Any]:
    """The inverse of write()."""
    with np.load(path, allow_pickle=False) as file:
        return [_unpacked(node, file) for node in json.loads(str(file["tree"]))]


def _packed(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
        texts = [str(text) for text in value.reshape(-1)]
        return {"strings": texts, "shape": value.shape}
    if isinstance(value, np.ndarray):
        arrays.append(plain(value))
        return {"array": len(arrays) - 1, "dtype": value.dtype.name}
    if isinstance(value, dict):
        keys, values = list(value), [_packed(v, arrays) for v in value.values()]
        return {"keys": [_packed(k, arrays) for k in keys], "values": values}
    if isinstance(value, list):
        return [_packed(item, arrays) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _unpacked(node: Any, file: Any) -> Any:
    if isinstance(node, list):
        return [_unpacked(item, file) for item in node]
    if not isinstance(node, dict):
        return node
    if "strings" in node:
        array = np.empty(len(node["strings"]), object)
        array[:] = node["strings"]
        return array.reshape(node["shape"])
    if "array" in node:
        return as_type(file[f"a{node['array']}"], node["dtype"])
    return dict(
        zip(_unpacked(node["keys"], file), _unpacked(node["values"], file), strict=True)
    )


def plain(array: np.ndarray) -> np.ndarray:
    """Types NumPy can't save (bfloat16, float8) travel as their bits."""
    if array.dtype.kind != "V":
        return array
    return array.view(f"u{array.dtype.itemsize}")


def as_type(array: np.ndarray, name: str) -> np.ndarray:
    """The inverse of plain()."""
    if array.dtype.name == name:
        return array
    # Loaded for these types alone: it would make NumPy know more than the package can
    # count on.
    return array.view(getattr(importlib.import_module("ml_dtypes"), name))


if __name__ == "__main__":
    main()
