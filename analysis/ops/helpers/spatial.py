"""Functions that emitted modules copy for boxes and for sums of image patches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def col2im(
    columns: Tensor,
    image_shape: Sequence[int],
    block_shape: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
) -> Tensor:
    """Add up the columns [N, C * block, positions] at their places in an image.

    F.fold does this for two axes and equal pads. `pads` holds each begin, then each
    end.
    """
    axes = len(image_shape)
    padded = [n + pads[i] + pads[i + axes] for i, n in enumerate(image_shape)]
    place = torch.zeros(1, 1, dtype=torch.int64, device=columns.device)
    facts = zip(padded, block_shape, dilations, strides, strict=True)
    for size, block, dilation, stride in facts:
        within = torch.arange(block, device=columns.device) * dilation
        count = (size - dilation * (block - 1) - 1) // stride + 1
        start = torch.arange(count, device=columns.device) * stride
        place = place[:, None, :, None] * size
        place = place + within[:, None, None] + start
        place = place.flatten(2).flatten(0, 1)  # [places in a block, blocks]
    n, channels = columns.shape[0], columns.shape[1] // math.prod(block_shape)
    image = columns.new_zeros(n, channels, math.prod(padded))
    columns = columns.reshape(n, channels, place.numel())
    image = image.index_add(2, place.flatten(), columns).reshape(n, channels, *padded)
    for i, size in enumerate(image_shape):
        image = image.narrow(i + 2, pads[i], size)
    return image


def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_per_class: int = 0,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    centers: bool = False,
) -> Tensor:
    """Rows of (image, class, box): the best boxes that do not overlap a better one.

    boxes [images, N, 4] hold two opposite corners, or center, width and height; scores
    are [images, classes, N]. Two boxes overlap if their intersection over union is
    above the threshold; of equal scores the first box wins.
    """
    if centers:
        middle, half = boxes[..., :2], boxes[..., 2:] / 2
        low, high = middle - half, middle + half
    else:
        low = torch.minimum(boxes[..., :2], boxes[..., 2:])
        high = torch.maximum(boxes[..., :2], boxes[..., 2:])
    area = (high - low).prod(dim=-1)
    chosen = []
    for image in range(scores.shape[0]):
        for label in range(scores.shape[1]):
            score = scores[image, label]
            order = score.argsort(descending=True, stable=True)
            if score_threshold is not None:
                order = order[score[order] > score_threshold]
            found = 0
            while order.numel() and found < max_per_class:
                best, order = order[0], order[1:]
                chosen.append((image, label, int(best)))
                found += 1
                overlap = torch.minimum(high[image, best], high[image, order])
                overlap = overlap - torch.maximum(low[image, best], low[image, order])
                shared = overlap.clamp(min=0).prod(dim=-1)
                union = area[image, best] + area[image, order] - shared
                order = order[~(shared / union > iou_threshold)]
    return torch.tensor(chosen, dtype=torch.int64, device=boxes.device).reshape(-1, 3)
