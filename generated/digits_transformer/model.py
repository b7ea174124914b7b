"""DigitsTransformer, generated from digits_transformer.onnx.

    image  float32 [batch, 1, 8, 8]  input
    logits float32 [batch, 10]       output

Source     digits_transformer.onnx, opset 17, 248 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 4 proven rules applied 13 times, as report.json lists
Weights    weights.safetensors, 39,514 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "bd53a3b62f382cf3885c0bb865202cf300772c2ed76a1519699e0c95eba30ce0"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "image": ("float32", ("batch", 1, 8, 8)),
}
OUTPUTS = {
    "logits": ("float32", ("batch", 10)),
}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(48, 48)
        self.key = nn.Linear(48, 48)
        self.value = nn.Linear(48, 48)
        self.output = nn.Linear(48, 48)

    def forward(self, x: Tensor) -> Tensor:
        q = self.query(x).unflatten(2, (4, 12)).transpose(1, 2)
        k = self.key(x).unflatten(2, (4, 12)).transpose(1, 2)
        v = self.value(x).unflatten(2, (4, 12)).transpose(1, 2)
        x = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return self.output(x.flatten(2))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = nn.LayerNorm(48)
        self.attention = Attention()
        self.mlp_norm = nn.LayerNorm(48)
        self.mlp = nn.Sequential(nn.Linear(48, 96), nn.GELU(), nn.Linear(96, 48))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class DigitsTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 48)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm = nn.LayerNorm(48)
        self.head = nn.Linear(48, 10)
        self.positions = nn.Parameter(torch.empty((1, 16, 48)))

    def forward(self, image: Tensor) -> Tensor:
        image = image.reshape(-1, 4, 2, 4, 2).transpose(2, 3).reshape(-1, 16, 4)
        x = self.embed(image) + self.positions  # [batch, 16, 48]
        for layer in self.layers:
            x = layer(x)
        mean = self.norm(x).mean(dim=1)  # [batch, 48]
        return self.head(mean)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> DigitsTransformer:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = DigitsTransformer()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
