"""Ai.onnx.ml as arithmetic."""

from ....analysis.ops import ml  # noqa: F401
from . import features, linear, svm, trees  # noqa: F401
