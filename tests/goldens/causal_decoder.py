"""CausalDecoder, generated from causal_decoder.

    input_ids int64   [batch, seq]      input
    logits    float32 [batch, seq, 16]  output

Source     causal_decoder, opset 20, 70 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 2 proven rules applied 6 times, as report.json lists
Weights    weights.safetensors, 1,601 parameters

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
    "input_ids": ("int64", ("batch", "seq")),
}
OUTPUTS = {
    "logits": ("float32", ("batch", "seq", 16)),
}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(8, 24)
        self.c_proj = nn.Linear(8, 8)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        q = q.unflatten(2, (2, 4)).transpose(1, 2)
        k = k.unflatten(2, (2, 4)).transpose(1, 2)
        v = v.unflatten(2, (2, 4)).transpose(1, 2)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype))
        return self.c_proj(attended.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(8)
        self.attn = Attention()
        self.ln_2 = nn.LayerNorm(8)
        self.fc = nn.Linear(8, 16)
        self.proj = nn.Linear(16, 8)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x), mask)
        out = F.gelu(self.fc(self.ln_2(x)), approximate="tanh")
        return x + self.proj(out)


class CausalDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(16, 8)
        self.wpe = nn.Embedding(32, 8)
        self.h = nn.ModuleList(Block() for _ in range(2))
        self.ln_f = nn.LayerNorm(8)
        self.lm_head = nn.Linear(8, 16, bias=False)
        self.register_buffer("scalar_0", torch.empty(()))
        self.lm_head.weight = self.wte.weight

    def forward(self, input_ids: Tensor) -> Tensor:
        seq = input_ids.shape[1]
        positions = torch.arange(seq, device=input_ids.device)  # [seq]
        x = self.wte(input_ids) + self.wpe(positions)  # [batch, seq, 8]
        mask = self.scalar_0.expand(seq, seq).triu(1)[None, None]  # [1, 1, seq, seq]
        for block in self.h:
            x = block(x, mask)
        return self.lm_head(self.ln_f(x))


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> CausalDecoder:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    # Layers that share a weight get one parameter; the file has it under one name.
    shared = nn.Parameter(state["lm_head.weight"])
    state |= dict.fromkeys(["lm_head.weight", "wte.weight"], shared)
    with torch.device("meta"):  # no random initialisation, no second copy
        model = CausalDecoder()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
