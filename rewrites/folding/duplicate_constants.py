"""Equal constants become one, so that a module called twice shows as one; a matrix
that an exporter stored turned beside the weight that it came of is that weight's."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator

import numpy as np
import onnx_ir as ir

from ...analysis.graph.constants import uniform_number
from ...analysis.graph.parameters import COMPUTED, has_name, is_parameter
from ...analysis.graph.weight_access import FileTensor, glance, note_read
from ..adapters.opset_adapters import TARGET_OPSET, AdapterSite
from ..adapters.unique_names import UniqueNames

# Equal vectors say little: every norm starts with ones. Equal matrices are one, and
# so is what was computed from the same weights, each time that the module was called.
_SMALLEST = 1 << 16
_SAMPLE = 1 << 12
_ROWS = 8  # of which the sample is taken
_PIECE = 1 << 24  # bytes that are compared at a time


def merge_constants(model: ir.Model) -> int:
    """Keep the first of equal initializers; returns how many went.

    Equal are matrices, an exporter's own tensors, or whatever was computed from the
    same initializers of the file.

    Bits are compared, after a sample of them, so distinct weights are hardly read.
    """
    merged = 0
    for first, other in list(equal_pairs(model.graph.initializers.values())):
        if other.is_graph_output():
            continue
        pair = first.const_value, other.const_value
        if not all(isinstance(t, FileTensor) and not t.sources for t in pair):
            note_read(*pair)  # which of the file's own are equal is known to the cache
        other.replace_all_uses_with(first)
        del model.graph.initializers[other.name or ""]
        merged += 1
    return merged


def equal_pairs(values: Iterable[ir.Value]) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Each constant that is equal to earlier ones, behind the first of those: large
    ones, an exporter's own, and others computed from the same weights."""
    alike: dict[object, list[ir.Value]] = {}
    for value in values:
        tensor = value.const_value
        if tensor is None or not tensor.shape:
            continue
        large = len(tensor.shape) > 1 and tensor.nbytes >= _SMALLEST
        origins = () if large else value.meta.get("folded_from", ())
        if not (large or origins or _is_an_exporters(value)):
            continue
        array = glance(tensor)
        if not any(array.strides):
            continue  # one element in the guise of many: nothing to save
        key = (origins, tensor.dtype, array.shape, _digest(array, 1))
        alike.setdefault(key, []).append(value)
    for found in alike.values():
        groups: dict[bytes, list[ir.Value]] = {}
        for value in found if len(found) > 1 else ():  # each row may be a page read
            assert value.const_value is not None
            digest = _digest(glance(value.const_value), _ROWS)
            groups.setdefault(digest, []).append(value)
        for first, *others in groups.values():
            for x in others:
                if not _are_of_two(first, x) and _same_bits(first, x):
                    yield first, x


def turn_back(model: ir.Model, names: UniqueNames) -> None:
    """Compute anew what an exporter folded: the Transpose of a weight that the file
    also has as it is, as a language model's of its tied head."""
    kept: dict[object, list[ir.Value]] = {}
    for value in model.graph.initializers.values():
        if has_name(value) and (tensor := _matrix(value)) is not None:
            kept.setdefault((tensor.dtype, *tensor.shape), []).append(value)
    for value in list(model.graph.initializers.values()):
        tensor = _matrix(value)
        if tensor is None or has_name(value) or value.is_graph_output():
            continue
        alike = kept.get((tensor.dtype, *reversed(tensor.shape)), ())
        weight = next((w for w in alike if _is_turned(w, value)), None)
        for user, place in tuple(value.uses()) if weight is not None else ():
            site = AdapterSite(user, TARGET_OPSET, model.graph, names)
            turned = site.before("Transpose", [weight], "turned", perm=[1, 0])
            user.replace_input_with(place, turned)
        if weight is not None:
            note_read(weight.const_value, tensor)


def _matrix(value: ir.Value) -> ir.TensorProtocol | None:
    tensor = value.const_value
    if tensor is None or len(tensor.shape) != 2 or tensor.size < 2:
        return None
    return tensor if tensor.dtype.is_floating_point() else None


def _is_turned(weight: ir.Value, other: ir.Value) -> bool:
    """Whether one has the bits of the other's Transpose; a corner tells most apart."""
    assert weight.const_value is not None and other.const_value is not None
    a, b = _whole(weight.const_value), _whole(other.const_value).T
    corner = np.array_equal(a[:_ROWS, :_ROWS], b[:_ROWS, :_ROWS])
    if not corner or uniform_number(other.const_value) is not None:
        return False
    step = max(1, _PIECE // max(1, a[:1].nbytes))
    starts = range(0, len(a), step)
    return all(np.array_equal(a[i:][:step], b[i:][:step]) for i in starts)


def _whole(tensor: ir.TensorProtocol) -> np.ndarray:
    """The elements as whole numbers, which compare by their bits."""
    array = glance(tensor)
    return array.view(f"u{array.itemsize}")


def _are_of_two(a: ir.Value, b: ir.Value) -> bool:
    """Whether two modules have weights that begin alike: all of one number, or as
    `layers.0.fc.weight` and `layers.1.fc.weight`. What modules share has one name."""
    alike = len({re.sub(r"\d+", "0", x.name or "") for x in (a, b)}) == 1
    named = alike and has_name(a) and has_name(b)
    trained = is_parameter(a) and is_parameter(b)
    return trained and (named or uniform_number(a.const_value) is not None)


def _is_an_exporters(value: ir.Value) -> bool:
    """Whether it is no weight and has no name: a mask that was folded at each call."""
    own = is_parameter(value) or has_name(value)
    return not (own or value.meta.get(COMPUTED))


def _digest(array: np.ndarray, count: int) -> bytes:
    rows = array.reshape(max(1, array.shape[0]), -1)
    step = max(1, rows.shape[0] // count)
    sample = np.ascontiguousarray(rows[::step][:count, : _SAMPLE // _ROWS])
    return hashlib.sha256(sample.tobytes()).digest()


def _same_bits(a: ir.Value, b: ir.Value) -> bool:
    stored = [x.const_value for x in (a, b) if x.const_value is not None]
    pair = (np.ascontiguousarray(glance(tensor)) for tensor in stored)
    left, right = (array.reshape(-1).view(np.uint8) for array in pair)
    starts = range(0, left.size, _PIECE)
    return all(np.array_equal(left[i:][:_PIECE], right[i:][:_PIECE]) for i in starts)
