"""ResnetTorchscript, generated from resnet_torchscript.

    image  float32 [batch, 3, 8, 8]  input
    scores float32 [batch, 5]        output

Source     resnet_torchscript, opset 20, 33 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 3 proven rules applied 6 times, as report.json lists
Weights    weights.safetensors, 10,557 parameters

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
    "scores": ("float32", ("batch", 5)),
}


class Layer(nn.Module):
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


class ResnetTorchscript(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1)
        self.layer1 = nn.Sequential(Layer(4, 8, stride=2, downsample=True), Layer(8, 8))
        self.layer2 = nn.Sequential(
            Layer(8, 16, stride=2, downsample=True), Layer(16, 16)
        )
        self.fc = nn.Linear(16, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = F.relu(self.conv1(image))  # [batch, 4, 8, 8]
        x = self.layer1(x)  # [batch, 8, 4, 4]
        x = self.layer2(x).mean(dim=(2, 3))  # [batch, 16]
        return self.fc(x)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> ResnetTorchscript:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = ResnetTorchscript()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
