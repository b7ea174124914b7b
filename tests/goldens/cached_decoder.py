"""CachedDecoder, generated from cached_decoder.

    x                         float32 [batch, 1, 8]            input
    past_k0 ... past_k2       float32 [batch, 2, past, 4]      input
    past_v0 ... past_v2       float32 [batch, 2, past, 4]      input
    states                    float32 [batch, 1, 8]            output
    present_k0 ... present_k2 float32 [batch, 2, past + 1, 4]  output
    present_v0 ... present_v2 float32 [batch, 2, past + 1, 4]  output

Source     cached_decoder, opset 20, 97 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 2 proven rules applied 18 times, as report.json lists
Weights    weights.safetensors, 1,816 parameters

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
    "x": ("float32", ("batch", 1, 8)),
    **{
        f"past_{part}{i}": ("float32", ("batch", 2, "past", 4))
        for i in range(3)
        for part in ("k", "v")
    },
}
OUTPUTS = {
    "states": ("float32", ("batch", 1, 8)),
    **{
        f"present_{part}{i}": ("float32", ("batch", 2, None, 4))
        for i in range(3)
        for part in ("k", "v")
    },
}
# Arguments and results of forward that are lists, and what of INPUTS and OUTPUTS is in.
NESTED = {
    "past": [(f"past_k{i}", f"past_v{i}") for i in range(3)],
    "present": [(f"present_k{i}", f"present_v{i}") for i in range(3)],
}


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(8)
        self.query = nn.Linear(8, 8)
        self.key = nn.Linear(8, 8)
        self.value = nn.Linear(8, 8)
        self.out = nn.Linear(8, 8)
        self.norm2 = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(
        self, x: Tensor, past_k: Tensor, past_v: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        normed = self.norm1(x)
        q = self.query(normed).reshape(-1, 2, 1, 4)
        k = self.key(normed).reshape(-1, 2, 1, 4)
        v = self.value(normed).reshape(-1, 2, 1, 4)
        k = torch.cat([past_k, k], dim=2)
        v = torch.cat([past_v, v], dim=2)
        attended = F.scaled_dot_product_attention(q, k, v).reshape(-1, 1, 8)
        x = x + self.out(attended)
        out = F.gelu(self.up(self.norm2(x)))
        return k, v, x + self.down(out)


class CachedDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer() for _ in range(3))
        self.norm = nn.LayerNorm(8)

    def forward(
        self, x: Tensor, past: list[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        present = []
        for layer, (past_k, past_v) in zip(self.layers, past, strict=True):
            present_k, present_v, x = layer(x, past_k, past_v)
            present.append((present_k, present_v))
        return self.norm(x), present


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> CachedDecoder:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = CachedDecoder()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
