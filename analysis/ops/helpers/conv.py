"""Helpers of convolution, copied into the emitted module when used."""

from __future__ import annotations

import torch
from torch import Tensor


def deform_conv2d(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
) -> Tensor:
    """Convolution whose taps are moved by `offset` and weighted by `mask`.

    x [N, C, H, W]; weight [O, C / groups, KH, KW]; offset [N, 2 G KH KW, OH, OW] in
    pixels, y before x; mask [N, G KH KW, OH, OW]; padding is top, left, bottom, right.
    """
    n, channels, height, width = x.shape
    filters, per_group, kh, kw = weight.shape
    out_h, out_w = offset.shape[2:]
    moved = offset.reshape(n, -1, kh, kw, 2, out_h, out_w)
    parts = moved.shape[1]  # groups of channels that move together

    def taps(size: int, kernel: int, axis: int) -> Tensor:
        start = torch.arange(size, device=x.device) * stride[axis] - padding[axis]
        return torch.arange(kernel, device=x.device)[:, None] * dilation[axis] + start

    rows = moved[..., 0, :, :] + taps(out_h, kh, 0)[:, None, :, None]
    cols = moved[..., 1, :, :] + taps(out_w, kw, 1)[:, None, :]
    planes = x.reshape(n, parts, channels // parts, height * width)
    sampled = x.new_zeros(1)
    for row in (rows.floor(), rows.floor() + 1):
        for col in (cols.floor(), cols.floor() + 1):
            near = (1 - (rows - row).abs()) * (1 - (cols - col).abs())
            inside = (row >= 0) & (row < height) & (col >= 0) & (col < width)
            place = row.clamp(0, height - 1) * width + col.clamp(0, width - 1)
            place = place.long().reshape(n, parts, 1, -1)
            near = (near * inside).reshape(n, parts, 1, -1)
            sampled = sampled + near * planes.take_along_dim(place, dim=3)
    sampled = sampled.reshape(n, parts, -1, kh * kw, out_h, out_w)
    if mask is not None:
        sampled = sampled * mask.reshape(n, parts, 1, kh * kw, out_h, out_w)
    groups = channels // per_group
    columns = sampled.reshape(n, groups, per_group * kh * kw, out_h * out_w)
    rows_of_weight = weight.reshape(groups, filters // groups, -1)
    y = (rows_of_weight @ columns).reshape(n, filters, out_h, out_w)
    return y if bias is None else y + bias[:, None, None]
