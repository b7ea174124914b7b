"""GruClassifier, generated from gru_classifier.

    series float32 [batch, time, 4]  input
    scores float32 [batch, 3]        output

Source     gru_classifier, opset 20, 7 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: none applied
Weights    weights.safetensors, 489 parameters

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
    "series": ("float32", ("batch", "time", 4)),
}
OUTPUTS = {
    "scores": ("float32", ("batch", 3)),
}


class GRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru1 = nn.GRU(4, 6)
        self.gru2 = nn.GRU(6, 6)

    def forward(self, series: Tensor) -> Tensor:
        return self.gru2(self.gru1(series)[0])[1]


class GruClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = GRU()
        self.fc = nn.Linear(6, 3)

    def forward(self, series: Tensor) -> Tensor:
        gru = self.gru(series.transpose(0, 1)).squeeze(0)  # [batch, 6]
        return self.fc(gru)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> GruClassifier:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = GruClassifier()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
