"""EncoderOpset13, generated from encoder_opset13.

    tokens float32 [batch, seq, 8]  input
    states float32 [batch, seq, 8]  output

Source     encoder_opset13, opset 13, 109 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 4 proven rules applied 23 times, as report.json lists
Weights    weights.safetensors, 1,216 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "0000000000000000000000000000000000000000000000000000000000000000"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "tokens": ("float32", ("batch", "seq", 8)),
}
OUTPUTS = {
    "states": ("float32", ("batch", "seq", 8)),
}


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(8, 8)
        self.key = nn.Linear(8, 8)
        self.value = nn.Linear(8, 8)
        self.output = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        q = self.query(x).unflatten(2, (2, 4)).transpose(1, 2)
        k = self.key(x).unflatten(2, (2, 4)).transpose(1, 2)
        v = self.value(x).unflatten(2, (2, 4)).transpose(1, 2)
        x = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return self.output(x.flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = SelfAttention()
        self.norm1 = nn.LayerNorm(8)
        self.mlp = Mlp()
        self.norm2 = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer() for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        x = tokens
        for layer in self.layers:
            x = layer(x)
        return x


class EncoderOpset13(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.norm = nn.LayerNorm(8)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.norm(self.encoder(tokens))


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> EncoderOpset13:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = EncoderOpset13()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
