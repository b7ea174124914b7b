"""LlamaInt4, generated from llama_int4.onnx.

    input_ids                 int64   [batch_size, sequence_length]             input
    attention_mask            int64   [batch_size, total_sequence_length]       input
    past_key_values.{i}.key   float32 [batch_size, 4, past_sequence_length,...  input
    past_key_values.{i}.value float32 [batch_size, 4, past_sequence_length,...  input
    logits                    float32 [batch_size, sequence_length, 32000]      output
    present.{i}.key           float32 [batch_size, 4, total_sequence_length...  output
    present.{i}.value         float32 [batch_size, 4, total_sequence_length...  output

Source     llama_int4.onnx, opset 22, 77 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 1 proven rule applied 6 times, as report.json lists
Weights    weights.safetensors, 57,827,072 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "8bc79b56a6da5c9473ec01d1a15316267c9e6c94e4308c2d2ed01ffb93339584"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "input_ids": ("int64", ("batch_size", "sequence_length")),
    "attention_mask": ("int64", ("batch_size", "total_sequence_length")),
    **{
        f"past_key_values.{i}.{part}": (
            "float32",
            ("batch_size", 4, "past_sequence_length", "kv_cache_dim"),
        )
        for part in ("key", "value")
        for i in range(6)
    },
}
OUTPUTS = {
    "logits": ("float32", ("batch_size", "sequence_length", 32000)),
    **{
        f"present.{i}.{part}": (
            "float32",
            ("batch_size", 4, "total_sequence_length", "kv_cache_dim"),
        )
        for part in ("key", "value")
        for i in range(6)
    },
}
# Arguments and results of forward that are lists, and what of INPUTS and OUTPUTS is in.
NESTED = {
    "past": [
        (f"past_key_values.{i}.key", f"past_key_values.{i}.value") for i in range(6)
    ],
    "present": [(f"present.{i}.key", f"present.{i}.value") for i in range(6)],
}


def unpacked(packed: Tensor, bits: int) -> Tensor:
    """The numbers of `bits` bits in the bytes of the last axis, the low ones first."""
    if bits == 8:
        return packed
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8, device=packed.device)
    apart = packed[..., None] >> shifts & (2**bits - 1)
    return torch.flatten(apart, -2)


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


def rounded_to_int8(x: Tensor, block: int) -> Tensor:
    """Each `block` numbers of the last axis rounded to 127ths of the largest."""
    size = x.shape[-1]
    blocks = torch.unflatten(F.pad(x.float(), (0, -size % block)), -1, (-1, block))
    most = blocks.abs().amax(dim=-1, keepdim=True)
    # In this order ONNX Runtime rounds; 127 / most would multiply by 1 / most.
    steps = (blocks * (torch.full_like(most, 127) / most)).round()
    rounded = torch.where(most > 0, steps * (most / 127), 0)
    return rounded.flatten(-2)[..., :size]


def rotated(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """x [batch, heads, time, size], pairs of its elements turned by their angles.

    The angles [batch, time, width / 2] are those of the first `width` elements, in
    pairs of neighbours if `interleaved`, else of the halves.
    """
    width = 2 * cos.shape[2]
    turning, rest = x[..., :width], x[..., width:]
    cos, sin = cos[:, None], sin[:, None]
    if interleaved:
        a, b = turning[..., ::2], turning[..., 1::2]
    else:
        a, b = turning.chunk(2, dim=-1)
    pair = [a * cos - b * sin, a * sin + b * cos]
    turned = torch.stack(pair, -1).flatten(3) if interleaved else torch.cat(pair, -1)
    return torch.cat([turned, rest], dim=-1)


def placed_heads(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    last: Tensor,
    total: int,
    heads: tuple[int, int],
    rotary: tuple[Tensor, Tensor] | None,
    positions: Tensor | None,
    interleaved: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k, v as [batch, heads, time, size], q and k turned; the tokens' places."""
    q, k, v = (
        torch.unflatten(x, 2, (count, -1)).transpose(1, 2)
        for x, count in ((q, heads[0]), (k, heads[1]), (v, heads[1]))
    )
    time = torch.arange(q.shape[2], device=q.device)
    # Without a past, shorter samples have their padding on the right.
    first = q.shape[2] == total
    start = torch.zeros_like(last) if first else last + 1 - q.shape[2]
    place = start.long()[:, None] + time
    if rotary is not None:
        if positions is None:
            positions = place
        elif first:
            positions = (positions.flatten()[0] + time).expand_as(place)
        cos, sin = (table[positions] for table in rotary)
        q = rotated(q, cos, sin, interleaved)
        k = rotated(k, cos, sin, interleaved)
    return q, k, v, place


def extended(past: Tensor | None, new: Tensor, place: Tensor, total: int) -> Tensor:
    """The cache with `new` at its places; what lay behind them is cleared."""
    past = new[:, :, :0] if past is None else past
    cache = F.pad(past, (0, 0, 0, max(0, total - past.shape[2])))
    key = torch.arange(cache.shape[2], device=cache.device)
    cache = cache.masked_fill((key >= place[:, :1])[:, None, :, None], 0)
    return cache.scatter(2, place[:, None, :, None].expand_as(new), new)


def visible_keys(
    place: Tensor, last: Tensor, total: int, causal: bool, window: int
) -> Tensor:
    """Which of `total` keys the query at each place sees, [batch, 1, time, total]."""
    key = torch.arange(total, device=place.device)
    query = place[:, None, :, None]
    visible = key <= last[:, None, None, None]
    if causal:
        visible = visible & (key <= query)
    if window >= 0:
        visible = visible & (key > query - window)
    return visible


def grouped_query_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor | None,
    past_value: Tensor | None,
    last: Tensor,
    total: int,
    heads: tuple[int, int],
    rotary: tuple[Tensor, Tensor] | None = None,
    positions: Tensor | None = None,
    interleaved: bool = False,
    causal: bool = True,
    window: int = -1,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of [batch, time, heads * size] over a cache; gives it, keys and values.

    last [batch] is the place of each sample's newest key, `total` the longest sample's
    length; `heads` counts those of q, and those of k and v. The cache may have room for
    more keys than `total`.
    """
    q, k, v, place = placed_heads(
        q, k, v, last, total, heads, rotary, positions, interleaved
    )
    keys = extended(past_key, k, place, total)
    values = extended(past_value, v, place, total)
    mask = visible_keys(place, last, total, causal, window)
    if bias is not None:
        mask = bias.masked_fill(~mask, float("-inf"))
    y = F.scaled_dot_product_attention(
        q,
        keys[:, :, :total],
        values[:, :, :total],
        attn_mask=mask,
        scale=scale,
        enable_gqa=True,
    )
    return y.transpose(1, 2).flatten(2), keys, values


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv_proj = PackedLinear(768, 1280, 32, zero_points=False)
        self.o_proj = PackedLinear(768, 768, 32, zero_points=False)

    def forward(
        self,
        x: Tensor,
        past_key: Tensor,
        past_value: Tensor,
        counts: Tensor,
        cos_cache: Tensor,
        sin_cache: Tensor,
        total_sequence_length: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        qkv_proj = self.qkv_proj(rounded_to_int8(x, 32))
        q, k, v = qkv_proj.split([768, 256, 256], dim=-1)
        x, present_key, present_value = grouped_query_attention(
            q,
            k,
            v,
            past_key,
            past_value,
            counts,
            total_sequence_length,
            (12, 4),
            rotary=(cos_cache, sin_cache),
        )
        return present_key, present_value, self.o_proj(rounded_to_int8(x, 32))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = PackedLinear(768, 2048, 32, zero_points=False)
        self.up_proj = PackedLinear(768, 2048, 32, zero_points=False)
        self.down_proj = PackedLinear(2048, 768, 32, zero_points=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.up_proj(rounded_to_int8(x, 32))
        x = F.silu(self.gate_proj(rounded_to_int8(x, 32))) * hidden
        return self.down_proj(rounded_to_int8(x, 32))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(768, eps=1e-6)
        self.attn = Attn()
        self.post_attention_layernorm = nn.RMSNorm(768, eps=1e-6)
        self.mlp = Mlp()

    def forward(
        self,
        x: Tensor,
        past_key: Tensor,
        past_value: Tensor,
        counts: Tensor,
        cos_cache: Tensor,
        sin_cache: Tensor,
        total_sequence_length: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        out = self.input_layernorm(x)
        present_key, present_value, out = self.attn(
            out,
            past_key,
            past_value,
            counts,
            cos_cache,
            sin_cache,
            total_sequence_length,
        )
        x = x + out
        return (
            present_key,
            present_value,
            x + self.mlp(self.post_attention_layernorm(x)),
        )


class LlamaInt4(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(32000, 768)
        self.layers = nn.ModuleList(
            [*(Layer() for _ in range(6)), nn.RMSNorm(768, eps=1e-6)]
        )
        self.lm_head = PackedLinear(768, 32000, 32, zero_points=False)
        self.register_buffer("cos_cache", torch.empty((2048, 32)))
        self.register_buffer("sin_cache", torch.empty((2048, 32)))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        past: list[tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        total_sequence_length = attention_mask.shape[1]
        counts = (attention_mask.sum(dim=1) - 1).int()  # [batch_size]
        x = self.embed_tokens(input_ids)  # [batch_size, sequence_length, 768]
        present = []
        for layer, (past_key, past_value) in zip(self.layers[:6], past, strict=True):
            present_key, present_value, x = layer(
                x,
                past_key,
                past_value,
                counts,
                self.cos_cache,
                self.sin_cache,
                total_sequence_length,
            )
            present.append((present_key, present_value))
        return self.lm_head(rounded_to_int8(self.layers[6](x), 32)), present


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> LlamaInt4:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = LlamaInt4()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
