"""ResizeDynamic, generated from resize_dynamic.

    image   float32 [batch, 3, height, width]  input
    classes int64   [batch, 1, height, width]  output

Source     resize_dynamic, opset 20, 10 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: none applied
Weights    weights.safetensors, 122 parameters

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
    "image": ("float32", ("batch", 3, "height", "width")),
}
OUTPUTS = {
    "classes": ("int64", ("batch", 1, "height", "width")),
}


class ResizeDynamic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.classifier = nn.Conv2d(4, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        x = F.relu(self.conv(image))
        x = self.classifier(x)
        resized = F.interpolate(
            x, size=(image.shape[2], image.shape[3]), mode="bilinear"
        )
        return resized.argmax(dim=1, keepdim=True)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> ResizeDynamic:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = ResizeDynamic()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
