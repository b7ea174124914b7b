"""DigitsCnn, generated from digits_cnn.onnx.

    image  float32 [batch, 1, 8, 8]  input
    logits float32 [batch, 10]       output

Source     digits_cnn.onnx, opset 20, 15 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: none applied
Weights    weights.safetensors, 37,642 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "a9698ef757dbd8a67a5043f1210042fc83277c65c8d69eb0ef2a629f2c491305"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "image": ("float32", ("batch", 1, 8, 8)),
}
OUTPUTS = {
    "logits": ("float32", ("batch", 10)),
}


class ResidualBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(32, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 32, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.conv1(x))
        return F.relu(x + self.conv2(out))


class DigitsCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 32, 3, padding=1)
        self.blocks = nn.Sequential(ResidualBlock(), ResidualBlock())
        self.head = nn.Linear(32, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.stem(image)), 2)  # [batch, 32, 4, 4]
        x = self.blocks(x).mean(dim=(2, 3))  # [batch, 32]
        return self.head(x)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> DigitsCNN:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = DigitsCNN()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
