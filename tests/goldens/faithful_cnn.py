"""FaithfulCnn, generated from faithful_cnn.

    image  float32 [batch, 3, 8, 8]  input
    scores float32 [batch, 5]        output

Source     faithful_cnn, opset 20, 9 nodes
Generator  fairhand 0.1.0
Rewrites   -O0: 1 proven rule applied 1 times, as report.json lists
Weights    weights.safetensors, 399 parameters

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


class Stage(nn.Module):
    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.parts = nn.ModuleDict(
            {
                "conv": nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False),
                "norm": nn.BatchNorm2d(out_channels),
            }
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.parts["norm"](self.parts["conv"](x)))


class FaithfulCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.Sequential(Stage(3, 4), Stage(4, 6))
        self.classifier = nn.Linear(6, 5)

    def forward(self, image: Tensor) -> Tensor:
        stages = self.stages(image).mean(dim=(2, 3))  # [batch, 6]
        return self.classifier(stages)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> FaithfulCnn:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = FaithfulCnn()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
