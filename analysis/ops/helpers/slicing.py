"""Functions that emitted modules copy to cut and pad by amounts known at run time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def slice_axes(
    x: Tensor,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
) -> Tensor:
    """x[start:end:step] along each axis; steps may be negative."""
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = x.shape[axis]
        if step < 0 and end in (2**31 - 1, 2**63 - 1):  # all the way back
            end = -size - 1
        start = max(start + size if start < 0 else start, 0)
        start = min(start, size - 1 if step < 0 else size)
        end = max(end + size if end < 0 else end, -1 if step < 0 else 0)
        places = range(start, min(end, size), step)
        index = torch.tensor(places, dtype=torch.int64, device=x.device)
        x = x.movedim(axis, 0)[index].movedim(0, axis)
    return x


def pad_from_input(
    x: Tensor, around: Sequence[tuple[int, int]], mode: str = "edge"
) -> Tensor:
    """Pad each axis with (before, after) elements of x itself, as numpy.pad does.

    What is negative is cut off first. `mode` is "edge", "reflect" (the end itself is
    not repeated) or "wrap".
    """
    for axis, (before, after) in enumerate(around):
        if before == after == 0:  # an axis without elements has none to repeat
            continue
        start, end = max(-before, 0), x.shape[axis] - max(-after, 0)
        x = x[(slice(None),) * axis + (slice(start, max(end, 0)),)]
        before, after = max(before, 0), max(after, 0)
        index = torch.arange(-before, end - start + after, device=x.device)
        size = x.shape[axis]
        if mode == "edge":
            index = index.clamp(0, size - 1)
        elif mode == "wrap":
            index = index % size
        else:
            period = max(2 * (size - 1), 1)
            index = index % period
            index = torch.minimum(index, (period - index) % period)
        x = x[(slice(None),) * axis + (index,)]
    return x


def pad_axes(
    x: Tensor,
    pads: Sequence[int],
    axes: Sequence[int] | None = None,
    mode: str = "constant",
    value: float = 0,
) -> Tensor:
    """Pad `axes` (all if None); `pads` holds every begin, then every end."""
    axes = range(x.dim()) if axes is None else axes
    around = [(0, 0)] * x.dim()
    for i, axis in enumerate(axes):
        around[axis] = (pads[i], pads[i + len(axes)])
    if mode != "constant":
        return pad_from_input(x, around, mode)
    amounts = [amount for pair in reversed(around) for amount in pair]
    x = F.pad(x, [max(amount, 0) for amount in amounts], value=value)
    return F.pad(x, [min(amount, 0) for amount in amounts])  # as much as there is then


def center_crop_pad(x: Tensor, shape: Sequence[int], axes: Sequence[int]) -> Tensor:
    """Cut `axes` around the centre, or pad them with zeros, to the sizes `shape`.

    An odd element is cut at the end and added at the end.
    """
    for axis, size in zip(axes, shape, strict=True):
        more = size - x.shape[axis]
        before = int(more / 2)
        x = F.pad(x, [0, 0] * (x.dim() - 1 - axis) + [before, more - before])
    return x
