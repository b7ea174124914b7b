"""Llama, generated from llama.onnx.

    input_ids int64   [batch, seq]         input
    logits    float32 [batch, seq, 32000]  output

Source     llama.onnx, opset 20, 496 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 8 proven rules applied 75 times, as report.json lists
Weights    weights.safetensors, 86,910,752 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from .kernels import (
    add_rms_norm,
    linear_silu_mul,
    rotary_angles,
    rotary_causal_attention,
)

MODEL_SHA256 = "a3d3434d1a8529eafddbf03cbba866c2ca5783090d14982e8020623d5c0b056b"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "input_ids": ("int64", ("batch", "seq")),
}
OUTPUTS = {
    "logits": ("float32", ("batch", "seq", 32000)),
}


class LlamaRotaryEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("inv_freq", torch.empty((32,)))

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = rotary_angles(positions[None, :, None], self.inv_freq)
        return cos, sin


class LlamaAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(768, 768, bias=False)
        self.k_proj = nn.Linear(768, 256, bias=False)
        self.v_proj = nn.Linear(768, 256, bias=False)
        self.o_proj = nn.Linear(768, 768, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q = self.q_proj(x).unflatten(2, (12, 64))
        k = self.k_proj(x).unflatten(2, (4, 64))
        v = self.v_proj(x).unflatten(2, (4, 64)).transpose(1, 2)
        x = rotary_causal_attention(q, cos, sin, k, v).transpose(1, 2)
        return self.o_proj(x.flatten(2))


class LlamaMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(768, 2048, bias=False)
        self.up_proj = nn.Linear(768, 2048, bias=False)
        self.down_proj = nn.Linear(2048, 768, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = linear_silu_mul(x, self.gate_proj.weight, self.up_proj(x))
        return self.down_proj(x)


class LlamaDecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(768, eps=1e-6)
        self.self_attn = LlamaAttention()
        self.post_attention_layernorm = nn.RMSNorm(768, eps=1e-6)
        self.mlp = LlamaMLP()

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        attended = self.self_attn(self.input_layernorm(x), cos, sin)
        x, y = add_rms_norm(x, attended, self.post_attention_layernorm.weight, eps=1e-6)
        return x + self.mlp(y)


class LlamaModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(32000, 768)
        self.rotary_emb = LlamaRotaryEmbedding()
        self.layers = nn.ModuleList(LlamaDecoderLayer() for _ in range(6))
        self.norm = nn.RMSNorm(768, eps=1e-6)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embed_tokens(input_ids)
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        cos, sin = self.rotary_emb(positions)
        cos = cos.unsqueeze(1)
        sin = sin.unsqueeze(1)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


class LlamaForCausalLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = LlamaModel()
        self.lm_head = nn.Linear(768, 32000, bias=False)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.lm_head(self.model(input_ids))


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
