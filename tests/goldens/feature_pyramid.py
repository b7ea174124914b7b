"""FeaturePyramid, generated from feature_pyramid.

    image float32 [batch, 3, 16, 16]  input
    p2    float32 [batch, 6, 8, 8]    output
    p3    float32 [batch, 6, 4, 4]    output
    p4    float32 [batch, 6, 2, 2]    output

Source     feature_pyramid, opset 20, 16 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: none applied
Weights    weights.safetensors, 2,436 parameters

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
    "p2": ("float32", ("batch", 6, 8, 8)),
    "p3": ("float32", ("batch", 6, 4, 4)),
    "p4": ("float32", ("batch", 6, 2, 2)),
}


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.conv3 = nn.Conv2d(8, 12, 3, stride=2, padding=1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = F.relu(self.conv1(image))
        features = F.relu(self.conv2(x))
        return x, features, F.relu(self.conv3(features))


class FeaturePyramidNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner_blocks = nn.ModuleList(
            [nn.Conv2d(4, 6, 1), nn.Conv2d(8, 6, 1), nn.Conv2d(12, 6, 1)]
        )
        self.layer_blocks = nn.ModuleList(
            nn.Conv2d(6, 6, 3, padding=1) for _ in range(3)
        )

    def forward(self, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = self.inner_blocks[2](z)
        resized = F.interpolate(z, scale_factor=2, mode="nearest")
        y = self.inner_blocks[1](y) + resized
        resized = F.interpolate(y, scale_factor=2, mode="nearest")
        x = self.inner_blocks[0](x) + resized
        p3 = self.layer_blocks[1](y)
        p4 = self.layer_blocks[2](z)
        return self.layer_blocks[0](x), p3, p4


class FeaturePyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Body()
        self.fpn = FeaturePyramidNetwork()

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, y, z = self.body(image)  # [batch, 4, 8, 8]
        p2, p3, p4 = self.fpn(x, y, z)  # [batch, 6, 8, 8]
        return p2, p3, p4


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> FeaturePyramid:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = FeaturePyramid()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
