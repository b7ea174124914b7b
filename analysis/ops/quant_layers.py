"""Layers in the graphs that quantisers write: roundings, and weights in 8 bits.

A quantiser leaves the network's operators and puts pairs around them: QuantizeLinear
rounds, DequantizeLinear says what the integers stand for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from .helpers import quant as helpers
from .module_form import ModuleForm, Weight
from .node_view import NodeView
from .operands import is_zero

QUANTIZED_CONVS = (
    "QuantizedConv2d",
    "DynamicQuantizedConv1d",
    "DynamicQuantizedConv2d",
    "QLinearConv2d",
)
QUANTIZED_LINEARS = ("QuantizedLinear", "DynamicQuantizedLinear", "QLinearLinear")

_BYTES = (ir.DataType.UINT8, ir.DataType.INT8)


def quantize(n: NodeView) -> ModuleForm | None:
    """QuantizeLinear as a layer that owns its scale; None where it has no one scale."""
    return _form(n, "Quantize", n.value(0)) if _is_plain(n) else None


def dequantize(n: NodeView) -> ModuleForm | None:
    """A layer, with the QuantizeLinear before it if that is by the same numbers."""
    if not _is_plain(n) or n.value(0).const_value is not None:
        return None
    before = n.value(0).producer()
    if before is not None and before.op_type == "QuantizeLinear" and not before.domain:
        pair = NodeView(before, n.shapes)
        if pair.only_user() is n.node and _is_plain(pair) and _same_scale(n, pair):
            return replace(_form(n, "FakeQuantize", pair.value(0)), absorbs=(before,))
    return _form(n, "Dequantize", n.value(0))


def _form(n: NodeView, layer: str, x: ir.Value) -> ModuleForm:
    dtype = _integer(n)
    zero = n.value(2) if n.has(2) else _zero(n, dtype)
    return ModuleForm(
        layer=layer,
        positional=(),
        keywords={"signed": (dtype == ir.DataType.INT8, False)},
        weights={"scale": Weight(n.value(1)), "zero_point": Weight(zero)},
        inputs=(x,),
        outputs=(n.node.outputs[0],),
        source=getattr(helpers, layer),
    )


def _is_plain(n: NodeView) -> bool:
    """Whether it is between float32 and 8 bits, with one constant scale for all."""
    known = all(n.const(i) is not None and not n.dims(i) for i in (1, 2) if n.has(i))
    real = ir.DataType.FLOAT
    ends = (n.dtype(0), n.dtype(1), n.out_dtype())
    return known and ends.count(real) == 2 and _integer(n) in _BYTES


def _integer(n: NodeView) -> ir.DataType:
    return n.out_dtype() if n.node.op_type == "QuantizeLinear" else n.dtype(0)


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


def _zero(n: NodeView, dtype: ir.DataType) -> ir.Value:
    tensor = ir.Tensor(np.zeros((), dtype.numpy()))
    return ir.Value(name=f"{n.value(1).name}/zero_point", const_value=tensor)


# ---- weights


@dataclass(frozen=True)
class Bias:
    """A bias that a layer takes over, and the nodes that added it."""

    weight: Weight
    absorbed: tuple[ir.Node, ...] = ()


def int8_weight(n: NodeView, i: int) -> tuple[int, ...] | None:
    """The sizes of input i, if it is a constant of int8."""
    tensor = n.value(i).const_value
    if tensor is None or n.dtype(i) != ir.DataType.INT8:
        return None
    return tuple(int(size) for size in tensor.shape.numpy())


def per_filter(scale: ir.Value) -> Weight:
    """A scale for each filter, or one for all, as a vector."""
    is_vector = scale.const_value is not None and scale.const_value.shape.rank() == 1
    return Weight(scale) if is_vector else Weight(scale, np.ravel, "flattened")


@dataclass(frozen=True)
class Integers:
    """A weight of int8, its scale, and the DequantizeLinear that multiplies them."""

    node: ir.Node
    weight: ir.Value
    scale: Weight
    per_channel: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the weight."""
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
        scale = per_filter(found.value(1))
        return Integers(found.node, found.value(0), scale, False)
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


def integer_linear(
    n: NodeView, output: tuple[int, int], bias: int = 0, flip: bool = True
) -> ModuleForm | None:
    """The layer of a product from integers to integers, if all but x is constant.

    Inputs 0 and 3 are the factors, each with a scale and a zero point behind it;
    `output` are those of the result. `flip`: the weight is stored the other way round.
    """
    shape, types = int8_weight(n, 3), {n.dtype(0), n.out_dtype()}
    if shape is None or len(shape) != 2 or len(types) > 1 or not n.rank(0):
        return None
    inner, width = shape if flip else shape[::-1]
    if any(n.const(i) is None for i in range(1, n.arity) if n.has(i)):
        return None
    if any(n.dims(i) for i in (1, 2, *output)) or not is_zero(n, 5):
        return None
    if n.dims(4) not in ((), (1,), (width,)):
        return None
    turn = (np.transpose, "transposed") if flip else ()
    places = {"input": (1, 2), "output": output}
    weights = {"weight": Weight(n.value(3), *turn), "scale": per_filter(n.value(4))}
    if bias and n.has(bias):
        if n.dims(bias) != (width,):
            return None
        weights["bias"] = Weight(n.value(bias))
    for name, (scale, zero) in places.items():
        weights[f"{name}_scale"] = Weight(n.value(scale))
        weights[f"{name}_zero_point"] = Weight(n.value(zero))
    return ModuleForm(
        layer="QLinearLinear",
        positional=(inner, width),
        keywords={
            "bias": ("bias" in weights, True),
            "per_channel": (n.dims(4) == (width,) and width > 1, False),
            "signed": (n.out_dtype() == ir.DataType.INT8, False),
        },
        weights=weights,
        inputs=(n.value(0),),
        outputs=(n.node.outputs[0],),
        source=helpers.QLinearLinear,
    )


# ---- products whose left factor is rounded by its own range


def dynamic(n: NodeView, plain: ModuleForm, source: type) -> ModuleForm | None:
    """The layer of a product of integers, both scales and perhaps a bias behind it.

    `plain` is the layer of the product alone, whose weight is input 1.
    """
    before = n.value(0).producer()
    if before is None or before.op_type != "DynamicQuantizeLinear" or before.domain:
        return None
    x, scale, zero = before.inputs[0], before.outputs[1], before.outputs[2]
    if x is None or n.value(2) is not zero or (n.has(3) and not is_zero(n, 3)):
        return None
    cast = _user(n, n.node, "Cast")
    times = _user(n, cast, "Mul") if cast else None
    if cast is None or times is None:
        return None
    scales = _other(times, cast).producer()
    if scales is None or scales.op_type != "Mul" or scales.domain:
        return None
    if scale not in scales.inputs or NodeView(scales, n.shapes).only_user() is None:
        return None
    own = next((v for v in scales.inputs if v is not scale), None)
    width = plain.positional[1]
    if own is None or own.dtype != ir.DataType.FLOAT or own.const_value is None:
        return None
    each = _row(own, width, n.rank(1) - 2)
    sizes = own.const_value.shape
    if each is None and (own.const_value.size != 1 or len(sizes) > n.rank(1)):
        return None
    weights = {**plain.weights, "scale": Weight(own, np.ravel, "flattened")}
    absorbed = [cast, scales, times]
    add = _user(n, times, "Add")
    row = _row(_other(add, times), width, n.rank(1) - 2) if add else None
    if add is not None and row is not None:
        weights["bias"] = row
        absorbed.append(add)
    return replace(
        plain,
        layer=source.__name__,
        keywords={
            **plain.keywords,
            "bias": ("bias" in weights, True),
            "per_channel": (each is not None and width > 1, False),
        },
        weights=weights,
        inputs=(x,),
        outputs=(absorbed[-1].outputs[0],),
        absorbs=tuple(absorbed),
        source=source,
    )


def _user(n: NodeView, node: ir.Node, op: str) -> ir.Node | None:
    """The only reader of a node, if it is such an operator on float32."""
    user = NodeView(node, n.shapes).only_user()
    fits = user is not None and user.op_type == op and not user.domain
    real = user is not None and user.outputs[0].dtype == ir.DataType.FLOAT
    return user if fits and real else None


def _other(node: ir.Node, operand: ir.Node) -> ir.Value:
    found = next((v for v in node.inputs if v is not operand.outputs[0]), None)
    return found or operand.outputs[0]


def _row(value: ir.Value, width: int, behind: int) -> Weight | None:
    """A constant with a number for each output, and axes of size 1 `behind` them."""
    tensor = value.const_value
    if tensor is None:
        return None
    sizes = tuple(tensor.shape.numpy())
    while sizes[:1] == (1,) and len(sizes) > behind + 1:
        sizes = sizes[1:]
    return (
        Weight(value, np.ravel, "flattened")
        if sizes == (width, *[1] * behind)
        else None
    )
