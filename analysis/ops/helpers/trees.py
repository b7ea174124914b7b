"""Decision trees as layers: tables that all rows walk down at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Trees(nn.Module):
    """Decision trees as tables, which every row walks down in all trees at once.

    Node n asks whether x[feature[n]] <= threshold[n] and leads to left[n] if so, else
    to right[n]; a leaf leads to itself. Tree t has `value` for the classes or targets
    target[t]; they are added up tree by tree, the order in which ONNX Runtime rounds.
    """

    root: Tensor
    feature: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor
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
        for name in ("feature", "left", "right"):
            self.register_buffer(name, torch.empty(nodes, dtype=torch.int64))
        dtype = torch.float64 if wide else torch.float32
        self.register_buffer("threshold", torch.empty(nodes, dtype=dtype))
        self.register_buffer("value", torch.empty(nodes, votes, dtype=dtype))
        self.register_buffer("target", torch.empty(trees, votes, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(self.threshold.dtype)
        node = self.root.expand(x.shape[0], -1)
        for _ in range(self.depth):
            goes_left = self.goes_left(x.gather(1, self.feature[node]), node)
            node = torch.where(goes_left, self.left[node], self.right[node])
        votes = self.value[node].flatten(1)
        target = self.target.flatten().expand(x.shape[0], -1)
        scores = votes.new_zeros(x.shape[0], self.targets)
        return scores.scatter_reduce(1, target, votes, self.reduce, include_self=False)

    def goes_left(self, x: Tensor, node: Tensor) -> Tensor:
        return x <= self.threshold[node]


class MixedTrees(Trees):
    """Trees some of whose nodes ask whether x == threshold, or send NaN to the left."""

    equal: Tensor
    nan_left: Tensor

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
        super().__init__(trees, nodes, depth, votes, targets, reduce, wide)
        self.register_buffer("equal", torch.empty(nodes, dtype=torch.bool))
        self.register_buffer("nan_left", torch.empty(nodes, dtype=torch.bool))

    def goes_left(self, x: Tensor, node: Tensor) -> Tensor:
        threshold = self.threshold[node]
        found = torch.where(self.equal[node], x == threshold, x <= threshold)
        return found | (x.isnan() & self.nan_left[node])
