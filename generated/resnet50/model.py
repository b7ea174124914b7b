"""Resnet50, generated from resnet50.onnx.

    image  float32 [batch, 3, 224, 224]  input
    logits float32 [batch, 1000]         output

Source     resnet50.onnx, opset 20, 122 nodes
           sha256 c6e1751f5fdc3101b2b00809792c046c0533b81efe00fba88621176c8ffdb508
Generator  fairhand 0.1.0
Rewrites   reduce_mean_reshape_2d x1
Weights    weights.safetensors, 25,530,472 parameters

This module needs PyTorch and safetensors; it does not need ONNX or fairhand.
Regenerating overwrites it.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "c6e1751f5fdc3101b2b00809792c046c0533b81efe00fba88621176c8ffdb508"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "image": ("float32", ("batch", 3, 224, 224)),
}
OUTPUTS = {
    "logits": ("float32", ("batch", 1000)),
}


class BottleneckWithDownsample(nn.Module):
    def __init__(self, in_channels: int, width: int, out_channels: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, width, 1)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1)
        self.conv3 = nn.Conv2d(width, out_channels, 1)
        self.downsample = nn.Conv2d(in_channels, out_channels, 1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.conv1(x))
        y = F.relu(self.conv2(y))
        return F.relu(self.conv3(y) + self.downsample(x))


class Bottleneck(nn.Module):
    def __init__(self, in_channels: int, width: int):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, width, 1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.conv3 = nn.Conv2d(width, in_channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.conv1(x))
        y = F.relu(self.conv2(y))
        return F.relu(self.conv3(y) + x)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3)
        self.layer1 = nn.Sequential(
            BottleneckWithDownsample(64, 64, 256, 1),
            Bottleneck(256, 64),
            Bottleneck(256, 64),
        )
        self.layer2 = nn.Sequential(
            BottleneckWithDownsample(256, 128, 512, 2),
            Bottleneck(512, 128),
            Bottleneck(512, 128),
            Bottleneck(512, 128),
        )
        self.layer3 = nn.Sequential(
            BottleneckWithDownsample(512, 256, 1024, 2),
            Bottleneck(1024, 256),
            Bottleneck(1024, 256),
            Bottleneck(1024, 256),
            Bottleneck(1024, 256),
            Bottleneck(1024, 256),
        )
        self.layer4 = nn.Sequential(
            BottleneckWithDownsample(1024, 512, 2048, 2),
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


Model = ResNet


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> ResNet:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(
                f"{weights} belongs to model {found}, "
                f"this module was generated from {MODEL_SHA256}"
            )
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = ResNet()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
