"""The trees of an ai.onnx.ml node as tables, whatever way they are written down.

Every comparison becomes x <= t or x == t: x < t is x <= the number below t, and a node
that asks the opposite has its children exchanged. Where NaN goes is kept for each node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..node_view import NodeView

Array = npt.NDArray[Any]

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
_MOST_VOTES = 1 << 26  # numbers in the table of the leaves


@dataclass
class Tables:
    """Nodes of all trees in one row of tables; a leaf leads to itself.

    `root` holds the first node of each tree, `value` what a leaf gives to the targets
    `target` of its tree.
    """

    root: Array
    feature: Array
    threshold: Array
    child: Array
    equal: Array
    nan_left: Array
    value: Array
    target: Array
    depth: int

    @property
    def mixed(self) -> bool:
        """Whether some node compares for equality, or sends NaN to the left."""
        return bool(self.equal.any() or self.nan_left.any())


@dataclass
class Nodes:
    """The nodes as a model has them; `mode` is an index into MODES, -1 for a leaf."""

    mode: Array
    feature: Array
    threshold: Array
    true: Array
    false: Array
    missing_true: Array
    root: Array


def tables(n: NodeView, nodes: Nodes, votes: tuple[Array, Array, Array]) -> Tables:
    """`votes` are (leaf, target, weight), one entry each."""
    count = len(nodes.mode)
    leaf = nodes.mode < 0
    here = np.arange(count)
    true, false = np.where(leaf, here, nodes.true), np.where(leaf, here, nodes.false)
    ends = np.concatenate([true, false, nodes.root])
    if not count or ends.min() < 0 or ends.max() >= count or nodes.feature.min() < 0:
        n.refuse(f"{n.node.op_type} with nodes that lead nowhere")
    depth = _depth(n, nodes.root, true, false, leaf)
    threshold = nodes.threshold
    strict = np.isin(nodes.mode, [MODES.index("LT"), MODES.index("GTE")])
    below = np.nextafter(threshold, np.array(-np.inf, threshold.dtype))
    nothing = np.where(threshold == -np.inf, np.nan, below)  # no number is below -inf
    threshold = np.where(strict, nothing, threshold)
    swap = np.isin(nodes.mode, [MODES.index(m) for m in ("GTE", "GT", "NEQ")])
    # NaN fails every comparison but !=, unless the node says where it goes.
    nan_true = nodes.missing_true | (nodes.mode == MODES.index("NEQ"))
    nan_left = np.where(swap, ~nan_true, nan_true) & ~leaf
    value, target = _values(n, nodes.root, true, false, leaf, votes)
    return Tables(
        nodes.root,
        np.where(leaf, 0, nodes.feature),
        np.where(leaf, 0, threshold).astype(threshold.dtype),
        np.where(swap, [true, false], [false, true]).T,
        np.isin(nodes.mode, [MODES.index("EQ"), MODES.index("NEQ")]),
        nan_left,
        value,
        target,
        depth,
    )


def _depth(n: NodeView, root: Array, true: Array, false: Array, leaf: Array) -> int:
    """How many questions are asked at most; refuses what goes in circles."""
    level, depth = np.unique(root), 0
    while not leaf[level].all():
        level = level[~leaf[level]]
        level = np.unique(np.concatenate([true[level], false[level]]))
        depth += 1
        if depth > len(leaf):
            n.refuse(f"{n.node.op_type} with trees that go in circles")
    return depth


def _values(
    n: NodeView, root: Array, true: Array, false: Array, leaf: Array, votes: Any
) -> tuple[Array, Array]:
    """value [nodes, votes] and target [trees, votes], as wide as the widest tree."""
    place, target, weight = votes
    tree = _tree_of(n, root, true, false, leaf)
    pairs = np.unique(np.stack([tree[place], target]), axis=1)
    pairs = pairs[:, pairs[0] >= 0]
    starts = np.searchsorted(pairs[0], np.arange(len(root)))
    column = np.arange(pairs.shape[1]) - starts[pairs[0]]
    width = int(column.max(initial=0)) + 1
    if len(leaf) * width > _MOST_VOTES:
        n.refuse(
            f"{n.node.op_type} with {len(leaf)} nodes that vote for {width} targets"
        )
    targets = np.zeros((len(root), width), np.int64)
    targets[pairs[0], column] = pairs[1]
    value = np.zeros((len(leaf), width), weight.dtype)
    used = tree[place] >= 0
    place, target, weight = place[used], target[used], weight[used]
    top = int(max(pairs[1].max(initial=0), target.max(initial=0))) + 1
    key = pairs[0] * top + pairs[1]
    found = np.searchsorted(key, tree[place] * top + target)
    np.add.at(value, (place, column[found]), weight)
    return value, targets


def _tree_of(n: NodeView, root: Array, true: Array, false: Array, leaf: Array) -> Array:
    """The tree that each node belongs to, -1 for none."""
    tree = np.full(len(leaf), -1)
    level, of = root, np.arange(len(root))
    while len(level):
        level, first = np.unique(level, return_index=True)
        of = of[first]
        if ((tree[level] >= 0) & (tree[level] != of)).any():
            n.refuse(f"{n.node.op_type} with a node that belongs to two trees")
        fresh = tree[level] < 0
        tree[level] = of
        inner = fresh & ~leaf[level]
        of = np.concatenate([of[inner], of[inner]])
        level = np.concatenate([true[level[inner]], false[level[inner]]])
    return tree
