"""How far a model amplifies rounding by itself: what no two programs agree on better.

A deep network may amplify rounding a thousandfold. A quantised one does so by leaps: a
number that lies between two integers goes to one or the other by its last bit, and all
that is computed from it follows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ...analysis.graph.quantization import quantises
from ...analysis.graph.traversal import all_nodes
from ...analysis.ops.registry import OPS
from .tolerances import compare_values


@dataclass(frozen=True)
class Allowance:
    """What a result may be off: so many times the noise, and never more than the worst.

    Every layer rounds anew; a leap is as large for one program as for another.
    """

    margin: float
    worst: float  # of the largest element

    def of(self, noise: float) -> float:
        """What is allowed beside so much noise, relative to the largest element."""
        return min(self.margin * noise, self.worst)


CONTINUOUS = Allowance(4, 1e-2)
LEAPING = Allowance(2, 0.25)  # where activations become integers

_SEEDS = 2
_LEAPING_SEEDS = 8  # since a number that stands near a half moves in one of two
_LEAPING_BITS = 8  # what a sum of 64 terms moves by in another order


def allowance(model: ir.Model) -> Allowance:
    """How far the results of a model may be off, in multiples of its own noise."""
    leaps = any(quantises(node) for node in all_nodes(model.graph))
    return LEAPING if leaps else CONTINUOUS


def own_noise(
    source: str | bytes,
    session: Any,
    load: Callable[[bytes], Any],
    feed: Mapping[str, Any],
    expected: Sequence[Any],
) -> dict[str, float]:
    """How far each of ONNX Runtime's own outputs moves with the last bits.

    Those of the inputs, and of all weights where activations become integers, by one
    and by several: that moves what is rounded as another order of sums would; and where
    float64 takes the place of float32 in what it computes coarsely. `load` makes a
    session of a model.
    Errors are relative to the largest element, as everywhere (tolerances.py).
    """
    noise = dict.fromkeys((tensor.name for tensor in session.get_outputs()), 0.0)
    exact = _in_double(_read(source))
    if exact is not None:
        noise = dict(zip(noise, distances(load(exact), feed, expected), strict=True))
    seed, seeds = 0, _SEEDS
    while seed < seeds:
        rng = np.random.default_rng(seed)
        bits = 1 if seed < _SEEDS else _LEAPING_BITS
        moved = {name: _bits_off(value, bits, rng) for name, value in feed.items()}
        weighed = _other_weights(source, bits, rng)
        seed, seeds = seed + 1, _SEEDS if weighed is None else _LEAPING_SEEDS
        other = session if weighed is None else load(weighed)
        for name, off in zip(noise, distances(other, moved, expected), strict=True):
            noise[name] = max(noise[name], off)
    return noise


def distances(
    session: Any, feed: Mapping[str, Any], expected: Sequence[Any]
) -> Iterator[float]:
    """How far each result of a session is off; 0 where that has no meaning."""
    for got, want in zip(session.run(None, dict(feed)), expected, strict=True):
        distance, _ = compare_values(got, want)
        yield distance if np.isfinite(distance) else 0.0


def _bits_off(array: Any, bits: int, rng: np.random.Generator) -> Any:
    if isinstance(array, list):
        return [_bits_off(item, bits, rng) for item in array]
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
        return array
    side = np.where(rng.random(array.shape) < 0.5, -np.inf, np.inf)
    for _ in range(bits):
        array = np.asarray(np.nextafter(array, side.astype(array.dtype)))
    return array


def _other_weights(
    source: str | bytes, bits: int, rng: np.random.Generator
) -> bytes | None:
    """A model that rounds with its weights moved by bits; None for any other."""
    model, found = _read(source), False
    if any(quantises(node) for node in model.graph.node):
        for tensor in model.graph.initializer:
            if tensor.data_type == onnx.TensorProto.FLOAT:
                moved = _bits_off(onnx.numpy_helper.to_array(tensor), bits, rng)
                tensor.CopyFrom(onnx.numpy_helper.from_array(moved, tensor.name))
                found = True
    return _serialised(model) if found else None


def _in_double(model: onnx.ModelProto) -> bytes | None:
    """The model with float64 in operators that are coarse; None if it has none."""
    if _serialised(model) is None:
        return None
    inferred = onnx.shape_inference.infer_shapes(model).graph
    known = itertools.chain(inferred.value_info, inferred.output)
    kinds = {value.name: value.type.tensor_type.elem_type for value in known}
    nodes, count = list[onnx.NodeProto](), len(model.graph.node)
    for node in model.graph.node:
        op = OPS.get((node.domain, node.op_type))
        made = node.output[0]
        coarse = op.coarse if op is not None and kinds.get(made) else ()
        places = [i for i in coarse if any(node.input[i : i + 1])]
        for i in places:
            wide, to = f"{made}/{i}", onnx.TensorProto.DOUBLE
            nodes.append(onnx.helper.make_node("Cast", [node.input[i]], [wide], to=to))
            node.input[i] = wide
        nodes.append(node)
        if places:
            node.output[0] = wide = f"{made}/double"
            cast = onnx.helper.make_node("Cast", [wide], [made], to=kinds[made])
            nodes.append(cast)
    model.graph.node.extend(nodes)
    del model.graph.node[:count]
    return _serialised(model) if len(nodes) > count else None


def _read(source: str | bytes) -> onnx.ModelProto:
    if isinstance(source, bytes):
        return onnx.load_from_string(source)
    return onnx.load(str(source))


def _serialised(model: onnx.ModelProto) -> bytes | None:
    fits = model.ByteSize() < onnx.checker.MAXIMUM_PROTOBUF
    return model.SerializeToString() if fits else None


def noise_text(noise: float, allowed: float) -> str:
    """A sentence for messages: how far a result moves, and may be off for that."""
    moved = "the last bits of its inputs move ONNX Runtime's own result by"
    return f"{moved} {noise:.1e}, which allows {allowed:.1e}"
