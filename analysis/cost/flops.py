"""How many arithmetic operations a node takes.

What is counted, per element or in all:

    elementwise         1 per element of the result, whatever the function: exp and add
                        cost the same; the comparisons and Where count too
    sums of n inputs    n - 1 per element (Sum, Max, Min; Mean n)
    contractions        2 for each product that is summed (MatMul, Gemm, Einsum, Conv,
                        ConvTranspose), 1 per element for a bias
    reductions          1 per element of the input; 2 where each is squared or made
                        positive first, 3 for ReduceLogSumExp
    pooling             the size of the window, per element of the result
    softmax             5 per element: maximum, subtract, exp, sum, divide
    normalisations      LayerNormalization 6 (mean, subtract, square, mean, divide,
                        scale) and 1 for a bias; GroupNormalization and
                        InstanceNormalization 7, MeanVarianceNormalization 5,
                        RMSNormalization 4, LpNormalization 3; BatchNormalization 2, a
                        factor and a shift that are computed once; LRN size + 5
    composites          what they come to when written out: Gelu 5 (8 with tanh),
                        HardSwish 4, HardSigmoid 3, Mish 3, Swish 2 (3 with alpha)
    recurrent layers    2 for each product that is summed, and what each gate needs
    Attention           two contractions and what each score needs
    RotaryEmbedding     3 per element
    Resize              2 per neighbour that is weighted in; 0 for the nearest one
    quantisation        QuantizeLinear 3 (divide, round, shift), DequantizeLinear 2
    other               1 per element of the input: ArgMax, TopK, Hardmax, Col2Im;
                        1 per element of the result: CumSum, CumProd
    movement            0: reshaping, copying, indexing, padding, Cast

What is written out in several nodes costs what the one node does, but for steps that
are taken once per row: a Gelu of five nodes, a softmax of five, a Conv whose bias is a
separate Add. So a lower count means less work, not fewer nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import onnx_ir as ir
import sympy

from ..graph.dims import Dim, product, same, simplify
from ..shapes.infer import ShapeFacts
from ..shapes.node_facts import ShapeSite

# Every name of an operator stands in one of these tables, or it is unknown.
_MOVEMENT = frozenset(
    """BitCast Cast CastLike CenterCropPad Compress Concat Constant ConstantOfShape
    DepthToSpace Dropout Expand EyeLike Flatten Gather GatherElements GatherND Identity
    MaxUnpool NonZero OneHot Pad Range Reshape ReverseSequence Shape Size Slice
    SpaceToDepth Split Squeeze TensorScatter Tile Transpose Trilu Unsqueeze""".split()
)
_PER_RESULT = {
    **dict.fromkeys(
        """Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot
        BitwiseOr BitwiseXor Ceil Celu Clip Cos Cosh CumProd CumSum Div Elu Equal Erf
        Exp Floor Greater GreaterOrEqual IsInf IsNaN LeakyRelu Less LessOrEqual Log Mod
        Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh
        Softplus Softsign Sqrt Sub Tan Tanh ThresholdedRelu Where Xor""".split(),
        1,
    ),
    **dict.fromkeys(("Softmax", "LogSoftmax"), 5),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization"), 7),
    "DequantizeLinear": 2,
    "HardSigmoid": 3,
    "HardSwish": 4,
    "LpNormalization": 3,
    "MeanVarianceNormalization": 5,
    "Mish": 3,
    "QuantizeLinear": 3,
    "RMSNormalization": 4,
}
_PER_INPUT = {
    **dict.fromkeys(("ArgMax", "ArgMin", "Col2Im", "Hardmax", "TopK"), 1),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "ReduceLogSum"), 1),
    **dict.fromkeys("ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum".split(), 1),
    **dict.fromkeys("GlobalLpPool ReduceL1 ReduceL2 ReduceSumSquare".split(), 2),
    "ReduceLogSumExp": 3,
}

Rule = Callable[[ShapeSite], Dim | None]
_RULES: dict[str, Rule] = {}


def flops(node: ir.Node, shapes: ShapeFacts) -> Dim | None:
    """How many arithmetic operations a node takes, as this module's text counts them.

    None for an operator that is not known here, and where a needed size is not.
    """
    op = node.op_type
    if node.domain:
        return None
    if op in _MOVEMENT:
        return 0
    if op in _PER_RESULT:
        return _times(_PER_RESULT[op], shapes.dims(node.outputs[0]))
    site = ShapeSite(node, shapes)
    if op in _PER_INPUT:
        return _times(_PER_INPUT[op], site.dims(0))
    rule = _RULES.get(op)
    return None if rule is None else rule(site)


def _rule(*ops: str) -> Callable[[Rule], Rule]:
    """Enters a function for some operators."""

    def register(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(ops, function))
        return function

    return register


# ---- elementwise, of a kind


@_rule("Max", "Min", "Sum", "Mean")
def _variadic(site: ShapeSite) -> Dim | None:
    steps = len(site.node.inputs) - (site.node.op_type != "Mean")
    return _times(steps, _result(site))


@_rule("Gelu")
def _gelu(site: ShapeSite) -> Dim | None:
    return _times(8 if site.attr("approximate") == "tanh" else 5, _result(site))


@_rule("Swish")
def _swish(site: ShapeSite) -> Dim | None:
    return _times(2 if site.attr("alpha", 1.0) == 1.0 else 3, _result(site))


@_rule("RotaryEmbedding")
def _rotary(site: ShapeSite) -> Dim | None:
    """Two products and a sum, unless only a part of each row turns."""
    return None if site.attr("rotary_embedding_dim", 0) else _times(3, _result(site))


@_rule("ScatterElements", "ScatterND")
def _scatter(site: ShapeSite) -> Dim | None:
    if site.attr("reduction", "none") == "none":
        return 0
    return _times(1, site.dims(2))


@_rule("Resize")
def _resize(site: ShapeSite) -> Dim | None:
    """A result is a weighted sum of 2 or 4 neighbours along each axis that changes."""
    mode = site.attr("mode", "nearest")
    before, after = site.dims(0), _result(site)
    if mode == "nearest":
        return 0
    if before is None or after is None or site.attr("antialias", 0):
        return None
    axes = sum(same(a, b) is not True for a, b in zip(before, after, strict=True))
    return _times(2 * (4 if mode == "cubic" else 2) ** axes if axes else 0, after)


# ---- normalisations


@_rule("BatchNormalization")
def _batch_norm(site: ShapeSite) -> Dim | None:
    return None if site.attr("training_mode", 0) else _times(2, _result(site))


@_rule("LayerNormalization")
def _layer_norm(site: ShapeSite) -> Dim | None:
    return _times(7 if site.has(2) else 6, _result(site))


@_rule("LRN")
def _local_response_norm(site: ShapeSite) -> Dim | None:
    return _times(int(site.attr("size", 1)) + 5, _result(site))


# ---- windows


@_rule("AveragePool", "LpPool", "MaxPool")
def _pool(site: ShapeSite) -> Dim | None:
    per_place = 2 if site.node.op_type == "LpPool" else 1
    window = product(int(k) for k in site.attr("kernel_shape", ()))
    return _times(per_place, _result(site), window)


@_rule("Conv", "ConvInteger")
def _conv(site: ShapeSite) -> Dim | None:
    """Each result sums over the input channels of its group and the window."""
    kernel, out = site.dims(1), _result(site)
    if kernel is None:
        return None
    bias = 1 if site.node.op_type == "Conv" and site.has(2) else 0
    return _plus(_times(2, out, *kernel[1:]), _times(bias, out))


@_rule("ConvTranspose")
def _conv_transpose(site: ShapeSite) -> Dim | None:
    """Each element of the input goes to the results under its window."""
    kernel = site.dims(1)
    if kernel is None:
        return None
    bias = _times(int(site.has(2)), _result(site))
    return _plus(_times(2, site.dims(0), *kernel[1:]), bias)


# ---- contractions


@_rule("MatMul", "MatMulInteger")
def _matmul(site: ShapeSite) -> Dim | None:
    a = site.dims(0)
    return None if not a else _times(2, _result(site), a[-1])


@_rule("Gemm")
def _gemm(site: ShapeSite) -> Dim | None:
    a, out = site.dims(0), _result(site)
    if a is None:
        return None
    scale = site.attr("alpha", 1.0) != 1.0
    count = _plus(
        _times(2, out, a[0 if site.attr("transA", 0) else 1]), _times(scale, out)
    )
    if not site.has(2):
        return count
    rescale = site.attr("beta", 1.0) != 1.0
    return _plus(count, _times(1, out), _times(rescale, site.dims(2)))


@_rule("Einsum")
def _einsum(site: ShapeSite) -> Dim | None:
    """At each point of all labels: n - 1 products, and a sum if a label goes away."""
    equation = str(site.attr("equation", "")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    gone: dict[str, Dim] = {}
    for i, term in enumerate(terms):
        dims = site.dims(i)
        if dims is None:
            return None
        before, _, after = term.partition("...")
        sizes = [*dims[: len(before)], *dims[len(dims) - len(after) :]]
        for label, size in zip(before + after, sizes, strict=True):
            kept = label in right if arrow else left.count(label) == 1
            if not kept and gone.get(label, 1) == 1:
                gone[label] = size
    steps = len(terms) - (0 if gone else 1)
    return _times(steps, _result(site), *gone.values())


# Recurrent layers: how many gates, and what a unit needs in one step beyond the two
# contractions: adding them up, the gates' functions, and the new state.
_GATES = {"RNN": (1, 2), "GRU": (3, 11), "LSTM": (4, 13)}


@_rule(*_GATES)
def _recurrent(site: ShapeSite) -> Dim | None:
    """X [steps, batch, inputs], or the first two swapped; R [directions, _, units]."""
    x, recurrence = site.dims(0), site.dims(2)
    if x is None or recurrence is None:
        return None
    gates, extra = _GATES[site.node.op_type]
    directions, _, units = recurrence
    rows = (x[0], x[1], directions, units)
    extra += gates if site.has(3) else 0
    extra += 6 if site.has(7) else 0  # peepholes
    return _plus(
        _times(2 * gates, rows, x[2]),
        _times(2 * gates, rows, units),
        _times(extra, rows),
    )


@_rule("Attention")
def _attention(site: ShapeSite) -> Dim | None:
    """Q K^T, a score's scaling and softmax, and the weighted sum of V."""
    q, k, v = site.dims(0), site.dims(1), site.dims(2)
    if q is None or k is None or v is None:
        return None
    kv_heads = int(site.attr("kv_num_heads", 0))
    if len(q) == 3:
        heads: Dim = int(site.attr("q_num_heads", 0))
        if not heads or not kv_heads or not isinstance(v[2], int):
            return None
        queries, keys, width = q[1], k[1], v[2] // kv_heads
    else:
        heads, queries, keys, width = q[1], q[2], k[2], v[3]
    past = site.dims(4)
    keys = total([keys, past[2]]) if past is not None else keys
    masks = int(site.has(3)) + int(bool(site.attr("is_causal", 0)))
    per_score = 6 + masks + (3 if site.attr("softcap", 0.0) else 0)
    scores = (q[0], heads, queries, keys)
    return _plus(
        _times(2, q, keys), _times(2, scores, width), _times(per_score, scores)
    )


# ---- sizes


def _result(site: ShapeSite) -> tuple[Dim, ...] | None:
    return site.shapes.dims(site.node.outputs[0])


def _times(factor: int, dims: Iterable[Dim] | None, *more: Dim) -> Dim | None:
    """A multiple of the number of elements; None if that is not known."""
    return None if dims is None else product([factor, *dims, *more])


def _plus(*counts: Dim | None) -> Dim | None:
    known = [count for count in counts if count is not None]
    return total(known) if len(known) == len(counts) else None


def total(counts: Iterable[Dim]) -> Dim:
    """The sum; a number if all are.

    Joined at once: sympy is slow at adding up one by one.
    """
    number, rest = 0, []
    for count in counts:
        if isinstance(count, int):
            number += count
        else:
            rest.append(count)
    return simplify(sympy.Add(number, *rest)) if rest else number
