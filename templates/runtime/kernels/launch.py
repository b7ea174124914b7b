"""Python around kernels: what its functions read of this, kernels.py has."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# Triton's interpreter runs kernels on CPU tensors, which is how they are tested.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
MAX_ROW = 16384  # elements of a row that one program keeps on chip
MAX_DEPTH = 2048  # elements of a column that one program keeps on chip
PART = 4096  # elements of a longer row that one program works on at a time
GPU = "NVIDIA H200"
# Launches that were the fastest there, at the sizes in the kernels' docstrings.
TUNED: dict[str, dict[str, int]] = {}
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


@cache
def launched_here() -> bool:
    """Whether this is the kind of GPU that the kernels were tuned on."""
    return torch.cuda.is_available() and torch.cuda.get_device_name() == GPU


def tuned(kernel: str, **plain: Any) -> dict[str, Any]:
    """How a kernel is launched best; by what the heuristic says where not measured."""
    return {**plain, **TUNED.get(kernel, {})} if launched_here() else plain


def warps(n_cols: int) -> int:
    """One for each 256 elements of a row, up to 16."""
    return min(max(triton.next_power_of_2(n_cols) // 256, 1), 16)


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


def query_tile(n_rows: int, size: int) -> int:
    """Queries of one program, few where there are few; `size` is an element's bytes."""
    return 16 if n_rows <= 16 else 128 // size


def window_count(
    size: int, window: int, stride: int, padding: int, dilation: int = 1
) -> int:
    """How many windows there are along an axis."""
    return (size + 2 * padding - dilation * (window - 1) - 1) // stride + 1


def pixel_block(n_pixels: int) -> int:
    """Pixels of one program: all of a small image, 512 of a larger one."""
    return min(max(triton.next_power_of_2(n_pixels), 64), 512)


def key_parts(n_heads: int, n_keys: int) -> tuple[int, int]:
    """Into how many parts of how many keys: 256 or more, enough to fill a GPU."""
    wanted = min(triton.cdiv(n_keys, 256), triton.cdiv(256, n_heads))
    each = triton.cdiv(triton.cdiv(n_keys, wanted), 64) * 64
    return triton.cdiv(n_keys, each), each


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
