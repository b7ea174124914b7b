"""Triton kernels of BertBase, generated from bert_base.onnx.

Each kernel computes several operators at once, and stands beside its twin in PyTorch,
*_reference. A function takes the kernel for CUDA tensors, and the twin for all others,
where a gradient is wanted, and on machines without Triton.

Shapes are those of a kernel: axes that all tensors have, or are broadcast along, are
one axis. Regenerating overwrites this file.
"""

from __future__ import annotations

import os

import torch
import torch.nn.functional as F
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # every function below then calls its *_reference
    triton = None

# Triton's interpreter runs kernels on CPU tensors, which is how they are tested.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
MAX_ROW = 16384  # elements of a row that one program keeps on chip


def runs_triton(*tensors: Tensor) -> bool:
    """Whether a kernel can be launched on these tensors, and nothing is lost by it."""
    if triton is None or any(t.numel() == 0 for t in tensors):
        return False
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return False  # kernels have no backward
    kinds = {t.device.type for t in tensors}
    return kinds == {"cuda"} or (INTERPRETED and kinds == {"cpu"})


def expect(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Raise unless a tensor has the shape that a kernel finds its elements by."""
    if tensor.shape != shape:
        raise ValueError(
            f"{name} must have shape {list(shape)}, got {list(tensor.shape)}"
        )


def warps(n_cols: int) -> int:
    """One for each 256 elements of a row, up to 16."""
    return min(max(triton.next_power_of_2(n_cols) // 256, 1), 16)


def add_layer_norm(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> Tensor:
    """total = x + residual
    y = (total - mean(total)) / sqrt(var(total) + eps) * weight + bias

    Replaces  Add, LayerNormalization, at 24 places, first node_add_199
    Traffic   1.19 MB for [batch, seq, 768]; 1.97 MB operator by operator
    """
    expect("residual", residual, x.shape)
    expect("weight", weight, x.shape[-1:])
    expect("bias", bias, x.shape[-1:])
    n_cols = x.shape[-1]
    fits = n_cols <= MAX_ROW
    if not (runs_triton(x, residual, weight, bias) and fits):
        return add_layer_norm_reference(x, residual, weight, bias, eps)
    x = x.contiguous()
    residual = residual.contiguous()
    weight = weight.contiguous()
    bias = bias.contiguous()
    y = torch.empty_like(x)
    with torch.cuda.device_of(x):
        add_layer_norm_kernel[(x.numel() // n_cols,)](
            x,
            residual,
            weight,
            bias,
            y,
            n_cols,
            eps,
            BLOCK=triton.next_power_of_2(n_cols),
            num_warps=warps(n_cols),
        )
    return y


def add_layer_norm_reference(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> Tensor:
    """The same in PyTorch; the kernel is tested against this."""
    total = x + residual
    return F.layer_norm(total, weight.shape, weight, bias, eps)


if triton is not None:

    @triton.jit
    def add_layer_norm_kernel(
        x_ptr,  # [M, N] in
        residual_ptr,  # [M, N] in
        weight_ptr,  # [N] in
        bias_ptr,  # [N] in
        y_ptr,  # [M, N] out
        n_cols,  # N
        eps,
        BLOCK: tl.constexpr,  # power of two, at least N
    ):
        row = tl.program_id(0).to(tl.int64)  # row * N can exceed 2**31
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        offsets = row * n_cols + cols
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        residual = tl.load(residual_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        total = x + residual  # Add

        # LayerNormalization
        mean = tl.sum(total, axis=0) / n_cols
        centred = tl.where(mask, total - mean, 0.0)
        variance = tl.sum(centred * centred, axis=0) / n_cols
        y = centred * tl.rsqrt(variance + eps) * weight + bias

        tl.store(y_ptr + offsets, y, mask=mask)
