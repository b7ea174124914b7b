"""Helpers for weights stored in blocks of few bits, copied when used."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PackedLinear(nn.Module):
    """nn.Linear whose weight is blocks of few bits, each with a scale and a zero point.

    Without zero points, the middle of the range is zero.
    """

    weight: Tensor
    scales: Tensor
    zero_points: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        block: int,
        bits: int = 4,
        zero_points: bool = True,
        bias: bool = False,
    ) -> None:
        super().__init__()
        blocks = -(-in_features // block)
        width, spare = block * bits // 8, -(-blocks * bits // 8)
        self.in_features, self.bits = in_features, bits
        self.register_buffer(
            "weight", torch.empty(out_features, blocks, width, dtype=torch.uint8)
        )
        self.register_buffer("scales", torch.empty(out_features, blocks))
        self.register_buffer(
            "zero_points",
            (
                torch.empty(out_features, spare, dtype=torch.uint8)
                if zero_points
                else None
            ),
        )
        self.register_buffer("bias", torch.empty(out_features) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        return packed_linear(
            x, self.weight, self.scales, self.zero_points, self.bias, self.bits
        )


def packed_linear(
    x: Tensor,
    weight: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    bias: Tensor | None = None,
    bits: int = 4,
    groups: Tensor | None = None,
) -> Tensor:
    """F.linear with a weight of [out, blocks, bytes], `bits` bits for each number.

    Half precision is multiplied in float32.
    """
    full = dequantized(weight, scales, zero_points, bits, groups)
    bias = None if bias is None else bias.float()
    return F.linear(x.float(), full[:, : x.shape[-1]], bias).to(x.dtype)


def dequantized(
    weight: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    bits: int,
    groups: Tensor | None = None,
) -> Tensor:
    """What a weight of [out, blocks, bytes] stands for: [out, features] in float32.

    Each block has a scale and a zero point, the middle of the range if none is given;
    `groups` names the block of each input feature where they don't stand in a row.
    """
    numbers = unpacked(weight, bits)
    count = numbers.shape[1]
    scales = scales.reshape(-1, count).float()
    if zero_points is None:
        zeros = torch.full_like(scales, 2 ** (bits - 1))
    elif zero_points.dtype == torch.uint8:
        zeros = unpacked(zero_points.reshape(len(weight), -1), bits)[:, :count]
    else:
        zeros = zero_points.reshape(-1, count)
    zeros = zeros.float()
    if groups is None:
        return ((numbers - zeros[:, :, None]) * scales[:, :, None]).flatten(1)
    rows = numbers.flatten(1)[:, : len(groups)]
    return (rows - zeros[:, groups]) * scales[:, groups]


def rounded_to_int8(x: Tensor, block: int) -> Tensor:
    """Each `block` numbers of the last axis rounded to 127ths of the largest."""
    size = x.shape[-1]
    blocks = torch.unflatten(F.pad(x.float(), (0, -size % block)), -1, (-1, block))
    most = blocks.abs().amax(dim=-1, keepdim=True)
    # In this order ONNX Runtime rounds; 127 / most would multiply by 1 / most.
    steps = (blocks * (torch.full_like(most, 127) / most)).round()
    rounded = torch.where(most > 0, steps * (most / 127), 0)
    return rounded.flatten(-2)[..., :size]


def unpacked(packed: Tensor, bits: int) -> Tensor:
    """The numbers of `bits` bits in the bytes of the last axis, the low ones first."""
    if bits == 8:
        return packed
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8, device=packed.device)
    apart = packed[..., None] >> shifts & (2**bits - 1)
    return torch.flatten(apart, -2)


def expert_weights(
    packed: Tensor, scales: Tensor, zero_points: Tensor | None = None, bits: int = 4
) -> Tensor:
    """[experts, out, in] of bytes of `bits`-bit numbers, the low ones first.

    Each row, or each of its blocks, has a scale and a zero point, the middle of the
    range if none is given.
    """
    numbers = unpacked(packed, bits).to(scales.dtype)
    if scales.ndim == 2:
        scales = scales[:, :, None]
        if zero_points is not None:
            zero_points = unpacked(zero_points, bits)[:, : scales.shape[1], None]
    elif zero_points is not None:
        zero_points = unpacked(zero_points, bits)[:, :, : scales.shape[2]]
    if zero_points is None:
        zeros = torch.full_like(scales, 2 ** (bits - 1))
    else:
        zeros = zero_points.to(scales.dtype)
    blocks = numbers.reshape(*scales.shape, -1)
    return torch.flatten((blocks - zeros[..., None]) * scales[..., None], 2)


def float4_linear(
    x: Tensor,
    weight: Tensor,
    absmax: Tensor,
    levels: tuple[float, ...],
    sizes: tuple[int, int],
    block: int,
    transposed: bool = True,
) -> Tensor:
    """x @ W.T, or x @ W, of W [out, in] whose numbers are 16 levels times a block's.

    Two stand in a byte, the high one first; a block is `block` numbers in a row.
    """
    pairs = torch.stack([weight >> 4, weight & 15], dim=-1).flatten()
    table = torch.tensor(levels, dtype=x.dtype, device=x.device)
    count = sizes[0] * sizes[1]
    scales = absmax.repeat_interleave(block)[:count]
    full = (table[pairs.int()[:count]] * scales).view(sizes)
    return x @ (full.T if transposed else full)


def gathered_blocks(
    data: Tensor,
    indices: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    bits: int = 4,
    block: int = 128,
) -> Tensor:
    """Rows of a table of [rows, ..., bytes], `bits` bits for each number.

    Along the last axis, each `block` numbers have a scale and a zero point, the middle
    of the range if none is given. A row that the table doesn't have is 0.
    """
    size = len(data)
    indices = torch.where(indices < 0, indices + size, indices).long()
    inside = (indices >= 0) & (indices < size)
    indices = torch.where(inside, indices, 0)
    numbers, scales = unpacked(data[indices], bits), scales[indices]
    if zero_points is None:
        zeros = torch.full_like(scales, 2 ** (bits - 1))
    else:
        zeros = unpacked(zero_points[indices], bits)[..., : scales.shape[-1]]
        zeros = zeros.to(scales.dtype)
    length = numbers.shape[-1]
    scales = scales.repeat_interleave(block, dim=-1)[..., :length]
    zeros = zeros.repeat_interleave(block, dim=-1)[..., :length]
    rows = (numbers.to(scales.dtype) - zeros) * scales
    return rows * inside.reshape(*inside.shape, *[1] * (rows.ndim - inside.ndim))


def gathered_numbers(
    data: Tensor,
    indices: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    axis: int = 0,
    along: int = -1,
    block: int = 128,
) -> Tensor:
    """What a table holds at some places of an axis; at places it doesn't have, zeros.

    Each `block` numbers along an axis have a scale and a zero point.
    """
    size = data.shape[axis]
    inside = (indices >= -size) & (indices < size)
    places = torch.where(inside, indices, 0).long().flatten() % size
    blocks = torch.arange(data.shape[along], device=data.device) // block
    factors = scales.index_select(along, blocks).index_select(axis, places)
    numbers = data.index_select(axis, places).to(scales.dtype)
    if zero_points is not None:
        zeros = zero_points.index_select(along, blocks).index_select(axis, places)
        numbers = numbers - zeros.to(scales.dtype)
    known = inside.reshape(-1, *[1] * (data.ndim - axis - 1))
    sizes = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    return (numbers * factors * known).reshape(sizes)
