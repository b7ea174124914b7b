"""LlamaStep, generated from llama_step.

    input_ids                 int64   [batch, seq]               input
    attention_mask            int64   [batch, total]             input
    past_key_values.{i}.key   float32 [batch, 2, past, 4]        input
    past_key_values.{i}.value float32 [batch, 2, past, 4]        input
    logits                    float32 [batch, seq, 48]           output
    present.{i}.key           float32 [batch, 2, past + seq, 4]  output
    present.{i}.value         float32 [batch, 2, past + seq, 4]  output

Source     llama_step, opset 20, 200 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 9 proven rules applied 31 times, as report.json lists
Weights    weights.safetensors, 5,458 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "0000000000000000000000000000000000000000000000000000000000000000"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "input_ids": ("int64", ("batch", "seq")),
    "attention_mask": ("int64", ("batch", "total")),
    **{
        f"past_key_values.{i}.{part}": ("float32", ("batch", 2, "past", 4))
        for i in range(2)
        for part in ("key", "value")
    },
}
OUTPUTS = {
    "logits": ("float32", ("batch", "seq", 48)),
    **{
        f"present.{i}.{part}": ("float32", ("batch", 2, "past + seq", 4))
        for i in range(2)
        for part in ("key", "value")
    },
}
# Arguments and results of forward that are lists, and what of INPUTS and OUTPUTS is in.
NESTED = {
    "past": [
        (f"past_key_values.{i}.key", f"past_key_values.{i}.value") for i in range(2)
    ],
    "present": [(f"present.{i}.key", f"present.{i}.value") for i in range(2)],
}


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair x[..., i], x[..., i + half] by the angle of cos and sin."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class LlamaRotaryEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("inv_freq", torch.empty((2,)))

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        angles = positions[None, :, None].to(self.inv_freq.dtype) * self.inv_freq
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()


class LlamaAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(16, 16, bias=False)
        self.k_proj = nn.Linear(16, 8, bias=False)
        self.v_proj = nn.Linear(16, 8, bias=False)
        self.o_proj = nn.Linear(16, 16, bias=False)

    def forward(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        past_key: Tensor,
        past_value: Tensor,
        mask: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        q = self.q_proj(x).unflatten(2, (4, 4)).transpose(1, 2)
        k = self.k_proj(x).unflatten(2, (2, 4)).transpose(1, 2)
        v = self.v_proj(x).unflatten(2, (2, 4)).transpose(1, 2)
        q = apply_rotary(q, cos, sin)
        k = torch.cat([past_key, apply_rotary(k, cos, sin)], dim=2)
        v = torch.cat([past_value, v], dim=2)
        attended = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, enable_gqa=True
        )
        return k, v, self.o_proj(attended.transpose(1, 2).flatten(2))


class LlamaMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(16, 24, bias=False)
        self.up_proj = nn.Linear(16, 24, bias=False)
        self.down_proj = nn.Linear(24, 16, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaDecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(16, eps=1e-6)
        self.self_attn = LlamaAttention()
        self.post_attention_layernorm = nn.RMSNorm(16, eps=1e-6)
        self.mlp = LlamaMLP()

    def forward(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        past_key: Tensor,
        past_value: Tensor,
        mask: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        out = self.input_layernorm(x)
        present_key, present_value, out = self.self_attn(
            out, cos, sin, past_key, past_value, mask
        )
        x = x + out
        return (
            present_key,
            present_value,
            x + self.mlp(self.post_attention_layernorm(x)),
        )


class LlamaForCausalLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(48, 16)
        self.rotary_emb = LlamaRotaryEmbedding()
        self.layers = nn.ModuleList(LlamaDecoderLayer() for _ in range(2))
        self.norm = nn.RMSNorm(16, eps=1e-6)
        self.lm_head = nn.Linear(16, 48, bias=False)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        past: list[tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        size = past[0][0].shape[2] + input_ids.shape[1]
        x = self.embed_tokens(input_ids)  # [batch, seq, 16]
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)  # [seq]
        positions = positions + past[0][0].shape[2]
        columns = torch.arange(size, device=input_ids.device)[None, None, None, :]
        mask = columns <= positions[None, None, :, None]  # [1, 1, seq, past + seq]
        mask = mask & attention_mask.bool()[:, None, None, :size]
        cos, sin = self.rotary_emb(positions)  # [1, seq, 4]
        cos = cos.unsqueeze(1)  # [1, 1, seq, 4]
        sin = sin.unsqueeze(1)
        mask = torch.where(mask, 0.0, torch.finfo(x.dtype).min).to(x.dtype)
        present = []
        for layer, (past_key, past_value) in zip(self.layers, past, strict=True):
            present_key, present_value, x = layer(
                x, cos, sin, past_key, past_value, mask
            )
            present.append((present_key, present_value))
        return self.lm_head(self.norm(x)), present


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> LlamaForCausalLM:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = LlamaForCausalLM()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
