"""Functions that emitted modules copy where F.interpolate differs from ONNX's Resize.

An axis is resampled in three steps: a coordinate function says where in the input each
new element lies, a rounding or a kernel says what is read there, and the edge repeats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def half_pixel(at: Tensor, length: int, size: int, scale: float) -> Tensor:
    """Pixels are squares: their centres are mapped."""
    return (at + 0.5) / scale - 0.5


def pytorch_half_pixel(at: Tensor, length: int, size: int, scale: float) -> Tensor:
    """Centres are mapped, and a single pixel is read off the start."""
    return (at + 0.5) / scale - 0.5 if size > 1 else torch.zeros_like(at)


def half_pixel_symmetric(at: Tensor, length: int, size: int, scale: float) -> Tensor:
    """Centres are mapped; what the rounded size lacks is cut off at both ends."""
    by = at.new_full((), scale)
    lost = 1 - (at.new_full((), size) / (by * length)).double()
    return (length / 2 * lost + (at.double() + 0.5) / by.double() - 0.5).float()


def asymmetric(at: Tensor, length: int, size: int, scale: float) -> Tensor:
    """The first pixels coincide."""
    return at / scale


def align_corners(at: Tensor, length: int, size: int, scale: float) -> Tensor:
    """The first and the last pixels coincide, before the new size is rounded down."""
    last = length * scale - 1
    return at * (length - 1) / last if size > 1 else torch.zeros_like(at)


def half_down(at: Tensor) -> Tensor:
    """The nearest whole number; of two, the lower."""
    return torch.ceil(at - 0.5)


def half_up(at: Tensor) -> Tensor:
    """The nearest whole number; of two, the higher."""
    return torch.floor(at + 0.5)


def linear_kernel(distance: Tensor) -> Tensor:
    """Weight of a pixel at a distance, for linear interpolation."""
    return (1 - distance.abs()).clamp(min=0)


def cubic_kernel(distance: Tensor, a: float = -0.75) -> Tensor:
    """Weight of a pixel at a distance, for cubic convolution."""
    d = distance.abs()
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = a * (((d - 5) * d + 8) * d - 4)
    return torch.where(d <= 1, near, torch.where(d < 2, far, 0))


def smooth_cubic_kernel(distance: Tensor) -> Tensor:
    """The cubic kernel of Catmull and Rom."""
    return cubic_kernel(distance, a=-0.5)


def source_places(
    x: Tensor,
    axis: int,
    coordinates: Callable[[Tensor, int, int, float], Tensor],
    size: int | None,
    scale: float | None,
) -> tuple[Tensor, float]:
    """Where along `axis` of x each new element lies, and the scale."""
    length = x.shape[axis]
    if scale is None:
        assert size is not None
        scale = size / length
    if size is None:  # in float32, as ONNX Runtime counts
        size = int(torch.tensor(scale, dtype=torch.float32) * length)
    at = torch.arange(size, dtype=torch.float32, device=x.device)
    return coordinates(at, length, size, scale), scale


def fit(
    x: Tensor, axes: Sequence[int], sizes: Sequence[int], larger: bool = False
) -> tuple[list[int], list[float]]:
    """New sizes, and scales, of axes that keep their proportions.

    The largest that do not exceed `sizes`; or the smallest not below, if `larger`.
    """
    ratios = [size / x.shape[axis] for size, axis in zip(sizes, axes, strict=True)]
    scale = max(ratios) if larger else min(ratios)
    new = [math.floor(scale * x.shape[axis] + 0.5) for axis in axes]
    return new, [scale] * len(new)


def resize_nearest(
    x: Tensor,
    axes: Sequence[int],
    coordinates: Callable[[Tensor, int, int, float], Tensor],
    rounding: Callable[[Tensor], Tensor],
    sizes: Sequence[int] | None = None,
    scales: Sequence[float] | None = None,
) -> Tensor:
    """Resample `axes` of x to `sizes`, or by `scales`, without interpolation."""
    for i, axis in enumerate(axes):
        size = None if sizes is None else sizes[i]
        scale = None if scales is None else scales[i]
        at, _ = source_places(x, axis, coordinates, size, scale)
        index = rounding(at).long().clamp(0, x.shape[axis] - 1)
        x = x.index_select(axis, index)
    return x


def resize(
    x: Tensor,
    axes: Sequence[int],
    coordinates: Callable[[Tensor, int, int, float], Tensor],
    kernel: Callable[[Tensor], Tensor],
    reach: int,
    sizes: Sequence[int] | None = None,
    scales: Sequence[float] | None = None,
    antialias: bool = False,
    exclude_outside: bool = False,
) -> Tensor:
    """Resample `axes` of x to `sizes`, or by `scales`, one after the other.

    `kernel` is 0 from the distance `reach` on. `antialias` widens it where the image
    shrinks. Pixels outside of x repeat the edge, or do not count.
    """
    dtype = x.dtype
    x = x if dtype == torch.float64 else x.float()
    for i, axis in enumerate(axes):
        size = None if sizes is None else sizes[i]
        scale = None if scales is None else scales[i]
        at, by = source_places(x, axis, coordinates, size, scale)
        shrink = min(by, 1.0) if antialias else 1.0
        taps = math.ceil(reach / shrink)
        index = at.floor()[:, None] + torch.arange(1 - taps, taps + 1, device=x.device)
        weight = kernel((index - at[:, None]) * shrink)
        if exclude_outside:
            weight = weight * ((index >= 0) & (index < x.shape[axis]))
        weight = (weight / weight.sum(dim=1, keepdim=True)).to(x.dtype)
        index = index.long().clamp(0, x.shape[axis] - 1)
        near = x.movedim(axis, -1)[..., index]
        x = (near * weight).sum(dim=-1).movedim(-1, axis)
    return x.to(dtype)


def resize_whole(
    x: Tensor,
    axes: Sequence[int],
    coordinates: Callable[[Tensor, int, int, float], Tensor],
    over: Sequence[int],
    sizes: Sequence[int] | None = None,
    scales: Sequence[float] | None = None,
) -> Tensor:
    """Resample `axes` of integers linearly, cut off as ONNX Runtime's are.

    Corners are added in its order, `over` axes that keep their size, too: a sum may be
    whole but for rounding. Bytes before an axis of channels are in whole steps.
    """
    steps = 1024 if x.element_size() == 1 and over[-1] < x.dim() - 1 else 0
    corners: list[tuple[Tensor, Tensor | int]] = [(x, 1)]
    for axis in reversed(over):
        i = list(axes).index(axis) if axis in axes else None
        size = x.shape[axis] if i is None else sizes[i] if sizes is not None else None
        scale = None if i is None or scales is None else scales[i]
        at, _ = source_places(x, axis, coordinates, size, scale)
        at = at.clamp(0, x.shape[axis] - 1)
        low = at.floor()
        high = (low + 1).clamp(max=x.shape[axis] - 1)
        share = torch.where(low < high, at - low, 0.5)
        share = (share * steps).int() if steps else share
        share = share.reshape([-1] + [1] * (x.dim() - 1 - axis))
        corners = [
            (part.index_select(axis, near.long()), weight * by)
            for near, by in ((low, (steps or 1) - share), (high, share))
            for part, weight in corners
        ]
    total = corners[0][0] * corners[0][1]
    for part, weight in corners[1:]:
        total = total + part * weight
    if steps:
        total = total.div(steps ** len(over), rounding_mode="trunc")
    return total.to(x.dtype)


def crop_and_resize(
    x: Tensor,
    axes: Sequence[int],
    roi: Sequence[float],
    sizes: Sequence[int],
    outside: float = 0.0,
) -> Tensor:
    """Resample a region of x to `sizes`, linearly, as TensorFlow's crop_and_resize.

    `roi` holds the begin of the region along each of `axes`, then each end, as parts of
    the axis. Outside of x the result is `outside`.
    """
    dtype = x.dtype
    x = x if dtype == torch.float64 else x.float()
    # In the order of ONNX Runtime: the last bit tells whether an edge is outside.
    parts = torch.tensor(roi, dtype=torch.float32, device=x.device)
    for i, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        last = x.shape[axis] - 1
        begin, end = parts[i], parts[i + len(axes)]
        at = torch.arange(size, dtype=torch.float32, device=x.device)
        at = (
            at * (end - begin) * last / (size - 1) + begin * last
            if size > 1
            else (begin + end) / 2 * last + at
        )
        low = at.clamp(0, last).floor()
        shape = [-1] + [1] * (x.dim() - 1 - axis)
        share = (at - low).reshape(shape)
        first = x.index_select(axis, low.long())
        second = x.index_select(axis, (low + 1).clamp(max=last).long())
        inside = ((at >= 0) & (at <= last)).reshape(shape)
        x = torch.where(inside, first + (second - first) * share, outside)
    return x.to(dtype)
