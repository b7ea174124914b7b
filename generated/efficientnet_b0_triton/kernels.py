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
import torch.nn.functional as F
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


def window_count(
    size: int, window: int, stride: int, padding: int, dilation: int = 1
) -> int:
    """How many windows there are along an axis."""
    return (size + 2 * padding - dilation * (window - 1) - 1) // stride + 1


def depthwise_conv_silu(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    stride: tuple[int, int],
    padding: tuple[int, int],
) -> Tensor:
    """conv = F.conv2d(x, weight, bias, stride=stride, padding=padding,
        groups=x.shape[1])
    y = conv * sigmoid(conv)

    Replaces  Conv, Swish, at 16 places, first node_Conv_781
    Traffic   3.21 MB for [batch, 32, 112, 112]; 6.42 MB operator by operator
    """
    expect("weight", weight, (x.shape[1], 1, *weight.shape[2:]))
    expect("bias", bias, (x.shape[1],))
    n_j = x.shape[-3]
    n_k = window_count(x.shape[-2], weight.shape[-2], stride[0], padding[0])
    n_p = window_count(x.shape[-1], weight.shape[-1], stride[1], padding[1])
    shape = torch.Size((*x.shape[:2], n_k, n_p))
    if not runs_triton(x, weight, bias):
        return depthwise_conv_silu_reference(x, weight, bias, stride, padding)
    x = x.contiguous()
    weight = weight.contiguous()
    bias = bias.contiguous()
    y = x.new_empty(shape)
    with torch.cuda.device_of(x):
        depthwise_conv_silu_kernel[(triton.cdiv(y.numel(), ELEMENTS),)](
            x,
            weight,
            bias,
            y,
            y.numel(),
            n_j,
            n_k,
            n_p,
            *x.shape[2:],
            *stride,
            *padding,
            HEIGHT=weight.shape[2],
            WIDTH=weight.shape[3],
            BLOCK=ELEMENTS,
        )
    return y


def depthwise_conv_silu_reference(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    stride: tuple[int, int],
    padding: tuple[int, int],
) -> Tensor:
    """The same in PyTorch; the kernel is tested against this."""
    conv = F.conv2d(x, weight, bias, stride=stride, padding=padding, groups=x.shape[1])
    return F.silu(conv)


if triton is not None:

    @triton.jit
    def depthwise_conv_silu_kernel(
        x_ptr,  # [samples, channels, height, width] in
        weight_ptr,  # [channels, HEIGHT * WIDTH] in
        bias_ptr,  # [J] in
        y_ptr,  # [I, J, K, P] out
        n_elements,  # I * J * K * P
        n_j,  # J
        n_k,  # K
        n_p,  # P
        height,  # of an image
        width,
        stride_h,
        stride_w,
        padding_h,
        padding_w,
        HEIGHT: tl.constexpr,  # of a window
        WIDTH: tl.constexpr,
        BLOCK: tl.constexpr,  # elements of one program
    ):
        offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n_elements
        i = offsets // (n_j * n_k * n_p)
        j = offsets // (n_k * n_p) % n_j
        k = offsets // n_p % n_k
        p = offsets % n_p
        sums = tl.zeros([BLOCK], tl.float32)
        for tap in range(HEIGHT * WIDTH):
            at_row = k * stride_h + tap // WIDTH - padding_h
            at_col = p * stride_w + tap % WIDTH - padding_w
            inside = mask & (at_row >= 0) & (at_row < height)
            inside &= (at_col >= 0) & (at_col < width)
            pixel = tl.load(
                x_ptr + ((i * n_j + j) * height + at_row) * width + at_col,
                mask=inside,
                other=0.0,
            )
            factor = tl.load(weight_ptr + j * HEIGHT * WIDTH + tap, mask=mask)
            sums += pixel.to(tl.float32) * factor.to(tl.float32)
        bias = tl.load(bias_ptr + j, mask=mask).to(tl.float32)
        conv = sums + bias  # Conv
        y = conv * tl.sigmoid(conv)  # Swish

        tl.store(y_ptr + offsets, y, mask=mask)


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
