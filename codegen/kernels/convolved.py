"""The kernel of a depthwise convolution and of what follows it."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from ...analysis.dims import Dim
from ...analysis.spell import text_expr
from .convolution import Taps
from .indexed import Index, IndexedSource
from .launcher import KernelText, Launcher
from .layout import Layout
from .program import Argument, Operation, Program
from .source import Source

_OPTIONS = ("stride", "padding")


def convolution_of(program: Program) -> Operation:
    return next(op for op in program.operations if op.taps is not None)


class ConvolvedLayout(Layout):
    """The space is the result's: how many windows there are along both axes."""

    def __init__(self, program: Program) -> None:
        x, weight, *_ = convolution_of(program).operands
        self.x = program.arguments[x]  # type: ignore[index]
        self.weight = program.arguments[weight]  # type: ignore[index]
        super().__init__(program)

    def base(self) -> Argument | None:
        return None

    def moved_size(
        self, size: Dim, axis: int | None, names: dict[ir.Value, str]
    ) -> str:
        place = -1 if axis is None else axis
        taps = convolution_of(self.program).taps
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

    def letters(self, argument: Argument | None, rows_alone: bool = False) -> str:
        if argument is self.x:
            return "[samples, channels, height, width]"
        if argument is self.weight:
            return "[channels, HEIGHT * WIDTH]"
        return super().letters(argument, rows_alone)


class ConvolvedSource(IndexedSource):
    layout: ConvolvedLayout

    def make_layout(self, program: Program) -> Layout:
        return ConvolvedLayout(program)

    def convolve(
        self,
        op: Operation,
        taps: Taps,
        value: ir.Value,
        index: Index,
        guards: tuple[str, ...],
    ) -> str:
        x, weight, *bias = (o for o in op.operands if isinstance(o, ir.Value))
        mask = " & ".join(["mask", *guards])
        row, col = (self.index_text(index[i]) for i in (2, 3))
        channel = self.index_text(index[1])
        lead = [("", self.index_text(index[0])), ("n_j", channel)]
        if self.program.dims(x)[0] == 1:
            del lead[0]
        sizes = [*lead, ("height", "at_row"), ("width", "at_col")]
        where, own = self.joined(sizes), f"{channel} * HEIGHT * WIDTH + tap"
        self.texts += [row, col, where, own, mask]
        pixel, factor = (f"tl.load({self.names[v]}_ptr + " for v in (x, weight))
        self.lines += [
            "sums = tl.zeros([BLOCK], tl.float32)",
            "for tap in range(HEIGHT * WIDTH):",
            f"    at_row = {row} * stride_h + tap // WIDTH{taps.holes(0)} - padding_h",
            f"    at_col = {col} * stride_w + tap % WIDTH{taps.holes(1)} - padding_w",
            f"    inside = {mask} & (at_row >= 0) & (at_row < height)",
            "    inside &= (at_col >= 0) & (at_col < width)",
            f"    pixel = {pixel}{where}, mask=inside, other=0.0)",
            f"    factor = {factor}{own}, mask={mask})",
            "    sums += pixel.to(tl.float32) * factor.to(tl.float32)",
        ]
        made = text_expr("sums")
        if bias:
            made = made + text_expr(self.value(bias[0], index, guards))
        return self.assign(op, value, index, made)


class ConvolvedLauncher(Launcher):
    layout: ConvolvedLayout

    def make_source(self, program: Program) -> Source:
        return ConvolvedSource(program)

    def text(self) -> KernelText:
        text = super().text()
        typed = (f"{name}: tuple[int, int]" for name in _OPTIONS)
        return replace(
            text,
            arguments=(*text.arguments, *typed),
            names=(*text.names, *_OPTIONS),
        )

    def size_lines(self, tensors: tuple[str, ...]) -> list[str]:
        shape, *lines = super().size_lines(tensors)
        sizes = [*(a.size for a in self.layout.axes)][-2:]
        if len(self.layout.axes) == 4 and self.sizes.keys() >= set(sizes):
            x = self.names[self.layout.x.value]
            shape = f"shape = torch.Size((*{x}.shape[:2], {', '.join(sizes)}))"
        return [*lines, shape]

    def passed(self, result: str, numbers: tuple[str, ...]) -> list[str]:
        *plain, block = super().passed(result, numbers)
        x, weight = (self.names[a.value] for a in (self.layout.x, self.layout.weight))
        window = [f"HEIGHT={weight}.shape[2]", f"WIDTH={weight}.shape[3]"]
        given = [f"*{x}.shape[2:]", *(f"*{name}" for name in _OPTIONS)]
        return [*plain, *given, *window, block]

    def parameters(self, numbers: tuple[str, ...]) -> list[str]:
        *plain, block = super().parameters(numbers)
        return [
            *plain,
            *("height,  # of an image", "width,"),
            *("stride_h,", "stride_w,", "padding_h,", "padding_w,"),
            *("HEIGHT: tl.constexpr,  # of a window", "WIDTH: tl.constexpr,"),
            block,
        ]
