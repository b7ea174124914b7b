"""ONNX Runtime's own operators (com.microsoft) that are ONNX operators in one node.

Its optimiser fuses what exporters write, and exporters for it write the fused form.
Spelled apart again, they are layers and rules like any other model's. Those that ONNX
can't spell have an entry of their own in the operator table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from ....analysis.ops.type_rules import UNLISTED
from ...adapters.opset_adapters import AdapterSite, constant_array, extension
from ...adapters.opset_inputs import scalar_like

# ---- activations


@extension("Gelu")
def _gelu(site: AdapterSite) -> None:
    site.become("Gelu", [site.data])


@extension("QuickGelu", attrs="alpha")
def _quick_gelu(site: AdapterSite) -> None:
    site.become("Swish", [site.data], alpha=site.take_float("alpha", 1.702))


@extension("BiasGelu")
def _bias_gelu(site: AdapterSite) -> None:
    site.become("Gelu", [site.before("Add", [site.data, site.need(1)], "sum")])


@extension("FastGelu")
def _fast_gelu(site: AdapterSite) -> None:
    x = site.data
    if site.input(1) is not None:
        x = site.before("Add", [x, site.input(1)], "sum")
    site.become("Gelu", [x], approximate="tanh")


@extension("BiasSplitGelu")
def bias_split_gelu(site: AdapterSite) -> None:
    """The left half, times Gelu of the right."""
    x = site.before("Add", [site.data, site.need(1)], "sum")
    left, right = site.parts("Split", [x], ("left", "right"), axis=-1, num_outputs=2)
    site.become("Mul", [left, site.before("Gelu", [right], "gate")])


@extension("GemmFastGelu")
def _gemm_fast_gelu(site: AdapterSite) -> None:
    x = site.before("MatMul", [site.data, site.need(1)], "product")
    if site.input(2) is not None:
        x = site.before("Add", [x, site.input(2)], "sum")
    site.become("Gelu", [x], approximate="tanh")


@extension("BiasAdd")
def _bias_add(site: AdapterSite) -> None:
    x = site.before("Add", [site.data, site.need(1)], "biased")
    site.become("Add", [x, site.need(2)])


_PLAIN = frozenset({"Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "HardSwish"})
# Activations with parameters, in the order in which a fused node lists them.
_PARAMETERS = {
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
}


def _activate(
    site: AdapterSite, y: ir.Value, activation: str, given: Sequence[float | None]
) -> None:
    """Make the node the activation of `y`."""
    if not activation:
        site.become("Identity", [y])
    elif activation in _PLAIN:
        site.become(activation, [y])
    elif activation in _PARAMETERS:
        pairs = zip(_PARAMETERS[activation], given, strict=False)
        site.become(activation, [y], **{k: v for k, v in pairs if v is not None})
    elif activation == "Clip" and len(given) >= 2:
        low, high = (
            scalar_like(site, n, v or 0.0)
            for n, v in zip(("min", "max"), given, strict=False)
        )
        site.become("Clip", [y, low, high])
    else:
        raise site.unsupported(f"the activation {activation[:40]!r} is not supported")


# ---- products


@extension(
    "FusedMatMul",
    "TransposeMatMul",
    attrs="alpha transA transB transBatchA transBatchB",
)
def fused_matmul(site: AdapterSite) -> None:
    """alpha * (A' @ B'), each turned as asked for."""
    alpha = site.take_float("alpha", 1.0)
    operands = [_turned(site, i) for i in (0, 1)]
    if alpha == 1:
        site.become("MatMul", operands)
        return
    product = site.before("MatMul", operands, "product")
    site.become("Mul", [product, scalar_like(site, "alpha", alpha)])


def _turned(site: AdapterSite, i: int) -> ir.Value:
    """The last two axes exchanged, and the first put behind the batch's.

    ONNX Runtime turns nothing where the other operand is a vector, either.
    """
    x, letter = site.need(i), "AB"[i]
    matrix = site.take_int(f"trans{letter}", 0)
    batch = site.take_int(f"transBatch{letter}", 0)
    if not matrix and not batch:
        return x
    rank, other = site.rank(x), site.need(1 - i).shape
    if rank < 2 or (other is not None and len(other) < 2):
        return x
    axes = list(range(rank))
    if batch:
        axes = [*axes[1:-1], 0, axes[-1]]
    if matrix:
        axes[-2:] = axes[:-3:-1]
    if axes == list(range(rank)):
        return x
    return site.before("Transpose", [x], f"{letter}_turned", perm=axes)


_GEMM = "alpha beta transA transB"


@extension(
    "FusedGemm",
    attrs=f"{_GEMM} activation activation_alpha activation_beta activation_gamma",
)
def _fused_gemm(site: AdapterSite) -> None:
    activation = site.take_string("activation", "")
    found = {k: site.take(f"activation_{k}") for k in ("alpha", "beta", "gamma")}
    names = _PARAMETERS.get(activation, ())
    given = [None if (a := found.get(k)) is None else a.as_float() for k in names]
    y = site.before("Gemm", site.inputs, "product", **plain(site))
    _activate(site, y, activation, given)


def plain(site: AdapterSite) -> dict[str, object]:
    """The attributes that are left, as Python values."""
    return {name: a.value for name, a in site.node.attributes.items()}


# ---- convolutions and pools

_WINDOW = "auto_pad dilations group kernel_shape pads strides"


@extension("FusedConv", attrs=f"{_WINDOW} activation activation_params")
def fused_conv(site: AdapterSite) -> None:
    """The convolution, then Z added, then the activation."""
    activation = site.take_string("activation", "")
    params = site.take("activation_params")
    y = site.before("Conv", site.inputs[:3], "conv", **plain(site))
    if site.input(3) is not None:
        y = site.before("Add", [y, site.input(3)], "sum")
    _activate(site, y, activation, [] if params is None else list(params.as_floats()))


@extension(
    "ConvTransposeWithDynamicPads",
    attrs="auto_pad dilations group kernel_shape output_padding strides",
)
def conv_transpose(site: AdapterSite) -> None:
    """ConvTranspose whose pads are an input; here they have to be constants."""
    options = plain(site)
    if site.input(2) is not None:
        pads = constant_array(site.input(2))
        if pads is None:
            raise site.unsupported("pads that are no constant")
        options["pads"] = [int(x) for x in pads.reshape(-1)]
    site.become("ConvTranspose", [site.data, site.need(1), site.input(3)], **options)


@extension("NhwcConv", attrs=_WINDOW)
def nhwc_conv(site: AdapterSite) -> None:
    """Channels last, in the data and in the weight."""
    inputs = [
        _channels_first(site, x, i) for i, x in enumerate((site.data, site.need(1)))
    ]
    y = site.before("Conv", [*inputs, site.input(2)], "conv", **plain(site))
    site.become("Transpose", [y], perm=_last(site.rank(site.data)))


@extension(
    "NhwcMaxPool", attrs="auto_pad ceil_mode dilations kernel_shape pads strides"
)
def _nhwc_max_pool(site: AdapterSite) -> None:
    data = site.data
    y = site.before("MaxPool", [_channels_first(site, data, 0)], "pool", **plain(site))
    site.become("Transpose", [y], perm=_last(site.rank(data)))


@extension("NhwcFusedConv", attrs=f"{_WINDOW} activation activation_params")
def nhwc_fused_conv(site: AdapterSite) -> None:
    """FusedConv with the channels last in all but the weight."""
    perm = _last(site.rank(site.data))
    x = _channels_first(site, site.data, 0)
    z = site.input(3)
    site.set_inputs([x, site.need(1), site.input(2), z and _channels_first(site, z, 3)])
    fused_conv(site)
    site.after("Transpose", lambda y: [y], "channels_first", perm=perm)


def _channels_first(site: AdapterSite, x: ir.Value, index: int) -> ir.Value:
    rank = site.rank(x)
    perm = [0, rank - 1, *range(1, rank - 1)]
    return site.before("Transpose", [x], f"channels_first_{index}", perm=perm)


def _last(rank: int) -> list[int]:
    """The permutation that puts axis 1 last."""
    return [0, *range(2, rank), 1]


# ---- normalisations


@extension("LayerNormalization", attrs="axis epsilon stash_type")
def _layer_normalization(site: AdapterSite) -> None:
    site.become("LayerNormalization", site.inputs, **plain(site))


@extension(UNLISTED, attrs="axis epsilon stash_type", domain="")
def _simplified_layer_normalization(site: AdapterSite) -> None:
    _drop_statistics(site, 1)
    site.become("RMSNormalization", site.inputs, **plain(site))


@extension("SkipLayerNormalization", attrs="epsilon")
def skip_layer_normalization(site: AdapterSite) -> None:
    """LayerNormalization of a sum that may be a result as well."""
    gamma, beta = site.need(2), site.input(3)
    _skip(site, "LayerNormalization", [gamma, beta], site.input(4))


@extension("SkipSimplifiedLayerNormalization", attrs="epsilon")
def _skip_simplified_layer_normalization(site: AdapterSite) -> None:
    _skip(site, "RMSNormalization", [site.need(2)], site.input(3))


def _skip(
    site: AdapterSite, op: str, affine: Sequence[ir.Value | None], bias: ir.Value | None
) -> None:
    operands = [site.data, site.need(1)]
    block = _block(operands[1])
    products = [i for i, x in enumerate(operands) if _is_product(x)]
    if bias is not None and products:  # it was that layer's before they were fused
        i = products[-1]
        operands[i] = site.before("Add", [operands[i], bias], "biased")
    total = site.before("Add", operands, "sum")
    site.move(total, block)
    if bias is not None and not products:
        total = site.before("Add", [total, bias], "biased")
    epsilon = site.take_float("epsilon", 1e-12)
    site.give(3, total)
    _drop_statistics(site, 1, 2)
    site.become(op, [total, *affine], epsilon=epsilon)


def _is_product(x: ir.Value) -> bool:
    producer = x.producer()
    products = ("MatMul", "FusedMatMul", "MatMulNBits")
    return producer is not None and producer.op_type in products


def _block(branch: ir.Value) -> str:
    """The numbered module that a branch comes from, in whose scope its sum belongs.

    The node stands with the norm, which is the next block's where it ends one.
    """
    producer = branch.producer()
    words = (producer.name or "").split("/") if producer is not None else []
    while words and not words[-1].rpartition(".")[2].isdigit():
        words.pop()
    return "/".join(words)


def _drop_statistics(site: AdapterSite, *outputs: int) -> None:
    """Leave the first output; those of training are refused."""
    if any(map(site.wants, outputs)):
        raise site.unsupported("its mean and deviation as outputs are not supported")
    site.node.resize_outputs(1)


@extension("EmbedLayerNormalization", attrs="epsilon mask_index_type")
def _embed_layer_normalization(site: AdapterSite) -> None:
    embed(site, lambda x, index: x, site.input(8))


def embed(
    site: AdapterSite,
    real: Callable[[ir.Value, int], ir.Value],
    positions: ir.Value | None = None,
) -> None:
    """Rows of two or three tables, summed and normalised; and the lengths.

    `real` gives the floats that rows taken from an input mean.
    """
    ids, words, places = site.data, site.need(2), site.need(3)
    total = real(site.before("Gather", [words, ids], "words"), 2)
    if positions is not None:
        rows = site.before("Gather", [places, positions], "positions")
    else:
        length = site.before("Shape", [ids], "length", start=1, end=2)
        zero = site.ints("zero", [0])
        rows = site.before("Slice", [places, zero, length, zero], "positions")
    total = site.before("Add", [total, real(rows, 3)], "placed")
    if site.input(1) is not None and site.input(4) is not None:
        rows = site.before("Gather", [site.input(4), site.input(1)], "segments")
        total = site.before("Add", [total, real(rows, 4)], "sum")
    if site.wants(1):
        site.give(1, _lengths(site))
    site.give(2, total)
    epsilon = site.take_float("epsilon", 1e-12)
    site.node.resize_outputs(1)
    affine = [real(site.need(i), i) for i in (5, 6)]
    site.become("LayerNormalization", [total, *affine], epsilon=epsilon)


def _lengths(site: AdapterSite) -> ir.Value:
    """How many words count in each row; 0 where nothing says it."""
    mask = site.input(7)
    if mask is not None:
        axis, one = site.ints("axis", [1]), site.constant("one", np.array(1, np.int32))
        counts = site.before("Equal", [mask, one], "is_one")
        counts = site.before("Cast", [counts], "counts", to=ir.DataType.INT32.value)
        return site.before("ReduceSum", [counts, axis], "lengths", keepdims=0)
    shape = site.before("Shape", [site.data], "rows", start=0, end=1)
    zero = ir.Tensor(np.zeros(1, np.int32))
    return site.before("ConstantOfShape", [shape], "lengths", value=zero)


_GROUPS = "activation channels_last epsilon groups"


@extension("GroupNorm", attrs=_GROUPS)
def _group_norm_source(site: AdapterSite) -> None:
    _group_norm(site, site.data)


@extension("SkipGroupNorm", attrs=_GROUPS)
def skip_group_norm(site: AdapterSite) -> None:
    """GroupNorm of a sum; what is skipped may be one row for each sample."""
    x, skip = site.data, site.need(3)
    if site.rank(skip) == 2:
        skip = site.before("Unsqueeze", [skip, site.ints("axes", [1, 2])], "skip")
    total = site.before("Add", [x, skip], "sum")
    if site.input(4) is not None:
        total = site.before("Add", [total, site.input(4)], "biased")
    site.give(1, total)
    site.node.resize_outputs(1)
    _group_norm(site, total)


def _group_norm(site: AdapterSite, x: ir.Value) -> None:
    rank, affine = site.rank(site.data), [site.need(1), site.need(2)]
    last = site.take_int("channels_last", 1)
    activation = site.take_int("activation", 0)
    if activation not in (0, 1):
        raise site.unsupported(f"the activation {activation} is not supported")
    if last:
        perm = [0, rank - 1, *range(1, rank - 1)]
        x = site.before("Transpose", [x], "channels_first", perm=perm)
    if any(value.dtype != site.data.dtype for value in affine):
        affine = [site.before("CastLike", [v, x], f"{i}") for i, v in enumerate(affine)]
    y = site.before(
        "GroupNormalization",
        [x, *affine],
        "norm",
        num_groups=site.take_int("groups", 1),
        epsilon=site.take_float("epsilon", 1e-5),
    )
    if last:
        y = site.before("Transpose", [y], "channels_last", perm=_last(rank))
    site.become("Swish" if activation else "Identity", [y])
