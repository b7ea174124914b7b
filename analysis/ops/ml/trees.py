"""Tree ensembles: TreeEnsemble, and TreeEnsembleRegressor as the sum of its leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ...graph.dims import Dims
from ...graph.shape_facts import DimsResult, NodeFacts
from ..helpers import trees as helpers
from ..module_form import ModuleForm, Weight
from ..node_view import NodeView
from ..registry import OPAQUE, OpDef, define
from .tree_tables import MODES, Array, Nodes, Tables, tables


def _integers(n: NodeView, name: str, size: int | None = None) -> Array:
    found = np.array(n.attr(name, []), np.int64)
    if size is not None and len(found) != size:
        n.refuse(f"{n.node.op_type} with {len(found)} {name} for {size} nodes")
    return found


def _numbers(n: NodeView, name: str) -> Array:
    found = n.attr(f"{name}_as_tensor")
    return (
        np.array(n.attr(name, []), np.float32) if found is None else found.reshape(-1)
    )


def _dtype(n: NodeView, *arrays: Array) -> np.dtype[Any]:
    """The type that comparisons and sums are made in: float64 if anything is."""
    wide = n.dtype(0) == ir.DataType.DOUBLE or any(
        a.dtype == np.float64 for a in arrays
    )
    return np.dtype(np.float64 if wide else np.float32)


# ---- TreeEnsembleRegressor: nodes by tree and number


def _regressor(n: NodeView) -> ModuleForm:
    treeids = _integers(n, "nodes_treeids")
    count = len(treeids)
    nodeids = _integers(n, "nodes_nodeids", count)
    order = np.lexsort((nodeids, treeids))
    if count and (np.diff(treeids[order]) == 0)[np.diff(nodeids[order]) == 0].any():
        n.refuse("TreeEnsembleRegressor with two nodes of one number")
    keys = list(zip(treeids.tolist(), nodeids.tolist(), strict=True))
    index = {key: i for i, key in enumerate(keys)}

    def places(trees: Array, ids: Array) -> Array:
        pairs = zip(trees.tolist(), ids.tolist(), strict=True)
        return np.array([index.get(pair, -1) for pair in pairs], np.int64)

    values, weights = _numbers(n, "nodes_values"), _numbers(n, "target_weights")
    dtype = _dtype(n, values, weights)
    missing = _integers(n, "nodes_missing_value_tracks_true")
    starts = np.flatnonzero(np.diff(treeids, prepend=treeids[:1] - 1))
    nodes = Nodes(
        _modes(n, n.attr("nodes_modes", []), count),
        _integers(n, "nodes_featureids", count),
        (
            np.resize(values, count).astype(dtype)
            if len(values)
            else np.zeros(count, dtype)
        ),
        places(treeids, _integers(n, "nodes_truenodeids", count)),
        places(treeids, _integers(n, "nodes_falsenodeids", count)),
        missing == 1 if len(missing) == count else np.zeros(count, bool),
        starts,
    )
    targets = _integers(n, "target_ids")
    leaves = places(
        _integers(n, "target_treeids", len(targets)),
        _integers(n, "target_nodeids", len(targets)),
    )
    return _form(
        n,
        nodes,
        (leaves, targets, weights.astype(dtype)),
        n.attr("aggregate_function", "SUM"),
    )


def _modes(n: NodeView, names: list[str], count: int) -> Array:
    known = {f"BRANCH_{name}": i for i, name in enumerate(MODES)} | {"LEAF": -1}
    if len(names) != count or any(name not in known for name in names):
        n.refuse("TreeEnsembleRegressor with modes that are none of a node's")
    return np.array([known[name] for name in names], np.int64)


# ---- TreeEnsemble: inner nodes and leaves apart


def _ensemble(n: NodeView) -> ModuleForm:
    modes = np.asarray(n.attr("nodes_modes", np.zeros(0))).astype(np.int64).reshape(-1)
    weights = np.asarray(n.attr("leaf_weights", np.zeros(0, np.float32))).reshape(-1)
    splits = np.asarray(n.attr("nodes_splits", np.zeros(0, np.float32))).reshape(-1)
    count, given = len(modes), _integers(n, "leaf_targetids", len(weights))
    dtype = _dtype(n, weights, splits)
    if len(splits) != count or ((modes < 0) | (modes >= len(MODES))).any():
        n.refuse("TreeEnsemble with lists that differ in length, or odd modes")
    ends, leaves = [], np.zeros(0, np.int64)
    for side in ("true", "false"):
        ids = _integers(n, f"nodes_{side}nodeids", count)
        is_leaf = _integers(n, f"nodes_{side}leafs", count) == 1
        if ((ids < 0) | (ids >= np.where(is_leaf, len(weights), count))).any():
            n.refuse("TreeEnsemble with nodes that lead nowhere")
        # Each mention of a leaf makes a node, so that no two nodes lead to the same.
        fresh = count + len(leaves) + np.cumsum(is_leaf) - 1
        ends.append(np.where(is_leaf, fresh, ids))
        leaves = np.concatenate([leaves, ids[is_leaf]])
    missing = _integers(n, "nodes_missing_value_tracks_true")

    def whole(array: Array, fill: Any) -> Array:
        return np.concatenate([array, np.full(len(leaves), fill, array.dtype)])

    nodes = Nodes(
        whole(modes, -1),
        whole(_integers(n, "nodes_featureids", count), 0),
        whole(splits.astype(dtype), 0),
        whole(ends[0], 0),
        whole(ends[1], 0),
        whole(missing == 1 if len(missing) == count else np.zeros(count, bool), False),
        _integers(n, "tree_roots"),
    )
    votes = (
        count + np.arange(len(leaves)),
        given[leaves],
        weights[leaves].astype(dtype),
    )
    aggregate = ("AVERAGE", "SUM", "MIN", "MAX")[n.attr("aggregate_function", 1) % 4]
    return _form(n, _without_members(n, nodes), votes, aggregate)


def _without_members(n: NodeView, nodes: Nodes) -> Nodes:
    """Each question whether x is among several numbers as a chain of equalities."""
    member = MODES.index("MEMBER")
    places = np.flatnonzero(nodes.mode == member)
    if not len(places):
        return nodes
    values = np.asarray(n.attr("membership_values", np.zeros(0, np.float32))).reshape(
        -1
    )
    sets = np.split(values, np.flatnonzero(np.isnan(values)) + 1)
    sets = [found[~np.isnan(found)] for found in sets][: len(places)]
    if len(sets) < len(places) or min(map(len, sets)) < 1:
        n.refuse("TreeEnsemble with sets of members that are not there")
    given = [nodes.mode, nodes.feature, nodes.threshold]
    given += [nodes.true, nodes.false, nodes.missing_true]
    columns: list[list[Any]] = [list(column) for column in given]
    modes, thresholds, falses = columns[0], columns[2], columns[4]
    for place, numbers in zip(places.tolist(), sets, strict=True):
        at, otherwise = place, falses[place]
        for k, number in enumerate(numbers):
            if k:
                for column in columns:
                    column.append(column[place])
                falses[at] = at = len(modes) - 1
            modes[at], thresholds[at] = MODES.index("EQ"), number
        falses[at] = otherwise
    arrays = [
        np.array(column, like.dtype)
        for column, like in zip(columns, given, strict=True)
    ]
    mode, feature, threshold, true, false, missing = arrays
    return Nodes(mode, feature, threshold, true, false, missing, nodes.root)


# ---- the layer


def _form(
    n: NodeView, nodes: Nodes, votes: tuple[Array, Array, Array], aggregate: str
) -> ModuleForm:
    place, target, _ = votes
    targets = n.attr("n_targets", 1)
    if n.rank(0) != 2:
        n.refuse(f"{n.node.op_type} of data that is no rows of features")
    if not len(place) or place.min() < 0:
        n.refuse(f"{n.node.op_type} with weights of nodes that are not there")
    if not 0 <= target.min() <= target.max() < targets:
        n.refuse(f"{n.node.op_type} with weights for targets that are not there")
    found = tables(n, nodes, votes)
    width = n.dims(0)[1]
    if isinstance(width, int) and found.feature.max(initial=0) >= width:
        n.refuse(
            f"{n.node.op_type} that asks for a feature beyond the {width} there are"
        )
    if aggregate in ("MIN", "MAX"):
        _check_extremes(n, found, votes)
    layer = helpers.MixedTrees if found.mixed else helpers.Trees
    names = "root feature threshold child value target".split()
    names += ["equal", "nan_left"] if found.mixed else []
    wide = found.threshold.dtype == np.float64
    sizes = {
        "trees": len(found.root),
        "nodes": len(found.feature),
        "depth": found.depth,
        "votes": found.value.shape[1],
        "targets": targets,
    }
    reduce = {"MIN": "amin", "MAX": "amax"}.get(aggregate, "sum")
    narrowed = wide and n.node.op_type == "TreeEnsembleRegressor"
    return ModuleForm(
        layer.__name__,
        (),
        {
            **{name: (size, None) for name, size in sizes.items()},
            "reduce": (reduce, "sum"),
            "wide": (wide, False),
        },
        {name: _stored(n, name, getattr(found, name)) for name in names},
        inputs=(n.value(0),),
        outputs=(n.node.outputs[0],),
        call=_narrowed if narrowed else None,
        source=layer,
    )


def _narrowed(t: Any, layer: Any, x: Any) -> Any:
    return layer(x).float()


def _stored(n: NodeView, name: str, array: Array) -> Weight:
    """A table as a constant of its own, which no two nodes share."""
    tensor = ir.Tensor(np.ascontiguousarray(array))
    owner = (n.node.name or "").replace(".", "_")
    return Weight(ir.Value(name=f"{owner}/{name}", const_value=tensor))


def _check_extremes(
    n: NodeView, found: Tables, votes: tuple[Array, Array, Array]
) -> None:
    """A leaf without a vote would count as 0 in a smallest or largest."""
    place, target, _ = votes
    pairs = np.unique(np.stack([place, target]), axis=1)
    leaves = np.flatnonzero(np.equal(*found.child.T))
    full = np.bincount(pairs[0], minlength=len(found.child))[leaves]
    if pairs.shape[1] != len(place) or (full != found.value.shape[1]).any():
        n.refuse(f"{n.node.op_type} takes an extreme, but not every leaf has a vote")


def _row_of_targets(site: NodeFacts, x: Dims) -> DimsResult:
    return [(x[0], int(site.attr("n_targets", 1)))]


for name, since, form in (
    ("TreeEnsembleRegressor", 3, _regressor),
    ("TreeEnsemble", 5, _ensemble),
):
    more: dict[str, Any] = {"module": form, "shape": _row_of_targets}
    define(OpDef(name, since=since, domain="ai.onnx.ml", mapping=OPAQUE, **more))
