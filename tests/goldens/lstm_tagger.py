"""LstmTagger, generated from lstm_tagger.

    ids  int64   [batch, seq]     input
    tags float32 [batch, seq, 5]  output

Source     lstm_tagger, opset 20, 7 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: none applied
Weights    weights.safetensors, 677 parameters

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
    "ids": ("int64", ("batch", "seq")),
}
OUTPUTS = {
    "tags": ("float32", ("batch", "seq", 5)),
}


class LstmTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 8, batch_first=True)
        self.fc = nn.Linear(8, 5)

    def forward(self, ids: Tensor) -> Tensor:
        return self.fc(self.lstm(self.embedding(ids))[0])


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> LstmTagger:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = LstmTagger()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
