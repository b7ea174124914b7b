"""Resnet, generated from resnet.

    image  float32 [batch, 3, 16, 16]  input
    scores float32 [batch, 5]          output

Source     resnet, opset 20, 53 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 2 proven rules applied 16 times, as report.json lists
Weights    weights.safetensors, 30,469 parameters

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
    "image": ("float32", ("batch", 3, 16, 16)),
}
OUTPUTS = {
    "scores": ("float32", ("batch", 5)),
}


class BasicBlock(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        stride: int = 1,
        downsample: bool = False,
    ):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.downsample = (
            nn.Conv2d(in_channels, out_channels, 1, stride=2)
            if downsample
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.conv1(x))
        return F.relu(self.conv2(out) + self.downsample(x))


class Resnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.layer1 = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 8))
        self.layer2 = nn.Sequential(
            BasicBlock(8, 16, stride=2, downsample=True), BasicBlock(16, 16)
        )
        self.layer3 = nn.Sequential(
            BasicBlock(16, 24, stride=2, downsample=True), BasicBlock(24, 24)
        )
        self.fc = nn.Linear(24, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(image)), 2)  # [batch, 8, 8, 8]
        x = self.layer1(x)
        x = self.layer2(x)  # [batch, 16, 4, 4]
        x = self.layer3(x).mean(dim=(2, 3))  # [batch, 24]
        return self.fc(x)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> Resnet:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = Resnet()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
