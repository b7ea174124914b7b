"""Networks whose weights make a result hang on rounding alone, such as equal sums of
1e9 under a softmax: no two programs agree on it, so it says nothing about a package.

Such a result is left out where two things hold. ONNX Runtime's own moves as far when
each weight moves as far as rounding moves it; and with weights drawn at random the same
file comes to the same text, which agrees with ONNX Runtime as strictly as any.

A program that rounds a sum of n products gives what another would that doesn't round,
on weights that are off by about sqrt(n) halves of a last bit (Higham and Mary, A New
Approach to Probabilistic Rounding Error Analysis, 2019).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ...analysis.graph.weightless import to_proto
from ...rewrites.simplify import simplify
from ..load.read_model import Loaded
from .rounding_noise import distances

# A leap is as large for one program as for another (rounding_noise.py).
MARGIN = 2

_WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN"}
_SEEDS = (0, 1)
_MOST_BYTES = onnx.checker.MAXIMUM_PROTOBUF  # that ONNX Runtime loads from memory

Redraw = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def weight_noise(
    loaded: Loaded,
    load: Callable[[bytes], Any],
    feed: Mapping[str, Any],
    expected: Sequence[Any],
) -> dict[str, float]:
    """How far an output may be off: as ONNX Runtime's moves with its weights, twice.

    `load` makes a session of a serialised model. Empty if the model has no weights
    that could be moved, or is too large to be loaded from memory.
    """
    noise = dict[str, float]()
    for seed in _SEEDS:
        moved = _other_weights(loaded, np.random.default_rng(seed), _rounded)
        if moved is None:
            return {}
        session = load(to_proto(moved).SerializeToString())
        names = [value.name or "" for value in moved.graph.outputs]
        for name, off in zip(names, distances(session, feed, expected), strict=True):
            noise[name] = max(noise.get(name, 0.0), MARGIN * off)
    return noise


def with_drawn_weights(loaded: Loaded) -> Loaded | None:
    """The same model with weights of a usual size; None as `weight_noise` is empty."""
    model = _other_weights(loaded, np.random.default_rng(0), _drawn)
    if model is None:
        return None
    return replace(loaded, model=model, path=None, folder=None)


def same_text(one: Path, other: Path) -> bool:
    """Whether two modules have the same classes and take the same inputs; docstring,
    hash of the model and `load` tell of the file, and of how weights are stored,
    OUTPUTS of which open sizes have a name."""
    return _text(one) == _text(other)


def _text(module: Path) -> list[str]:
    body = ast.parse(module.read_text(encoding="utf-8")).body[1:]
    parts = (ast.unparse(statement) for statement in body)
    besides = ("MODEL_SHA256 =", "OUTPUTS =", "def load(")
    return [part for part in parts if not part.startswith(besides)]


def _other_weights(
    loaded: Loaded, rng: np.random.Generator, redraw: Redraw
) -> ir.Model | None:
    """A copy of the model, constants computed, with other weights."""
    model = loaded.model.clone()
    simplify(model, "bitwise", rules=())
    weights = list(_weights(model))
    held = [v.const_value for v in model.graph.initializers.values()]
    size = sum(tensor.nbytes for tensor in held if tensor is not None)
    if not weights or size > _MOST_BYTES:
        return None
    for value, array in weights:
        other = redraw(array, rng)
        value.const_value = ir.tensor(np.ascontiguousarray(other), name=value.name)
    return model


def _weights(model: ir.Model) -> Iterator[tuple[ir.Value, np.ndarray]]:
    """Floating-point matrices and kernels, and vectors in their place, each once."""
    read = {
        value: node
        for node in model.graph
        if node.op_type in _WEIGHTED and node.domain == ""
        for value in node.inputs
        if value is not None and value.is_initializer()
    }
    for value, node in read.items():
        if value.const_value is not None:
            array = value.const_value.numpy()
            is_bias = array.ndim < (1 if node.op_type == "MatMul" else 2)
            if not is_bias and array.dtype.kind == "f":
                yield value, array


def _rounded(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Off by what rounding the sums of so many terms comes to."""
    side = np.where(rng.random(array.shape) < 0.5, -1, 1)
    off = np.sqrt(_terms(array)) * np.finfo(array.dtype).eps / 2
    return (array * (1 + side * off)).astype(array.dtype)


def _drawn(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Normal, of a size that keeps the size of what is multiplied, about."""
    drawn = rng.standard_normal(array.shape) / np.sqrt(_terms(array))
    return drawn.astype(array.dtype)


def _terms(array: np.ndarray) -> float:
    """Of a sum of products with such a matrix or kernel, about."""
    return max(1.0, prod(array.shape) / (max(array.shape) if array.ndim > 1 else 1))
