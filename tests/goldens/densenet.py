"""Densenet, generated from densenet.

    image    float32 [batch, 3, 8, 8]   input
    features float32 [batch, 12, 4, 4]  output

Source     densenet, opset 20, 33 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 1 proven rule applied 4 times, as report.json lists
Weights    weights.safetensors, 2,476 parameters

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
    "features": ("float32", ("batch", 12, 4, 4)),
}


class DenseLayer(nn.Module):
    def __init__(self, in_channels: int):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(in_channels)
        self.conv1 = nn.Conv2d(in_channels, 8, 1)
        self.conv2 = nn.Conv2d(8, 4, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(x))
        x = F.relu(self.conv1(x))
        return self.conv2(x)


class Transition(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(24)
        self.conv = nn.Conv2d(24, 12, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(x))
        return F.avg_pool2d(self.conv(x), 2)


class DenseBlock(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(4):
            self.add_module(f"denselayer{i + 1}", DenseLayer(8 + 4 * i))

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.children():
            features.append(layer(torch.cat(features, dim=1)))
        return torch.cat(features, dim=1)


class Densenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv0 = nn.Conv2d(3, 8, 3, padding=1)
        self.denseblock1 = DenseBlock()
        self.transition1 = Transition()

    def forward(self, image: Tensor) -> Tensor:
        x = self.conv0(image)  # [batch, 8, 8, 8]
        x = self.denseblock1(x)  # [batch, 24, 8, 8]
        return self.transition1(x)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> Densenet:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = Densenet()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
