"""Decision trees as layers: tables that all rows walk down at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


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


class MixedTrees(Trees):
    """Trees some of whose nodes ask whether x == threshold, or send NaN to the left."""

    equal: Tensor
    nan_left: Tensor

    def __init__(self, trees: int, nodes: int, *sizes: Any, **options: Any):
        super().__init__(trees, nodes, *sizes, **options)
        self.register_buffer("equal", torch.empty(nodes, dtype=torch.bool))
        self.register_buffer("nan_left", torch.empty(nodes, dtype=torch.bool))

    def goes_left(self, x: Tensor, node: Tensor) -> Tensor:
        threshold, equal = self.of(node, self.threshold), self.of(node, self.equal)
        found = torch.where(equal, x == threshold, x <= threshold)
        return found | (x.isnan() & self.of(node, self.nan_left))
