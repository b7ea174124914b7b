"""Pointwise convolutions, of windows of one pixel, in kernels: products of samples.

Rows of the result are its channels, columns its pixels. What the convolution reads is
the right factor, so that operators before it go along the depth and the pixels.
"""

from __future__ import annotations

import onnx_ir as ir

from ....analysis.graph.dims import Dims
from ..layout.layout import LARGEST
from ..program.program import Argument, KernelProgram, Operation
from ..source.row_kernel import Source
from .products import BATCH, COLS, DOWN, ROWS, TiledLauncher, TiledLayout, TiledSource


class _PixelLayout(TiledLayout):
    shared = 0

    def ends(self, whole: Dims, batches: int) -> tuple[int, ...]:
        return 1, 2, len(whole)

    def groups(self, argument: Argument) -> tuple[bool, bool, bool]:
        if argument.role:
            return False, True, False
        if argument.value in self.first:
            batches, _, pixels = self.left_groups(argument)
            return batches, False, pixels
        return self.result_groups(argument)

    @property
    def wide(self) -> bool:
        """Only of the weight: offsets of pixels start from a sample's, in 64 bits."""
        channels, depth = self.program.space[1], self.extent.depth
        assert isinstance(channels, int) and isinstance(depth, int)
        return channels * depth >= LARGEST

    @property
    def wide_weight(self) -> bool:
        return False


class _PixelSource(TiledSource):
    layout: _PixelLayout
    first_axes, deep, own = (BATCH, DOWN, COLS), "down", ROWS

    def make_layout(self, program: KernelProgram) -> _PixelLayout:
        return _PixelLayout(program)

    def factors(self, name: str) -> str:
        return f"weight, {name}"

    def weight(self, op: Operation) -> list[str]:
        where, mask = "rows * depth + across", "(rows < n_rows) & (across < depth)"
        return [f"weight = tl.load(weight_ptr + {where}, mask={mask}, other=0.0)"]

    def product_formula(self, op: Operation, x: str) -> str:
        bias = any(a.role == "bias" for a in self.layout.arguments)
        return f"F.conv{len(self.program.space) - 2}d({x}, weight{', bias' * bias})"


class PixelLauncher(TiledLauncher):
    """What launches a convolution of windows of one pixel, tile by tile."""

    layout: _PixelLayout

    def make_source(self, program: KernelProgram) -> Source:
        return _PixelSource(program)

    def __init__(self, program: KernelProgram) -> None:
        super().__init__(program)
        self.channels = f"{self.weight}.shape[0]"
        self.shape = f"({self.x}.shape[0], {self.channels}, *{self.x}.shape[2:])"

    def size_lines(self, tensors: tuple[str, ...]) -> list[str]:
        x = self.x
        return [
            f"n_batches, n_rows, depth = {x}.shape[0], {self.channels}, {x}.shape[1]",
            f"n_cols = math.prod({x}.shape[2:])",
        ]

    def letters(self, argument: Argument) -> str:
        if argument.role:
            return "[M, K]" if argument.role == "weight" else "[M]"
        first = argument.value in self.layout.first
        has = self.layout.left_groups if first else self.layout.result_groups
        letters = zip("BKN" if first else "BMN", has(argument), strict=True)
        return f"[{', '.join(letter for letter, own in letters if own)}]"

    def expected(self, argument: Argument) -> str:
        if argument is self.whole:
            return ""
        x, ones = self.x, ", 1" * (len(self.program.space) - 2)
        if argument.role == "weight":
            return f"({self.channels}, {x}.shape[1]{ones})"
        if argument.role:
            return f"({self.channels},)"
        return self.like(argument, argument.value in self.layout.first)

    def size_at(self, place: int, first: bool) -> str:
        channel = place == 1 - len(self.program.space) and not first
        return self.channels if channel else f"{self.x}.shape[{place}]"

    def result(self, result: ir.Value) -> tuple[str, str]:
        kind = self.dtype(result, self.x)
        shape = f"(n_batches, n_rows, *{self.x}.shape[2:])"
        return self.names[result], f"{self.x}.new_empty({shape}{kind})"
