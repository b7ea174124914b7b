"""Tensors that are one number throughout, at the price of that number.

NumPy can view one element as an array of any shape, by strides of 0. Such a view stands
in for the 500 MB of zeros that a ConstantOfShape may mean, and it says what it is: code
that prints or saves it can write `torch.full`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir


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
