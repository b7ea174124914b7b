"""PlainCnn, generated from plain_cnn.

    image  float32 [batch, 3, 16, 16]  input
    scores float32 [batch, 10]         output

Source     plain_cnn, opset 20, 10 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 1 proven rule applied 2 times, as report.json lists
Weights    weights.safetensors, 3,030 parameters

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
    "scores": ("float32", ("batch", 10)),
}


class PlainCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 12, 3, padding=1)
        self.fc = nn.Linear(192, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(image)), 2)  # [batch, 8, 8, 8]
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)  # [batch, 12, 4, 4]
        return self.fc(x.flatten(1))


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> PlainCnn:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = PlainCnn()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
