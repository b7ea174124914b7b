"""InvertedResiduals, generated from inverted_residuals.

    image  float32 [batch, 3, 16, 16]  input
    scores float32 [batch, 5]          output

Source     inverted_residuals, opset 20, 40 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 2 proven rules applied 14 times, as report.json lists
Weights    weights.safetensors, 3,473 parameters

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


class InvertedResidual(nn.Module):
    def __init__(
        self,
        in_channels: int,
        width: int,
        out_channels: int,
        stride: int = 1,
        residual: bool = False,
    ):
        super().__init__()
        self.conv = nn.ModuleList(
            [
                nn.Conv2d(in_channels, width, 1),
                nn.Conv2d(width, width, 3, stride=stride, padding=1, groups=width),
                nn.Conv2d(width, out_channels, 1),
            ]
        )
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu6(self.conv[0](x))
        out = F.relu6(self.conv[1](out))
        out = self.conv[2](out)
        return x + out if self.residual else out


class InvertedResiduals(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.ModuleList(
            [
                nn.Conv2d(3, 8, 3, stride=2, padding=1),
                InvertedResidual(8, 16, 12, stride=2),
                InvertedResidual(12, 24, 12, residual=True),
                InvertedResidual(12, 24, 12, residual=True),
                InvertedResidual(12, 24, 16),
            ]
        )
        self.classifier = nn.Linear(16, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = F.relu6(self.features[0](image))  # [batch, 8, 8, 8]
        for feature in self.features[1:]:
            x = feature(x)
        return self.classifier(x.mean(dim=(2, 3)))


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> InvertedResiduals:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = InvertedResiduals()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
