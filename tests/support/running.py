"""The other reading of a spelling: it computes, on tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from fairhand.analysis.spelling.expr import TORCH_DTYPES


class Running:
    """`t` of a spelling that computes: the same names, from torch itself."""

    device = "cpu"

    def __init__(self) -> None:
        self.F = torch.nn.functional
        self.math = math
        self.np = np

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def dtype(self, dtype: ir.DataType) -> Any:
        return getattr(torch, TORCH_DTYPES[dtype])

    def helper(self, function: Callable[..., Any]) -> Any:
        return function
