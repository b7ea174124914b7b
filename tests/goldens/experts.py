"""Experts, generated from experts.

    x     float32 [batch, 8]  input
    y     float32 [batch, 8]  output
    gates float32 [batch, 2]  output

Source     experts, opset 20, 17 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 1 proven rule applied 5 times, as report.json lists
Weights    weights.safetensors, 578 parameters

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
    "x": ("float32", ("batch", 8)),
}
OUTPUTS = {
    "y": ("float32", ("batch", 8)),
    "gates": ("float32", ("batch", 2)),
}


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.fc2 = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x)))


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 2)
        self.experts = nn.ModuleList(Expert() for _ in range(2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        gates = self.gate(x).softmax(dim=-1)  # [batch, 2]
        first, second = gates.chunk(2, dim=1)  # [batch, 1]
        out = self.experts[0](x)  # [batch, 8]
        x = self.experts[1](x)
        y = out * first + x * second
        return y, gates


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> Experts:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = Experts()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
