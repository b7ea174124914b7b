"""Support vector machines of ai.onnx.ml as kernels and sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ....analysis.ops.registry import OWN
from ..by_type import LoweringSite, lowering
from .linear import (
    INT64,
    best,
    chosen,
    class_labels,
    gemm,
    pair,
    split_at_zero,
    transformed,
)

# Numbers of a table of machines by support vectors, most of which are zeros.
_LARGEST = 1 << 26


def _kernel(site: LoweringSite, x: ir.Value, vectors: np.ndarray) -> ir.Value:
    """The kernel of each row with each support vector."""
    kind = site.text("kernel_type", "LINEAR")
    gamma, offset, degree = [*site.floats("kernel_params").tolist(), 0.0, 0.0, 0.0][:3]

    def number(name: str, value: float) -> ir.Value:
        return site.constant(name, np.array(value, np.float32))

    if kind == "RBF":
        columns = site.before("Unsqueeze", [x, site.ints("column", [1])], "column")
        table = site.constant("support_vectors", vectors)
        gaps = site.before("Sub", [columns, table], "gaps")
        axis = site.ints("features", [-1])
        distance = site.before("ReduceSumSquare", [gaps, axis], "distance", keepdims=0)
        scaled = site.before("Mul", [distance, number("gamma", -gamma)], "scaled")
        return site.before("Exp", [scaled], "kernel")
    table = site.constant("support_vectors", vectors)
    dots = site.before("Gemm", [x, table], "dots", transB=1)
    if kind == "LINEAR":
        return dots
    scaled = site.before("Mul", [dots, number("gamma", gamma)], "scaled")
    moved = site.before("Add", [scaled, number("offset", offset)], "moved")
    if kind == "SIGMOID":
        return site.before("Tanh", [moved], "kernel")
    if kind == "POLY":
        return site.before("Pow", [moved, number("degree", degree)], "kernel")
    raise site.unsupported(f"kernel_type {kind!r} is not known")


def _vectors(site: LoweringSite, count: int) -> np.ndarray:
    vectors = site.floats("support_vectors")
    if not vectors.size or vectors.size % count:
        raise site.unsupported(f"{vectors.size} numbers for {count} support vectors")
    return vectors.reshape(count, -1)


@lowering("SVMRegressor")
def svm_regressor(site: LoweringSite) -> Sequence[ir.Value]:
    """Kernels, weighted and added up; with `one_class`, the sign of that."""
    count, rho = site.integer("n_supports", 0), site.floats("rho")
    coefficients = site.floats("coefficients")
    if (
        rho.size < 1
        or (count > 0 and coefficients.size != count)
        or not coefficients.size
    ):
        raise site.unsupported("its coefficients or rho do not fit its support vectors")
    x = site.rows()
    if count > 0:
        x = _kernel(site, x, _vectors(site, count))
    score = gemm(site, x, coefficients[None], rho[:1], "score")
    if not site.integer("one_class", 0):
        return [score]
    above = site.before(
        "Greater", [score, site.constant("zero", np.zeros(1, np.float32))], "above"
    )
    sides = [
        site.constant(name, np.array([v], np.float32))
        for name, v in (("inside", 1), ("outside", -1))
    ]
    return [site.before("Where", [above, *sides], "side")]


@lowering("SVMClassifier")
def svm_classifier(site: LoweringSite) -> Sequence[ir.Value]:
    """A score per pair of classes, which vote; without vectors, one per class."""
    labels = class_labels(site, "classlabels_ints")
    sizes = site.integers("vectors_per_class")
    if not labels or not site.floats("rho").size:
        raise site.unsupported("it needs labels and rho")
    if not sizes.sum():
        return _linear(site, labels)
    if len(sizes) != len(labels) or (sizes < 0).any() or len(labels) < 2:
        raise site.unsupported("its support vectors do not fit its labels")
    kernel = _kernel(site, site.rows(), _vectors(site, int(sizes.sum())))
    return _by_votes(site, kernel, labels, sizes)


def _linear(
    site: LoweringSite, labels: Sequence[int] | Sequence[str]
) -> Sequence[ir.Value]:
    count, coefficients = len(labels), site.floats("coefficients")
    if not coefficients.size or coefficients.size % count:
        raise site.unsupported(f"{coefficients.size} coefficients for {count} classes")
    bias = np.full(count, site.floats("rho")[0], np.float32)
    scores = gemm(site, site.rows(), coefficients.reshape(count, -1), bias, "scores")
    transform = site.text("post_transform", "NONE")
    result = transformed(site, scores, transform)
    if count != 2 or site.floats("prob_a").size:
        return [best(site, scores, labels), result]
    # Of two classes the second wins with any score above the limit, even the first's.
    limit = (
        np.nextafter(np.float32(0.5), np.float32(0)) if (coefficients >= 0).all() else 0
    )
    axis = site.ints("classes", [1])
    top = site.before("ReduceMax", [scores, axis], "top", keepdims=0)
    bound = site.constant("limit", np.array(limit, np.float32))
    above = site.cast(site.before("Greater", [top, bound], "above"), INT64)
    first = site.before("ArgMax", [scores], "index", axis=1, keepdims=0)
    return [chosen(site, site.before("Max", [above, first], "winner"), labels), result]


def _by_votes(
    site: LoweringSite,
    kernel: ir.Value,
    labels: Sequence[int] | Sequence[str],
    sizes: np.ndarray,
) -> Sequence[ir.Value]:
    pairs = [(i, j) for i in range(len(sizes)) for j in range(i + 1, len(sizes))]
    weight = _pair_weights(site, sizes, pairs)
    rho = site.floats("rho")[: len(pairs)]
    scores = gemm(site, kernel, weight, rho, "scores")
    transform = site.text("post_transform", "NONE")
    if len(pairs) == 1:
        label = split_at_zero(site, scores, labels[::-1])
    else:
        # A pair (i, j) gives its vote to i where its score is above zero, else to j.
        wins, votes = np.zeros((len(sizes), len(pairs)), np.float32), np.zeros(
            len(sizes)
        )
        for p, (i, j) in enumerate(pairs):
            wins[i, p], wins[j, p] = 1, -1
            votes[j] += 1
        above = site.before(
            "Greater", [scores, site.constant("zero", np.zeros(1, np.float32))], "above"
        )
        ballots = site.cast(above, ir.DataType.FLOAT)
        tally = gemm(site, ballots, wins, votes.astype(np.float32), "votes")
        label = best(site, tally, labels)
    if site.floats("prob_a").size:
        return [
            label,
            transformed(site, _probabilities(site, scores, len(sizes)), transform),
        ]
    if len(pairs) == 1:
        return [label, pair(site, scores, transform, opposite=transform == "NONE")]
    return [label, transformed(site, scores, transform)]


def _pair_weights(
    site: LoweringSite, sizes: np.ndarray, pairs: Sequence[tuple[int, int]]
) -> np.ndarray:
    """The coefficients [classes - 1, vectors] as one row per pair of classes."""
    count, coefficients = int(sizes.sum()), site.floats("coefficients")
    needed = (len(sizes) - 1) * count
    if coefficients.size < needed or site.floats("rho").size < len(pairs):
        raise site.unsupported("its coefficients or rho do not fit its classes")
    if len(pairs) * count > _LARGEST:
        raise site.unsupported(f"{len(pairs)} pairs of classes are too many")
    table = coefficients[: (len(sizes) - 1) * count].reshape(-1, count)
    ends = np.cumsum(sizes)
    weight = np.zeros((len(pairs), count), np.float32)
    for row, (i, j) in zip(weight, pairs, strict=True):
        of_i, of_j = (slice(ends[k] - sizes[k], ends[k]) for k in (i, j))
        row[of_i], row[of_j] = table[j - 1, of_i], table[i, of_j]
    return weight


def _probabilities(site: LoweringSite, scores: ir.Value, classes: int) -> ir.Value:
    """Platt's sigmoid for each pair, coupled as libsvm does."""
    a, b = site.floats("prob_a"), site.floats("prob_b")
    pairs = classes * (classes - 1) // 2
    if min(a.size, b.size) < pairs:
        raise site.unsupported("prob_a and prob_b need an entry for each pair")
    scaled = site.before("Mul", [scores, site.constant("prob_a", -a[:pairs])], "scaled")
    moved = site.before("Sub", [scaled, site.constant("prob_b", b[:pairs])], "platt")
    likely = site.before("Sigmoid", [moved], "pairwise")
    bounds = [
        site.constant(n, np.array(v, np.float32))
        for n, v in (("low", 1e-7), ("high", 1 - 1e-7))
    ]
    sure = site.before("Clip", [likely, *bounds], "clipped")
    made = site.before("PairwiseCoupling", [sure], "probabilities", classes=classes)
    node = made.producer()
    assert node is not None
    node.domain = OWN
    rows = (
        site.data.shape[0] if site.data.shape is not None and site.data_rank == 2 else 1
    )
    made.type, made.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([rows, classes])
    return made
