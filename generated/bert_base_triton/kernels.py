"""Triton kernels of BertBase, generated from bert_base.onnx.

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
MAX_ROW = 16384  # elements of a row that one program keeps on chip


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


def warps(n_cols: int) -> int:
    """One for each 256 elements of a row, up to 16."""
    return min(max(triton.next_power_of_2(n_cols) // 256, 1), 16)


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


def linear_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """product = x @ weight.T + bias
    y = 0.5 * product * (1 + erf(product * 0.7071067811865476))

    Replaces  MatMul, Add, Gelu, at 12 places, first node_MatMul_95
    Traffic   11.4 MB in 1 launch for [batch=1, seq=128, 3072]; op by op 14.6 MB in
              2
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


def add_layer_norm(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> Tensor:
    """total = x + residual
    y = (total - mean(total)) / sqrt(var(total) + eps) * weight + bias

    Replaces  Add, LayerNormalization, at 24 places, first node_add_199
    Traffic   1.19 MB in 1 launch for [batch=1, seq=128, 768]; op by op 1.97 MB in 2
    """
    expect("residual", residual, x.shape)
    expect("weight", weight, x.shape[-1:])
    expect("bias", bias, x.shape[-1:])
    n_cols = x.shape[-1]
    if not (runs_triton(x, residual, weight, bias) and n_cols <= MAX_ROW):
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
    return F.layer_norm(x + residual, weight.shape, weight, bias, eps)


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
