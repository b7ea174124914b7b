"""EncoderTorchscript, generated from encoder_torchscript.

    tokens float32 [batch, seq, 8]  input
    states float32 [batch, seq, 8]  output

Source     encoder_torchscript, opset 20, 100 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 2 proven rules applied 4 times, as report.json lists
Weights    weights.safetensors, 608 parameters

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


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(8, 8)
        self.key = nn.Linear(8, 8)
        self.value = nn.Linear(8, 8)
        self.out = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        q = self.query(x).unflatten(2, (2, 4)).transpose(1, 2)
        k = self.key(x).unflatten(2, (2, 4)).transpose(1, 2)
        v = self.value(x).unflatten(2, (2, 4)).transpose(1, 2)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return self.norm(x + self.out(attended.flatten(2)))


class EncoderTorchscript(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.layers[0](tokens)  # [batch, seq, 8]
        return self.layers[1](x)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> EncoderTorchscript:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = EncoderTorchscript()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
