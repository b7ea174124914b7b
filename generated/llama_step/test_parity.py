"""The check again: this package against ONNX Runtime on random inputs.

The ONNX file is the one that $ONNX_MODEL names, or one of the original name in this
folder or the two above it. Without it, or with another file, the tests are skipped.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch

from . import model
from .model import INPUTS, OUTPUTS, load
from .session import Session

HERE = Path(model.__file__).resolve().parent
REPORT = json.loads((HERE / "report.json").read_text(encoding="utf-8"))
SOURCE = REPORT["source"]


@pytest.fixture(scope="module")
def session() -> Session:
    return Session()


@pytest.fixture(scope="module")
def reference() -> ort.InferenceSession:
    """ONNX Runtime, with every optimisation off."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_mem_reuse = False  # it trusts the sizes that a file declares
    found: Any = find_model()
    if found.suffix == ".onnxtxt":  # in ONNX's textual syntax, which it can't read
        found = pytest.importorskip("onnx").load(found).SerializeToString()
    return ort.InferenceSession(found, options, ["CPUExecutionProvider"])


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("sizes", REPORT["sizes"], ids=str)
def test_parity(
    reference: ort.InferenceSession, session: Session, sizes: dict[str, int], seed: int
) -> None:
    feed = make_feed(sizes, seed)
    wanted = reference.run(list(OUTPUTS), feed)
    for name, want, got in zip(OUTPUTS, wanted, session.run(None, feed), strict=True):
        for actual, right in zip(arrays(got), arrays(want), strict=True):
            assert_same(actual, right, name)


def test_round_trip() -> None:
    """The class itself holds all that its state_dict leaves out."""
    loaded = load()
    bare = type(loaded)()
    bare.load_state_dict(loaded.state_dict())
    wanted = {**dict(loaded.named_parameters()), **dict(loaded.named_buffers())}
    for name, got in [*bare.named_parameters(), *bare.named_buffers()]:
        want = wanted[name]
        assert (got.dtype, got.shape) == (want.dtype, want.shape), name
        same = (x.detach().reshape(-1).view(torch.uint8) for x in (got, want))
        assert torch.equal(*same), name


def assert_same(got: np.ndarray, want: np.ndarray, name: str) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape), name
    if want.dtype.kind in "OU":
        assert got.tolist() == want.tolist(), name
        return
    if name not in REPORT["tolerance"]:
        return  # drawn at random
    scale = float(np.abs(want[np.isfinite(want)]).max(initial=0))
    tolerance = REPORT["tolerance"][name] * scale
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance, err_msg=name)


def arrays(value: Any) -> list[np.ndarray]:
    """A result's arrays: its own, or those of the keys and values of its maps."""
    if isinstance(value, dict):
        return [np.array(list(value)), np.array(list(value.values()))]
    if isinstance(value, list):
        return [array for item in value for array in arrays(item)]
    return [np.asarray(value)]


def find_model() -> Path:
    folders = [HERE, *HERE.parents[:2]]
    places = [folder / SOURCE["file"] for folder in folders]
    if "ONNX_MODEL" in os.environ:
        places = [Path(os.environ["ONNX_MODEL"])]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        pytest.skip(f"no {places[0].name} found: let ONNX_MODEL name it")
    digest = hashlib.sha256()
    for name in (path.name, *SOURCE["external_data"]):
        if not (path.parent / name).is_file():
            pytest.skip(f"{path} lacks its external data {name}")
        digest.update((path.parent / name).read_bytes())
    if digest.hexdigest() != SOURCE["sha256"]:
        pytest.skip(f"{path} is not the file that this package was written from")
    return path


def make_feed(sizes: dict[str, int], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    feed: dict[str, Any] = {}
    for name, (dtype, shape) in INPUTS.items():
        dims = []
        for axis, dim in enumerate((2, 3) if shape is None else shape):
            key = f"{name}#{axis}" if dim is None else dim
            dims.append(key if isinstance(key, int) else sizes[key])
        known = REPORT["inputs"].get(name, {})
        if "keys" in known:
            make = {"float": float, "int": int, "str": str}[known["values"]]
            numbers = rng.integers(-9, 9, len(known["keys"]))
            feed[name] = dict(zip(known["keys"], map(make, numbers), strict=True))
            continue
        kind = dtype.split("(")[-1].rstrip(")")
        if "seq(" in dtype:
            feed[name] = [make_array(known, kind, dims, rng) for _ in range(3)]
        else:
            feed[name] = make_array(known, kind, dims, rng)
    return feed


def make_array(
    known: dict[str, Any], dtype: str, dims: list[int], rng: np.random.Generator
) -> np.ndarray:
    if "words" in known:
        words = np.array(known["words"], object)
        values = words[rng.integers(0, len(words), dims)]
    elif dtype == "bool":
        values = rng.integers(0, 2, dims)
    elif known:
        values = rng.integers(**known, size=dims)
    else:
        values = rng.standard_normal(dims)
    return np.asarray(values, dtype)
