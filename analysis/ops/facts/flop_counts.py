"""How many arithmetic operations a node takes; analysis/cost/graph_cost.py asks.

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

import sympy

from ...graph.dims import Dim, Dims, product, same, simplify
from ...graph.shape_facts import NodeFacts

Count = Callable[..., Dim | None]


def per_result(factor: int) -> Count:
    """So many per element of the first output."""
    return lambda site: _times(factor, site.out_dims()) if factor else 0


def per_input(factor: int) -> Count:
    """So many per element of the first input."""
    return lambda site: _times(factor, site.dims(0))


# ---- elementwise, of a kind


def joined(steps_less: int) -> Count:
    """So many steps less than inputs, per element of the result."""

    def count(site: NodeFacts) -> Dim | None:
        return _times(len(site.node.inputs) - steps_less, site.out_dims())

    return count


def gelu(site: NodeFacts) -> Dim | None:
    """Of Gelu: 5 for each element, 8 by tanh."""
    return _times(8 if site.attr("approximate") == "tanh" else 5, site.out_dims())


def swish(site: NodeFacts) -> Dim | None:
    """Of Swish: 2 for each element, 3 where alpha is not 1."""
    return _times(2 if site.attr("alpha", 1.0) == 1.0 else 3, site.out_dims())


def swiglu(site: NodeFacts) -> Dim | None:
    """A Swish, and a product with it."""
    return _plus(swish(site), _times(1, site.out_dims()))


def rotary_embedding(site: NodeFacts) -> Dim | None:
    """Two products and a sum, unless only a part of each row turns."""
    return None if site.attr("rotary_embedding_dim", 0) else _times(3, site.out_dims())


def scatter(site: NodeFacts) -> Dim | None:
    """Of scattering: one for each update that is reduced, none without."""
    if site.attr("reduction", "none") == "none":
        return 0
    return _times(1, site.dims(2))


def resize(site: NodeFacts) -> Dim | None:
    """A result is a weighted sum of 2 or 4 neighbours along each axis that changes."""
    mode = site.attr("mode", "nearest")
    before, after = site.dims(0), site.out_dims()
    if mode == "nearest":
        return 0
    if before is None or after is None or site.attr("antialias", 0):
        return None
    axes = sum(same(a, b) is not True for a, b in zip(before, after, strict=True))
    return _times(2 * (4 if mode == "cubic" else 2) ** axes if axes else 0, after)


# ---- normalisations


def batch_normalization(site: NodeFacts) -> Dim | None:
    """Of BatchNormalization: a product and a sum for each element; not in training."""
    return None if site.attr("training_mode", 0) else _times(2, site.out_dims())


def layer_normalization(site: NodeFacts) -> Dim | None:
    """Of LayerNormalization: 6 for each element, 7 with a bias."""
    return _times(7 if site.has(2) else 6, site.out_dims())


def lrn(site: NodeFacts) -> Dim | None:
    """Of LRN: for each element those of its window, and 5."""
    return _times(int(site.attr("size", 1)) + 5, site.out_dims())


# ---- windows


def pool(per_place: int) -> Count:
    """So many for each place of the window."""

    def count(site: NodeFacts) -> Dim | None:
        window = product(int(k) for k in site.attr("kernel_shape", ()))
        return _times(per_place, site.out_dims(), window)

    return count


def conv_without_bias(site: NodeFacts, x: Dims, kernel: Dims) -> Dim | None:
    """Each result sums over the input channels of its group and the window."""
    return _times(2, site.out_dims(), *kernel[1:])


def conv(site: NodeFacts, x: Dims, kernel: Dims) -> Dim | None:
    """The same, and a bias."""
    bias = _times(int(site.has(2)), site.out_dims())
    return _plus(conv_without_bias(site, x, kernel), bias)


def conv_transpose(site: NodeFacts, x: Dims, kernel: Dims) -> Dim | None:
    """Each element of the input goes to the results under its window."""
    bias = _times(int(site.has(2)), site.out_dims())
    return _plus(_times(2, x, *kernel[1:]), bias)


# ---- contractions


def matmul(site: NodeFacts, a: Dims) -> Dim | None:
    """Of MatMul: 2 for each element of the result and the depth."""
    return _times(2, site.out_dims(), a[-1]) if a else None


def gemm(site: NodeFacts, a: Dims) -> Dim | None:
    """Of Gemm: those of the product, of alpha, beta and C."""
    out = site.out_dims()
    scale = site.attr("alpha", 1.0) != 1.0
    count = _plus(
        _times(2, out, a[0 if site.attr("transA", 0) else 1]), _times(scale, out)
    )
    if not site.has(2):
        return count
    rescale = site.attr("beta", 1.0) != 1.0
    return _plus(count, _times(1, out), _times(rescale, site.dims(2)))


def einsum(site: NodeFacts) -> Dim | None:
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
    return _times(steps, site.out_dims(), *gone.values())


def recurrent(gates: int, extra: int) -> Count:
    """`extra` is what a unit needs in one step beyond the two contractions.

    That is adding them up, the gates' functions, and the new state. X is [steps, batch,
    inputs], or the first two swapped; R [directions, _, units].
    """

    def count(site: NodeFacts) -> Dim | None:
        x, recurrence = site.dims(0), site.dims(2)
        if x is None or recurrence is None:
            return None
        directions, _, units = recurrence
        rows = (x[0], x[1], directions, units)
        steps = extra + (gates if site.has(3) else 0)
        steps += 6 if site.has(7) else 0  # peepholes
        return _plus(
            _times(2 * gates, rows, x[2]),
            _times(2 * gates, rows, units),
            _times(steps, rows),
        )

    return count


def attention(site: NodeFacts, q: Dims, k: Dims, v: Dims) -> Dim | None:
    """Q K^T, a score's scaling and softmax, and the weighted sum of V."""
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
