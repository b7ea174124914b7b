"""WhisperEncoder, generated from whisper_encoder.onnx.

    input_features        float32 [batch, 80, 3000]   input
    encoder_hidden_states float32 [batch, 1500, 384]  output

Source     whisper_encoder.onnx, opset 20, 160 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 4 proven rules applied 21 times, as report.json lists
Weights    weights.safetensors, 8,207,616 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "d0bdf222197a54e7efa6d2e8c42d11ca4c94c067cc9bdd07e4a11b1a4bdec790"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "input_features": ("float32", ("batch", 80, 3000)),
}
OUTPUTS = {
    "encoder_hidden_states": ("float32", ("batch", 1500, 384)),
}


class WhisperAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(384, 384)
        self.k_proj = nn.Linear(384, 384, bias=False)
        self.v_proj = nn.Linear(384, 384)
        self.out_proj = nn.Linear(384, 384)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q_proj(x).unflatten(2, (6, 64)).transpose(1, 2)
        k = self.k_proj(x).unflatten(2, (6, 64)).transpose(1, 2)
        v = self.v_proj(x).unflatten(2, (6, 64)).transpose(1, 2)
        x = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return self.out_proj(x.flatten(2))


class WhisperEncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn_layer_norm = nn.LayerNorm(384)
        self.self_attn = WhisperAttention()
        self.final_layer_norm = nn.LayerNorm(384)
        self.fc1 = nn.Linear(384, 1536)
        self.fc2 = nn.Linear(1536, 384)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.self_attn_layer_norm(x))
        out = F.gelu(self.fc1(self.final_layer_norm(x)))
        return x + self.fc2(out)


class WhisperEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(80, 384, 3, padding=1, bias=False)
        self.conv2 = nn.Conv1d(384, 384, 3, stride=2, padding=1, bias=False)
        self.layers = nn.ModuleList(WhisperEncoderLayer() for _ in range(4))
        self.layer_norm = nn.LayerNorm(384)
        self.register_buffer("position_embedding", torch.empty((1, 384, 1500)))

    def forward(self, input_features: Tensor) -> Tensor:
        x = F.gelu(self.conv1(input_features))  # [batch, 384, 3000]
        x = F.gelu(self.conv2(x)) + self.position_embedding  # [batch, 384, 1500]
        x = x.transpose(1, 2)  # [batch, 1500, 384]
        for layer in self.layers:
            x = layer(x)
        return self.layer_norm(x)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> WhisperEncoder:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = WhisperEncoder()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
