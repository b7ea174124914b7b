"""Runs an emitted package on saved inputs, in a process that knows nothing of fairhand.

    python runner.py PACKAGE CASES

CASES holds in_0.npz, in_1.npz ...; out_0.npz ... are written beside them. This file is
started by path, so it imports nothing of ours, and neither may the package.
"""

import sys

if __name__ == "__main__":
    # This file's folder would hide modules of the standard library, such as inspect.
    del sys.path[0]

import importlib
from pathlib import Path

import numpy as np


def main() -> None:
    package, cases = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    sys.path.insert(0, str(package.parent))
    module = importlib.import_module(package.name)
    banned = {"fairhand", "onnx", "onnxruntime", "onnx_ir"} & set(sys.modules)
    if banned:
        raise ImportError(f"the emitted package imports {', '.join(sorted(banned))}")
    session = module.Session()
    names = [tensor.name for tensor in session.get_outputs()]
    for i in range(len(list(cases.glob("in_*.npz")))):
        with np.load(cases / f"in_{i}.npz", allow_pickle=False) as file:
            arrays = [file[f"a{k}"] for k in range(len(file.files) - 1)]
            types = file["dtypes"]
        feed = {
            tensor.name: as_type(array, str(kind))
            for tensor, array, kind in zip(
                session.get_inputs(), arrays, types, strict=True
            )
        }
        results = session.run(None, feed)
        assert len(results) == len(names)
        saved = {f"a{k}": plain(result) for k, result in enumerate(results)}
        kinds = np.array([result.dtype.name for result in results])
        np.savez(cases / f"out_{i}.npz", dtypes=kinds, **saved)  # type: ignore[arg-type]


def plain(array: np.ndarray) -> np.ndarray:
    """Types NumPy can't save (bfloat16, float8) travel as their bits."""
    if array.dtype.kind != "V":
        return array
    return array.view(f"u{array.dtype.itemsize}")


def as_type(array: np.ndarray, name: str) -> np.ndarray:
    """The inverse of plain()."""
    if array.dtype.name == name:
        return array
    import ml_dtypes

    return array.view(getattr(ml_dtypes, name))


if __name__ == "__main__":
    main()
