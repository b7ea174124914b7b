"""Where elements lie in a norm of channels: a row is a group of them in one sample.

Such a row lies in one piece, but scales and biases go along its channels, not along its
elements: GroupNormalization, and InstanceNormalization with groups of one channel.
"""

from __future__ import annotations

from math import prod

import onnx_ir as ir

from ....analysis.graph.dims import same
from ..program.program import Argument, KernelProgram, NoKernel, equal
from .layout import MAX_ROW, Axis, Layout, spelled

_PIXELS = "n_pixels"


class GroupLayout(Layout):
    """An axis of rows, and one of a row's elements; `per` channels have `n_pixels`."""

    def __init__(self, program: KernelProgram) -> None:
        self.channels = program.space[1]
        self.groups = program.groups
        assert isinstance(self.channels, int)
        self.per = self.channels // self.groups
        super().__init__(program)

    def _axes(self) -> list[Axis]:
        rank = len(self.program.space)
        kinds = [self.kind(a) for a in self.arguments]
        rows = tuple(k != "one" for k in kinds)
        columns = tuple(k == "whole" or (k != "one" and self.per > 1) for k in kinds)
        return [
            Axis(-rank, -rank, rows, "row", "n_rows"),
            Axis(1 - rank, -1, columns, "cols", "n_cols"),
        ]

    def kind(self, argument: Argument) -> str:
        """Whether a tensor has all elements, or one per channel, sample, or in all."""
        space, dims = self.program.space, argument.dims
        if argument.role:
            return "channel"
        if equal(dims, space):
            return "whole"
        padded = (1,) * (len(space) - len(dims)) + tuple(dims)
        if all(d == 1 for d in padded):
            return "one"
        if same(padded[1], self.channels) and all(d == 1 for d in padded[2:]):
            if padded[0] == 1:
                return "channel"
            if same(padded[0], space[0]):
                return "both"
        raise NoKernel("a tensor that is broadcast otherwise than along channels")

    @property
    def long(self) -> bool:
        """Where the sizes of an image are not known, rows are taken in parts too."""
        row = self.program.space[1:]
        if not all(isinstance(d, int) for d in row):
            return True
        return prod(row) // self.groups > MAX_ROW

    def narrow(self, argument: Argument) -> bool:
        return self.kind(argument) != "whole"

    def offset(self, argument: Argument) -> str:
        kind = self.kind(argument)
        if kind in ("whole", "one"):
            return "offsets" if kind == "whole" else ""
        first = "row" if kind == "both" else f"row % {self.groups}"
        if self.per == 1:
            return first
        self.used.add(_PIXELS)
        if self.groups == 1 and kind == "channel":
            return f"cols // {_PIXELS}"
        return f"{first} * {self.per} + cols // {_PIXELS}"

    def sizes(self) -> dict[str, Axis]:
        found = {"n_cols": self.axes[-1]}
        if _PIXELS in self.used:
            found[_PIXELS] = Axis(2 - len(self.program.space), -1, (), "", _PIXELS)
        return found

    def size_text(self, axis: Axis, names: dict[ir.Value, str]) -> str:
        base = self.base()
        assert base is not None
        name = names[base.value]
        if axis.size == _PIXELS:
            return f"math.prod({name}.shape[2:])"
        whole = f"math.prod({name}.shape[1:])"
        return whole if self.groups == 1 else f"{whole} // {self.groups}"

    def letter(self, axis: Axis) -> str:
        return "of one channel" if axis.size == _PIXELS else super().letter(axis)

    def letters(self, argument: Argument | None, rows_alone: bool = False) -> str:
        shown = {"channel": "channels", "both": "samples, channels", "one": ""}
        kind = "whole" if argument is None else self.kind(argument)
        return f"[{shown.get(kind, 'M, N')}]"

    def expected(self, argument: Argument, names: dict[ir.Value, str]) -> str:
        base = self.base()
        assert base is not None
        name = names[base.value]
        if argument is base:
            return f"({name}.shape[0], {self.channels}, *{name}.shape[2:])"
        if self.kind(argument) == "whole":
            return f"{name}.shape"
        first = f"{name}.shape[0]" if self.kind(argument) == "both" else "1"
        parts = [str(self.channels) if d != 1 else "1" for d in argument.dims]
        if len(parts) == len(self.program.space):
            parts[0] = first
        return spelled(parts)
