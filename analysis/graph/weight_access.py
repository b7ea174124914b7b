"""Weights of a model file, each of which knows whether its content was looked at.

What was decided without a look at a weight holds for any weight of its type and shape.
That is what the compile cache rests on, so whoever reads one leaves a trace, unless it
says that nothing follows from what it sees.
"""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import onnx_ir as ir

# Shapes, axes and sizes are small, and nearly always integers.
_DATA = 1024


def is_data(dtype: ir.DataType, size: int) -> bool:
    """Whether a tensor of a file is a weight rather than an argument of an operator."""
    if dtype == ir.DataType.STRING or dtype.bitwidth < 8:
        return False
    return size > (1 if dtype.is_floating_point() else _DATA)


class FileTensor(ir.LazyTensor):
    """A weight of a model file, where it is `known_as` this, whatever its name now.

    `sources` are the weights that it was computed from, if it was.
    """

    def __init__(
        self, held: ir.TensorProtocol, name: str, sources: tuple[FileTensor, ...] = ()
    ) -> None:
        shape = ir.Shape(held.shape.numpy())
        super().__init__(self._look, held.dtype, shape, name=name)
        self.held, self.known_as, self.sources = held, name, sources
        self.is_read = False

    def _look(self) -> ir.TensorProtocol:
        note_read(self)
        return self.held


def is_weight(tensor: object) -> TypeGuard[FileTensor]:
    """As isinstance, which takes ten times as long for heirs of a protocol."""
    return issubclass(type(tensor), FileTensor)


def glance(tensor: ir.TensorProtocol) -> np.ndarray:
    """The content of a tensor, for who decides nothing by it, or notes it when so."""
    return (tensor.held if is_weight(tensor) else tensor).numpy()


def note_read(*tensors: ir.TensorProtocol | None) -> None:
    """Something follows from the content of these."""
    for tensor in tensors:
        if is_weight(tensor) and not tensor.is_read:
            tensor.is_read = True
            note_read(*tensor.sources)
