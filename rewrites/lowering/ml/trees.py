"""Tree ensembles of ai.onnx.ml: the trees stay, what surrounds them is arithmetic.

TreeEnsembleClassifier and TreeEnsembleRegressor become a TreeEnsembleRegressor that
adds up its leaves and does nothing else. Base values, transforms and labels follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy

import numpy as np
import onnx_ir as ir

from ..by_type import ML, LoweringSite, lowering
from .linear import best, class_labels, of_targets, pair, split_at_zero, transformed

_NODES = (
    "nodes_falsenodeids nodes_featureids nodes_missing_value_tracks_true nodes_modes "
    "nodes_nodeids nodes_treeids nodes_truenodeids nodes_values nodes_values_as_tensor"
).split()


class _Votes:
    """The weights of the leaves: which leaf of which tree gives what to which class."""

    def __init__(
        self, site: LoweringSite, prefix: str, targets: int, aggregate: str = "SUM"
    ) -> None:
        lists = (f"{prefix}_{name}" for name in ("treeids", "nodeids", "ids"))
        votes = [site.integers(name).tolist() for name in lists]
        weights = _numbers(site, f"{prefix}_weights")
        if {len(v) for v in votes} != {weights.size} or not weights.size:
            raise site.unsupported("the lists of its weights differ in length")
        # Of a leaf's weights for one target ONNX Runtime reads the first if that is
        # the only target, and takes them together like those of several trees if not.
        together = {"MIN": min, "MAX": max}.get(aggregate, np.add)
        given: dict[tuple[int, ...], np.generic] = {}
        for vote, weight in zip(zip(*votes, strict=True), weights, strict=True):
            if vote not in given:
                given[vote] = weight
            elif targets > 1:
                given[vote] = together(given[vote], weight)
        self.trees, self.nodes, self.ids = np.array(list(given)).T
        self.weights = np.array(list(given.values()))

    def always(self, site: LoweringSite, target: int) -> bool:
        """Whether every row has a vote for it: all leaves of some tree do."""
        modes = np.array(site.words("nodes_modes"))
        trees = site.integers("nodes_treeids")
        leaves = trees[modes == "LEAF"] if modes.size == trees.size else trees
        votes = Counter(self.trees[self.ids == target].tolist())
        counts = Counter(leaves.tolist())
        return any(votes[tree] == count for tree, count in counts.items())


def _numbers(site: LoweringSite, name: str) -> np.ndarray:
    """Numbers given as a list of floats or, in newer models, as a tensor."""
    tensor = site.node.attributes.get(f"{name}_as_tensor")
    return (
        site.floats(name) if tensor is None else tensor.as_tensor().numpy().reshape(-1)
    )


def _trees(
    site: LoweringSite, votes: _Votes, targets: int, aggregate: str = "SUM"
) -> ir.Value:
    """The bare trees."""
    attributes: dict[str, object] = {
        name: site.node.attributes[name]
        for name in _NODES
        if name in site.node.attributes
    }
    attributes |= {
        "target_treeids": votes.trees.tolist(),
        "target_nodeids": votes.nodes.tolist(),
        "target_ids": votes.ids.tolist(),
        "n_targets": targets,
        "aggregate_function": aggregate,
    }
    if votes.weights.dtype == np.float32:
        attributes["target_weights"] = votes.weights.tolist()
    else:
        attributes["target_weights_as_tensor"] = ir.tensor(votes.weights)
    data = site.data
    if site.data_rank == 1:
        data = site.before("Reshape", [data, site.ints("row", [1, -1])], "row")
    made = site.before("TreeEnsembleRegressor", [data], "trees", **attributes)
    node = made.producer()
    assert node is not None
    node.domain = ML
    shape = site.data.shape
    rows = 1 if site.data_rank == 1 else None if shape is None else shape[0]
    made.type, made.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([rows, targets])
    return made


def _plus(site: LoweringSite, scores: ir.Value, base: np.ndarray) -> ir.Value:
    if not base.any():
        return scores
    value = site.constant("base", base.astype(np.float32))
    return site.before("Add", [scores, value], "based")


@lowering("TreeEnsembleRegressor")
def tree_ensemble_regressor(site: LoweringSite) -> Sequence[ir.Value]:
    """Trees, the mean instead of the sum, base values, and a transform."""
    targets = site.integer("n_targets", 1)
    aggregate = site.text("aggregate_function", "SUM")
    mean = aggregate == "AVERAGE"
    votes = _Votes(site, "target", targets, aggregate)
    scores = _trees(site, votes, targets, "SUM" if mean else aggregate)
    if mean:
        ids = site.integers("nodes_treeids")
        count = 1 + np.count_nonzero(ids[1:] != ids[:-1])
        divisor = site.constant("count", np.array(count, np.float32))
        scores = site.before("Div", [scores, divisor], "mean")
    base = _numbers(site, "base_values")
    if base.size not in (0, targets):
        raise site.unsupported(f"{base.size} base values for {targets} targets")
    if base.size > 1:  # added to what a leaf voted for, ONNX Runtime says
        base = np.where(np.isin(np.arange(targets), votes.ids), base, 0)
    based = _plus(site, scores, base)
    if base.size > 1 and not all(
        votes.always(site, k) for k in np.flatnonzero(base).tolist()
    ):
        hit = _hit(site, votes, targets)
        based = site.before("Where", [hit, based, scores], "based_if_hit")
    return [of_targets(site, based, targets, site.text("post_transform", "NONE"))]


@lowering("TreeEnsembleClassifier")
def tree_ensemble_classifier(site: LoweringSite) -> Sequence[ir.Value]:
    """Trees, base values, a label, and a transform."""
    labels = class_labels(site, "classlabels_int64s")
    votes = _Votes(site, "class", len(labels))
    base = _numbers(site, "base_values")
    transform = site.text("post_transform", "NONE")
    if not labels or not 0 <= votes.ids.min() <= votes.ids.max() < len(labels):
        raise site.unsupported("its class_ids are not those of its labels")
    if len(labels) == 2:
        return _of_two(site, labels, votes, base)
    if base.size not in (0, len(labels)):
        raise site.unsupported(f"{base.size} base values for {len(labels)} classes")
    scores = _plus(site, _trees(site, votes, len(labels)), base)
    if len(labels) == 1:
        if isinstance(labels[0], str):
            raise site.unsupported("a single class, of a string")
        result = of_targets(site, scores, 1, transform)
        return [split_at_zero(site, scores, [0, 1]), result]
    always = base.size or all(votes.always(site, k) for k in range(len(labels)))
    if always or (votes.weights > 0).all():
        return [best(site, scores, labels), transformed(site, scores, transform)]
    least = site.constant("least", np.array(-np.inf, np.float32))
    hit = _hit(site, votes, len(labels))  # others are no candidates
    candidates = site.before("Where", [hit, scores, least], "candidates")
    return [best(site, candidates, labels), transformed(site, scores, transform)]


def _hit(site: LoweringSite, votes: _Votes, targets: int) -> ir.Value:
    """What a leaf voted for."""
    counting = copy(votes)
    counting.weights = np.ones_like(votes.weights)
    zero = site.constant("zero", np.array(0, np.float32))
    return site.before("Greater", [_trees(site, counting, targets), zero], "hit")


def _of_two(
    site: LoweringSite,
    labels: Sequence[int] | Sequence[str],
    votes: _Votes,
    base: np.ndarray,
) -> Sequence[ir.Value]:
    """Two classes, as ONNX Runtime treats them.

    Votes for one class alone are a single score, which is split at one half if all
    weights are positive, else at 0. Votes for both are two scores, of which the second
    is compared with 0 and the label is a bare 0 or 1.
    """
    given = set(votes.ids.tolist())
    if base.size > 2:
        raise site.unsupported(f"{base.size} base values for two classes")
    needed = given if base.size == 2 or base.any() else {max(given)}
    if not all(votes.always(site, k) for k in needed):
        raise site.unsupported("leaves without a vote for one of its two classes")
    transform = site.text("post_transform", "NONE")
    positive = bool((votes.weights >= 0).all())
    limit = 0.5 if positive and len(given) == 1 else 0.0
    if len(given) == 2 and not isinstance(labels[0], str):
        labels = [0, 1]
    if given == {0} and base.size < 2:
        score = _plus(site, _trees(site, votes, 1), base)
        result = pair(site, score, transform, opposite=not positive)
        return [split_at_zero(site, score, labels, limit), result]
    trees = _trees(site, votes, 2)
    columns = [_column(site, trees, k) for k in (0, 1)]
    if given == {0}:
        columns[0] = _plus(site, columns[0], base[:1])
        label = split_at_zero(site, columns[0], labels, limit)
    elif base.size == 2:
        second = _plus(site, columns[0], base[1:])
        first = columns[0] if given == {1} else site.before("Neg", [second], "opposite")
        columns = [first, second]
        label = split_at_zero(site, second, labels, limit)
    else:
        columns[0] = _plus(site, columns[0], base) if 0 in given else columns[0]
        label = split_at_zero(site, columns[1], labels, limit)
    both = site.before("Concat", columns, "both", axis=1)
    return [label, transformed(site, both, transform)]


def _column(site: LoweringSite, scores: ir.Value, k: int) -> ir.Value:
    return site.before(
        "Slice",
        [
            scores,
            site.ints("from", [k]),
            site.ints("to", [k + 1]),
            site.ints("of", [1]),
        ],
        f"score{k}",
    )


@lowering("TreeEnsemble")
def tree_ensemble(site: LoweringSite) -> Sequence[ir.Value]:
    """Trees, the mean instead of the sum, and a transform."""
    attributes: dict[str, object] = dict(site.node.attributes)
    targets, roots = site.integer("n_targets", 1), site.integers("tree_roots")
    transforms = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    number = site.integer("post_transform", 0)
    if not 0 <= number < len(transforms):
        raise site.unsupported(f"post_transform {number} is not known")
    transform, mean = transforms[number], site.integer("aggregate_function", 1) == 0
    attributes.pop("post_transform", None)
    if mean:
        attributes.pop("aggregate_function")
    scores = site.before("TreeEnsemble", [site.data], "trees", **attributes)
    node = scores.producer()
    assert node is not None
    node.domain, scores.type = ML, site.data.type
    shape = site.data.shape
    scores.shape = ir.Shape([None if shape is None else shape[0], targets])
    if mean:
        count = site.constant("count", np.array(max(1, len(roots)), np.float32))
        count = site.cast(count, site.data.dtype or ir.DataType.FLOAT)
        scores = site.before("Div", [scores, count], "mean")
    return [of_targets(site, scores, targets, transform)]
