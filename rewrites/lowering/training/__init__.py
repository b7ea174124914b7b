"""Gradient as arithmetic, and optimizers."""

from ....analysis.ops import training  # noqa: F401
from . import gradient  # noqa: F401
