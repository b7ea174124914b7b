"""Sizes of the outputs of operators: elementwise, reduction, indexing, generation.

A rule gives None for a size that it can't tell; infer.py then asks onnx, and invents
a symbol if onnx can't tell either. The rest is in rules_movement.py (reshape, slice,
concat ...) and rules_windows.py (convolution, matmul, norms, recurrence ...).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..graph.dims import (
    Dim,
    Dims,
    at_least,
    broadcast,
    ceildiv,
    maximum,
    quotient,
    simplify,
)
from .node_facts import DimsResult, ShapeSite, Table, registering

RULES: Table[Callable[..., DimsResult]] = {}
rule = registering(RULES)


@rule(*"""
    Add Sub Mul Div Pow Mod And Or Xor Equal Greater GreaterOrEqual Less
    LessOrEqual Min Max Sum Mean Where BitShift BitwiseAnd BitwiseOr BitwiseXor
    """.split())
def elementwise(site: ShapeSite) -> DimsResult:
    """All inputs broadcast together."""
    shapes = [site.dims(i) for i in range(len(site.node.inputs))]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    return [broadcast(*known, assume=site.shapes.assume)]


@rule("QLinearAdd", "QLinearMul")
def integer_pair(site: ShapeSite) -> DimsResult:
    """Both broadcast together; scales stand between them."""
    a, b = site.dims(0), site.dims(3)
    if a is None or b is None:
        return None
    return [broadcast(a, b, assume=site.shapes.assume)]


@rule(*"""
    Abs Acos Acosh AllowedScores Asin Asinh Atan Atanh BatchNormalization Bernoulli
    BitCast BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh CumProd CumSum
    DequantizeLinear Elu Erf Exp EyeLike Floor Gelu GroupNormalization HardSigmoid
    HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LeakyRelu Log
    LogSoftmax LpNormalization MeanVarianceNormalization Mish Neg Not PRelu
    QuantizeLinear RMSNormalization RandomNormalLike RandomUniformLike Reciprocal
    Relu ReverseSequence RotaryEmbedding Round ScatterElements ScatterND Selu
    Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh
    TensorScatter ThresholdedRelu Trilu
    """.split())
def like_input(site: ShapeSite, x: Dims) -> DimsResult:
    """The first output has the shape of the first input."""
    return [x]


@rule("Dropout", "DynamicQuantizeLinear")
def like_input_and_more(site: ShapeSite, x: Dims) -> DimsResult:
    """A mask of the same shape, or a scale and a zero point."""
    return [x, x] if site.node.op_type == "Dropout" else [x, (), ()]


@rule("GreedyStep", "SampleStep", "BeamStep")
def search_step(site: ShapeSite) -> DimsResult:
    """Sequences that are longer by a word, and the other states as they were."""
    sequences = site.dims(1)
    if sequences is None:
        return None
    longer = (sequences[0], simplify(sequences[1] + 1))
    if site.node.op_type != "BeamStep":
        return [longer, site.dims(2), ()]
    return [longer, *(site.dims(i) for i in (2, 3, 4, 5)), sequences[:1], ()]


@rule("RepeatRows")
def repeat_rows(site: ShapeSite, x: Dims) -> DimsResult:
    """So many rows for each."""
    times = site.numbers(1)
    first = None if not times or times[0] is None else simplify(x[0] * times[0])
    return [(first, *x[1:])]


@rule("JoinScores")
def join_scores(site: ShapeSite, first: Dims, rest: Dims) -> DimsResult:
    """One round more than the rest."""
    return [(simplify(rest[0] + 1), *first)]


@rule("PadScores")
def pad_scores(site: ShapeSite, every: Dims) -> DimsResult:
    """So many rounds of words; of samples, of beams."""
    beams, longest = site.numbers(1), site.numbers(2)
    words = site.dims(3)
    if not beams or beams[0] is None or words is None:
        return None
    rounds = simplify(longest[0] - words[1]) if longest and longest[0] else None
    return [(rounds, quotient(words[:1], beams[:1]), beams[0], every[2])]


@rule("BeamStart")
def beam_start(site: ShapeSite, words: Dims) -> DimsResult:
    """For each sample: totals of its beams, the best sequences, whether it is done."""
    beams, longest = site.numbers(1), site.numbers(2)
    if not beams or beams[0] is None:
        return None
    batch = quotient(words[:1], beams[:1])
    both = (batch, beams[0])
    return [both, (*both, longest[0] if longest else None), both, (batch,)]


@rule("SequenceAt")
def sequence_at(site: ShapeSite, x: Dims) -> DimsResult:
    """An item; names of sizes that a list declares are no item's alone."""
    return [[size if isinstance(size, int) else None for size in x]]


@rule("Shape", "Size")
def shape_of(site: ShapeSite, x: Dims) -> DimsResult:
    """A vector of the chosen sizes; one number."""
    if site.node.op_type == "Size":
        return [()]
    return [(len(x[slice(site.attr("start", 0), site.attr("end"))]),)]


@rule("Gather")
def gather(site: ShapeSite, x: Dims, indices: Dims) -> DimsResult:
    """The indices take the place of the axis."""
    axis = site.axis(len(x))
    return [(*x[:axis], *indices, *x[axis + 1 :])]


@rule("GatherElements")
def gather_elements(site: ShapeSite, x: Dims, indices: Dims) -> DimsResult:
    """One element for each index."""
    return [indices]


@rule("GatherND")
def gather_nd(site: ShapeSite, x: Dims, indices: Dims) -> DimsResult:
    """The last axis of the indices is a place in the axes after the batch."""
    depth = indices[-1]
    if not isinstance(depth, int):
        return None
    return [(*indices[:-1], *x[site.attr("batch_dims", 0) + depth :])]


@rule(*"""
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare
    """.split())
def reduce(site: ShapeSite, x: Dims) -> DimsResult:
    """The axes given become 1, or go."""
    keep = bool(site.attr("keepdims", 1))
    axes: list[int] | None = []
    if site.has(1) or site.attr("axes"):
        axes = site.axes(1, len(x))
    if axes is None:
        return [[None] * len(x)] if keep else None
    if not axes and not site.attr("noop_with_empty_axes", 0):
        axes = list(range(len(x)))
    return [_without(x, axes, keep)]


@rule("ArgMax", "ArgMin")
def arg_reduce(site: ShapeSite, x: Dims) -> DimsResult:
    """The axis becomes 1, or goes."""
    return [_without(x, [site.axis(len(x))], bool(site.attr("keepdims", 1)))]


def _without(x: Dims, axes: list[int], keep: bool) -> list[Dim]:
    if keep:
        return [1 if i in axes else d for i, d in enumerate(x)]
    return [d for i, d in enumerate(x) if i not in axes]


@rule("Range")
def range_(site: ShapeSite) -> DimsResult:
    """As many steps as fit between start and limit."""
    bounds = [_number(site, i) for i in range(3)]
    start, limit, delta = bounds
    if start is None or limit is None or delta is None or delta == 0:
        return [[None]]
    if any(isinstance(bound, float) for bound in bounds):
        if not all(isinstance(bound, int | float) for bound in bounds):
            return [[None]]
        return [[max(int(np.ceil((limit - start) / delta)), 0)]]
    if at_least(delta, 1):
        return [[maximum(ceildiv(simplify(limit - start), delta), 0)]]
    if at_least(-1, delta):
        return [[maximum(ceildiv(simplify(start - limit), simplify(-delta)), 0)]]
    return [[None]]


def _number(site: ShapeSite, index: int) -> Dim | float | None:
    """A scalar input; a whole float as an int."""
    numbers = site.numbers(index)
    number: Dim | float | None = numbers[0] if numbers else None
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return number


@rule("ConstantOfShape")
def constant_of_shape(site: ShapeSite, shape: Dims) -> DimsResult:
    """The shape given; onnx knows one output size per element."""
    sizes = site.numbers(0)
    if sizes is None:
        return [[None] * shape[0]] if isinstance(shape[0], int) else None
    return [sizes]


@rule("TopK")
def top_k(site: ShapeSite, x: Dims) -> DimsResult:
    """k along the axis, values and indices alike."""
    axis, k = site.axis(len(x), default=-1), site.numbers(1)
    out = [*x[:axis], k[0] if k else None, *x[axis + 1 :]]
    return [out, out]


@rule("OneHot")
def one_hot(site: ShapeSite, indices: Dims) -> DimsResult:
    """A new axis of `depth`."""
    axis, depth = site.axis(len(indices) + 1, default=-1), site.numbers(1)
    size = None
    if depth and depth[0] is not None:
        size = int(depth[0]) if isinstance(depth[0], float) else depth[0]
    return [[*indices[:axis], size, *indices[axis:]]]


@rule("NonZero")
def non_zero(site: ShapeSite, x: Dims) -> DimsResult:
    """One row per axis; as many columns as there are true elements."""
    elements = site.numbers(0)
    known = elements is not None and all(isinstance(e, bool | int) for e in elements)
    count = sum(map(bool, elements)) if elements is not None and known else None
    return [(max(len(x), 1), count)]


@rule("Compress", "Unique")
def some_elements(site: ShapeSite, x: Dims) -> DimsResult:
    """Unknown along the axis, or flattened without one."""
    if site.attr("axis") is None:
        return [[None]] if site.node.op_type == "Compress" else [[None]] * 4
    axis = site.axis(len(x))
    out = [*x[:axis], None, *x[axis + 1 :]]
    return [out] if site.node.op_type == "Compress" else [out, [None], [None], [None]]
