"""Depthwise convolutions in kernels: each element is a sum over a window of a channel.

That is bound by memory, so what follows it is free in the same kernel; other
convolutions stay cuDNN's.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....analysis.ops.module_form import ModuleForm
from ....analysis.ops.node_view import NodeView
from ....analysis.ops.onnx.windows import Windows, short, windows
from ....analysis.spelling.expr import Expr, Name, Names
from ...ir.assignment import Assignment


@dataclass(frozen=True)
class Taps:
    """A depthwise convolution over two axes; the layer has its stride and padding."""

    windows: Windows

    def twin(self, x: Expr, *weights: Expr) -> Expr:
        """The convolution in PyTorch, of operands without a layer."""
        options = {"stride": Name("stride"), "padding": Name("padding")}
        if self.windows.dilated():
            options["dilation"] = short(self.windows.dilation)
        return Names("F").conv2d(x, *weights, **options, groups=x.shape[1])

    def holes(self, axis: int) -> str:
        """What the distance of two taps is multiplied by."""
        hole = self.windows.dilation[axis]
        return "" if hole == 1 else f" * {hole}"


def taps_of(step: Assignment, view: NodeView) -> tuple[Taps, ModuleForm] | None:
    """Of an nn.Conv2d whose channels each have one window of their own."""
    form = step.form
    if form is None or form.layer != "nn.Conv2d" or form.call is not None:
        return None
    channels, results, _ = form.positional
    if channels == 1 or not channels == results == view.attr("group", 1):
        return None
    return Taps(windows(view, [int(str(size)) for size in view.dims(1)[2:]])), form
