"""Functions of kernels that triton.language lacks; each is copied where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import triton.language as tl


def tanh(x: Any) -> Any:
    return 1 - 2 / (tl.exp(2 * x) + 1)  # 1 and -1 where exp overflows and vanishes


def gelu_tanh(x: Any) -> Any:
    # 0.5 * (1 + tanh(u)) is sigmoid(2 * u), here of u = sqrt(2 / pi) * (...).
    return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))


def clip(x: Any, low: Any, high: Any) -> Any:
    x = tl.where(x < low, low, x)  # NaN stays
    return tl.where(x > high, high, x)


def softplus(x: Any) -> Any:
    return tl.where(x > 20, x, tl.log(1 + tl.exp(tl.where(x > 20, 0.0, x))))


def larger(a: Any, b: Any) -> Any:
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


def smaller(a: Any, b: Any) -> Any:
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


def times(a: Any, b: Any) -> Any:
    return a * b


def finite(x: Any) -> Any:
    return tl.where(tl.abs(x) == float("inf"), 0.0, x)


def order_of(x: Any) -> Any:
    """Whole numbers in the order of floats, NaN above all of them."""
    bits = x.to(tl.int32, bitcast=True)
    order = tl.where(bits < 0, -(2**31) - bits, bits)  # 0.0 and -0.0 are equal
    return tl.where(x == x, order, 2**31 - 1)


def combine_parts(
    parts_ptr: Any,  # [P, M, N] in: of the results, as if each part were all
    sums_ptr: Any,  # [P, M] in: logarithms of what they were divided by
    y_ptr: Any,  # [M, N] out
    n_parts: Any,  # P
    n_rows: Any,  # M
    n_cols: Any,  # N
    BLOCK_P: tl.constexpr,  # powers of two, at least P and N
    BLOCK: tl.constexpr,
) -> Any:
    row = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, BLOCK_P)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    places = part * n_rows + row
    sums = tl.load(sums_ptr + places, mask=part < n_parts, other=float("-inf"))
    mask = (part < n_parts) & (cols < n_cols)
    parts = tl.load(parts_ptr + places * n_cols + cols, mask=mask, other=0.0)
    largest = tl.max(sums, axis=0, keep_dims=True)
    shares = tl.exp(sums - tl.where(largest == float("-inf"), 0.0, largest))
    total = tl.sum(shares, axis=0, keep_dims=True)
    y = tl.sum(parts * shares, axis=0, keep_dims=True)
    y = y / tl.where(total > 0, total, 1.0)
    tl.store(y_ptr + row * n_cols + cols, y, mask=cols < n_cols)
