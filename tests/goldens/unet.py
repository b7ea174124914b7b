"""Unet, generated from unet.

    image float32 [batch, 1, 16, 16]  input
    mask  float32 [batch, 1, 16, 16]  output

Source     unet, opset 20, 28 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: none applied
Weights    weights.safetensors, 7,397 parameters

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
    "image": ("float32", ("batch", 1, 16, 16)),
}
OUTPUTS = {
    "mask": ("float32", ("batch", 1, 16, 16)),
}


class DoubleConv(nn.Module):
    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv1(x))
        return F.relu(self.conv2(x))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = DoubleConv(1, 4)
        self.down2 = DoubleConv(4, 8)
        self.bottom = DoubleConv(8, 16)
        self.up2 = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.conv2 = DoubleConv(16, 8)
        self.up1 = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.conv1 = DoubleConv(8, 4)
        self.out = nn.Conv2d(4, 1, 1)

    def forward(self, image: Tensor) -> Tensor:
        x = self.down1(image)  # [batch, 4, 16, 16]
        out = self.down2(F.max_pool2d(x, 2))  # [batch, 8, 8, 8]
        bottom = self.bottom(F.max_pool2d(out, 2))  # [batch, 16, 4, 4]
        joined = torch.cat([out, self.up2(bottom)], dim=1)  # [batch, 16, 8, 8]
        out = self.conv2(joined)
        x = torch.cat([x, self.up1(out)], dim=1)  # [batch, 8, 16, 16]
        x = self.conv1(x)
        return torch.sigmoid(self.out(x))


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> Unet:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = Unet()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
