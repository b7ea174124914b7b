"""Helpers of ONNX Runtime's own operators, copied into the emitted module when used."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def crop_and_resize(
    x: Tensor,
    boxes: Tensor,
    samples: Tensor,
    size: tuple[int, int],
    nearest: bool = False,
    outside: float = 0.0,
) -> Tensor:
    """Boxes [y1, x1, y2, x2] of the images named, each resized with its corners kept.

    A box may reach out of its image, where there is `outside`.
    """
    places, inside = [], []
    for axis, count in enumerate(size):
        start, end = boxes[:, axis, None], boxes[:, axis + 2, None]
        last, steps = x.shape[2 + axis] - 1, torch.arange(count, device=x.device)
        if count > 1:
            place = start * last + steps * ((end - start) * last / (count - 1))
            place = torch.where(steps == count - 1, end * last, place)
        else:
            place = 0.5 * (start + end) * last
        inside.append((place >= 0) & (place <= last))
        places.append(place.clamp(0, last))
    (y, x_place), images = places, x[samples.long()].permute(0, 2, 3, 1)
    box = torch.arange(len(boxes), device=x.device)[:, None, None]

    def at(row: Tensor, column: Tensor) -> Tensor:
        return images[box, row.long()[:, :, None], column.long()[:, None]]

    if nearest:
        crops = at((y + 0.5).floor(), (x_place + 0.5).floor())
    else:
        top, left = y.floor(), x_place.floor()
        down, right = (y - top)[:, :, None, None], (x_place - left)[:, None, :, None]
        upper = torch.lerp(at(top, left), at(top, x_place.ceil()), right)
        lower = torch.lerp(at(y.ceil(), left), at(y.ceil(), x_place.ceil()), right)
        crops = torch.lerp(upper, lower, down)
    seen = inside[0][:, :, None] & inside[1][:, None]
    return torch.where(seen[..., None], crops, outside).permute(0, 3, 1, 2)


def without_repeats(ids: Tensor, scores: Tensor, size: int) -> Tensor:
    """-inf for each token that would repeat a run of `size` tokens."""
    length = ids.shape[1]
    if length < size:
        return scores
    windows = ids.unfold(1, size, 1)
    ending = ids[:, length - size + 1 :]
    same = (windows[..., :-1] == ending[:, None]).all(dim=-1)
    sample, place = same.nonzero(as_tuple=True)
    scores = scores.clone()
    scores[sample, windows[sample, place, -1].long()] = -math.inf
    return scores


def cheapest_path(cost: Tensor) -> Tensor:
    """Rows and columns [2, steps] of the way through `cost` with the smallest sum.

    From the first corner to the last; a step goes down, to the right, or both.
    """
    costs = cost.reshape(cost.shape[-2:]).detach().cpu().numpy()
    rows, columns = costs.shape
    total = np.full((rows + 1, columns + 1), np.inf, np.float32)
    total[0, 0] = 0
    steps = {}
    for i in range(rows):
        for j in range(columns):
            both, down, right = total[i, j], total[i, j + 1], total[i + 1, j]
            if both < min(down, right):
                steps[i, j], so_far = (1, 1), both
            elif down < min(both, right):
                steps[i, j], so_far = (1, 0), down
            else:
                steps[i, j], so_far = (0, 1), right
            total[i + 1, j + 1] = so_far + costs[i, j]
    path, i, j = [], rows - 1, columns - 1
    while i >= 0 and j >= 0:
        path.append((i, j))
        i, j = i - steps[i, j][0], j - steps[i, j][1]
    return torch.tensor(path[::-1], dtype=torch.int32, device=cost.device).T
