"""Resnet50, generated from resnet50.onnx.

    image  float32 [batch, 3, 224, 224]  input
    logits float32 [batch, 1000]         output

Source     resnet50.onnx, opset 20, 122 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 1 proven rule applied 1 times, as report.json lists
Weights    weights.safetensors, 25,530,472 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "a5fc3c9571914de20865a3cb6362dfc22c03ad788cf9c7bc39a1d46719cba9db"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "image": ("float32", ("batch", 3, 224, 224)),
}
OUTPUTS = {
    "logits": ("float32", ("batch", 1000)),
}


class Bottleneck(nn.Module):
    def __init__(
        self, in_channels: int, width: int, stride: int = 1, downsample: bool = False
    ):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, width, 1)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1)
        self.conv3 = nn.Conv2d(width, 4 * width, 1)
        self.downsample = (
            nn.Conv2d(in_channels, 4 * width, 1, stride=stride)
            if downsample
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.conv1(x))
        out = F.relu(self.conv2(out))
        return F.relu(self.conv3(out) + self.downsample(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3)
        self.layer1 = nn.Sequential(
            Bottleneck(64, 64, downsample=True),
            Bottleneck(256, 64),
            Bottleneck(256, 64),
        )
        self.layer2 = nn.Sequential(
            Bottleneck(256, 128, stride=2, downsample=True),
            *(Bottleneck(512, 128) for _ in range(3)),
        )
        self.layer3 = nn.Sequential(
            Bottleneck(512, 256, stride=2, downsample=True),
            *(Bottleneck(1024, 256) for _ in range(5)),
        )
        self.layer4 = nn.Sequential(
            Bottleneck(1024, 512, stride=2, downsample=True),
            Bottleneck(2048, 512),
            Bottleneck(2048, 512),
        )
        self.fc = nn.Linear(2048, 1000)

    def forward(self, image: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(image)), 3, stride=2, padding=1)
        x = self.layer1(x)  # [batch, 256, 56, 56]
        x = self.layer2(x)  # [batch, 512, 28, 28]
        x = self.layer3(x)  # [batch, 1024, 14, 14]
        x = self.layer4(x).mean(dim=(2, 3))  # [batch, 2048]
        return self.fc(x)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> ResNet:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = ResNet()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
