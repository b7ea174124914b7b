"""Products of 8-bit integers.

Their sums are formed in float64, which is exact up to 2**53: products of integers are
slow, and unknown on some devices.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import onnx_ir as ir

from ..facts import fitting_sizes, flop_counts, sizes_windows
from ..helpers import quant as helpers
from ..module_form import ModuleForm, Weight
from ..node_view import NodeView
from ..onnx.conv import convolved, layer_form
from ..operands import is_zero
from ..quant_layers import dynamic, int8_weight, integer_linear, per_filter
from ..registry import MANY_TO_MANY, operator
from .quantize_linear import stretched, torch_dtype


def _requantized(t: Any, n: NodeView, y: Any, scale: Any, zero: Any) -> Any:
    options = torch_dtype(t, n.out_dtype())
    return t.helper(helpers.requantize)(y, scale, zero, **options)


def _upright(n: NodeView, i: int, x: Any) -> Any:
    return x[:, None] if n.rank(i) == 1 and n.dims(i)[0] != 1 else x


def _centred(n: NodeView, x: Any, i: int, zero: Any) -> Any:
    """x minus its zero point, which is one for all, or one per filter."""
    if zero is None or is_zero(n, i):
        return x.double()
    if n.rank(i) == 1 and n.dims(i)[0] != 1:
        zero = stretched(zero, n.rank(0) - 1)
    return x.double() - zero


def _conv_integer_module(n: NodeView) -> ModuleForm | None:
    shape = int8_weight(n, 1)
    layers = {3: helpers.DynamicQuantizedConv1d, 4: helpers.DynamicQuantizedConv2d}
    if shape is None or len(shape) not in layers:
        return None
    plain = layer_form(n, "", shape, {"weight": Weight(n.value(1))})
    return dynamic(n, plain, layers[len(shape)])


def _qlinear_conv_module(n: NodeView) -> ModuleForm | None:
    """A layer, if all but x is constant and the weight has no zero point."""
    shape, types = int8_weight(n, 3), {n.dtype(0), n.out_dtype()}
    constants, zero = [i for i in range(1, n.arity) if n.has(i)], n.const(2)
    if shape is None or len(shape) != 4 or len(types) > 1 or not is_zero(n, 5):
        return None
    if any(n.const(i) is None for i in constants) or n.rank(0) != 4 or zero is None:
        return None
    if any(n.dims(i) for i in (1, 2, 6, 7)):
        return None
    weights = {"weight": Weight(n.value(3)), "scale": per_filter(n.value(4))}
    if n.has(8):
        weights["bias"] = Weight(n.value(8))
    form = layer_form(n, "QLinearConv2d", shape, weights, int(zero))
    names = {1: "input_scale", 2: "input_zero_point"}
    names |= {6: "output_scale", 7: "output_zero_point"}
    return replace(
        form,
        keywords={
            **form.keywords,
            "per_channel": (n.rank(4) == 1 and n.dims(4)[0] != 1, False),
            "signed": (n.dtype(0) == ir.DataType.INT8, False),
        },
        weights=weights | {name: Weight(n.value(i)) for i, name in names.items()},
        source=helpers.QLinearConv2d,
    )


@operator(
    "QLinearMatMul",
    since=21,
    fits=fitting_sizes.matmul(0, 3),
    mapping=MANY_TO_MANY,
    shape=sizes_windows.with_scales(sizes_windows.matmul),
    traceable=False,
    module=lambda n: integer_linear(n, (6, 7)),
)
def _qlinear_matmul(t: Any, n: NodeView, *operands: Any) -> Any:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = operands
    if not n.out_dtype().is_integer():
        n.refuse("QLinearMatMul of 8-bit floats is not supported")
    if n.rank(0) > 1:  # parameters of one element each, or one for each row
        a_scale, a_zero = (_upright(n, i, x) for i, x in ((1, a_scale), (2, a_zero)))
        y_scale, y_zero = (_upright(n, i, x) for i, x in ((6, y_scale), (7, y_zero)))
    a = a.double() if is_zero(n, 2) else a.double() - a_zero
    b = b.double() if is_zero(n, 5) else b.double() - b_zero
    y = _requantized(t, n, a @ b, a_scale * b_scale / y_scale, y_zero)
    alone = n.rank(0) == n.rank(3) == 1 and any(n.rank(i) for i in (1, 4, 6, 7))
    return y[0] if alone else y  # of two vectors, with parameters of shape [1]


@operator(
    "ConvInteger",
    since=10,
    fits=fitting_sizes.window(1),
    mapping=MANY_TO_MANY,
    shape=sizes_windows.conv,
    flops=flop_counts.conv_without_bias,
    traceable=False,
    module=_conv_integer_module,
)
def _conv_integer(
    t: Any, n: NodeView, x: Any, weight: Any, x_zero: Any = None, w_zero: Any = None
) -> Any:
    x, weight = _centred(n, x, 2, x_zero), _centred(n, weight, 3, w_zero)
    return convolved(t, n, x, weight).to(t.int32)


@operator(
    "QLinearConv",
    since=10,
    fits=fitting_sizes.window(3),
    mapping=MANY_TO_MANY,
    shape=sizes_windows.with_scales(sizes_windows.conv),
    traceable=False,
    module=_qlinear_conv_module,
)
def _qlinear_conv(t: Any, n: NodeView, *operands: Any) -> Any:
    x, x_scale, x_zero, weight, w_scale, w_zero, y_scale, y_zero, *bias = operands
    x, weight = _centred(n, x, 2, x_zero), _centred(n, weight, 5, w_zero)
    y = convolved(t, n, x, weight, bias[0].double() if bias else None, 3)
    if n.rank(4) == 1 and n.dims(4)[0] != 1:
        w_scale = stretched(w_scale, n.rank(0) - 2)
    return _requantized(t, n, y, x_scale * w_scale / y_scale, y_zero)
