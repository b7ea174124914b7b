"""Helpers of conversions to types PyTorch lacks, copied into the module when used."""

from __future__ import annotations

import torch
from torch import Tensor


def wrap_bits(x: Tensor, bits: int, dtype: torch.dtype) -> Tensor:
    """The lowest bits of x as whole numbers, halves rounded away from zero; in a signed
    type the first of them is -2**n."""
    if x.is_floating_point():
        x = x.double()
        x = x.trunc() + (2 * x.frac()).trunc()
    low = x.long() & ((1 << bits) - 1)
    if dtype.is_signed:
        low = low - (low >> bits - 1 << bits)
    return low.to(dtype)


def round_float(x: Tensor, digits: int, smallest: float, largest: float) -> Tensor:
    """x in a float type of few bits, held by float8_e4m3fn, which has all its numbers.

    Rounded to `digits` binary places, ties to even, saturated; `smallest` is the first
    number with as many places. There is no NaN: -0 takes its place.
    """
    size = x.double().abs()
    exponent = torch.frexp(size.clamp(smallest, largest)).exponent - 1
    step = torch.ldexp(torch.ones_like(size), exponent - digits)
    y = ((size / step).round() * step).clamp(max=largest).copysign(x)
    return y.masked_fill(x.isnan(), -0.0).to(torch.float8_e4m3fn)


def power_of_two(x: Tensor, mode: str = "up", saturate: bool = True) -> Tensor:
    """x as float8_e8m0fnu: the power of two above it, below it or nearest to it."""
    x = x.double()
    fraction, exponent = torch.frexp(x)
    if mode == "nearest":
        exponent = exponent - (fraction < 0.75).int()
    else:
        exponent = exponent - ((fraction == 0.5) | (mode == "down")).int()
    y = torch.ldexp(torch.ones_like(x), exponent)
    y = torch.where(x.isfinite(), y, x).masked_fill(x == 0, 0)
    low, high = 2.0**-127, 2.0**127
    if saturate:
        y = y.clamp(low, high)
    else:
        y = y.masked_fill((y < low) | (y > high), float("nan"))
    return y.float().to(torch.float8_e8m0fnu)
