"""Triton kernels of ConvnextTiny, generated from convnext_tiny.onnx.

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
MAX_DEPTH = 2048  # elements of a column that one program keeps on chip
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


def column_tile(depth: int, count: int) -> int:
    """Columns of one program: as many as fit on chip, up to 64; few of few elements."""
    shared = triton.next_power_of_2(count // depth // 128)
    return min(16384 // triton.next_power_of_2(depth), 64, max(shared, 8))


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


def transpose_layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """y = ((x.permute(0, 2, 3, 1)) - mean((x.permute(0, 2, 3, 1)))) /
        sqrt(var((x.permute(0, 2, 3, 1))) + eps) * weight + bias

    Replaces  Transpose, LayerNormalization, at 22 places, first node_permute
    Traffic   2.41 MB in 1 launch for [batch=1, 96, 56, 56]; op by op 4.82 MB in 2
    """
    expect("weight", weight, (x.shape[1],))
    expect("bias", bias, (x.shape[1],))
    depth = x.shape[1]
    n_cols = math.prod(x.shape[2:])
    if not (runs_triton(x, weight, bias) and depth <= MAX_DEPTH):
        return transpose_layer_norm_reference(x, weight, bias, eps)
    weight = weight.contiguous()
    bias = bias.contiguous()
    columns = x.reshape(-1, depth, n_cols)
    y = x.new_empty((x.shape[0], x.shape[2], x.shape[3], x.shape[1]))
    block = column_tile(depth, x.numel())
    with torch.cuda.device_of(x):
        transpose_layer_norm_kernel[
            (x.numel() // (depth * n_cols) * triton.cdiv(n_cols, block),)
        ](
            columns,
            weight,
            bias,
            y,
            *columns.stride(),
            depth,
            n_cols,
            eps,
            DEPTH=triton.next_power_of_2(depth),
            BLOCK=block,
            num_warps=8,
        )
    return y


def transpose_layer_norm_reference(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> Tensor:
    """The same in PyTorch; the kernel is tested against this."""
    return F.layer_norm(x.permute(0, 2, 3, 1), weight.shape, weight, bias, eps)


if triton is not None:

    @triton.jit
    def transpose_layer_norm_kernel(
        x_ptr,  # [M, K, N] in
        weight_ptr,  # [K] in
        bias_ptr,  # [K] in
        y_ptr,  # [M, N, K] out
        x_outer,  # strides
        x_depth,
        x_col,
        depth,  # K, which is reduced
        n_cols,  # N
        eps,
        DEPTH: tl.constexpr,  # power of two, at least K
        BLOCK: tl.constexpr,  # columns of one program
    ):
        # All of BLOCK columns, which lie beside each other.
        tiles = tl.cdiv(n_cols, BLOCK)
        outer = (tl.program_id(0) // tiles).to(tl.int64)
        start = tl.program_id(0) % tiles * BLOCK
        cols = (start + tl.arange(0, BLOCK).to(tl.int64))[None, :]
        k = tl.arange(0, DEPTH).to(tl.int64)[:, None]
        mask = (k < depth) & (cols < n_cols)
        x = tl.load(
            x_ptr + outer * x_outer + k * x_depth + cols * x_col, mask=mask, other=0.0
        ).to(tl.float32)
        weight = tl.load(weight_ptr + k, mask=k < depth, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + k, mask=k < depth, other=0.0).to(tl.float32)

        # LayerNormalization
        mean = tl.sum(x, axis=0, keep_dims=True) / depth
        centred = tl.where(mask, x - mean, 0.0)
        variance = tl.sum(centred * centred, axis=0, keep_dims=True) / depth
        y = centred * tl.rsqrt(variance + eps) * weight + bias

        tl.store(y_ptr + (outer * n_cols + cols) * depth + k, y, mask=mask)


def linear_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """product = x @ weight.T + bias
    y = 0.5 * product * (1 + erf(product * 0.7071067811865476))

    Replaces  MatMul, Add, Gelu, at 18 places, first node_MatMul_2
    Traffic   6.17 MB in 1 launch for [batch=1, 56, 56, 384]; op by op 15.8 MB in 2
    """
    expect("weight", weight, (weight.shape[0], x.shape[-1]))
    expect("bias", bias, (weight.shape[0],))
    n_rows, depth = math.prod(x.shape[:-1]), x.shape[-1]
    n_cols = weight.shape[0]
    if not (runs_triton(x, weight, bias) and weight.dtype == x.dtype):
        return linear_gelu_reference(x, weight, bias)
    x = x.contiguous()
    weight = weight.contiguous()
    bias = bias.contiguous()
    y = x.new_empty((*x.shape[:-1], n_cols))
    tile = tiles(n_rows, n_cols, x.element_size(), precision())
    with torch.cuda.device_of(x):
        linear_gelu_kernel[(tile_count(n_rows, n_cols, **tile),)](
            x, weight, bias, y, n_rows, n_cols, depth, PRECISION=precision(), **tile
        )
    return y


def linear_gelu_reference(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The same in PyTorch; the kernel is tested against this."""
    return F.gelu(F.linear(x, weight, bias))


if triton is not None:

    @triton.jit
    def linear_gelu_kernel(
        x_ptr,  # [M, K] in
        weight_ptr,  # [N, K] in
        bias_ptr,  # [N] in
        y_ptr,  # [M, N] out
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
        rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M))[:, None].to(tl.int64)
        cols = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
        sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for start in range(0, depth, BLOCK_K):
            across = (start + tl.arange(0, BLOCK_K))[None, :]
            down = (start + tl.arange(0, BLOCK_K))[:, None]
            x = tl.load(
                x_ptr + rows * depth + across,
                mask=(rows < n_rows) & (across < depth),
                other=0.0,
            )
            weight = tl.load(
                weight_ptr + cols * depth + down,
                mask=(cols < n_cols) & (down < depth),
                other=0.0,
            )
            sums = tl.dot(x, weight, sums, input_precision=PRECISION)

        offsets = rows * n_cols + cols
        mask = (rows < n_rows) & (cols < n_cols)
        bias = tl.load(bias_ptr + cols, mask=cols < n_cols).to(tl.float32)
        product = sums + bias  # MatMul, Add
        y = 0.5 * product * (1 + tl.erf(product * 0.7071067811865476))  # Gelu

        tl.store(y_ptr + offsets, y, mask=mask)


def mul_transpose_add(scale: Tensor, x: Tensor, residual: Tensor) -> Tensor:
    """turned = (scale * x).permute(0, 3, 1, 2)
    y = turned + residual

    Replaces  Mul, Transpose, Add, at 18 places, first node_mul_22
    Traffic   3.61 MB in 1 launch for [batch=1, 96, 56, 56]; op by op 6.02 MB in 2
    """
    expect("scale", scale, (1, 1, 1, residual.shape[-3]))
    expect(
        "x",
        x,
        (
            residual.shape[-4],
            residual.shape[-2],
            residual.shape[-1],
            residual.shape[-3],
        ),
    )
    n_j = residual.shape[-3]
    n_k = residual.shape[-2]
    n_p = residual.shape[-1]
    if not runs_triton(scale, x, residual):
        return mul_transpose_add_reference(scale, x, residual)
    scale = scale.contiguous()
    x = x.contiguous()
    residual = residual.contiguous()
    y = torch.empty_like(residual)
    with torch.cuda.device_of(scale):
        mul_transpose_add_kernel[(triton.cdiv(y.numel(), ELEMENTS),)](
            scale,
            x,
            residual,
            y,
            y.numel(),
            n_j,
            n_k,
            n_p,
            OFFSETS=offset_type(scale, x, residual, y),
            BLOCK=ELEMENTS,
        )
    return y


def mul_transpose_add_reference(scale: Tensor, x: Tensor, residual: Tensor) -> Tensor:
    """The same in PyTorch; the kernel is tested against this."""
    turned = (scale * x).permute(0, 3, 1, 2)
    return turned + residual


if triton is not None:

    @triton.jit
    def mul_transpose_add_kernel(
        scale_ptr,  # [J] in
        x_ptr,  # [I, K, P, J] in
        residual_ptr,  # [I, J, K, P] in
        y_ptr,  # [I, J, K, P] out
        n_elements,  # I * J * K * P
        n_j,  # J
        n_k,  # K
        n_p,  # P
        OFFSETS: tl.constexpr,  # tl.int32 where no tensor is large
        BLOCK: tl.constexpr,  # elements of one program
    ):
        offsets = tl.program_id(0).to(OFFSETS) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n_elements
        i = offsets // (n_j * n_k * n_p)
        j = offsets // (n_k * n_p) % n_j
        k = offsets // n_p % n_k
        p = offsets % n_p
        scale = tl.load(scale_ptr + j, mask=mask).to(tl.float32)
        x = tl.load(x_ptr + ((i * n_k + k) * n_p + p) * n_j + j, mask=mask).to(
            tl.float32
        )
        product = scale * x  # Mul
        residual = tl.load(residual_ptr + offsets, mask=mask).to(tl.float32)
        y = product + residual  # Add

        tl.store(y_ptr + offsets, y, mask=mask)
