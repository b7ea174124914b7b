"""Constants: which values are constant, and tensors that are one number throughout.

NumPy can view one element as an array of any shape, by strides of 0. Such a view stands
in for the 500 MB of zeros that a ConstantOfShape may mean, and it says what it is: code
that prints or saves it can write `torch.full`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from .weight_access import glance, note_read

# Nodes that give another result each time.
RANDOM = frozenset(
    "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform "
    "RandomUniformLike".split()
)

# Reading a weight to find that it isn't one number throughout costs time; a constant
# worth removing differs from its first elements early or is small.
_PEEK = 64

_SMALL = 2**20  # elements of a table that is looked at whole

# What an element of a softmax is given so that it comes to nothing.
_FAR = -100.0


def stored(value: ir.Value) -> np.ndarray | None:
    """The elements of an initializer; None for any other value."""
    if value.const_value is None or value.is_graph_input():
        return None
    return value.const_value.numpy()


def is_constant(value: ir.Value, depth: int = 12) -> bool:
    """An initializer, or computed from initializers alone in a few steps."""
    if value.const_value is not None:
        return not value.is_graph_input()
    node = value.producer()
    if node is None or depth == 0 or node.domain or not node.inputs:
        return False
    if node.op_type in RANDOM:
        return False
    for x in node.inputs:
        if x is not None and not is_constant(x, depth - 1):
            return False
    return all(a.type != ir.AttributeType.GRAPH for a in node.attributes.data.values())


def uniform_number(tensor: ir.TensorProtocol | None) -> float | int | bool | None:
    """The number that a tensor is throughout; None if it isn't."""
    if tensor is None or tensor.dtype == ir.DataType.STRING:
        return None
    size = tensor.size
    if size == 0:
        return None
    element = uniform_element(tensor) if size > 1 else None
    if element is not None:
        found: float | int | bool = element.reshape(-1)[0].item()
        return found
    array = glance(tensor)
    if not is_number(array.dtype):
        return None
    flat = array.reshape(-1)
    if size > 1:
        first = flat[:1]
        if not _alike(flat[:_PEEK], first) or not _alike(flat, first):
            return None
    note_read(tensor)
    return flat[0].item() if array.dtype.kind in "fiub" else float(flat[0])


def is_number(dtype: np.dtype) -> bool:
    """Whether elements are real numbers, those of bfloat16 too."""
    return dtype.kind in "fiub" or dtype.name == "bfloat16"


def _alike(array: np.ndarray, first: np.ndarray) -> bool:
    """Bitwise, so that 0 and -0 differ."""
    width = f"u{array.dtype.itemsize}"
    return bool(
        (np.ascontiguousarray(array).view(width) == first.copy().view(width)).all()
    )


def uniform(
    element: np.ndarray, dtype: ir.DataType, shape: Sequence[int], name: str | None
) -> ir.Tensor[np.ndarray]:
    """A tensor of `shape` with `element`, an array of one element, everywhere.

    Raises ValueError when no array can have so many elements.
    """
    view = np.broadcast_to(element.reshape(()), tuple(shape))
    return ir.Tensor(view, dtype, name=name)


def uniform_element(tensor: ir.TensorProtocol | None) -> np.ndarray | None:
    """The element, as an array of shape [], if `tensor` is made by `uniform`.

    None for tensors of up to one element, and for those that merely happen to be equal
    throughout: to find out would mean reading them.
    """
    if not isinstance(tensor, ir.Tensor) or not isinstance(tensor.raw, np.ndarray):
        return None
    array = tensor.raw
    if array.size <= 1 or any(array.strides):
        return None
    return np.asarray(array[(0,) * array.ndim])


# Each notes for the cache that a table was read, where it is what is asked for.


def is_mask(tensor: ir.TensorProtocol) -> bool:
    """Whether a table is 0 where something is seen, and far below 0 elsewhere."""
    if len(tensor.shape) < 2 or not tensor.dtype.is_floating_point():
        return False
    array = glance(tensor)
    first = np.unique(array.reshape(-1)[:_PEEK])
    if len(first) > 2 or not np.isin(first[first != 0], first[first <= _FAR]).all():
        return False
    found = np.unique(array)
    if len(found) != 2 or found[0] > _FAR or found[1] != 0:
        return False
    note_read(tensor)
    return True


def is_choice(tensor: ir.TensorProtocol) -> bool:
    """Whether a small table is 0 in some places and 1 in all others."""
    small = 1 < tensor.size <= _SMALL and tensor.dtype.is_floating_point()
    if not small or np.unique(glance(tensor)).tolist() != [0, 1]:
        return False
    note_read(tensor)
    return True


def is_grid(tensor: ir.TensorProtocol) -> bool:
    """Whether a small table has few different numbers, as coordinates have."""
    if not 16 <= tensor.size <= _SMALL or not tensor.dtype.is_floating_point():
        return False
    found = len(np.unique(glance(tensor)))
    if found == 1 or found**2 > tensor.size:
        return False
    note_read(tensor)
    return True


def is_wave(tensor: ir.TensorProtocol) -> bool:
    """Whether a table holds sines and cosines of places, the first of frequency 1."""
    shape = [size for size in tensor.shape.numpy() if size != 1]
    if len(shape) < 2 or 0 in shape or not tensor.dtype.is_floating_point():
        return False
    rows = glance(tensor).reshape(-1, shape[-1])[:2].astype(np.float64)
    starts = np.isin(rows[0], (0.0, 1.0)).all()
    turns = np.abs(rows[1][:, None] - (math.sin(1), math.cos(1))).min() < 1e-3
    if not (starts and turns and np.abs(rows[1]).max() <= 1):
        return False
    note_read(tensor)
    return True
