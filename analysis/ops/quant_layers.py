"""Layers in the graphs that quantisers write: roundings, and weights in 8 bits.

A quantiser leaves the network's operators and puts pairs around them: QuantizeLinear
rounds, DequantizeLinear says what the integers stand for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from .later import Later
from .table import ModuleForm, NodeView, Weight

helpers = Later("helpers_quant_layers")

_BYTES = (ir.DataType.UINT8, ir.DataType.INT8)


def fake_quantize(n: NodeView) -> ModuleForm | None:
    """The layer of a DequantizeLinear that undoes the QuantizeLinear before it."""
    before = n.value(0).producer()
    if before is None or before.op_type != "QuantizeLinear" or before.domain:
        return None
    pair = NodeView(before, n.shapes)
    if pair.only_user() is not n.node or n.dtype(0) not in _BYTES:
        return None
    if not (_is_plain(n) and _is_plain(pair) and _same_scale(n, pair)):
        return None
    signed = n.dtype(0) == ir.DataType.INT8
    zero = n.value(2) if n.has(2) else _zero(n)
    return ModuleForm(
        layer="FakeQuantize",
        positional=(),
        keywords={"signed": (signed, False)},
        weights={"scale": Weight(n.value(1)), "zero_point": Weight(zero)},
        inputs=(pair.value(0),),
        outputs=(n.node.outputs[0],),
        absorbs=(before,),
        source=helpers.FakeQuantize,
    )


def _is_plain(n: NodeView) -> bool:
    """Whether all is float32, with one constant scale for all elements."""
    known = all(n.const(i) is not None and not n.dims(i) for i in (1, 2) if n.has(i))
    real = ir.DataType.FLOAT
    ends = (n.dtype(0), n.dtype(1), n.out_dtype())
    return known and ends.count(real) == 2 and n.dtype(1) == real


def _same_scale(n: NodeView, pair: NodeView) -> bool:
    places = [i for i in (1, 2) if n.has(i) or pair.has(i)]
    return all(
        n.has(i) and pair.has(i) and np.array_equal(_known(n, i), _known(pair, i))
        for i in places
    )


def _known(n: NodeView, i: int) -> np.ndarray:
    array = n.const(i)
    assert array is not None
    return array


def _zero(n: NodeView) -> ir.Value:
    tensor = ir.Tensor(np.zeros((), n.dtype(0).numpy()))
    return ir.Value(name=f"{n.value(1).name}/zero_point", const_value=tensor)


# ---- weights


@dataclass(frozen=True)
class Bias:
    weight: Weight
    absorbed: tuple[ir.Node, ...] = ()


@dataclass(frozen=True)
class Integers:
    """A weight of int8, its scale, and the DequantizeLinear that multiplies them."""

    node: ir.Node
    weight: ir.Value
    scale: Weight
    per_channel: bool

    @property
    def shape(self) -> tuple[int, ...]:
        tensor = self.weight.const_value
        assert tensor is not None
        return tuple(int(size) for size in tensor.shape.numpy())

    def form(self, plain: ModuleForm, bias: Bias | None, source: type) -> ModuleForm:
        """The layer `plain`, of floats, with this weight in place of its own."""
        how = plain.weights["weight"]
        weights = {**plain.weights, "scale": self.scale}
        weights["weight"] = replace(how, value=self.weight)
        if bias is not None:
            weights["bias"] = bias.weight
        return replace(
            plain,
            layer=source.__name__,
            keywords={
                **plain.keywords,
                "bias": ("bias" in weights, True),
                "per_channel": (self.per_channel, False),
            },
            weights=weights,
            absorbs=(*plain.absorbs, self.node, *(bias.absorbed if bias else ())),
            source=source,
        )


def integers(n: NodeView, i: int, axis: int) -> Integers | None:
    """Input i of a product, if it is integers with a scale, or one along `axis`."""
    found = _dequantized(n, i)
    if found is None or found.dtype(0) != ir.DataType.INT8:
        return None
    if found.dims(1) in ((), (1,)):
        whole = found.rank(1) == 1
        scale = found.value(1)
        weight = Weight(scale) if whole else Weight(scale, np.ravel, "flattened")
        return Integers(found.node, found.value(0), weight, False)
    along = found.attr("axis", 1) % found.rank(0)
    if found.rank(1) != 1 or along != axis:
        return None
    return Integers(found.node, found.value(0), Weight(found.value(1)), True)


def bias(n: NodeView, i: int) -> Bias | None:
    """A constant, stored as the floats that its integers stand for."""
    if n.value(i).const_value is not None:
        return Bias(Weight(n.value(i)))
    found = _dequantized(n, i)
    if found is None or found.rank(0) != 1 or found.rank(1) > 1:
        return None
    scale = _known(found, 1)

    def convert(array: np.ndarray) -> np.ndarray:
        scaled: np.ndarray = array.astype(np.float32) * scale
        return scaled

    how = f"times {found.value(1).name}"
    return Bias(Weight(found.value(0), convert, how), (found.node,))


def _dequantized(n: NodeView, i: int) -> NodeView | None:
    """The DequantizeLinear of constants that makes input i for this node alone."""
    node = n.value(i).producer()
    if node is None or node.op_type != "DequantizeLinear" or node.domain:
        return None
    found = NodeView(node, n.shapes)
    if found.only_user() is not n.node or found.attr("block_size", 0):
        return None
    if any(found.const(k) is None for k in range(found.arity) if found.has(k)):
        return None
    zero = found.const(2)
    if found.out_dtype() != ir.DataType.FLOAT or (zero is not None and zero.any()):
        return None
    return found if found.dtype(1) == ir.DataType.FLOAT else None
