"""Ai.onnx.ml."""

from . import labels_and_maps, trees  # noqa: F401
