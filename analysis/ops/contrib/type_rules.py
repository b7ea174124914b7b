"""Types and ranks of what com.microsoft's operators give (type_rules.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import onnx

from .. import type_rules
from ..registry import DOMAIN
from ..type_rules import InferenceSite, Size, normalization

type_rule = partial(type_rules.type_rule, domain=DOMAIN)

_FLOAT, _UINT8 = onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8
_INT32, _INT64 = onnx.TensorProto.INT32, onnx.TensorProto.INT64


def _widest(n: InferenceSite, *inputs: int) -> list[Size] | None:
    """Unknown sizes, as many as the most axes that one of these inputs has."""
    ranks = [rank for i in inputs if (rank := n.rank(i)) is not None]
    return [None] * max(ranks) if len(ranks) == len(inputs) else None


def _share(size: Size, count: int) -> Size:
    return size // count if isinstance(size, int) else None


def _packed(n: InferenceSite, turned: bool) -> list[Size] | None:
    dims = n.dims(0)
    return dims and [*dims[:-1], n.attr("N" if turned else "K")]


# What each output is, in their order: its element type, and its sizes.
_Tell: TypeAlias = Callable[[InferenceSite], Sequence[tuple[int, Any]]]
_GIVES: dict[str, _Tell] = {
    "BifurcationDetector": lambda n: [(n.element(1), [None]), (n.element(1), [1])],
    "BiasSplitGelu": lambda n: [
        (n.element(0), (x := n.dims(0)) and [*x[:-1], _share(x[-1], 2)])
    ],
    "CDist": lambda n: [(n.element(0), [n.size(0, 0), n.size(1, 0)])],
    "CropAndResize": lambda n: [(n.element(0), [None] * 4)],
    "DecoderMaskedMultiHeadAttention": lambda n: [
        (n.element(0), n.dims(0) if n.rank(1) else [None] * 3),
        *((n.element(0), n.dims(i)) for i in (5, 6)),
    ],
    "DequantizeLinear": lambda n: [(n.element(1), n.dims(0))],
    "DynamicTimeWarping": lambda n: [(_INT32, [2, None])],
    "FusedGemm": lambda n: [
        (
            n.element(0),
            [n.size(0, n.attr("transA", 0)), n.size(1, 1 - n.attr("transB", 0))],
        )
    ],
    "GridSample": lambda n: [
        (n.element(0), (x := n.dims(0)) and (to := n.dims(1)) and [*x[:2], *to[1:-1]])
    ],
    "IsAllFinite": lambda n: [(onnx.TensorProto.BOOL, [])],
    "MatMulBnb4": lambda n: [(n.element(0), _packed(n, n.attr("transB", 1)))],
    "MatMulNBits": lambda n: [(n.element(0), _packed(n, True))],
    "MurmurHash3": lambda n: [
        (onnx.TensorProto.UINT32 if n.attr("positive", 1) else _INT32, n.dims(0))
    ],
    "NGramRepeatBlock": lambda n: [(n.element(1), n.dims(1))],
    "Irfft": lambda n: [(n.element(0), (_widest(n, 0) or [])[1:] or None)],
    "QGemm": lambda n: [(n.element(8) or n.element(1), [None] * 2)],
    "QLinearConcat": lambda n: [(n.element(1), _widest(n, 2))],
    "QLinearWhere": lambda n: [(n.element(1), _widest(n, 0, 1, 4))],
    "QuantizeLinear": lambda n: [(n.element(2) or _UINT8, n.dims(0))],
    "Range": lambda n: [(n.element(0), [None])],
    "SparseAttention": lambda n: [(n.element(i), n.dims(i)) for i in (0, 3, 4)],
    "TorchEmbedding": lambda n: [
        (n.element(0), (ids := n.dims(1)) and [*ids, n.size(0, 1)])
    ],
    "Unique": lambda n: [(n.element(0), [None]), (_INT64, n.dims(0)), (_INT64, [None])],
    "WordConvEmbedding": lambda n: [(n.element(1), [n.size(0, 0), n.size(1, 0)])],
    **dict.fromkeys(
        (
            "BiasAdd BiasDropout BiasGelu BiasSoftmax BranchwiseRMSNorm ComplexMul"
            " ComplexMulConj FastGelu GatedAdd GatedRMSNorm Gelu GroupNorm"
            " HyperConnectionPostMix Inverse MRotaryEmbedding MoE QLinearLeakyRelu"
            " QLinearSigmoid QLinearSoftmax QMoE QuickGelu RotaryEmbedding SampleOp"
            " ScaledSiLU Trilu"
        ).split(),
        lambda n: [(n.element(0), n.dims(0))],
    ),
    **dict.fromkeys(
        ("QLinearAdd", "QLinearMul"), lambda n: [(n.element(0), _widest(n, 0, 3))]
    ),
    **dict.fromkeys(
        (
            "ConvTransposeWithDynamicPads FusedConv NhwcConv NhwcFusedConv NhwcMaxPool"
            " Pad QLinearAveragePool QLinearConv QLinearGlobalAveragePool"
        ).split(),
        lambda n: [(n.element(0), _widest(n, 0))],
    ),
    **dict.fromkeys(  # complex numbers have an axis for the real and the imaginary part
        ("ExpandDims", "Rfft", "UnfoldTensor"),
        lambda n: [
            (n.element(0), None if (r := _widest(n, 0)) is None else [None, *r])
        ],
    ),
    **dict.fromkeys(
        ("EngramGate", "LinearAttentionGate", "SkipGroupNorm"),
        lambda n: [(n.element(0), n.dims(0))] * 2,
    ),
}


def _given(tell: _Tell, n: InferenceSite) -> None:
    for i, (element, dims) in enumerate(tell(n)):
        n.give(i, element, dims)


for _name, _tell in _GIVES.items():
    type_rule(_name)(partial(_given, _tell))
type_rule(
    "LayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"
)(normalization)


@type_rule("EmbedLayerNormalization", "QEmbedLayerNormalization")
def _embedding(n: InferenceSite) -> None:
    ids, table = n.dims(0), n.dims(2)
    dims = [*ids, table[1]] if ids is not None and table is not None else None
    element = n.element(8) if n.element(8) == _FLOAT else n.element(2)
    n.give(0, element, dims)
    n.give(1, _INT32, ids and ids[:1])
    n.give(2, element, dims)


# ---- products and convolutions


@type_rule("FusedMatMul", "TransposeMatMul", "GemmFastGelu")
def _fused_matmul(n: InferenceSite) -> None:
    a, b = n.dims(0), n.dims(1)
    n.give(0, n.element(0), None if a is None or b is None else _product(n, a, b))


def _product(n: InferenceSite, a: list[Size], b: list[Size]) -> list[Size]:
    if len(a) < 2 or len(b) < 2:
        return (
            [*a[:-1], *b[1:]]
            if len(a) < 2 and len(b) < 2
            else [None] * (max(len(a), len(b)) - 1)
        )
    turned = [
        _turned(dims, n.attr(f"trans{which}", 0), n.attr(f"transBatch{which}", 0))
        for which, dims in (("A", a), ("B", b))
    ]
    return [*_broadcast(turned[0][:-2], turned[1][:-2]), turned[0][-2], turned[1][-1]]


def _turned(dims: list[Size], matrix: int, batch: int) -> list[Size]:
    if batch:  # the rows stand before the batch
        dims = [*dims[1:-1], dims[0], dims[-1]]
    return [*dims[:-2], dims[-1], dims[-2]] if matrix else dims


def _broadcast(a: list[Size], b: list[Size]) -> list[Size]:
    length = max(len(a), len(b))
    a, b = [*[1] * (length - len(a)), *a], [*[1] * (length - len(b)), *b]
    return [
        y if x == 1 else x if y in (1, x) or (isinstance(x, int) and x > 1) else None
        for x, y in zip(a, b, strict=True)
    ]


@type_rule("DynamicQuantizeMatMul", "MatMulIntegerToFloat")
def _product_to_float(n: InferenceSite) -> None:
    a, b = n.dims(0), n.dims(1)
    known = a is not None and b is not None and len(a) >= 2 and len(b) >= 2
    n.give(0, n.element(2), _product(n, a or [], b or []) if known else None)


# ---- attention


@type_rule("Attention", "QAttention")
def _attention(n: InferenceSite) -> None:
    dims, weights = n.dims(0), n.dims(1)
    sizes = n.attr("qkv_hidden_sizes")
    width: Size = None
    if sizes:
        width = sizes[2]
    elif weights is not None and isinstance(weights[1], int):
        width = weights[1] // 3
    element = n.element(2) or n.element(0)
    n.give(0, element, dims and [*dims[:2], width])
    n.give(1, element, [2, n.size(0, 0), n.attr("num_heads"), None, None])


@type_rule("MultiHeadAttention")
def _multi_head(n: InferenceSite) -> None:
    query, value = n.dims(0), n.dims(2)
    if query is None:
        n.give(0, n.element(0), [None] * 3)
    else:
        width = query[-1] if len(query) == 3 else None
        if value is not None and len(value) == 3:
            width = value[2]
        n.give(0, n.element(0), [*query[:2], width])
    for j in (1, 2, 3):
        n.give(j, n.element(0), [None] * 4)


@type_rule("GroupQueryAttention")
def _group_query(n: InferenceSite) -> None:
    heads, kv_heads = n.attr("num_heads"), n.attr("kv_num_heads")
    query, past, element = n.dims(0), n.dims(3), n.element(0)
    if query is None or len(query) != 3:
        query = [None] * 3
    packed = n.rank(1) is None
    width, size = query[2], None
    if isinstance(width, int):
        size = width // (heads + 2 * kv_heads if packed else heads)
        width = size * heads
    n.give(0, element, [*query[:2], width])
    head: Size = past[3] if past is not None and len(past) == 4 else size
    for j in (1, 2):
        n.give(j, n.element(2 + j) or element, [query[0], kv_heads, None, head])
    n.give(3, element, [query[0], heads, query[1], None])


# ---- quantised


@type_rule("QLinearReduceMean")
def _mean(n: InferenceSite) -> None:
    rank, axes = n.rank(0), n.attr("axes")
    if rank is not None and not n.attr("keepdims", 1):
        rank -= len(axes) if axes else rank
    n.give(0, n.element(0), None if rank is None else [None] * rank)


@type_rule("GatherBlockQuantized")
def _gather(n: InferenceSite) -> None:
    data, indices = n.dims(0), n.dims(1)
    if data is None or indices is None:
        return
    axis = n.attr("gather_axis", 0) % len(data)
    last = data[-1]
    if n.element(0) == _UINT8 and isinstance(last, int):
        data = [*data[:-1], last * (8 // n.attr("bits", 4))]
    n.give(0, n.element(2), [*data[:axis], *indices, *data[axis + 1 :]])


# ---- the rest


# ---- with a state, and late additions


@type_rule("DynamicQuantizeLSTM")
def _lstm(n: InferenceSite) -> None:
    dims, state = n.dims(0), n.dims(2)
    if dims is None or state is None:
        dims, state = [None] * 3, [None] * 3
    directions, hidden = state[0], state[1]
    n.give(0, n.element(0), [dims[0], directions, dims[1], hidden])
    for j in (1, 2):
        n.give(j, n.element(0), [directions, dims[1], hidden])


@type_rule("LinearAttention")
def _linear_attention(n: InferenceSite) -> None:
    q, v = (n.dims(i) or [None] * 3 for i in (0, 2))
    heads, kept = n.attr("q_num_heads"), n.attr("kv_num_heads")
    key, value = _share(q[2], heads), _share(v[2], kept)
    width = value * max(heads, kept) if isinstance(value, int) else None
    n.give(0, n.element(0), [q[0], q[1], width])
    n.give(1, n.element(3) or n.element(0), [q[0], kept, key, value])


@type_rule("CausalConvWithState")
def _causal_conv(n: InferenceSite) -> None:
    dims, kernel = n.dims(0), n.size(1, 2)
    n.give(0, n.element(0), dims)
    before = kernel - 1 if isinstance(kernel, int) else None
    n.give(1, n.element(0), dims and [*dims[:2], before])


@type_rule("MatMulInteger16")
def _wide_product(n: InferenceSite) -> None:
    unsigned = {n.element(0), n.element(1)} == {onnx.TensorProto.UINT16}
    kind = onnx.TensorProto.UINT32 if unsigned else onnx.TensorProto.INT32
    ranks = [n.rank(i) for i in (0, 1)]
    known = None not in ranks and min(r or 0 for r in ranks) >= 2
    n.give(0, kind, [None] * max(r or 0 for r in ranks) if known else None)


@type_rule("NGramHashMapping")
def _hashes(n: InferenceSite) -> None:
    dims, longest = n.dims(0), n.attr("max_ngram_size", 0)
    count = (longest - 1) * n.attr("n_head_per_ngram", 0)
    n.give(0, n.element(0), dims and [*dims, count])
    n.give(1, n.element(0), dims and [dims[0], longest - 1])


@type_rule("HyperConnectionPreMix")
def _reduced(n: InferenceSite) -> None:
    dims, count = n.dims(0), n.attr("num_branches", 0)
    if dims is not None and count:
        dims = [*dims[:-1], _share(dims[-1], count)]
    elif dims is not None:
        dims = [*dims[:-2], dims[-1]]
    n.give(0, n.element(0), dims)
