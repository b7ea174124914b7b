"""GemmaStep, generated from gemma_step.

    input_ids                 int64   [batch, seq]               input
    attention_mask            int64   [batch, total]             input
    past_key_values.{i}.key   float32 [batch, 2, past, 4]        input
    past_key_values.{i}.value float32 [batch, 2, past, 4]        input
    logits                    float32 [batch, seq, 48]           output
    present.{i}.key           float32 [batch, 2, past + seq, 4]  output
    present.{i}.value         float32 [batch, 2, past + seq, 4]  output

Source     gemma_step, opset 20, 470 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 8 proven rules applied 85 times, as report.json lists
Weights    weights.safetensors, 8,756 parameters

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
        for i in range(4)
        for part in ("key", "value")
    },
}
OUTPUTS = {
    "logits": ("float32", ("batch", "seq", 48)),
    **{
        f"present.{i}.{part}": ("float32", ("batch", 2, "past + seq", 4))
        for i in range(4)
        for part in ("key", "value")
    },
}
# Arguments and results of forward that are lists, and what of INPUTS and OUTPUTS is in.
NESTED = {
    "past": [
        (f"past_key_values.{i}.key", f"past_key_values.{i}.value") for i in range(4)
    ],
    "present": [(f"present.{i}.key", f"present.{i}.value") for i in range(4)],
}


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair x[..., i], x[..., i + half] by the angle of cos and sin."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Gemma3RotaryEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sliding_attention_inv_freq", torch.empty((2,)))
        self.register_buffer("full_attention_inv_freq", torch.empty((2,)))

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        positions = positions[None, :, None].float()
        angles = (
            positions.to(self.sliding_attention_inv_freq.dtype)
            * self.sliding_attention_inv_freq
        )
        angles = torch.cat([angles, angles], dim=-1)
        angles2 = (
            positions.to(self.full_attention_inv_freq.dtype)
            * self.full_attention_inv_freq
        )
        angles2 = torch.cat([angles2, angles2], dim=-1)
        return angles.cos(), angles.sin(), angles2.cos(), angles2.sin()


class Gemma3RMSNorm(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.scale = nn.Parameter(torch.empty((size,)))
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (self.size,), self.scale, eps=1e-6)


class Gemma3MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(16, 24, bias=False)
        self.up_proj = nn.Linear(16, 24, bias=False)
        self.down_proj = nn.Linear(24, 16, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.gate_proj(x), approximate="tanh") * self.up_proj(x)
        return self.down_proj(x)


class Gemma3Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(16, 16, bias=False)
        self.k_proj = nn.Linear(16, 8, bias=False)
        self.v_proj = nn.Linear(16, 8, bias=False)
        self.q_norm = Gemma3RMSNorm(4)
        self.k_norm = Gemma3RMSNorm(4)
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
        q = apply_rotary(self.q_norm(q), cos, sin)
        k = apply_rotary(self.k_norm(k), cos, sin)
        k = torch.cat([past_key, k], dim=2)
        v = torch.cat([past_value, v], dim=2)
        attended = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, enable_gqa=True
        )
        return k, v, self.o_proj(attended.transpose(1, 2).flatten(2))


class Gemma3DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = Gemma3RMSNorm(16)
        self.self_attn = Gemma3Attention()
        self.post_attention_layernorm = Gemma3RMSNorm(16)
        self.pre_feedforward_layernorm = Gemma3RMSNorm(16)
        self.mlp = Gemma3MLP()
        self.post_feedforward_layernorm = Gemma3RMSNorm(16)

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
        x = x + self.post_attention_layernorm(out)
        out = self.pre_feedforward_layernorm(x)
        out = self.mlp(out)
        return present_key, present_value, x + self.post_feedforward_layernorm(out)


class Gemma3ForCausalLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(48, 16)
        self.rotary_emb = Gemma3RotaryEmbedding()
        self.layers = nn.ModuleList(Gemma3DecoderLayer() for _ in range(4))
        self.norm = Gemma3RMSNorm(16)
        self.lm_head = nn.Linear(16, 48, bias=False)
        self.lm_head.weight = self.embed_tokens.weight

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        past: list[tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        size = past[0][0].shape[2] + input_ids.shape[1]
        x = self.embed_tokens(input_ids) * 4.0  # [batch, seq, 16]
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)  # [seq]
        positions = positions + past[0][0].shape[2]
        rows = positions[None, None, :, None]  # [1, 1, seq, 1]
        columns = torch.arange(size, device=input_ids.device)[None, None, None, :]
        mask = columns <= rows  # [1, 1, seq, past + seq]
        attention_mask = attention_mask.bool()[:, None, None, :size]
        mask2 = mask & attention_mask  # [batch, 1, seq, past + seq]
        local_mask = (columns > rows - 8) & mask & attention_mask
        cos, sin, cos2, sin2 = self.rotary_emb(positions)  # [1, seq, 4]
        cos = cos.unsqueeze(1)  # [1, 1, seq, 4]
        sin = sin.unsqueeze(1)
        local_mask = torch.where(local_mask, 0.0, torch.finfo(x.dtype).min).to(x.dtype)
        cos2 = cos2.unsqueeze(1)
        sin2 = sin2.unsqueeze(1)
        mask = torch.where(mask2, 0.0, torch.finfo(cos.dtype).min).to(cos.dtype)
        present = []
        layer_inputs = [(cos, sin, local_mask), (cos2, sin2, mask)] * 2
        for layer, (past_key, past_value), (cos, sin, mask) in zip(
            self.layers, past, layer_inputs, strict=True
        ):
            present_key, present_value, x = layer(
                x, cos, sin, past_key, past_value, mask
            )
            present.append((present_key, present_value))
        return self.lm_head(self.norm(x)), present


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> Gemma3ForCausalLM:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    # Layers that share a weight get one parameter; the file has it under one name.
    shared = nn.Parameter(state["embed_tokens.weight"])
    state |= dict.fromkeys(["embed_tokens.weight", "lm_head.weight"], shared)
    with torch.device("meta"):  # no random initialisation, no second copy
        model = Gemma3ForCausalLM()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
