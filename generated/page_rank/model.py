"""PageRank, generated from page_rank.onnx.

    links     float32 [pages, pages]  input
    damping   float32 []              input
    tolerance float32 []              input
    most      int64   []              input
    rank      float32 [pages]         output
    change    float32 []              output

Source     page_rank.onnx, opset 20, 50 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 3 proven rules applied 4 times, as report.json lists
Weights    weights.safetensors, 0 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "3b873b2cfb1867f0611a1d1bdba9ae23a08fd441c8e4e49ed377f4906242cdb6"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "links": ("float32", ("pages", "pages")),
    "damping": ("float32", ()),
    "tolerance": ("float32", ()),
    "most": ("int64", ()),
}
OUTPUTS = {
    "rank": ("float32", ("pages",)),
    "change": ("float32", ()),
}


class PageRank(nn.Module):
    def forward(
        self, links: Tensor, damping: Tensor, tolerance: Tensor, most: Tensor
    ) -> tuple[Tensor, Tensor]:
        pages = links.shape[0]
        x = torch.tensor(pages, device=links.device)
        total = links.sum(dim=1, keepdim=True)  # [pages, 1]
        y = x.float()
        z = torch.ones((pages, pages), device=links.device) / y  # [pages, pages]
        u = links / total.clamp(min=1)
        chosen = torch.where(total > 0.0, u, z.to(u.dtype))
        z = tolerance < 1.0 and most > 0
        rank = torch.ones((pages,), device=links.device) / y  # [pages]
        change = torch.tensor(1.0, device=links.device)
        rounds = torch.tensor(0, device=links.device)
        running = z
        while running:
            difference = 1.0 - damping
            product = damping * (rank @ chosen) + difference / x.to(difference.dtype)
            change = (product - rank).abs().sum()
            rounds = rounds + 1
            running = change > tolerance and rounds < most
            rank = product
        return rank, change


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> PageRank:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = PageRank()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
