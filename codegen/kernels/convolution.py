"""Depthwise convolutions in kernels: each element is a sum over a window of a channel.

That is bound by memory, so what follows it is free in the same kernel; other
convolutions stay cuDNN's.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.ops.table import ModuleForm, NodeView
from ...analysis.ops.windows import Windows, short, windows
from ...analysis.spell import Expr, Names
from ..steps import Step


@dataclass(frozen=True)
class Taps:
    """A depthwise convolution over two axes; `size` are those of what it reads."""

    channels: int
    windows: Windows
    size: tuple[int, int]

    @property
    def count(self) -> int:
        height, width = self.windows.kernel
        return height * width

    def twin(self, *operands: Expr) -> Expr:
        w = self.windows
        given = {"stride": w.stride, "padding": w.begin, "dilation": w.dilation}
        plain = {"stride": 1, "padding": 0, "dilation": 1}
        options = {k: short(v) for k, v in given.items() if short(v) != plain[k]}
        return Names("F").conv2d(*operands, **options, groups=self.channels)

    def place(self, axis: int, at: str) -> str:
        """Where the tap `tap` of the element at an index reads: k * 2 + tap // 3 - 1"""
        w, width = self.windows, self.windows.kernel[1]
        step, hole, before = w.stride[axis], w.dilation[axis], w.begin[axis]
        text = at if step == 1 else f"{at} * {step}"
        if w.kernel[axis] > 1:
            tap = f"tap // {width}" if axis == 0 else f"tap % {width}"
            tap = "tap" if width == 1 else tap
            text += f" + {tap}" if hole == 1 else f" + {tap} * {hole}"
        return text if before == 0 else f"{text} - {before}"


def taps_of(step: Step, view: NodeView) -> tuple[Taps, ModuleForm] | None:
    """Of an nn.Conv2d whose channels each have one window of their own."""
    form = step.form
    if form is None or form.layer != "nn.Conv2d" or form.call is not None:
        return None
    channels, results, _ = form.positional
    size = view.dims(0)[2:]
    known = all(isinstance(d, int) for d in size)
    if channels == 1 or not channels == results == view.attr("group", 1) or not known:
        return None
    height, width = view.dims(1)[2:]
    kernel = int(str(height)), int(str(width))
    return Taps(channels, windows(view, kernel), size), form  # type: ignore[arg-type]
