"""ONNX Runtime's operators of several residual streams, and of memory beside them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ...adapters.opset_adapters import AdapterSite, extension
from .attention import last_size
from .decoder_blocks import become_rounded, real


@extension("EngramGate", attrs="epsilon")
def engram_gate(site: AdapterSite) -> None:
    """A value, opened as far as a key and a query, both normalised, agree."""
    given = [site.need(i) for i in range(5)]
    key, query, value, *scales = (real(site, x, "wide") for x in given)
    size, epsilon = last_size(site, site.data), site.take_float("epsilon", 1e-5)
    one = site.constant("one", np.ones(size, np.float32))

    def normed(x: ir.Value, scale: ir.Value, name: str) -> ir.Value:
        options = {"axis": -1, "epsilon": epsilon}
        y = site.before("RMSNormalization", [x, one], f"{name}_norm", **options)
        return site.before("Mul", [y, scale], name)

    product = [normed(key, scales[0], "key"), normed(query, scales[1], "query")]
    last = site.ints("last", [-1])
    dot = site.before("ReduceSum", [site.before("Mul", product, "both"), last], "dot")
    root = site.constant("root", np.array(size**-0.5, np.float32))
    dot = site.before("Mul", [dot, root], "agreement")
    least = site.constant("least", np.array(1e-6, np.float32))
    length = site.before("Max", [site.before("Abs", [dot], "length"), least], "least")
    length = site.before("Sqrt", [length], "root")
    signed = site.before("Mul", [site.before("Sign", [dot], "sign"), length], "signed")
    gate = site.before("Sigmoid", [signed], "gate")
    value = site.before("Unsqueeze", [value, site.ints("streams", [2])], "value")
    operands, op = [gate, value], "Mul"
    if site.wants(1):
        operands, op = [site.before("Mul", operands, "opened")], "Identity"
        y = normed(operands[0], real(site, site.need(5), "wide"), "opened_norm")
        if site.data.dtype != ir.DataType.FLOAT:
            y = site.before("CastLike", [y, site.data], "rounded")
        site.give(1, y)
    site.node.resize_outputs(1)
    become_rounded(site, op, operands, site.data)


def _branches(site: AdapterSite, x: ir.Value, count: int) -> ir.Value:
    """Streams in an axis of their own, in float32."""
    x = real(site, x, "wide")
    if not count:
        return x
    shape = [0] * (site.rank(site.data) - 1) + [count, -1]
    return site.before("Reshape", [x, site.ints("streams", shape)], "streams")


def _gates(site: AdapterSite, index: int, rank: int, size: int, count: int) -> ir.Value:
    """A number for each stream, or for each of its features, to multiply by."""
    given = site.need(index)
    x = real(site, given, "wide")
    if site.rank(given) == rank:
        return x
    if count and last_size(site, given) == count * size and size > 1:
        return _branches(site, x, count)
    return site.before("Unsqueeze", [x, site.ints("features", [-1])], "gates")


@extension("HyperConnectionPreMix", attrs="num_branches reduction_scale")
def pre_mix(site: AdapterSite) -> None:
    """The sum of all streams, each times its gate."""
    count = site.take_int("num_branches", 0)
    scale = site.take_float("reduction_scale", 1.0)
    streams = _branches(site, site.data, count)
    rank = site.rank(site.data) + bool(count)
    size = last_size(site, site.data) // max(count, 1)
    gates = _gates(site, 1, rank, size, count)
    product = site.before("Mul", [streams, gates], "mixed")
    inputs, like = [product, site.ints("streams", [-2])], site.data
    if scale == 1:
        become_rounded(site, "ReduceSum", inputs, like, keepdims=0)
        return
    total = site.before("ReduceSum", inputs, "total", keepdims=0)
    factor = site.constant("scale", np.array(scale, np.float32))
    become_rounded(site, "Mul", [total, factor], like)


@extension("HyperConnectionPostMix", attrs="num_branches")
def post_mix(site: AdapterSite) -> None:
    """Streams that are mixed with each other, and what a block adds to each."""
    x, count = site.data, site.take_int("num_branches", 0)
    streams, rank = _branches(site, x, count), site.rank(x) + bool(count)
    size = last_size(site, x) // max(count, 1)
    if site.input(3) is not None:
        order = [*range(rank - 2), rank - 1, rank - 2]
        mix = real(site, site.need(3), "wide")
        mix = site.before("Transpose", [mix], "from_streams", perm=order)
        streams = site.before("MatMul", [mix, streams], "mixed")
    block = real(site, site.need(1), "wide")
    block = site.before("Unsqueeze", [block, site.ints("stream", [-2])], "block")
    added = site.before("Mul", [_gates(site, 2, rank, size, 0), block], "added")
    if not count:
        become_rounded(site, "Add", [streams, added], x)
        return
    total = site.before("Add", [streams, added], "total")
    flat = site.ints("flat", [0] * (site.rank(x) - 1) + [-1])
    become_rounded(site, "Reshape", [total, flat], x)
