"""Sensible random inputs for a model, and inputs read from files.

Everything is read off the graph, nothing is run: indices stay inside the tables that
they look into, masks are 0/1, and dynamic dimensions take small, plausible sizes.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ...analysis.errors import FairhandError, LoadError
from ...analysis.graph.element_types import is_whole
from ...analysis.ops.facts.requirements import Axes, Between, Corners, Fraction, Parts
from ...rewrites.adapters.cleanup import inlined
from .index_limits import Reach, Size, constant, follow, index_limits, requirement
from .input_sizes import complete, dynamic_sizes, free_inputs
from .solve_sizes import dynamic_dims
from .vocabulary import known_numbers, known_words, map_parts, only_known, random_map

MOST_NUMBERS = 2**30  # in one random input
NO_RANK = (2, 3)  # the shape given to an input that declares no rank

_UNLIMITED = (0, 10)
_MASK = (0, 2)


def make_inputs(model: ir.Model, seed: int, sizes: Mapping[str, int]) -> dict[str, Any]:
    """A value for every input of the model, the same for the same arguments.

    `sizes` gives dynamic dimensions their sizes, as in `dynamic_sizes`; what it leaves
    out is taken from there. Raises FairhandError for inputs that are no tensors or too
    large to make.
    """
    model = inlined(model)
    sizes = complete(model, sizes)
    return {
        str(value.name): _value(value, np.random.default_rng([seed, position]), sizes)
        for position, value in enumerate(free_inputs(model))
    }


def input_ranges(model: ir.Model) -> dict[str, tuple[int, int]]:
    """Integer input -> (low, high) with low <= value < high, valid at all the sizes."""
    model = inlined(model)
    tries = dynamic_sizes(model)
    ranges = {}
    for value in free_inputs(model):
        if is_whole(value):
            found = [_range(value, sizes)[0] for sizes in tries]
            ranges[str(value.name)] = max(a for a, _ in found), min(b for _, b in found)
    return ranges


def read_given(path: str | Path, names: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """Inputs from an .npz file, a .pb file, or a folder of input_*.pb files.

    Arrays of an .npz are named "x" or "in:x" ("out:x" is left aside). A .pb holds a
    TensorProto; one that has no name takes the name in `names` at its place.
    """
    path = Path(path)
    if not path.exists():
        raise LoadError("the file of inputs does not exist", str(path))
    try:
        return _read_npz(path) if path.suffix == ".npz" else _read_pb(path, names)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        hint = "give an .npz, or TensorProtos as in test_data_set_0/input_0.pb"
        raise LoadError(f"no inputs can be read: {error}", str(path), hint) from error


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as arrays:
        return {
            name.removeprefix("in:"): arrays[name]
            for name in arrays
            if not name.startswith("out:")
        }


def _read_pb(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    files = [path]
    if path.is_dir():
        folders = [path, *sorted(path.glob("test_data_set_*"))]
        found = (list(folder.glob("input_*.pb")) for folder in folders)
        files = sorted(next((some for some in found if some), []), key=_number)
    if not files:
        raise ValueError("the folder holds no input_*.pb")
    given = {}
    for place, file in enumerate(files):
        tensor = _tensor(file)
        if path.is_dir():
            place = _number(file)
        name = tensor.name or (names[place] if place < len(names) else str(place))
        given[name] = onnx.numpy_helper.to_array(tensor)
    return given


def _tensor(file: Path) -> onnx.TensorProto:
    try:
        tensor = onnx.TensorProto.FromString(file.read_bytes())
    except Exception as error:  # protobuf has its own classes
        raise ValueError(f"{file.name} is no TensorProto") from error
    if tensor.data_type == onnx.TensorProto.UNDEFINED:
        raise ValueError(f"{file.name} holds no tensor")
    return tensor


def _number(file: Path) -> int:
    digits = re.findall(r"\d+", file.stem)
    return int(digits[-1]) if digits else 0


def optional_inputs(model: ir.Model) -> list[str]:
    """The inputs that may be None."""
    inputs = model.graph.inputs
    return [str(v.name) for v in inputs if isinstance(v.type, ir.OptionalType)]


def _value(value: ir.Value, rng: np.random.Generator, sizes: Mapping[str, int]) -> Any:
    """A tensor, a map, or a list of three tensors for a sequence."""
    if map_parts(value) is not None:
        return random_map(value, rng)
    type_ = value.type
    if isinstance(type_, ir.OptionalType):
        type_ = type_.elem_type
    if isinstance(type_, ir.SequenceType):
        return [_random(value, type_.elem_type, rng, sizes) for _ in range(3)]
    return _random(value, type_, rng, sizes)


def _random(
    value: ir.Value,
    type_: ir.TypeProtocol | None,
    rng: np.random.Generator,
    sizes: Mapping[str, int],
) -> np.ndarray:
    dtype = value.dtype
    if not isinstance(type_, ir.TensorType) or dtype is None:
        raise FairhandError(
            "no random value can be made for an input that is no dense tensor",
            f"input {value.name!r}, {value.type}",
            "give inputs from a file",
        )
    shape = _shape(value, sizes)
    if np.prod([size or 1 for size in shape], dtype=float) > MOST_NUMBERS:
        raise FairhandError(
            f"a random input of shape {list(shape)} is too large to make",
            f"input {value.name!r}",
        )
    if known := only_known(value):
        of = object if dtype == ir.DataType.STRING else dtype.numpy()
        return np.array(known, of)[rng.integers(0, len(known), shape)]
    if dtype == ir.DataType.STRING:
        words = np.array(known_words(value), dtype=object)
        return np.asarray(words[rng.integers(0, len(words), shape)], dtype=object)
    if dtype == ir.DataType.BOOL:
        if _named_mask(value) and len(shape) < 3:  # of words: a row has some
            return _mask(shape).astype(bool)
        return np.asarray(rng.random(shape) < 0.5)
    required = [requirement(reach) for reach in follow(value)]
    if any(isinstance(found, Axes) for found in required):
        return np.arange(np.prod(shape)).reshape(shape).astype(dtype.numpy())
    if any(isinstance(found, Parts) for found in required):
        _, whole = _table_range(index_limits(value), sizes)
        ends = rng.integers(0, (whole or 0) + 1, max(int(np.prod(shape)), 1) - 1)
        parts = np.diff(np.sort(ends), prepend=0, append=whole or 0)
        return np.resize(parts, shape).astype(dtype.numpy())
    if dtype.is_integer():
        (low, high), mask = _range(value, sizes)
        numbers = _mask(shape) if mask else rng.integers(low, high, shape)
        return np.asarray(numbers).astype(dtype.numpy())
    if _masks_by_subtraction(value):
        return _mask(shape).astype(dtype.numpy())
    first, end = _table_range(index_limits(value), sizes)
    if end is not None:  # indices, as floats
        return np.asarray(rng.integers(first, end, shape)).astype(dtype.numpy())
    if any(isinstance(found, Fraction) for found in required):
        return np.asarray(rng.random(shape)).astype(dtype.numpy())
    if shape and any(isinstance(found, Corners) for found in required):
        near, far = 4 * rng.random(shape), 1 + 4 * rng.random(shape)
        half = shape[-1] // 2
        near[..., half:] = near[..., : shape[-1] - half] + far[..., half:]
        return np.asarray(near).astype(dtype.numpy())
    numbers = np.asarray(rng.standard_normal(shape))
    if np.issubdtype(dtype.numpy(), np.complexfloating):
        numbers = numbers + 1j * rng.standard_normal(shape)
    return numbers.astype(dtype.numpy())


def elements(model: ir.Model, sizes: Mapping[str, int]) -> float:
    """How many elements the tensors have that make_inputs would make, in all."""
    values = [v for v in free_inputs(model) if isinstance(v.type, ir.TensorType)]
    return sum(float(np.prod(_shape(v, sizes), dtype=float)) for v in values)


def _shape(value: ir.Value, sizes: Mapping[str, int]) -> tuple[int, ...]:
    if value.shape is None:
        return NO_RANK
    keys = dict(dynamic_dims(value))
    return tuple(
        dim if isinstance(dim, int) and dim >= 0 else sizes[keys[axis]]
        for axis, dim in enumerate(value.shape)
    )


def _mask(shape: tuple[int, ...]) -> np.ndarray:
    """Ones, and zeros for the last eighth of every row."""
    mask = np.ones(shape, np.int64)
    if shape and shape[-1] > 1:
        mask[..., shape[-1] - max(1, shape[-1] // 8) :] = 0
    return mask


def _range(value: ir.Value, sizes: Mapping[str, int]) -> tuple[tuple[int, int], bool]:
    """((low, high), whether it is a mask) of an integer input."""
    dtype = value.dtype or ir.DataType.INT64
    reaches = list(follow(value))
    low, high = _table_range(index_limits(value), sizes)
    if high is None:
        if _named_mask(value) or any(map(_is_mask_arithmetic, reaches)):
            return _MASK, True
        for required in map(requirement, reaches):
            if isinstance(required, Between):
                return (required.low, required.high), False
        if known := known_numbers(value):
            return (known[0], min(known[-1] + 2, int(dtype.max))), False
        return _default_range(dtype, reaches), False
    high = min(high, int(dtype.max) + 1)
    return (low, high), high - low == 2 and _named_mask(value)


def _table_range(
    limits: list[tuple[int, Size]], sizes: Mapping[str, int]
) -> tuple[int, int | None]:
    """The range that suits all tables; (0, None) if there are none.

    Taken in the order of their offsets, since an index may also be wrapped
    (Where(i < 0, i + size, i)), which bounds nothing more.
    """
    low, high = 0, None
    for offset, size in sorted(limits, key=lambda limit: abs(limit[0])):
        number = sizes.get(size, 1) if isinstance(size, str) else size or 1
        below = number - offset
        if high is None:
            low, high = max(0, -offset), max(below, max(0, -offset) + 1)
        elif below > low and -offset < high:
            low, high = max(low, -offset), min(high, below)
    return low, high


def _named_mask(value: ir.Value) -> bool:
    return "mask" in str(value.name).lower()


def _is_mask_arithmetic(reach: Reach) -> bool:
    """1 - x, a cast to bool, a negation, or a comparison with 0 or 1."""
    node, op = reach.node, reach.node.op_type
    if op == "Cast":
        return _target(node) == ir.DataType.BOOL
    if op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Sub"):
        other = constant(node.inputs[1 - reach.index])
        if other is None or other.size != 1 or (op == "Sub" and reach.index == 0):
            return False
        return float(other.reshape(-1)[0]) in ((1.0,) if op == "Sub" else (0.0, 1.0))
    return op == "Not"


def _masks_by_subtraction(value: ir.Value) -> bool:
    """Whether a floating-point input serves as (1 - x) times a very negative number."""
    for reach in follow(value):
        if reach.node.op_type == "Sub" and _is_mask_arithmetic(reach):
            for node, index in reach.node.outputs[0].uses():
                factor = (
                    constant(node.inputs[1 - index]) if node.op_type == "Mul" else None
                )
                if factor is not None and factor.size == 1 and factor.min() < -1000:
                    return True
    return False


def _default_range(dtype: ir.DataType, reaches: list[Reach]) -> tuple[int, int]:
    """The whole range of 8-bit numbers that become floating point, else a small one."""
    whole = dtype.bitwidth < 8
    if dtype.bitwidth == 8:
        casts = [reach.node for reach in reaches if reach.node.op_type == "Cast"]
        kinds = " ".join(reach.node.op_type for reach in reaches)
        whole = any(_target(node).is_floating_point() for node in casts)
        whole |= re.search("Quantize|Integer|QLinear", kinds) is not None
    if not whole:
        return _UNLIMITED
    half = 2 ** (dtype.bitwidth - 1)
    return (-half, half) if dtype.is_signed() else (0, 2 * half)


def _target(cast: ir.Node) -> ir.DataType:
    """What it converts to, which was a word before opset 6."""
    to = cast.attributes.get("to")
    value = ir.DataType.FLOAT if to is None else to.value
    return ir.DataType[value] if isinstance(value, str) else ir.DataType(value)
