"""Which kind of kernel a program becomes."""

from __future__ import annotations

from .launch.launcher import KernelSource, Launcher
from .launch.matmul_launcher import TiledLauncher
from .program.program import KernelProgram
from .source.attention import AttentionLauncher
from .source.column_kernel import ColumnLauncher, OrderedLauncher
from .source.decoding import DecodingLauncher
from .source.depthwise_convolution import ConvolvedLauncher
from .source.pointwise_convolution import PixelLauncher


def kernel_text(program: KernelProgram) -> tuple[KernelSource, list[tuple[str, float]]]:
    """The source but for the name, and the numbers that the module passes."""
    launcher = _launcher(program)
    return launcher.text(), launcher.source.eps


def _launcher(program: KernelProgram) -> Launcher:
    if program.attention is not None:
        decodes = program.attention.decodes
        return DecodingLauncher(program) if decodes else AttentionLauncher(program)
    if any(op.taps for op in program.operations):
        return ConvolvedLauncher(program)
    if program.columns is not None:
        inner = program.columns.inner
        return ColumnLauncher(program) if inner else OrderedLauncher(program)
    if program.product is None:
        return Launcher(program)
    assert program.product.product is not None
    pixels = program.product.product.pixels
    return PixelLauncher(program) if pixels else TiledLauncher(program)
