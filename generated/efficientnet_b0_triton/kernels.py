"""Triton kernels of EfficientnetB0, generated from efficientnet_b0.onnx.

Each kernel computes several operators at once, and stands beside its twin in PyTorch,
*_reference. A function takes the kernel for CUDA tensors, and the twin for all others,
where a gradient is wanted, and on machines without Triton.

Shapes are those of a kernel: axes that all tensors have, or are broadcast along, are
one axis. Regenerating overwrites this file.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # every function below then calls its *_reference
    triton = None

# Triton's interpreter runs kernels on CPU tensors, which is how they are tested.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
ELEMENTS = 1024  # that one program computes, where each stands for itself


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


def sigmoid_mul(x: Tensor, u: Tensor) -> Tensor:
    """y = sigmoid(x) * u

    Replaces  Sigmoid, Mul, at 16 places, first node_sigmoid
    Traffic   3.21 MB for [batch, 32, 112, 112]; 3.21 MB operator by operator
    """
    expect("x", x, (u.shape[-4], u.shape[-3], 1, 1))
    n_cols = u.shape[-2:].numel()
    if not runs_triton(x, u):
        return sigmoid_mul_reference(x, u)
    x = x.contiguous()
    u = u.contiguous()
    y = torch.empty_like(u, dtype=x.dtype)
    with torch.cuda.device_of(x):
        sigmoid_mul_kernel[(triton.cdiv(y.numel(), ELEMENTS),)](
            x, u, y, y.numel(), n_cols, BLOCK=ELEMENTS
        )
    return y


def sigmoid_mul_reference(x: Tensor, u: Tensor) -> Tensor:
    """The same in PyTorch; the kernel is tested against this."""
    sigmoid = torch.sigmoid(x)
    return sigmoid * u


if triton is not None:

    @triton.jit
    def sigmoid_mul_kernel(
        x_ptr,  # [M] in
        u_ptr,  # [M, N] in
        y_ptr,  # [M, N] out
        n_elements,  # M * N
        n_cols,  # N
        BLOCK: tl.constexpr,  # elements of one program
    ):
        offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n_elements
        row = offsets // n_cols
        x = tl.load(x_ptr + row, mask=mask).to(tl.float32)
        u = tl.load(u_ptr + offsets, mask=mask).to(tl.float32)
        sigmoid = tl.sigmoid(x)  # Sigmoid
        y = sigmoid * u  # Mul

        tl.store(y_ptr + offsets, y, mask=mask)
