"""ONNX Runtime's operators on 8-bit integers, spelled with ONNX's own.

Each of the QLinear family computes on the numbers that the integers stand for, and
rounds once. Products of integers are exact, so a scale may come after them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ...adapters.opset_adapters import AdapterSite, extension
from .attention import attend_packed, last_size
from .one_to_one import embed, plain

# ---- there and back


@extension("QuantizeLinear", "DequantizeLinear", attrs="axis block_size")
def _linear(site: AdapterSite) -> None:
    site.become(site.node.op_type, site.inputs, **plain(site))


def _real(site: AdapterSite, first: int, name: str) -> ir.Value:
    """What a quantised input means: it, its scale and its zero point stand in a row."""
    operands = [site.need(first), site.need(first + 1), site.input(first + 2)]
    return site.before("DequantizeLinear", operands, name)


def _rounded(site: AdapterSite, y: ir.Value, scale: int) -> None:
    """Make the node what brings `y` to 8 bits by the scale and zero point given."""
    zero = site.input(scale + 1) or _no_shift(site)
    site.become("QuantizeLinear", [y, site.need(scale), zero])


def _no_shift(site: AdapterSite) -> ir.Value:
    """A zero point of 0, of the type of the data."""
    dtype = site.data.dtype
    if dtype is None:
        raise site.unsupported("the type of its result is unknown")
    return site.constant("no_shift", np.zeros((), dtype.numpy()))


# ---- elementwise


@extension("QLinearSigmoid")
def _sigmoid(site: AdapterSite) -> None:
    _rounded(site, site.before("Sigmoid", [_real(site, 0, "x")], "result"), 3)


@extension("QLinearLeakyRelu", attrs="alpha")
def _leaky_relu(site: AdapterSite) -> None:
    x = _real(site, 0, "x")
    _rounded(site, site.before("LeakyRelu", [x], "result", **plain(site)), 3)


@extension("QLinearWhere")
def _where(site: AdapterSite) -> None:
    operands = [site.data, _real(site, 1, "x"), _real(site, 4, "y")]
    y = site.before("Where", operands, "result")
    site.become("QuantizeLinear", [y, site.need(7), site.need(8)])


@extension("QLinearConcat", attrs="axis")
def concat(site: AdapterSite) -> None:
    """The scale of the result comes first, then each input with its own."""
    count = len(site.inputs)
    parts = [_real(site, i, f"part_{i // 3}") for i in range(2, count, 3)]
    y = site.before("Concat", parts, "result", **plain(site))
    site.become("QuantizeLinear", [y, site.data, site.need(1)])


# ---- along axes


@extension("QLinearReduceMean", attrs="axes keepdims")
def _reduce_mean(site: AdapterSite) -> None:
    axes = site.take_ints("axes")
    inputs = [_real(site, 0, "x"), site.ints("axes", axes) if axes else None]
    keep = site.take_int("keepdims", 1)
    _rounded(site, site.before("ReduceMean", inputs, "result", keepdims=keep), 3)


@extension("QLinearSoftmax", attrs="axis opset")
def softmax(site: AdapterSite) -> None:
    """Before opset 13, all axes from `axis` on count as one."""
    x, axis = _real(site, 0, "x"), site.take_int("axis", -1)
    if site.take_int("opset", 13) >= 13:
        y = site.before("Softmax", [x], "result", axis=axis)
    else:
        flat = site.before("Flatten", [x], "flat", axis=axis)
        y = site.before("Softmax", [flat], "shares", axis=-1)
        y = site.before("Reshape", [y, site.before("Shape", [x], "shape")], "result")
    _rounded(site, y, 3)


_POOL = "auto_pad ceil_mode count_include_pad kernel_shape pads strides"


@extension("QLinearGlobalAveragePool", attrs="channels_last")
def _global_average_pool(site: AdapterSite) -> None:
    """A sum of integers, which a factor brings to the scale of the result."""
    last, rank = site.take_int("channels_last", 0), site.rank(site.data)
    axes = range(1, rank - 1) if last else range(2, rank)
    unit = site.constant("unit", np.ones((), np.float32))
    x = site.before("DequantizeLinear", [site.data, unit, site.input(2)], "x")
    total = site.before("ReduceSum", [x, site.ints("axes", [*axes])], "sum")
    sizes = site.before("Shape", [x], "sizes", start=axes[0], end=axes[-1] + 1)
    count = site.before("ReduceProd", [sizes], "count", keepdims=0)
    count = site.before("Cast", [count], "number", to=int(ir.DataType.FLOAT))
    steps = site.before("Mul", [count, site.need(3)], "steps")
    factor = site.before("Div", [site.need(1), steps], "factor")
    y = site.before("Mul", [total, factor], "mean")
    site.become("QuantizeLinear", [y, unit, site.input(4) or _no_shift(site)])


@extension("QLinearAveragePool", attrs=f"{_POOL} channels_last")
def _average_pool(site: AdapterSite) -> None:
    last, rank = site.node.attributes.get_int("channels_last", 0), site.rank(site.data)
    window = site.node.attributes.get_ints("kernel_shape", ())
    padded = any(site.node.attributes.get_ints("pads", ()))
    if not padded and site.data.shape is not None:
        ends = (1, rank - 1) if last else (2, rank)
        if [*site.data.shape[slice(*ends)]] == [*window]:  # all of it is one mean
            _global_average_pool(site)
            return
    site.take("channels_last")
    x = _real(site, 0, "x")
    if last:
        perm = [0, rank - 1, *range(1, rank - 1)]
        x = site.before("Transpose", [x], "channels_first", perm=perm)
    y = site.before("AveragePool", [x], "pool", **plain(site))
    if last:
        perm = [0, *range(2, rank), 1]
        y = site.before("Transpose", [y], "channels_last", perm=perm)
    zero = site.input(4)
    if zero is None:
        _rounded(site, y, 3)
        return
    # This one rounds behind its zero point: of two equally near, the even result.
    y = site.before("Div", [y, site.need(3)], "steps")
    y = site.before("Add", [y, site.before("Cast", [zero], "from", to=1)], "moved")
    unit = site.constant("unit", np.ones((), np.float32))
    site.become("QuantizeLinear", [y, unit, _no_shift(site)])


# ---- products


@extension("MatMulIntegerToFloat")
def _matmul_integer_to_float(site: AdapterSite) -> None:
    a, b, a_scale, b_scale = (site.need(i) for i in range(4))
    zeros = (site.input(4), site.input(5))
    y = _product(site, (a, b), zeros, (a_scale, b_scale))
    _plus(site, y, site.input(6))


@extension("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(site: AdapterSite) -> None:
    """The left factor is brought to 8 bits by its own range."""
    names = ("quantized", "scale", "zero_point")
    a, a_scale, a_zero = site.parts("DynamicQuantizeLinear", [site.data], names)
    b, b_scale = site.need(1), site.need(2)
    y = _product(site, (a, b), (a_zero, site.input(3)), (a_scale, b_scale))
    _plus(site, y, site.input(4))


def _product(
    site: AdapterSite,
    factors: Sequence[ir.Value],
    zeros: Sequence[ir.Value | None],
    scales: Sequence[ir.Value],
) -> ir.Value:
    """A product of integers times both scales."""
    y = site.before("MatMulInteger", [*factors, *zeros], "integers")
    y = site.before("Cast", [y], "exact", to=int(ir.DataType.FLOAT))
    return site.before("Mul", [y, site.before("Mul", scales, "scale")], "product")


def _plus(site: AdapterSite, y: ir.Value, bias: ir.Value | None) -> None:
    site.become("Identity" if bias is None else "Add", [y, bias])


@extension(
    "QAttention",
    attrs="do_rotary mask_filter_value num_heads past_present_share_buffer scale "
    "unidirectional",
)
def q_attention(site: AdapterSite) -> None:
    """Attention whose one projection is a product of integers."""
    for name in ("do_rotary", "past_present_share_buffer"):
        if site.take_int(name, 0):
            raise site.unsupported(f"{name} is not supported")
    x, weight, bias, *scales = (site.need(i) for i in range(5))
    zeros = (site.input(6), site.input(7))
    y = _product(site, (x, weight), zeros, scales)
    y = site.before("Add", [y, bias], "projected")
    attend_packed(site, y, last_size(site, weight), 5, 8, None)


@extension("QEmbedLayerNormalization", attrs="epsilon")
def q_embed_layer_normalization(site: AdapterSite) -> None:
    """EmbedLayerNormalization whose tables, scale and shift are in 8 bits."""

    def real(x: ir.Value, index: int) -> ir.Value:
        numbers = [site.need(index + 6), site.need(index + 11)]
        name = ("words", "positions", "segments", "scale", "shift")[index - 2]
        return site.before("DequantizeLinear", [x, *numbers], name)

    embed(site, real)


# ---- convolutions

_WINDOW = "auto_pad dilations group kernel_shape pads strides"


@extension("QLinearConv", attrs=f"{_WINDOW} channels_last")
def q_linear_conv(site: AdapterSite) -> None:
    """ONNX's own, but for the place of the channels in the data."""
    last, rank = site.take_int("channels_last", 0), site.rank(site.data)
    inputs, options = site.inputs, plain(site)
    if not last:
        site.become("QLinearConv", inputs, **options)
        return
    perm = [0, rank - 1, *range(1, rank - 1)]
    x = site.before("Transpose", [site.data], "channels_first", perm=perm)
    y = site.before("QLinearConv", [x, *inputs[1:]], "conv", **options)
    site.become("Transpose", [y], perm=[0, *range(2, rank), 1])
