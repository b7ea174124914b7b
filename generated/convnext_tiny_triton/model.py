"""ConvnextTiny, generated from convnext_tiny.onnx.

    image  float32 [batch, 3, 224, 224]  input
    logits float32 [batch, 1000]         output

Source     convnext_tiny.onnx, opset 20, 230 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 3 proven rules applied 22 times, as report.json lists
Weights    weights.safetensors, 28,580,064 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from .kernels import linear_gelu, mul_transpose_add, transpose_layer_norm

MODEL_SHA256 = "961cea6f5584d7cf3cdbf0efa7e1cb552854e343a67075bfcefa3a07c48cbb1c"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "image": ("float32", ("batch", 3, 224, 224)),
}
OUTPUTS = {
    "logits": ("float32", ("batch", 1000)),
}


class LayerNorm2d(nn.Module):
    def __init__(self, num_features: int):
        super().__init__()
        self.norm = nn.LayerNorm(num_features, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        x = transpose_layer_norm(x, self.norm.weight, self.norm.bias, eps=1e-6)
        return x.permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    def __init__(self, in_channels: int):
        super().__init__()
        self.block = nn.ModuleList(
            [
                nn.Conv2d(
                    in_channels,
                    in_channels,
                    7,
                    padding=3,
                    groups=in_channels,
                    bias=False,
                ),
                nn.LayerNorm(in_channels, eps=1e-6),
                nn.Linear(in_channels, 4 * in_channels),
                nn.Linear(4 * in_channels, in_channels),
            ]
        )
        self.layer_scale = nn.Parameter(torch.empty((1, 1, 1, in_channels)))

    def forward(self, x: Tensor) -> Tensor:
        features = self.block[0](x)
        y = transpose_layer_norm(
            features, self.block[1].weight, self.block[1].bias, eps=1e-6
        )
        y = linear_gelu(y, self.block[2].weight, self.block[2].bias)
        return mul_transpose_add(self.layer_scale, self.block[3](y), x)


class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Sequential(nn.Conv2d(3, 96, 4, stride=4, bias=False), LayerNorm2d(96)),
            nn.Sequential(*(CNBlock(96) for _ in range(3))),
            nn.Sequential(LayerNorm2d(96), nn.Conv2d(96, 192, 2, stride=2, bias=False)),
            nn.Sequential(*(CNBlock(192) for _ in range(3))),
            nn.Sequential(
                LayerNorm2d(192), nn.Conv2d(192, 384, 2, stride=2, bias=False)
            ),
            nn.Sequential(*(CNBlock(384) for _ in range(9))),
            nn.Sequential(
                LayerNorm2d(384), nn.Conv2d(384, 768, 2, stride=2, bias=False)
            ),
            nn.Sequential(*(CNBlock(768) for _ in range(3))),
        )
        self.classifier = nn.ModuleList(
            [nn.LayerNorm(768, eps=1e-6), nn.Linear(768, 1000, bias=False)]
        )

    def forward(self, image: Tensor) -> Tensor:
        mean = self.features(image).mean(dim=(-1, -2), keepdim=True)
        mean = mean.permute(0, 2, 3, 1)  # [batch, 1, 1, 768]
        x = self.classifier[0](mean).squeeze((1, 2))  # [batch, 768]
        return self.classifier[1](x)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> ConvNeXt:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = ConvNeXt()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
