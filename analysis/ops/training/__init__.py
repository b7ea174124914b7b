"""Ai.onnx.preview.training."""

from . import optimizers  # noqa: F401
