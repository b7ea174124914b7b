"""MaskedPool, generated from masked_pool.

    states  float32 [batch, seq, 8]  input
    mask    bool    [batch, seq]     input
    mean    float32 [batch, 4]       output
    weights float32 [batch, seq]     output

Source     masked_pool, opset 20, 11 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: none applied
Weights    weights.safetensors, 36 parameters

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
    "states": ("float32", ("batch", "seq", 8)),
    "mask": ("bool", ("batch", "seq")),
}
OUTPUTS = {
    "mean": ("float32", ("batch", 4)),
    "weights": ("float32", ("batch", "seq")),
}


class MaskedPool(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        mask2 = mask.unsqueeze(-1)  # [batch, seq, 1]
        total = torch.where(mask2, states, 0.0).sum(dim=1)  # [batch, 8]
        x = mask2.float().sum(dim=1).clamp(min=1)  # [batch, 1]
        weights = torch.where(mask, states.amax(dim=-1), -1e9).softmax(dim=-1)
        return self.fc(total / x.to(total.dtype)), weights


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> MaskedPool:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = MaskedPool()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
