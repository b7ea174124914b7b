"""Rules for contrib_schemas.py: the register, and those of layers with a state."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from .inference_site import InferenceSite, Size

Rule = Callable[[InferenceSite], None]
RULES: dict[str, Rule] = {}


def type_rule(*ops: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return register


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
    q, k, v = (n.dims(i) or [None] * 3 for i in range(3))
    heads, kept = n.attr("q_num_heads"), n.attr("kv_num_heads")
    key, value = _part(k[2], kept), _part(v[2], kept)
    width = value * heads if isinstance(value, int) else None
    n.give(0, n.element(0), [q[0], q[1], width])
    n.give(1, n.element(3) or n.element(0), [q[0], kept, key, value])


def _part(size: Size, count: int) -> Size:
    return size // count if isinstance(size, int) else None


@type_rule("CausalConvWithState")
def _causal_conv(n: InferenceSite) -> None:
    dims, kernel = n.dims(0), n.size(1, 2)
    n.give(0, n.element(0), dims)
    before = kernel - 1 if isinstance(kernel, int) else None
    n.give(1, n.element(0), dims and [*dims[:2], before])


@type_rule("LinearAttentionGate")
def _decay(n: InferenceSite) -> None:
    for j in (0, 1):
        n.give(j, n.element(0), n.dims(0))


@type_rule("UnfoldTensor")
def _unfold(n: InferenceSite) -> None:
    rank = n.rank(0)
    n.give(0, n.element(0), None if rank is None else [None] * (rank + 1))


@type_rule("DynamicTimeWarping")
def _path(n: InferenceSite) -> None:
    n.give(0, onnx.TensorProto.INT32, [2, None])


@type_rule("TorchEmbedding")
def _rows(n: InferenceSite) -> None:
    indices = n.dims(1)
    n.give(0, n.element(0), indices and [*indices, n.size(0, 1)])


@type_rule("MatMulInteger16")
def _product(n: InferenceSite) -> None:
    unsigned = {n.element(0), n.element(1)} == {onnx.TensorProto.UINT16}
    kind = onnx.TensorProto.UINT32 if unsigned else onnx.TensorProto.INT32
    ranks = [n.rank(i) for i in (0, 1)]
    known = None not in ranks and min(r or 0 for r in ranks) >= 2
    n.give(0, kind, [None] * max(r or 0 for r in ranks) if known else None)


@type_rule("IsAllFinite")
def _flag(n: InferenceSite) -> None:
    n.give(0, onnx.TensorProto.BOOL, [])


@type_rule("DecoderMaskedMultiHeadAttention")
def _decoder(n: InferenceSite) -> None:
    n.give(0, n.element(0), n.dims(0) if n.rank(1) else [None] * 3)
    for j in (1, 2):
        n.give(j, n.element(0), n.dims(4 + j))


@type_rule("MurmurHash3")
def _hash(n: InferenceSite) -> None:
    positive = n.attr("positive", 1)
    n.give(
        0, onnx.TensorProto.UINT32 if positive else onnx.TensorProto.INT32, n.dims(0)
    )


@type_rule("NGramHashMapping")
def _hashes(n: InferenceSite) -> None:
    dims, longest = n.dims(0), n.attr("max_ngram_size", 0)
    count = (longest - 1) * n.attr("n_head_per_ngram", 0)
    n.give(0, n.element(0), dims and [*dims, count])
    n.give(1, n.element(0), dims and [dims[0], longest - 1])


@type_rule("WordConvEmbedding")
def _words(n: InferenceSite) -> None:
    n.give(0, n.element(1), [n.size(0, 0), n.size(1, 0)])


@type_rule("BifurcationDetector")
def _tokens(n: InferenceSite) -> None:
    n.give(0, n.element(1), [None])
    n.give(1, n.element(1), [1])


@type_rule("EngramGate")
def _gate(n: InferenceSite) -> None:
    for j in (0, 1):
        n.give(j, n.element(0), n.dims(0))


@type_rule("HyperConnectionPostMix")
def _streams(n: InferenceSite) -> None:
    n.give(0, n.element(0), n.dims(0))


@type_rule("HyperConnectionPreMix")
def _reduced(n: InferenceSite) -> None:
    dims, count = n.dims(0), n.attr("num_branches", 0)
    if dims is not None and count:
        dims = [*dims[:-1], _part(dims[-1], count)]
    elif dims is not None:
        dims = [*dims[:-2], dims[-1]]
    n.give(0, n.element(0), dims)
