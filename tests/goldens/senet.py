"""Senet, generated from senet.

    image    float32 [batch, 3, 8, 8]  input
    features float32 [batch, 8, 8, 8]  output

Source     senet, opset 20, 35 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: none applied
Weights    weights.safetensors, 3,854 parameters

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
    "image": ("float32", ("batch", 3, 8, 8)),
}
OUTPUTS = {
    "features": ("float32", ("batch", 8, 8, 8)),
}


class SqueezeExcitation(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Conv2d(8, 2, 1)
        self.fc2 = nn.Conv2d(2, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(dim=(2, 3), keepdim=True)
        gate = F.relu(self.fc1(mean))
        return x * torch.sigmoid(self.fc2(gate))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(8, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
        self.se = SqueezeExcitation()

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.conv1(x))
        out = self.conv2(out)
        return F.relu(self.se(out) + x)


class Senet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.Sequential(*(Block() for _ in range(3)))

    def forward(self, image: Tensor) -> Tensor:
        x = F.relu(self.stem(image))  # [batch, 8, 8, 8]
        return self.blocks(x)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> Senet:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = Senet()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
