"""Triton kernels of Llama, generated from llama.onnx.

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


def warps(n_cols: int) -> int:
    """One for each 256 elements of a row, up to 16."""
    return min(max(triton.next_power_of_2(n_cols) // 256, 1), 16)


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


def query_tile(n_rows: int, size: int) -> int:
    """Queries of one program, few where there are few; `size` is an element's bytes."""
    return 16 if n_rows <= 16 else 128 // size


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


def rotary_angles(positions: Tensor, inv_freq: Tensor) -> tuple[Tensor, Tensor]:
    """product = positions * inv_freq
    joined = torch.cat([product, product], dim=-1)
    cos = cos(joined)
    sin = sin(joined)

    Replaces  Mul, Concat, Cos, Sin, at node_mul_85
    Traffic   66.7 kB in 1 launch for [1, seq=128, 64]; op by op 214 kB in 4
    """
    expect("positions", positions, (1, positions.shape[-2], 1))
    expect("inv_freq", inv_freq, (32,))
    shape = torch.Size((1, positions.shape[-2], 64))
    if not runs_triton(positions, inv_freq):
        return rotary_angles_reference(positions, inv_freq)
    positions = positions.contiguous()
    inv_freq = inv_freq.contiguous()
    cos = positions.new_empty(shape, dtype=inv_freq.dtype)
    sin = positions.new_empty(shape, dtype=inv_freq.dtype)
    with torch.cuda.device_of(positions):
        rotary_angles_kernel[(triton.cdiv(cos.numel(), ELEMENTS),)](
            positions,
            inv_freq,
            cos,
            sin,
            cos.numel(),
            OFFSETS=offset_type(positions, inv_freq, cos),
            BLOCK=ELEMENTS,
        )
    return cos, sin


def rotary_angles_reference(
    positions: Tensor, inv_freq: Tensor
) -> tuple[Tensor, Tensor]:
    """The same in PyTorch; the kernel is tested against this."""
    product = positions.to(inv_freq.dtype) * inv_freq
    joined = torch.cat([product, product], dim=-1)
    cos = joined.cos()
    sin = joined.sin()
    return cos, sin


if triton is not None:

    @triton.jit
    def rotary_angles_kernel(
        positions_ptr,  # [M] in
        inv_freq_ptr,  # [32] in
        cos_ptr,  # [M, N] out
        sin_ptr,  # [M, N] out
        n_elements,  # M * N
        OFFSETS: tl.constexpr,  # tl.int32 where no tensor is large
        BLOCK: tl.constexpr,  # elements of one program
    ):
        offsets = tl.program_id(0).to(OFFSETS) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n_elements
        row = offsets // 64
        col = offsets % 64
        positions = tl.load(positions_ptr + row, mask=mask)
        inv_freq = tl.load(inv_freq_ptr + col % 32, mask=mask).to(tl.float32)
        product = positions * inv_freq  # Mul
        cos = tl.cos(product)  # Cos
        sin = tl.sin(product)  # Sin

        tl.store(cos_ptr + offsets, cos, mask=mask)
        tl.store(sin_ptr + offsets, sin, mask=mask)


def add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """total = x + residual
    y = total / sqrt(mean(total * total) + eps) * weight

    Replaces  Add, RMSNormalization, at 6 places, first node_add_372
    Traffic   1.58 MB in 1 launch for [batch=1, seq=128, 768]; op by op 1.97 MB in 2
    """
    expect("residual", residual, x.shape)
    expect("weight", weight, x.shape[-1:])
    n_cols = x.shape[-1]
    if not (runs_triton(x, residual, weight) and n_cols <= MAX_ROW):
        return add_rms_norm_reference(x, residual, weight, eps)
    x = x.contiguous()
    residual = residual.contiguous()
    weight = weight.contiguous()
    total = torch.empty_like(x)
    y = torch.empty_like(x)
    with torch.cuda.device_of(x):
        add_rms_norm_kernel[(x.numel() // n_cols,)](
            x,
            residual,
            weight,
            total,
            y,
            n_cols,
            eps,
            BLOCK=triton.next_power_of_2(n_cols),
            num_warps=warps(n_cols),
        )
    return total, y


def add_rms_norm_reference(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """The same in PyTorch; the kernel is tested against this."""
    total = x + residual
    y = F.rms_norm(total, weight.shape, weight, eps)
    return total, y


if triton is not None:

    @triton.jit
    def add_rms_norm_kernel(
        x_ptr,  # [M, N] in
        residual_ptr,  # [M, N] in
        weight_ptr,  # [N] in
        total_ptr,  # [M, N] out
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

        # Add, rounded as it is stored
        total = (x + residual).to(total_ptr.dtype.element_ty).to(tl.float32)

        # RMSNormalization
        mean_square = tl.sum(total * total, axis=0) / n_cols
        y = total * tl.rsqrt(mean_square + eps) * weight

        tl.store(total_ptr + offsets, total, mask=mask)
        tl.store(y_ptr + offsets, y, mask=mask)


def rotary_causal_attention(
    q: Tensor, cos: Tensor, sin: Tensor, k: Tensor, v: Tensor
) -> Tensor:
    """turned = q.transpose(1, 2)
    front, back = turned.chunk(2, dim=-1)
    joined = torch.cat([-back, front], dim=-1)
    q = turned * cos + joined * sin
    turned2 = k.transpose(1, 2)
    front2, back2 = turned2.chunk(2, dim=-1)
    joined2 = torch.cat([-back2, front2], dim=-1)
    k = turned2 * cos + joined2 * sin
    y = softmax(q @ k.T / sqrt(D)) @ v
        of keys up to the query's own place, H / G heads share keys and values

    Replaces  Transpose, Mul, Split, Neg, Concat, Mul, Add, Transpose, Mul, Split,
              Neg, Concat, Mul, Add, Attention, at 6 places, first node_transpose
    Traffic   1.11 MB in 1 launch for [batch=1, 12, seq=128, 64]; op by op 14.3 MB
              in 16
    """
    expect("q", q, (q.shape[-4], q.shape[-3], 3 * v.shape[1], 64))
    expect("cos", cos, (1, 1, q.shape[-3], 64))
    expect("sin", sin, (1, 1, q.shape[-3], 64))
    expect("k", k, (q.shape[-4], cos.shape[-2], v.shape[1], 64))
    expect("v", v, (q.shape[-4], v.shape[1], cos.shape[-2], v.shape[3]))
    n_batches, n_heads, n_rows, depth = q.shape[-4], q.shape[-2], q.shape[-3], 64
    n_shared, n_keys, v_depth = v.shape[1:]
    scale = depth**-0.5
    if not (runs_triton(q, cos, sin, k, v) and max(depth, v_depth) <= 128):
        return rotary_causal_attention_reference(q, cos, sin, k, v)
    v = v if v.stride(-1) == 1 else v.contiguous()
    q = q.contiguous()
    cos = cos.contiguous()
    sin = sin.contiguous()
    k = k.contiguous()
    y = v.new_empty(n_batches, n_rows, n_heads, v_depth).transpose(1, 2)
    with torch.cuda.device_of(q):
        rotary_causal_attention_kernel[
            (
                n_batches
                * n_heads
                * triton.cdiv(n_rows, query_tile(n_rows, v.element_size())),
            )
        ](
            q,
            cos,
            sin,
            k,
            v,
            y,
            *v.stride()[:3],
            *y.stride()[:3],
            n_heads,
            n_heads // n_shared,
            n_rows,
            n_keys,
            depth,
            v_depth,
            scale,
            PRECISION=precision(),
            BLOCK_M=query_tile(n_rows, v.element_size()),
            BLOCK_N=128 // v.element_size(),
            BLOCK_D=max(triton.next_power_of_2(depth), 16),
            BLOCK_E=max(triton.next_power_of_2(v_depth), 16),
            num_warps=4 if max(depth, v_depth) <= 64 else 8,
            num_stages=1,
        )
    return y


def rotary_causal_attention_reference(
    q: Tensor, cos: Tensor, sin: Tensor, k: Tensor, v: Tensor
) -> Tensor:
    """The same in PyTorch; the kernel is tested against this."""
    turned = q.transpose(1, 2)
    front, back = turned.chunk(2, dim=-1)
    joined = torch.cat([-back, front], dim=-1)
    turned2 = k.transpose(1, 2)
    front2, back2 = turned2.chunk(2, dim=-1)
    joined2 = torch.cat([-back2, front2], dim=-1)
    return F.scaled_dot_product_attention(
        turned * cos + joined * sin,
        turned2 * cos + joined2 * sin,
        v,
        is_causal=True,
        enable_gqa=True,
    )


if triton is not None:

    @triton.jit
    def rotary_causal_attention_kernel(
        q_ptr,  # [B, M, H, D] in
        cos_ptr,  # [N, D] in
        sin_ptr,  # [N, D] in
        k_ptr,  # [B, N, G, D] in
        v_ptr,  # [B, G, N, E] in
        y_ptr,  # [B, H, M, E] out
        v_batch,  # strides
        v_head,
        v_row,
        y_batch,  # strides
        y_head,
        y_row,
        n_heads,  # H
        group,  # H / G, the heads that share keys and values
        n_rows,  # M
        n_keys,  # N
        depth,  # D
        v_depth,  # E
        scale,
        PRECISION: tl.constexpr,  # "tf32x3", "tf32" or "ieee", for float32
        BLOCK_M: tl.constexpr,
        BLOCK_N: tl.constexpr,
        BLOCK_D: tl.constexpr,  # power of two, at least D
        BLOCK_E: tl.constexpr,  # power of two, at least E
    ):
        # One program for a tile of queries of one head.
        tiles = tl.cdiv(n_rows, BLOCK_M)
        program = tl.program_id(0).to(tl.int64)  # offsets can exceed 2**31
        pair, tile = program // tiles, program % tiles
        batch, head = pair // n_heads, pair % n_heads
        rows = (tile * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
        width = tl.arange(0, BLOCK_D)
        columns = tl.arange(0, BLOCK_E)[None, :]
        shared = head // group
        inside_q = (rows < n_rows) & (width[None, :] < depth)
        q = tl.load(
            q_ptr + ((batch * n_rows + rows) * n_heads + head) * 64 + width[None, :],
            mask=inside_q,
        ).to(tl.float32)
        cos = tl.load(cos_ptr + rows * 64 + width[None, :], mask=inside_q).to(
            tl.float32
        )
        product = q * cos  # Mul
        q_after = tl.load(
            q_ptr
            + ((batch * n_rows + rows) * n_heads + head) * 64
            + width[None, :]
            + 32,
            mask=inside_q & (width[None, :] < 32),
        ).to(tl.float32)
        neg = -q_after  # Neg
        q_before = tl.load(
            q_ptr
            + ((batch * n_rows + rows) * n_heads + head) * 64
            + width[None, :]
            - 32,
            mask=inside_q & (width[None, :] >= 32),
        ).to(tl.float32)
        joined = tl.where(width[None, :] < 32, neg, q_before)  # Concat
        sin = tl.load(sin_ptr + rows * 64 + width[None, :], mask=inside_q).to(
            tl.float32
        )
        product2 = joined * sin  # Mul
        q = product + product2  # Add
        q = tl.where(inside_q, q, 0.0).to(v_ptr.dtype.element_ty)
        n_shared = n_heads // group
        v_ptr += batch * v_batch + shared * v_head
        largest = tl.full([BLOCK_M, 1], float("-inf"), tl.float32)
        total = tl.zeros([BLOCK_M, 1], tl.float32)
        y = tl.zeros([BLOCK_M, BLOCK_E], tl.float32)
        last = tl.minimum(n_keys, (tile + 1) * BLOCK_M)
        for start in range(0, last, BLOCK_N):
            keys = start + tl.arange(0, BLOCK_N).to(tl.int64)
            inside_k = (keys[None, :] < n_keys) & (width[:, None] < depth)
            k = tl.load(
                k_ptr
                + ((batch * n_keys + keys[None, :]) * n_shared + shared) * 64
                + width[:, None],
                mask=inside_k,
            ).to(tl.float32)
            k_cos = tl.load(
                cos_ptr + keys[None, :] * 64 + width[:, None], mask=inside_k
            ).to(tl.float32)
            k_product = k * k_cos  # Mul
            k_after = tl.load(
                k_ptr
                + ((batch * n_keys + keys[None, :]) * n_shared + shared) * 64
                + width[:, None]
                + 32,
                mask=inside_k & (width[:, None] < 32),
            ).to(tl.float32)
            k_neg = -k_after  # Neg
            k_before = tl.load(
                k_ptr
                + ((batch * n_keys + keys[None, :]) * n_shared + shared) * 64
                + width[:, None]
                - 32,
                mask=inside_k & (width[:, None] >= 32),
            ).to(tl.float32)
            k_joined = tl.where(width[:, None] < 32, k_neg, k_before)  # Concat
            k_sin = tl.load(
                sin_ptr + keys[None, :] * 64 + width[:, None], mask=inside_k
            ).to(tl.float32)
            k_product2 = k_joined * k_sin  # Mul
            k = k_product + k_product2  # Add
            k = tl.where(inside_k, k, 0.0).to(v_ptr.dtype.element_ty)
            scores = tl.dot(q, k, input_precision=PRECISION) * scale
            inside = (rows < n_rows) & (keys[None, :] < n_keys)
            scores = tl.where(inside & (keys[None, :] <= rows), scores, float("-inf"))

            # Softmax: what was summed so far shrinks to the scale of the largest score.
            larger = tl.maximum(largest, tl.max(scores, axis=1, keep_dims=True))
            base = tl.where(larger == float("-inf"), 0.0, larger)  # no key counts yet
            powers = tl.exp(scores - base)
            shrink = tl.exp(largest - base)
            total = total * shrink + tl.sum(powers, axis=1, keep_dims=True)
            largest = larger
            v = tl.load(
                v_ptr + keys[:, None] * v_row + columns,
                mask=(keys[:, None] < n_keys) & (columns < v_depth),
                other=0.0,
            )
            powers = powers.to(v_ptr.dtype.element_ty)
            y = tl.dot(powers, v, y * shrink, input_precision=PRECISION)

        # A query that no key counts for gives 0.
        y = y / tl.where(total > 0, total, 1.0)
        tl.store(
            y_ptr + batch * y_batch + head * y_head + rows * y_row + columns,
            y,
            mask=(rows < n_rows) & (columns < v_depth),
        )


def linear_silu_mul(x: Tensor, weight: Tensor, factor: Tensor) -> Tensor:
    """product = x @ weight.T
    y = product * sigmoid(product) * factor

    Replaces  MatMul, Swish, Mul, at 6 places, first node_linear_4
    Traffic   8.78 MB in 1 launch for [batch=1, seq=128, 2048]; op by op 13 MB in 3
    """
    expect("weight", weight, (weight.shape[0], x.shape[-1]))
    expect("factor", factor, (*x.shape[:-1], weight.shape[0]))
    n_rows, depth = math.prod(x.shape[:-1]), x.shape[-1]
    n_cols = weight.shape[0]
    if not (runs_triton(x, weight, factor) and weight.dtype == x.dtype):
        return linear_silu_mul_reference(x, weight, factor)
    x = x.contiguous()
    weight = weight.contiguous()
    factor = factor.contiguous()
    y = x.new_empty((*x.shape[:-1], n_cols))
    tile = tiles(n_rows, n_cols, x.element_size(), precision())
    with torch.cuda.device_of(x):
        linear_silu_mul_kernel[(tile_count(n_rows, n_cols, **tile),)](
            x, weight, factor, y, n_rows, n_cols, depth, PRECISION=precision(), **tile
        )
    return y


def linear_silu_mul_reference(x: Tensor, weight: Tensor, factor: Tensor) -> Tensor:
    """The same in PyTorch; the kernel is tested against this."""
    silu = F.silu(F.linear(x, weight))
    return silu * factor


if triton is not None:

    @triton.jit
    def linear_silu_mul_kernel(
        x_ptr,  # [M, K] in
        weight_ptr,  # [N, K] in
        factor_ptr,  # [M, N] in
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
        product = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
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
            product = tl.dot(x, weight, product, input_precision=PRECISION)  # MatMul

        offsets = rows * n_cols + cols
        mask = (rows < n_rows) & (cols < n_cols)
        factor = tl.load(factor_ptr + offsets, mask=mask).to(tl.float32)
        silu = product * tl.sigmoid(product)  # Swish
        y = silu * factor  # Mul

        tl.store(y_ptr + offsets, y, mask=mask)
