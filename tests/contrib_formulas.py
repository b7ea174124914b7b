"""What operators are documented to compute that ONNX Runtime has no CPU kernel for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Formula = Callable[[Mapping[str, Any], list[Any]], list[np.ndarray]]


def rfft(attrs: Mapping[str, Any], inputs: list[Any]) -> list[np.ndarray]:
    """A real transform of the last axes; its two parts in a new last axis."""
    axes = tuple(range(-attrs.get("signal_ndim", 1), 0))
    y = np.fft.rfftn(inputs[0].astype(np.float64), axes=axes)
    return [np.stack([y.real, y.imag], axis=-1).astype(np.float32)]


def irfft(attrs: Mapping[str, Any], inputs: list[Any]) -> list[np.ndarray]:
    """Its inverse, to an even length."""
    axes = tuple(range(-attrs["signal_ndim"], 0))
    x = inputs[0].astype(np.float64)
    return [np.fft.irfftn(x[..., 0] + 1j * x[..., 1], axes=axes).astype(np.float32)]


FORMULAS: dict[tuple[str, str], Formula] = {
    ("com.microsoft", "Rfft"): rfft,
    ("com.microsoft", "Irfft"): irfft,
}
