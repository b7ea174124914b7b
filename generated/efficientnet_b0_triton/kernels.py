"""Triton kernels of EfficientnetB0, generated from efficientnet_b0.onnx.

Each kernel computes several operators at once, and stands beside its twin in PyTorch,
*_reference. A function takes the kernel for CUDA tensors, and the twin for all others,
where a gradient is wanted, and on machines without Triton.

Shapes are those of a kernel: axes that all tensors have, or are broadcast along, are
one axis. Regenerating overwrites this file.
"""

from __future__ import annotations

import math
import os
from functools import cache

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


@cache
def is_supported(device: torch.device) -> bool:
    """Triton's compiler is for compute capability 8.0 or later."""
    if device.type != "cuda":
        return INTERPRETED and device.type == "cpu"
    return torch.cuda.get_device_capability(device) >= (8, 0)


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


def expect(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Raise unless a tensor has the shape that a kernel finds its elements by."""
    if tensor.shape != shape:
        raise ValueError(
            f"{name} must have shape {list(shape)}, got {list(tensor.shape)}"
        )


def offset_type(*tensors: Tensor) -> tl.dtype:
    """Of 64 bits, which divide slowly, only where a tensor is that large."""
    return tl.int64 if max(t.numel() for t in tensors) >= 2**31 - 2**16 else tl.int32


def precision() -> str:
    """How float32 is multiplied: as three products of tf32, whose sum is as exact, or
    in tf32 alone where PyTorch was asked for it.
    """
    if torch.version.hip:
        return "ieee"  # few GPUs of AMD have tf32
    matmul = torch.backends.cuda.matmul
    if hasattr(matmul, "fp32_precision"):  # since PyTorch 2.9
        return "tf32" if matmul.fp32_precision == "tf32" else "tf32x3"
    return "tf32" if matmul.allow_tf32 else "tf32x3"


def window_count(
    size: int, window: int, stride: int, padding: int, dilation: int = 1
) -> int:
    """How many windows there are along an axis."""
    return (size + 2 * padding - dilation * (window - 1) - 1) // stride + 1


def pixel_block(n_pixels: int) -> int:
    """Pixels of one program: all of a small image, 512 of a larger one."""
    return min(max(triton.next_power_of_2(n_pixels), 64), 512)


def tiles(
    n_rows: int,
    n_cols: int,
    size: int,
    precision: str,
    n_batches: int = 1,
    n_left: int = 1,
) -> dict[str, int]:
    """The largest tiles of a product that there are 64 of, enough to keep a GPU busy.

    Fewer rows and columns have smaller ones; `size` is that of an element in bytes,
    `n_left` the number of tensors that the left factor is computed from. float32
    without tf32 has no tensor cores: larger tiles don't fit its registers.
    """
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
    exact = size == 4 and precision == "ieee"
    middle = 256 if size == 4 else 128
    for side, depth in ((128, 128), (64, middle), (32, 256), (16, 512))[exact:]:
        rows, cols = (
            min(side, max(triton.next_power_of_2(n), 16)) for n in (n_rows, n_cols)
        )
        part = max(depth // size // max(1 + exact, n_left), 16)
        sizes = (rows, cols, part, 8 if side == 128 else 4, 3)
        if n_batches * triton.cdiv(n_rows, rows) * triton.cdiv(n_cols, cols) >= 64:
            break
    return dict(zip(names, sizes, strict=True))


def tile_count(
    n_rows: int, n_cols: int, BLOCK_M: int, BLOCK_N: int, **others: int
) -> int:
    return triton.cdiv(n_rows, BLOCK_M) * triton.cdiv(n_cols, BLOCK_N)


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
    Traffic   3.21 MB in 1 launch for [batch=1, 32, 112, 112]; op by op 6.42 MB in 2
    """
    expect("weight", weight, (x.shape[1], 1, *weight.shape[2:]))
    expect("bias", bias, (x.shape[1],))
    n_channels = x.shape[-3]
    n_rows = window_count(x.shape[-2], weight.shape[-2], stride[0], padding[0])
    n_cols = window_count(x.shape[-1], weight.shape[-1], stride[1], padding[1])
    shape = (*x.shape[:2], n_rows, n_cols)
    if not runs_triton(x, weight, bias):
        return depthwise_conv_silu_reference(x, weight, bias, stride, padding)
    x = x.contiguous()
    weight = weight.contiguous()
    bias = bias.contiguous()
    y = x.new_empty(shape)
    block = pixel_block(n_rows * n_cols)
    with torch.cuda.device_of(x):
        depthwise_conv_silu_kernel[
            (x.shape[:2].numel() * triton.cdiv(n_rows * n_cols, block),)
        ](
            x,
            weight,
            bias,
            y,
            n_channels,
            n_rows,
            n_cols,
            *x.shape[2:],
            *stride,
            *padding,
            HEIGHT=weight.shape[2],
            WIDTH=weight.shape[3],
            BLOCK=block,
            num_warps=block // 64,
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
        bias_ptr,  # [channels] in
        y_ptr,  # [samples, channels, rows, cols] out
        n_channels,
        n_rows,  # of the result
        n_cols,
        height,  # of an image
        width,
        stride_h,
        stride_w,
        padding_h,
        padding_w,
        HEIGHT: tl.constexpr,  # of a window
        WIDTH: tl.constexpr,
        BLOCK: tl.constexpr,  # pixels of one program
    ):
        # One program for some pixels of one channel.
        tiles = tl.cdiv(n_rows * n_cols, BLOCK)
        plane = tl.program_id(0) // tiles
        channel = plane % n_channels
        pixels = tl.program_id(0) % tiles * BLOCK + tl.arange(0, BLOCK)
        row, col = pixels // n_cols, pixels % n_cols
        mask = pixels < n_rows * n_cols
        offsets = plane.to(tl.int64) * n_rows * n_cols + pixels
        image_ptr = x_ptr + plane.to(tl.int64) * height * width
        window_ptr = weight_ptr + channel * HEIGHT * WIDTH
        sums = tl.zeros([BLOCK], tl.float32)
        for tap in tl.static_range(HEIGHT * WIDTH):
            at_row = row * stride_h + tap // WIDTH - padding_h
            at_col = col * stride_w + tap % WIDTH - padding_w
            inside = mask & (at_row >= 0) & (at_row < height)
            inside &= (at_col >= 0) & (at_col < width)
            pixel = tl.load(image_ptr + at_row * width + at_col, mask=inside, other=0.0)
            factor = tl.load(window_ptr + tap)
            sums += pixel.to(tl.float32) * factor.to(tl.float32)
        bias = tl.load(bias_ptr + channel).to(tl.float32)
        conv = sums + bias  # Conv
        y = conv * tl.sigmoid(conv)  # Swish

        tl.store(y_ptr + offsets, y, mask=mask)


def pointwise_conv_silu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """conv = F.conv2d(x, weight, bias)
    y = conv * sigmoid(conv)

    Replaces  Conv, Swish, at 15 places, first node_Conv_787
    Traffic   5.63 MB in 1 launch for [batch=1, 96, 112, 112]; op by op 15.3 MB in 2
    """
    expect("weight", weight, (weight.shape[0], x.shape[1], 1, 1))
    expect("bias", bias, (weight.shape[0],))
    n_batches, n_rows, depth = x.shape[0], weight.shape[0], x.shape[1]
    n_cols = math.prod(x.shape[2:])
    if not (
        runs_triton(x, weight, bias) and n_batches < 2**16 and weight.dtype == x.dtype
    ):
        return pointwise_conv_silu_reference(x, weight, bias)
    x = x.contiguous()
    weight = weight.contiguous()
    bias = bias.contiguous()
    y = x.new_empty((n_batches, n_rows, *x.shape[2:]))
    tile = tiles(n_rows, n_cols, x.element_size(), precision(), n_batches)
    with torch.cuda.device_of(x):
        pointwise_conv_silu_kernel[(tile_count(n_rows, n_cols, **tile), n_batches)](
            x, weight, bias, y, n_rows, n_cols, depth, PRECISION=precision(), **tile
        )
    return y


def pointwise_conv_silu_reference(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The same in PyTorch; the kernel is tested against this."""
    return F.silu(F.conv2d(x, weight, bias))


if triton is not None:

    @triton.jit
    def pointwise_conv_silu_kernel(
        x_ptr,  # [B, K, N] in
        weight_ptr,  # [M, K] in
        bias_ptr,  # [M] in
        y_ptr,  # [B, M, N] out
        n_rows,  # M
        n_cols,  # N
        depth,  # K
        PRECISION: tl.constexpr,  # "tf32x3", "tf32" or "ieee", for float32
        BLOCK_M: tl.constexpr,  # a tile of the result
        BLOCK_N: tl.constexpr,
        BLOCK_K: tl.constexpr,  # of the depth at a time
    ):
        # Eight rows of tiles at a time, which read the same columns from the cache.
        tiles_m, tiles_n = tl.cdiv(n_rows, BLOCK_M), tl.cdiv(n_cols, BLOCK_N)
        tile = tl.program_id(0)
        tile_m, tile_n = tl.swizzle2d(
            tile // tiles_n, tile % tiles_n, tiles_m, tiles_n, 8
        )
        rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
        cols = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
        batch = tl.program_id(1).to(tl.int64)
        sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for start in range(0, depth, BLOCK_K):
            across = (start + tl.arange(0, BLOCK_K))[None, :]
            down = (start + tl.arange(0, BLOCK_K))[:, None]
            x = tl.load(
                x_ptr + (batch * depth + down) * n_cols + cols,
                mask=(down < depth) & (cols < n_cols),
                other=0.0,
            )
            weight = tl.load(
                weight_ptr + rows * depth + across,
                mask=(rows < n_rows) & (across < depth),
                other=0.0,
            )
            sums = tl.dot(weight, x, sums, input_precision=PRECISION)

        offsets = (batch * n_rows + rows) * n_cols + cols
        mask = (rows < n_rows) & (cols < n_cols)
        bias = tl.load(bias_ptr + rows, mask=rows < n_rows).to(tl.float32)
        conv = sums + bias  # Conv
        y = conv * tl.sigmoid(conv)  # Swish

        tl.store(y_ptr + offsets, y, mask=mask)


def sigmoid_mul(gate: Tensor, x: Tensor) -> Tensor:
    """y = sigmoid(gate) * x

    Replaces  Sigmoid, Mul, at 16 places, first node_sigmoid
    Traffic   3.21 MB in 1 launch for [batch=1, 32, 112, 112]; op by op 3.21 MB in 2
    """
    expect("gate", gate, (x.shape[-4], x.shape[-3], 1, 1))
    n_cols = math.prod(x.shape[-2:])
    if not runs_triton(gate, x):
        return sigmoid_mul_reference(gate, x)
    gate = gate.contiguous()
    x = x.contiguous()
    y = torch.empty_like(x)
    with torch.cuda.device_of(gate):
        sigmoid_mul_kernel[(triton.cdiv(y.numel(), ELEMENTS),)](
            gate,
            x,
            y,
            y.numel(),
            n_cols,
            OFFSETS=offset_type(gate, x, y),
            BLOCK=ELEMENTS,
        )
    return y


def sigmoid_mul_reference(gate: Tensor, x: Tensor) -> Tensor:
    """The same in PyTorch; the kernel is tested against this."""
    return torch.sigmoid(gate) * x


if triton is not None:

    @triton.jit
    def sigmoid_mul_kernel(
        gate_ptr,  # [M] in
        x_ptr,  # [M, N] in
        y_ptr,  # [M, N] out
        n_elements,  # M * N
        n_cols,  # N
        OFFSETS: tl.constexpr,  # tl.int32 where no tensor is large
        BLOCK: tl.constexpr,  # elements of one program
    ):
        offsets = tl.program_id(0).to(OFFSETS) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n_elements
        row = offsets // n_cols
        gate = tl.load(gate_ptr + row, mask=mask).to(tl.float32)
        x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
        sigmoid = tl.sigmoid(gate)  # Sigmoid
        y = sigmoid * x  # Mul

        tl.store(y_ptr + offsets, y, mask=mask)
