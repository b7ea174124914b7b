"""Which kind of kernel a program becomes."""

from __future__ import annotations

from .attention import AttentionLauncher
from .column_source import ColumnLauncher, OrderedLauncher
from .convolved import ConvolvedLauncher
from .decoding import DecodingLauncher
from .launcher import KernelText, Launcher
from .pixelwise import PixelLauncher
from .program import Program
from .tiled_launcher import TiledLauncher


def kernel_text(program: Program) -> tuple[KernelText, list[tuple[str, float]]]:
    """The source but for the name, and the numbers that the module passes."""
    launcher = _launcher(program)
    return launcher.text(), launcher.source.eps


def _launcher(program: Program) -> Launcher:
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
