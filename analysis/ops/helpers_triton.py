"""Functions of kernels that triton.language lacks; each is copied where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import triton.language as tl


def tanh(x: Any) -> Any:
    return 1 - 2 / (tl.exp(2 * x) + 1)  # 1 and -1 where exp overflows and vanishes


def softplus(x: Any) -> Any:
    return tl.where(x > 20, x, tl.log(1 + tl.exp(tl.where(x > 20, 0.0, x))))
