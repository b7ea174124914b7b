"""OddEnds, generated from odd_ends.

    x           float32 [batch, 3]  input
    scale       float32 []          input
    ids         int64   [batch]     input
    y           float32 [batch, 3]  output
    bucket      int64   [batch]     output
    half        int64   [batch]     output
    same        float32 [batch, 3]  output
    scale_again float32 []          output
    above       float32 [batch, 3]  output

Source     odd_ends, opset 20, 11 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: none applied
Weights    weights.safetensors, 96 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "0000000000000000000000000000000000000000000000000000000000000000"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "x": ("float32", ("batch", 3)),
    "scale": ("float32", ()),
    "ids": ("int64", ("batch",)),
}
OUTPUTS = {
    "y": ("float32", ("batch", 3)),
    "bucket": ("int64", ("batch",)),
    "half": ("int64", ("batch",)),
    "same": ("float32", ("batch", 3)),
    "scale_again": ("float32", ()),
    "above": ("float32", ("batch", 3)),
}


class OddEnds(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("constant", torch.empty((96, 1)))

    def forward(self, x: Tensor, scale: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
        bucket = (ids * 3 + 7) % 7  # [batch]
        y = (x - scale) * scale  # [batch, 3]
        above = torch.maximum(x.unsqueeze(1), self.constant).mean(dim=1)
        return y, bucket, torch.div(bucket, 3, rounding_mode="trunc"), x, scale, above


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> OddEnds:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = OddEnds()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
