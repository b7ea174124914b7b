"""EfficientnetB0, generated from efficientnet_b0.onnx.

    image  float32 [batch, 3, 224, 224]  input
    logits float32 [batch, 1000]         output

Source     efficientnet_b0.onnx, opset 20, 239 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 2 proven rules applied 50 times, as report.json lists
Weights    weights.safetensors, 5,257,200 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

from .kernels import depthwise_conv_silu, pointwise_conv_silu, sigmoid_mul

MODEL_SHA256 = "716020fa2571e6ca07d016bf3242bd1246ba2608301bce44d2802e08eae8b345"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "image": ("float32", ("batch", 3, 224, 224)),
}
OUTPUTS = {
    "logits": ("float32", ("batch", 1000)),
}


class SqueezeExcitation(nn.Module):
    def __init__(self, in_channels: int, width: int):
        super().__init__()
        self.fc1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.fc2 = nn.Conv2d(width, in_channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(dim=(-1, -2), keepdim=True)
        features = F.silu(self.fc1(mean))
        return sigmoid_mul(self.fc2(features), x)


class FirstMBConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.ModuleList(
            [
                nn.Conv2d(32, 32, 3, padding=1, groups=32),
                SqueezeExcitation(32, 8),
                nn.Conv2d(32, 16, 1),
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        x = depthwise_conv_silu(
            x,
            self.block[0].weight,
            self.block[0].bias,
            self.block[0].stride,
            self.block[0].padding,
        )
        x = self.block[1](x)
        return self.block[2](x)


class MBConv(nn.Module):
    def __init__(
        self,
        in_channels: int,
        width: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        residual: bool = True,
    ):
        super().__init__()
        self.block = nn.ModuleList(
            [
                nn.Conv2d(in_channels, width, 1),
                nn.Conv2d(
                    width,
                    width,
                    kernel_size,
                    stride=stride,
                    padding=kernel_size // 2,
                    groups=width,
                ),
                SqueezeExcitation(width, in_channels // 4),
                nn.Conv2d(width, out_channels, 1),
            ]
        )
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        out = pointwise_conv_silu(x, self.block[0].weight, self.block[0].bias)
        out = depthwise_conv_silu(
            out,
            self.block[1].weight,
            self.block[1].bias,
            self.block[1].stride,
            self.block[1].padding,
        )
        out = self.block[2](out)
        out = self.block[3](out)
        return out + x if self.residual else out


class EfficientNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.ModuleList(
            [
                nn.Conv2d(3, 32, 3, stride=2, padding=1),
                nn.Sequential(FirstMBConv()),
                nn.Sequential(
                    MBConv(16, 96, 24, 3, stride=2, residual=False),
                    MBConv(24, 144, 24, 3),
                ),
                nn.Sequential(
                    MBConv(24, 144, 40, 5, stride=2, residual=False),
                    MBConv(40, 240, 40, 5),
                ),
                nn.Sequential(
                    MBConv(40, 240, 80, 3, stride=2, residual=False),
                    MBConv(80, 480, 80, 3),
                    MBConv(80, 480, 80, 3),
                ),
                nn.Sequential(
                    MBConv(80, 480, 112, 5, residual=False),
                    MBConv(112, 672, 112, 5),
                    MBConv(112, 672, 112, 5),
                ),
                nn.Sequential(
                    MBConv(112, 672, 192, 5, stride=2, residual=False),
                    *(MBConv(192, 1152, 192, 5) for _ in range(3)),
                ),
                nn.Sequential(MBConv(192, 1152, 320, 3, residual=False)),
                nn.Conv2d(320, 1280, 1),
            ]
        )
        self.classifier = nn.Linear(1280, 1000, bias=False)

    def forward(self, image: Tensor) -> Tensor:
        x = F.silu(self.features[0](image))  # [batch, 32, 112, 112]
        for feature in self.features[1:8]:
            x = feature(x)
        mean = F.silu(self.features[8](x)).mean(dim=(2, 3))  # [batch, 1280]
        return self.classifier(mean)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> EfficientNet:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = EfficientNet()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
