"""LlamaLayers, generated from llama_layers.

    x      float32 [batch, seq, 16]    input
    cos    float32 [batch, 1, seq, 4]  input
    sin    float32 [batch, 1, seq, 4]  input
    states float32 [batch, seq, 16]    output

Source     llama_layers, opset 20, 125 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 6 proven rules applied 22 times, as report.json lists
Weights    weights.safetensors, 3,920 parameters

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
    "x": ("float32", ("batch", "seq", 16)),
    "cos": ("float32", ("batch", 1, "seq", 4)),
    "sin": ("float32", ("batch", 1, "seq", 4)),
}
OUTPUTS = {
    "states": ("float32", ("batch", "seq", 16)),
}


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair x[..., i], x[..., i + half] by the angle of cos and sin."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class LlamaAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(16, 16, bias=False)
        self.k_proj = nn.Linear(16, 8, bias=False)
        self.v_proj = nn.Linear(16, 8, bias=False)
        self.o_proj = nn.Linear(16, 16, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q = self.q_proj(x).unflatten(2, (4, 4)).transpose(1, 2)
        q = apply_rotary(q, cos, sin)
        k = self.k_proj(x).unflatten(2, (2, 4)).transpose(1, 2)
        k = apply_rotary(k, cos, sin)
        v = self.v_proj(x).unflatten(2, (2, 4)).transpose(1, 2)
        attended = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return self.o_proj(attended.transpose(1, 2).flatten(2))


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

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class LlamaLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(LlamaDecoderLayer() for _ in range(2))
        self.norm = nn.RMSNorm(16, eps=1e-6)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, cos, sin)  # [batch, seq, 16]
        return self.norm(x)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> LlamaLayers:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = LlamaLayers()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
