"""Characters, generated from characters.onnx.

    input_ids                 int64   [batch, new]                input
    attention_mask            int64   [batch, new + past]         input
    position_ids              int64   [batch, new]                input
    past_k0 ... past_k1       float32 [batch, 4, past, 24]        input
    past_v0 ... past_v1       float32 [batch, 4, past, 24]        input
    logits                    float32 [batch, new, 128]           output
    present_k0 ... present_k1 float32 [batch, 4, new + past, 24]  output
    present_v0 ... present_v1 float32 [batch, 4, new + past, 24]  output

Source     characters.onnx, opset 18, 354 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 6 proven rules applied 15 times, as report.json lists
Weights    weights.safetensors, 210,636 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "5d35465b808e6fa2bc974586e087ea6a1cc93a06f4864d7097ccde31f1057d0d"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "input_ids": ("int64", ("batch", "new")),
    "attention_mask": ("int64", ("batch", "past + new")),
    "position_ids": ("int64", ("batch", "new")),
    **{
        f"past_{part}{i}": ("float32", ("batch", 4, "past", 24))
        for i in range(2)
        for part in ("k", "v")
    },
}
OUTPUTS = {
    "logits": ("float32", ("batch", "new", 128)),
    **{
        f"present_{part}{i}": ("float32", ("batch", 4, "past + new", 24))
        for i in range(2)
        for part in ("k", "v")
    },
}
# Arguments and results of forward that are lists, and what of INPUTS and OUTPUTS is in.
NESTED = {
    "past": [(f"past_k{i}", f"past_v{i}") for i in range(2)],
    "present": [(f"present_k{i}", f"present_v{i}") for i in range(2)],
}


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair x[..., i], x[..., i + half] by the angle of cos and sin."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(96)
        self.query = nn.Linear(96, 96, bias=False)
        self.key = nn.Linear(96, 96, bias=False)
        self.value = nn.Linear(96, 96, bias=False)
        self.output = nn.Linear(96, 96, bias=False)
        self.norm2 = nn.LayerNorm(96)
        self.up = nn.Linear(96, 288)
        self.down = nn.Linear(288, 96)

    def forward(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        past_k: Tensor,
        past_v: Tensor,
        mask: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        normed = self.norm1(x)
        q = self.query(normed).unflatten(2, (4, 24)).transpose(1, 2)
        k = self.key(normed).unflatten(2, (4, 24)).transpose(1, 2)
        v = self.value(normed).unflatten(2, (4, 24)).transpose(1, 2)
        k = torch.cat([past_k, apply_rotary(k, cos, sin)], dim=2)
        v = torch.cat([past_v, v], dim=2)
        q = apply_rotary(q, cos, sin)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype))
        x = x + self.output(attended.transpose(1, 2).flatten(2))
        out = F.gelu(self.up(self.norm2(x)))
        return k, v, x + self.down(out)


class Characters(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(128, 96)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(96)
        self.head = nn.Linear(96, 128, bias=False)
        self.register_buffer("scale", torch.empty((12,)))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
        past: list[tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        size = attention_mask.shape[1]
        positions = torch.arange(size, device=input_ids.device)  # [new + past]
        positions2 = torch.arange(past[0][0].shape[2], size, device=input_ids.device)
        mask = attention_mask.bool()[:, None, None, :]  # [batch, 1, 1, new + past]
        x = self.embedding(input_ids)  # [batch, new, 96]
        angles = position_ids[:, None, :, None].to(self.scale.dtype) * self.scale
        angles = angles.repeat(1, 1, 1, 2)  # [batch, 1, new, 24]
        cos = angles.cos()
        sin = angles.sin()
        mask = torch.where(
            (positions <= positions2.unsqueeze(-1)) & mask, 0.0, float("-inf")
        )
        present = []
        for block, (past_k, past_v) in zip(self.blocks, past, strict=True):
            present_k, present_v, x = block(x, cos, sin, past_k, past_v, mask)
            present.append((present_k, present_v))
        return self.head(self.norm(x)), present


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> Characters:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = Characters()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
