"""The places that Resize reads, in ONNX and in PyTorch.

ONNX names six coordinate modes and four roundings; F.interpolate knows the few that
PyTorch models have. Where sizes or scales are known, the places that both read are
computed and compared; where they are not, only what is known to agree is accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...graph.dims import Dim, same, simplify

Places = npt.NDArray[np.float32]

COORDINATES = (
    *("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric"),
    *("align_corners", "tf_crop_and_resize"),
)
ROUND: dict[str, Callable[[Places], Places]] = {
    "round_prefer_floor": lambda at: np.ceil(at - np.float32(0.5)),
    "round_prefer_ceil": lambda at: np.floor(at + np.float32(0.5)),
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True)
class Target:
    """One axis that changes: its old and new size, and the scale if that is given."""

    axis: int
    old: Dim
    new: Dim
    scale: float | None

    @property
    def ratio(self) -> float | None:
        """The factor, if it is sure whatever the size turns out to be."""
        if self.scale is not None:
            return self.scale
        for factor in range(2, 17):
            if same(self.new, simplify(self.old * factor)):
                return factor
        return None

    def samples(self) -> list[tuple[int, int, float]]:
        """Old size, new size and scale, to compare on; none if nothing is known."""
        if isinstance(self.old, int) and isinstance(self.new, int):
            if not self.old or not self.new:
                return []
            scale = self.new / self.old if self.scale is None else self.scale
            return [(self.old, self.new, scale)]
        ratio = self.ratio
        if ratio is None:
            return []
        counts = [(n, int(np.float32(ratio) * np.float32(n))) for n in range(1, 65)]
        return [(n, count, ratio) for n, count in counts if count]


def onnx_places(mode: str, length: int, count: int, scale: float) -> Places:
    """As ONNX Runtime computes them, in float32."""
    at: Places = np.arange(count, dtype=np.float32)
    step, half = np.float32(scale), np.float32(0.5)
    if mode == "asymmetric":
        at = at / step
    elif mode == "align_corners":
        at = at * np.float32(length - 1) / np.float32(max(count - 1, 1))
    elif mode == "pytorch_half_pixel" and count == 1:
        at = np.zeros_like(at)
    else:
        at = (at + half) / step - half
    if mode == "half_pixel_symmetric":
        lost = np.float32(1) - np.float32(count) / (step * np.float32(length))
        at = at + np.float32(length) / 2 * lost
    return at


def torch_places(mode: str, length: int, count: int, scale: float | None) -> Places:
    """What F.interpolate reads, before its clamping to the edges."""
    at: Places = np.arange(count, dtype=np.float32)
    step = np.float32(length / count if scale is None else 1 / scale)
    half = np.float32(0.5)
    if mode == "align_corners":
        at = at * np.float32((length - 1) / max(count - 1, 1))
    elif mode == "nearest":
        at = np.floor(at * step)
    elif mode == "nearest-exact":
        at = np.floor((at + half) * step)
    else:
        at = (at + half) * step - half
    return at


def same_pixels(
    torch_mode: str, coordinates: str, rounding: str, target: Target
) -> bool:
    samples = target.samples()
    if not samples:
        known = {
            "nearest": [("asymmetric", "floor")],
            "nearest-exact": [("half_pixel", "round_prefer_ceil")],
        }
        return (coordinates, rounding) in known[torch_mode]
    for length, count, scale in samples:
        ours = ROUND[rounding](onnx_places(coordinates, length, count, scale))
        theirs = torch_places(torch_mode, length, count, target.ratio)
        if (ours.clip(0, length - 1) != theirs.clip(0, length - 1)).any():
            return False
    return True


def same_places(coordinates: str, mode: str, target: Target) -> bool:
    centred = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
    aligned = coordinates == "align_corners"
    samples = target.samples()
    if not samples:  # a single new pixel of pytorch_half_pixel is not thought of
        return aligned or coordinates in centred
    for length, count, scale in samples:
        ours = onnx_places(coordinates, length, count, scale)
        kind = "align_corners" if aligned else mode
        theirs = torch_places(kind, length, count, target.ratio)
        if mode == "linear":
            ours, theirs = ours.clip(0, length - 1), theirs.clip(0, length - 1)
        if not np.allclose(ours, theirs, rtol=1e-6, atol=1e-5):
            return False
    return True
