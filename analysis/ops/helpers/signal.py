"""Helpers of signal processing, copied into the emitted module when used."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def dft(
    x: Tensor,
    dim: int,
    length: int | None = None,
    inverse: bool = False,
    onesided: bool = False,
) -> Tensor:
    """Discrete Fourier transform; the last axis holds real and imaginary parts.

    One-sided, the half of the spectrum that determines the other is left out: the
    transform takes real numbers to it, and its inverse takes it to real numbers.
    """
    if not len(x):  # of no signals PyTorch has no transform
        one = x.new_zeros(1, *x.shape[1:])
        return dft(one, dim, length, inverse, onesided)[:0]
    dim = dim if dim >= 0 else dim + 1  # the last axis is gone from the signal
    wide = x.double() if x.dtype == torch.float64 else x.float()
    if wide.shape[-1] == 1:
        signal = wide[..., 0]
    else:
        signal = torch.complex(wide[..., 0], wide[..., 1])
    if inverse and onesided:
        y: Tensor = torch.fft.irfft(signal, length, dim)[..., None]
    elif inverse:
        y = torch.view_as_real(torch.fft.ifft(signal, length, dim).resolve_conj())
    elif onesided and not signal.is_complex():
        y = torch.view_as_real(torch.fft.rfft(signal, length, dim))
    else:
        y = torch.view_as_real(torch.fft.fft(signal, length, dim))
        y = y.narrow(dim, 0, y.shape[dim] // 2 + 1) if onesided else y
    return y.to(x.dtype)


def stft(
    x: Tensor,
    step: int,
    length: int,
    window: Tensor | None = None,
    onesided: bool = True,
) -> Tensor:
    """Fourier transform [batch, frames, frequencies, 2] of frames of x [batch, time].

    x may have a last axis of 1 (real) or 2 (complex); a frame starts every `step`.
    """
    x = x if x.dim() == 3 else x[..., None]
    frames = x.unfold(1, length, step).mT
    if window is not None:
        frames = frames * window[:, None]
    return dft(frames, 2, onesided=onesided)


def mel_weight_matrix(
    bands: int, length: int, rate: int, low: float, high: float, device: torch.device
) -> Tensor:
    """Triangles [length // 2 + 1, bands] that gather a spectrum into mel bands."""
    edges = torch.arange(bands + 2, dtype=torch.float64, device=device)
    bottom = 2595 * math.log10(1 + low / 700)
    top = 2595 * math.log10(1 + high / 700)
    hertz = 700 * (10 ** ((edges * (top - bottom) / (bands + 2) + bottom) / 2595) - 1)
    places = ((length + 1) * hertz).div(rate, rounding_mode="floor")
    left, centre, right = places[:-2], places[1:-1], places[2:]
    place = torch.arange(length // 2 + 1, dtype=torch.float64, device=device)[:, None]
    rising = (place - left) / (centre - left)
    falling = (right - place) / (right - centre)
    inside = (place >= left) & (place <= centre) & (left < centre)
    y = torch.where(inside, rising, 0)
    y = torch.where((place >= centre) & (place < right), falling, y)
    return torch.where((place == centre) & (left == centre), 1, y).float()
