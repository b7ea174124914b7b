"""WinePipeline, generated from wine_pipeline.onnx.

    X             float32 [X_dim0, 13]  input
    label         int64   [X_dim0]      output
    probabilities float32 [X_dim0, 3]   output

Source     wine_pipeline.onnx, opset 20, 6 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: none applied
Weights    weights.safetensors, 2,193 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "97047ad328dc5122b983ef7e6da2f3847e1fc8a7945c502a2b62d5d804ace7e9"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "X": ("float32", (None, 13)),
}
OUTPUTS = {
    "label": ("int64", (None,)),
    "probabilities": ("float32", (None, 3)),
}


class Trees(nn.Module):
    """Decision trees as tables, which every row walks down in all trees at once.

    Node n asks whether x[feature[n]] <= threshold[n] and leads to child[n, 1] if so,
    else to child[n, 0]; a leaf leads to itself. Tree t has `value` for the classes or
    targets target[t]; they are added up tree by tree, as ONNX Runtime rounds.
    """

    root: Tensor
    feature: Tensor
    threshold: Tensor
    child: Tensor
    value: Tensor
    target: Tensor

    def __init__(
        self,
        trees: int,
        nodes: int,
        depth: int,
        votes: int,
        targets: int,
        reduce: str = "sum",
        wide: bool = False,
    ):
        super().__init__()
        self.depth, self.targets, self.reduce = depth, targets, reduce
        self.register_buffer("root", torch.empty(trees, dtype=torch.int64))
        self.register_buffer("feature", torch.empty(nodes, dtype=torch.int64))
        self.register_buffer("child", torch.empty(nodes, 2, dtype=torch.int64))
        dtype = torch.float64 if wide else torch.float32
        self.register_buffer("threshold", torch.empty(nodes, dtype=dtype))
        self.register_buffer("value", torch.empty(nodes, votes, dtype=dtype))
        self.register_buffer("target", torch.empty(trees, votes, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(self.threshold.dtype).t()
        shape = len(self.root), x.shape[1]  # tree by tree: one's tables stay at hand
        node = self.root[:, None].expand(shape).flatten()
        for _ in range(self.depth):
            feature = self.of(node, self.feature).view(shape)
            goes_left = self.goes_left(x.gather(0, feature).flatten(), node)
            node = self.of(2 * node + goes_left, self.child.flatten())
        value = self.of(node, self.value).view(*shape, self.value.shape[1])
        votes = value.mT.flatten(0, 1)  # [trees * votes, rows]
        target = self.target.view(-1, 1).expand(votes.shape)
        scores = votes.new_zeros(self.targets, x.shape[1])
        if self.reduce == "sum":
            return scores.scatter_add(0, target, votes).t()
        found = scores.scatter_reduce(0, target, votes, self.reduce, include_self=False)
        return found.t()

    def goes_left(self, x: Tensor, node: Tensor) -> Tensor:
        return x <= self.of(node, self.threshold)

    def of(self, node: Tensor, table: Tensor) -> Tensor:
        return table.index_select(0, node)


class WinePipeline(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(13, 6, bias=False)
        self.trees = Trees(trees=30, nodes=400, depth=3, votes=1, targets=3)
        self.Imputer_filled = nn.Parameter(torch.empty((13,)))
        self.Scaler_offset = nn.Parameter(torch.empty((13,)))
        self.Scaler_scale = nn.Parameter(torch.empty((13,)))
        self.mean = nn.Parameter(torch.empty((13,)))
        self.TreeEnsembleClassifier_base = nn.Parameter(torch.empty((3,)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.where(torch.isnan(x), self.Imputer_filled, x)  # [X_dim0, 13]
        x = (x - self.Scaler_offset) * self.Scaler_scale - self.mean
        x = self.trees(self.linear(x)) + self.TreeEnsembleClassifier_base  # [X_dim0, 3]
        return x.argmax(dim=1), x.softmax(dim=-1)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> WinePipeline:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = WinePipeline()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
