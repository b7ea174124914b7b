"""Linear models and support vector machines of ai.onnx.ml as arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ..by_type import LoweringSite, lowering

FLOAT, INT64 = ir.DataType.FLOAT, ir.DataType.INT64

# ---- what becomes of scores


def transformed(site: LoweringSite, scores: ir.Value, transform: str) -> ir.Value:
    """Scores of several classes or targets after `post_transform`."""
    if transform == "NONE":
        return scores
    if transform == "LOGISTIC":
        return site.before("Sigmoid", [scores], "sigmoid")
    if transform == "SOFTMAX":
        return site.before("Softmax", [scores], "softmax", axis=-1)
    if transform == "SOFTMAX_ZERO":
        return _softmax_zero(site, scores)
    if transform == "PROBIT":
        return _probit(site, scores)
    raise site.unsupported(f"post_transform {transform!r} is not known")


def of_targets(
    site: LoweringSite, scores: ir.Value, targets: int, transform: str
) -> ir.Value:
    """Scores after `post_transform`; of a single target, after PROBIT alone."""
    if targets == 1 and transform != "PROBIT":
        return scores
    return transformed(site, scores, transform)


def _softmax_zero(site: LoweringSite, scores: ir.Value) -> ir.Value:
    """A softmax over the scores that are not zero; zeros stay."""
    size = site.before("Abs", [scores], "size")
    limit = site.constant("limit", np.array(1e-7, np.float32))
    counts = site.before("Greater", [size, limit], "counts")
    axis, zero = site.ints("axis", [-1]), site.constant(
        "zero", np.zeros((), np.float32)
    )
    top = site.before("ReduceMax", [scores, axis], "top", keepdims=1)
    shifted = site.before("Sub", [scores, top], "shifted")
    raised = site.before("Exp", [shifted], "exp")
    kept = site.before("Where", [counts, raised, zero], "kept")
    total = site.before("ReduceSum", [kept, axis], "total", keepdims=1)
    return site.before("Div", [kept, total], "softmax")


def _probit(site: LoweringSite, scores: ir.Value) -> ir.Value:
    """The inverse of the normal distribution function, as ONNX Runtime approximates it.

    With t = 2 s - 1, L = log((1 - t) (1 + t)), v = 2 / (3.14159 * 0.147) + L / 2:
    sqrt(2) sign(t) sqrt(sqrt(v^2 - L / 0.147) - v).
    """

    def number(name: str, value: float) -> ir.Value:
        return site.constant(name, np.array(value, np.float32))

    def do(op: str, name: str, *inputs: ir.Value) -> ir.Value:
        return site.before(op, inputs, name)

    one = number("one", 1)
    t = do("Sub", "t", do("Mul", "twice", scores, number("two", 2)), one)
    inside = do("Mul", "inside", do("Sub", "u", one, t), do("Add", "w", one, t))
    log = do("Log", "log", inside)
    half = do("Mul", "half", log, number("one_half", 0.5))
    v = do("Add", "v", half, number("c", 2 / (3.14159 * 0.147)))
    under = do(
        "Sub",
        "under",
        do("Mul", "vv", v, v),
        do("Mul", "l", log, number("k", 1 / 0.147)),
    )
    root = do("Sqrt", "root", do("Sub", "gap", do("Sqrt", "sqrt", under), v))
    side = do(
        "Where",
        "side",
        do("Less", "less", t, number("zero", 0)),
        number("minus", -1),
        one,
    )
    return do("Mul", "probit", do("Mul", "signed", root, side), number("sqrt2", 2**0.5))


def pair(
    site: LoweringSite, score: ir.Value, transform: str, opposite: bool
) -> ir.Value:
    """Two columns of one score: [1 - s, s], or [-s, s] where `opposite`."""
    if transform == "LOGISTIC":
        negative = site.before("Neg", [score], "negative")
        both = site.before("Concat", [negative, score], "both", axis=1)
        return site.before("Sigmoid", [both], "sigmoid")
    if transform == "PROBIT":
        raise site.unsupported("post_transform PROBIT of a single score is undefined")
    if opposite:
        other = site.before("Neg", [score], "negative")
    else:
        one = site.constant("one", np.ones((), np.float32))
        other = site.before("Sub", [one, score], "rest")
    return site.before("Concat", [other, score], "both", axis=1)


# ---- labels


def class_labels(site: LoweringSite, ints: str) -> Sequence[int] | Sequence[str]:
    """The labels, of strings if there are such."""
    return site.words("classlabels_strings") or site.integers(ints).tolist()


def chosen(
    site: LoweringSite, index: ir.Value, labels: Sequence[int] | Sequence[str]
) -> ir.Value:
    """The label at each index."""
    if list(labels) == list(range(len(labels))):
        return index
    table = site.labels("labels", labels)
    return site.before("Gather", [table, index], "label", axis=0)


def best(
    site: LoweringSite, scores: ir.Value, labels: Sequence[int] | Sequence[str]
) -> ir.Value:
    """The label of the largest score, the first of equals."""
    index = site.before("ArgMax", [scores], "index", axis=1, keepdims=0)
    return chosen(site, index, labels)


def split_at_zero(
    site: LoweringSite,
    score: ir.Value,
    labels: Sequence[int] | Sequence[str],
    limit: float = 0,
) -> ir.Value:
    """The second label where the only score exceeds the limit."""
    bound = site.constant("limit", np.array(limit, np.float32))
    above = site.before("Greater", [score, bound], "above")
    flat = site.before("Reshape", [above, site.ints("flat", [-1])], "flat")
    return chosen(site, site.cast(flat, INT64), labels)


# ---- linear models


def gemm(
    site: LoweringSite, x: ir.Value, weight: np.ndarray, bias: np.ndarray, name: str
) -> ir.Value:
    """x times the transposed weight, plus a bias per row of it."""
    inputs = [x, site.constant(f"{name}_weight", weight)]
    if bias.any():
        inputs.append(site.constant(f"{name}_bias", bias))
    return site.before("Gemm", inputs, name, transB=1)


def _table(site: LoweringSite, rows: int) -> np.ndarray:
    coefficients = site.floats("coefficients")
    shape = site.data.shape
    width = None if shape is None or not len(shape) else shape[-1]
    if not isinstance(width, int):
        width = coefficients.size // max(rows, 1)
    if rows < 1 or not width or coefficients.size != rows * width:
        raise site.unsupported(
            f"{coefficients.size} coefficients for {rows} rows of {width} features"
        )
    return coefficients.reshape(rows, width)


@lowering("LinearRegressor")
def linear_regressor(site: LoweringSite) -> Sequence[ir.Value]:
    """A Gemm; of one target, PROBIT alone transforms the score."""
    targets = site.integer("targets", 1)
    bias = site.floats("intercepts")
    bias = bias if bias.size == targets else np.zeros(targets, np.float32)
    scores = gemm(site, site.rows(), _table(site, targets), bias, "scores")
    return [of_targets(site, scores, targets, site.text("post_transform", "NONE"))]


@lowering("LinearClassifier")
def linear_classifier(site: LoweringSite) -> Sequence[ir.Value]:
    """A Gemm, and the label of the largest score, or of the only one's sign."""
    bias = site.floats("intercepts")
    labels = class_labels(site, "classlabels_ints")
    transform = site.text("post_transform", "NONE")
    if not bias.size:
        raise site.unsupported("it needs an intercept for each class")
    scores = gemm(site, site.rows(), _table(site, bias.size), bias, "scores")
    if bias.size > 1:
        if len(labels) < bias.size:
            raise site.unsupported(f"{len(labels)} labels for {bias.size} classes")
        return [best(site, scores, labels), transformed(site, scores, transform)]
    if len(labels) != 2:
        raise site.unsupported("one row of coefficients needs two labels")
    label = split_at_zero(site, scores, labels)
    return [label, pair(site, scores, transform, opposite=False)]
