"""The kernel of a depthwise convolution and of what follows it.

A program has pixels of one channel, whose window and bias it reads once.
"""

from __future__ import annotations

import re
from dataclasses import replace

import onnx_ir as ir

from ....analysis.graph.dims import Dim
from ....analysis.spelling.expr import Expr, Name
from ..launch.launcher import KernelSource, Launcher, Parameter
from ..layout.layout import Axis, Layout
from ..program.depthwise import Taps
from ..program.program import Argument, KernelProgram, Operation
from ..source.indexed_kernel import Index, IndexedSource
from ..source.row_kernel import Source

_OPTIONS = ("stride", "padding")
_AXES = ("sample", "channel", "row", "col")
START = """\
# One program for some pixels of one channel.
tiles = tl.cdiv(n_rows * n_cols, BLOCK)
plane = tl.program_id(0) // tiles
{sample}channel = plane % n_channels
pixels = tl.program_id(0) % tiles * BLOCK + tl.arange(0, BLOCK)
row, col = pixels // n_cols, pixels % n_cols
mask = pixels < n_rows * n_cols
offsets = plane.to(tl.int64) * n_rows * n_cols + pixels
image_ptr = {x}_ptr + plane.to(tl.int64) * height * width
window_ptr = {weight}_ptr + channel * HEIGHT * WIDTH
sums = tl.zeros([BLOCK], tl.float32)
for tap in tl.static_range(HEIGHT * WIDTH):
    at_row = row * stride_h + tap // WIDTH{holes[0]} - padding_h
    at_col = col * stride_w + tap % WIDTH{holes[1]} - padding_w
    inside = mask & (at_row >= 0) & (at_row < height)
    inside &= (at_col >= 0) & (at_col < width)
    pixel = tl.load(image_ptr + at_row * width + at_col, mask=inside, other=0.0)
    factor = tl.load(window_ptr + tap)
    sums += pixel.to(tl.float32) * factor.to(tl.float32)"""


def _convolution_of(program: KernelProgram) -> Operation:
    return next(op for op in program.operations if op.taps is not None)


class _ConvolvedLayout(Layout):
    """The space is the result's: how many windows there are along both axes."""

    def __init__(self, program: KernelProgram) -> None:
        x, weight, *_ = _convolution_of(program).operands
        self.x = program.arguments[x]  # type: ignore[index]
        self.weight = program.arguments[weight]  # type: ignore[index]
        super().__init__(program)
        self.used |= {"n_channels", "n_rows", "n_cols"}

    def _axes(self) -> list[Axis]:
        table = [self.program.patterns(a.dims) for a in self.arguments]
        columns = zip(_AXES, zip(*table, strict=True), strict=True)
        return [
            Axis(place, place, has, name, f"n_{name}s")
            for place, (name, has) in enumerate(columns, -4)
        ]

    def letter(self, axis: Axis) -> str:
        return f"{axis.index}s"

    def base(self) -> Argument | None:
        return None

    def moved_size(
        self, size: Dim, axis: int | None, names: dict[ir.Value, str]
    ) -> str:
        place = -1 if axis is None else axis
        taps = _convolution_of(self.program).taps
        assert taps is not None
        x, weight, i = names[self.x.value], names[self.weight.value], place + 2
        hole = taps.windows.dilation[i]
        spread = f", {hole}" if hole > 1 else ""
        sizes = f"{x}.shape[{place}], {weight}.shape[{place}]"
        return f"window_count({sizes}, stride[{i}], padding[{i}]{spread})"

    def expected(self, argument: Argument, names: dict[ir.Value, str]) -> str:
        x = names[self.x.value]
        if argument is self.weight:
            return f"({x}.shape[1], 1, *{names[argument.value]}.shape[2:])"
        if argument.role:
            return f"({x}.shape[1],)"
        uses = sum(op.operands.count(argument.value) for op in self.program.operations)
        alone = argument is self.x and uses == 1
        return "" if alone else super().expected(argument, names)

    def index_lines(self, texts: list[str]) -> list[str]:
        return []  # they stand at the start

    def letters(self, argument: Argument | None, rows_alone: bool = False) -> str:
        if argument is self.x:
            return "[samples, channels, height, width]"
        if argument is self.weight:
            return "[channels, HEIGHT * WIDTH]"
        return super().letters(argument, rows_alone)


class _ConvolvedSource(IndexedSource):
    layout: _ConvolvedLayout

    def make_layout(self, program: KernelProgram) -> Layout:
        return _ConvolvedLayout(program)

    def _start(self) -> list[str]:
        op = _convolution_of(self.program)
        assert op.taps is not None
        x, weight = (self.names[a.value] for a in (self.layout.x, self.layout.weight))
        reads_sample = any("sample" in text for text in self.texts)
        return START.format(
            sample="sample = plane // n_channels\n" * reads_sample,
            holes=(op.taps.holes(0), op.taps.holes(1)),
            x=x,
            weight=weight,
        ).split("\n")

    def mask_of(self, offset: str, guards: tuple[str, ...]) -> str:
        return self.mask if re.search("offsets|row|col", offset) else ""

    def convolve(
        self,
        op: Operation,
        taps: Taps,
        value: ir.Value,
        index: Index,
        guards: tuple[str, ...],
    ) -> str:
        _, _, *bias = (o for o in op.operands if isinstance(o, ir.Value))
        made: Expr = Name("sums")
        if bias:
            made = made + Name(self.value(bias[0], index, guards))
        return self.assign(op, value, index, made)


class ConvolvedLauncher(Launcher):
    """What launches a depthwise convolution: some pixels per program."""

    layout: _ConvolvedLayout

    def make_source(self, program: KernelProgram) -> Source:
        return _ConvolvedSource(program)

    def text(self) -> KernelSource:
        text = super().text()
        typed = (f"{name}: tuple[int, int]" for name in _OPTIONS)
        return replace(
            text, arguments=(*text.arguments, *typed), names=(*text.names, *_OPTIONS)
        )

    def size_lines(self, tensors: tuple[str, ...]) -> list[str]:
        _, *lines = super().size_lines(tensors)
        x = self.names[self.layout.x.value]
        return [*lines, f"shape = (*{x}.shape[:2], n_rows, n_cols)"]

    def allocated(self) -> list[str]:
        return ["block = pixel_block(n_rows * n_cols)"]

    def grid(self, result: str) -> str:
        planes = f"{self.names[self.layout.x.value]}.shape[:2].numel()"
        return f"({planes} * triton.cdiv(n_rows * n_cols, block),)"

    def options(self) -> dict[str, str]:
        return {"num_warps": "block // 64"}

    def parameters(self, numbers: tuple[str, ...]) -> list[Parameter]:
        x, weight = (self.names[a.value] for a in (self.layout.x, self.layout.weight))
        notes = {"n_rows": "of the result"}
        height, width = (f"{weight}.shape[{axis}]" for axis in (2, 3))
        return [
            *self.tensors(),
            *(Parameter(name, notes.get(name, ""), name) for name in self.sizes),
            *(Parameter(label, "", label) for label in numbers),
            *(
                Parameter("height", "of an image", f"*{x}.shape[2:]"),
                Parameter("width"),
            ),
            *(Parameter("stride_h", "", "*stride"), Parameter("stride_w")),
            *(Parameter("padding_h", "", "*padding"), Parameter("padding_w")),
            Parameter("HEIGHT", "of a window", height, constant=True),
            Parameter("WIDTH", "", width, constant=True),
            Parameter("BLOCK", "pixels of one program", "block", constant=True),
        ]
