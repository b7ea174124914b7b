"""Which kind of kernel a program becomes."""

from __future__ import annotations

from .launcher import KernelText, Launcher
from .program import Program
from .tiled_launcher import TiledLauncher


def kernel_text(program: Program) -> tuple[KernelText, list[tuple[str, float]]]:
    """The source but for the name, and the numbers that the module passes."""
    made = Launcher if program.product is None else TiledLauncher
    launcher = made(program)
    return launcher.text(), launcher.source.eps
