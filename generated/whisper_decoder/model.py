"""WhisperDecoder, generated from whisper_decoder.onnx.

    input_ids             int64   [batch, seq]         input
    encoder_hidden_states float32 [batch, 1500, 384]   input
    logits                float32 [batch, seq, 51865]  output

Source     whisper_decoder.onnx, opset 20, 350 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 4 proven rules applied 42 times, as report.json lists
Weights    weights.safetensors, 29,552,256 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "f5f1b6cd30e6b63227148e3e3a31b620d71a70cc3e0855ac1e81ee861a59c1f7"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "input_ids": ("int64", ("batch", "seq")),
    "encoder_hidden_states": ("float32", ("batch", 1500, 384)),
}
OUTPUTS = {
    "logits": ("float32", ("batch", "seq", 51865)),
}


class WhisperPositionalEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty((448, 384)))

    def forward(self, positions: Tensor) -> Tensor:
        return self.weight[positions]


class WhisperAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(384, 384)
        self.k_proj = nn.Linear(384, 384, bias=False)
        self.v_proj = nn.Linear(384, 384)
        self.out_proj = nn.Linear(384, 384)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q = self.q_proj(x).unflatten(2, (6, 64)).transpose(1, 2)
        k = self.k_proj(x).unflatten(2, (6, 64)).transpose(1, 2)
        v = self.v_proj(x).unflatten(2, (6, 64)).transpose(1, 2)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(attended.transpose(1, 2).flatten(2))


class WhisperEncoderAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(384, 384)
        self.k_proj = nn.Linear(384, 384, bias=False)
        self.v_proj = nn.Linear(384, 384)
        self.out_proj = nn.Linear(384, 384)

    def forward(self, x: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        q = self.q_proj(x).unflatten(2, (6, 64)).transpose(1, 2)
        k = self.k_proj(encoder_hidden_states).unflatten(2, (6, 64))
        v = self.v_proj(encoder_hidden_states).unflatten(2, (6, 64))
        v = v.transpose(1, 2)
        attended = F.scaled_dot_product_attention(q, k.transpose(1, 2), v)
        return self.out_proj(attended.transpose(1, 2).flatten(2))


class WhisperDecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn_layer_norm = nn.LayerNorm(384)
        self.self_attn = WhisperAttention()
        self.encoder_attn_layer_norm = nn.LayerNorm(384)
        self.encoder_attn = WhisperEncoderAttention()
        self.final_layer_norm = nn.LayerNorm(384)
        self.fc1 = nn.Linear(384, 1536)
        self.fc2 = nn.Linear(1536, 384)

    def forward(self, x: Tensor, mask: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        x = x + self.self_attn(self.self_attn_layer_norm(x), mask)
        out = self.encoder_attn_layer_norm(x)
        x = x + self.encoder_attn(out, encoder_hidden_states)
        out = F.gelu(self.fc1(self.final_layer_norm(x)))
        return x + self.fc2(out)


class WhisperDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(51865, 384)
        self.embed_positions = WhisperPositionalEmbedding()
        self.layers = nn.ModuleList(WhisperDecoderLayer() for _ in range(4))
        self.layer_norm = nn.LayerNorm(384)

    def forward(self, input_ids: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        seq = input_ids.shape[1]
        positions = torch.arange(seq, device=input_ids.device).unsqueeze(0)
        positions = positions.repeat(input_ids.shape[0], 1)
        x = self.embed_tokens(input_ids) + self.embed_positions(positions)
        joined = torch.cat([positions[:, :1] - 1, positions], dim=1)
        joined = (joined[:, 1 : input_ids.shape[1] + 1] - joined[:, :seq] != 1).long()
        sums = joined.cumsum(dim=-1)
        mask = positions[:, None, None, :] <= positions[:, None, :, None]
        mask2 = sums[:, None, :, None] == sums[:, None, None, :]
        mask = mask & mask2
        mask = torch.where(mask, 0.0, torch.finfo(x.dtype).min).to(x.dtype)
        for layer in self.layers:
            x = layer(x, mask, encoder_hidden_states)
        return self.layer_norm(x)


class WhisperDecoderModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder = WhisperDecoder()
        self.proj_out = nn.Linear(384, 51865, bias=False)
        self.proj_out.weight = self.decoder.embed_tokens.weight

    def forward(self, input_ids: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        x = self.decoder(input_ids, encoder_hidden_states)  # [batch, seq, 384]
        return self.proj_out(x)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> WhisperDecoderModel:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    # Layers that share a weight get one parameter; the file has it under one name.
    shared = nn.Parameter(state["decoder.embed_tokens.weight"])
    state |= dict.fromkeys(["decoder.embed_tokens.weight", "proj_out.weight"], shared)
    with torch.device("meta"):  # no random initialisation, no second copy
        model = WhisperDecoderModel()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
