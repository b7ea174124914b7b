"""Inception, generated from inception.

    image    float32 [batch, 8, 12, 12]   input
    features float32 [batch, 24, 12, 12]  output

Source     inception, opset 20, 32 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: none applied
Weights    weights.safetensors, 2,058 parameters

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
    "image": ("float32", ("batch", 8, 12, 12)),
}
OUTPUTS = {
    "features": ("float32", ("batch", 24, 12, 12)),
}


class Inception(nn.Module):
    def __init__(
        self, in_channels: int, out_channels: int, width: int, out_channels2: int
    ):
        super().__init__()
        self.branch1x1 = nn.Conv2d(in_channels, out_channels, 1)
        self.branch3x3 = nn.Sequential(
            nn.Conv2d(in_channels, width, 1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
        )
        self.branch3x3dbl = nn.Sequential(
            nn.Conv2d(in_channels, 4, 1),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3, padding=1),
            nn.ReLU(),
        )
        self.branch_pool = nn.Conv2d(in_channels, out_channels2, 1)

    def forward(self, x: Tensor) -> Tensor:
        out = self.branch3x3(x)
        out2 = self.branch3x3dbl(x)
        pooled = F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)
        features = F.relu(self.branch_pool(pooled))
        return torch.cat([F.relu(self.branch1x1(x)), out, out2, features], dim=1)


class InceptionModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.mixed_a = Inception(8, 4, 6, 2)
        self.mixed_b = Inception(16, 6, 8, 6)

    def forward(self, image: Tensor) -> Tensor:
        x = self.mixed_a(image)  # [batch, 16, 12, 12]
        return self.mixed_b(x)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> InceptionModel:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = InceptionModel()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
