"""Where a kernel takes tensors that may be None."""

from __future__ import annotations

import torch
from torch import Tensor

from .launch import is_supported

try:
    import triton
except ImportError:
    triton = None


def runs_triton(*given: Tensor | None) -> bool:
    """Whether a kernel can be launched on these tensors, and nothing is lost by it."""
    tensors = [t for t in given if t is not None]
    if triton is None or torch.compiler.is_compiling():
        return False  # torch.compile and torch.export read what they know
    if any(t.numel() == 0 or t.dtype == torch.float64 for t in tensors):
        return False
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return False  # kernels have no backward
    if torch.is_autocast_enabled("cuda"):
        return False  # which types it chooses PyTorch knows
    device, *others = {t.device for t in tensors}
    return not others and is_supported(device)
