"""ONNX Runtime's products and tables whose weights are blocks of few bits."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from ..facts import flop_counts, sizes_windows
from ..facts.requirements import IndexOf
from ..helpers import packed as helpers
from ..module_form import ModuleForm, Weight
from ..node_view import NodeView
from ..operands import converted, present
from ..registry import DOMAIN, MANY_TO_MANY, SHUFFLE, operator
from .attributes import check_attributes

_BYTE = (ir.DataType.UINT8,)
_BITS = (2, 4, 8)


def _positive(n: NodeView, name: str) -> int:
    found = n.attr(name)
    if not isinstance(found, int) or found < 1:
        n.refuse(f"{n.node.op_type} needs a positive {name}")
    return found


# ---- MatMulNBits


def _rounds(n: NodeView) -> bool:
    """Whether the input is rounded first, as by integer kernels, on any hardware."""
    return bool(n.attr("accuracy_level", 0) == 4)


def _of_rounded(t: Any, n: NodeView, x: Any, block: int, product: Any) -> Any:
    """What a product gives of its input in steps of 127ths."""
    y = product(t.helper(helpers.rounded_to_int8)(x, block))
    return y if n.dtype(0) == ir.DataType.FLOAT else converted(t, y, n.dtype(0))


def _packing(n: NodeView) -> tuple[int, int]:
    """How many bits a number has, and how many numbers a block."""
    check_attributes(
        n, "K N accuracy_level bits block_size weight_prepacked", needs=range(3)
    )
    bits, block = n.attr("bits", 4), _positive(n, "block_size")
    rows, columns = _positive(n, "N"), _positive(n, "K")
    if n.attr("weight_prepacked", 0):
        n.refuse("MatMulNBits with a weight packed for one device is not supported")
    if bits not in _BITS or n.dtype(1) not in _BYTE or block * bits % 8:
        n.refuse("MatMulNBits with other than 2, 4 or 8 bits is not supported")
    shape = (rows, -(-columns // block), block * bits // 8)
    if n.dims(1) != shape:
        n.refuse(f"MatMulNBits with a weight of other sizes than {list(shape)}")
    return bits, block


def _matmul_nbits_module(n: NodeView) -> ModuleForm | None:
    """A layer, unless the blocks are scattered or their zero points are fractions."""
    given = [i for i in (1, 2, 3, 5) if n.has(i)]
    if n.has(4) or any(n.value(i).const_value is None for i in given):
        return None
    if n.has(3) and n.dtype(3) not in _BYTE:
        return None
    bits, block = _packing(n)
    rows = n.attr("N")
    names = {1: "weight", 2: "scales", 3: "zero_points", 5: "bias"}
    weights = {
        names[i]: (
            Weight(n.value(i), partial(_by_row, rows), f"{rows} rows")
            if i in (2, 3) and n.rank(i) == 1
            else Weight(n.value(i))
        )
        for i in given
    }

    def call(t: Any, layer: Any, x: Any) -> Any:
        return _of_rounded(t, n, x, block, layer)

    return ModuleForm(
        layer="PackedLinear",
        positional=(n.attr("K"), rows, block),
        keywords={
            "bits": (bits, 4),
            "zero_points": (n.has(3), True),
            "bias": (n.has(5), False),
        },
        weights=weights,
        inputs=(n.value(0),),
        outputs=(n.node.outputs[0],),
        call=call if _rounds(n) else None,
        source=helpers.PackedLinear,
    )


def _by_row(rows: int, array: np.ndarray) -> np.ndarray:
    return array.reshape(rows, -1)


@operator(
    "MatMulNBits",
    since=1,
    domain=DOMAIN,
    mapping=MANY_TO_MANY,
    flops=flop_counts.matmul,
    shape=sizes_windows.packed_matmul,
    module=_matmul_nbits_module,
)
def _matmul_nbits(
    t: Any,
    n: NodeView,
    x: Any,
    weight: Any,
    scales: Any,
    zeros: Any = None,
    groups: Any = None,
    bias: Any = None,
) -> Any:
    bits, block = _packing(n)
    options = present(
        zero_points=zeros, bias=bias, bits=None if bits == 4 else bits, groups=groups
    )

    def product(x: Any) -> Any:
        return t.helper(helpers.packed_linear)(x, weight, scales, **options)

    return _of_rounded(t, n, x, block, product) if _rounds(n) else product(x)


# ---- MatMulBnb4

# The 16 values of bitsandbytes' two types of 4 bits, as it and ONNX Runtime have them.
_FP4: tuple[float, ...] = (
    *(0.0, 5.208333333e-03, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25),
    *(-0.0, -5.208333333e-03, -0.66666667, -1.0),
    *(-0.33333333, -0.5, -0.16666667, -0.25),
)
_NF4: tuple[float, ...] = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634),
    *(0.33791524171829224, 0.44070982933044434, 0.5626170039176941),
    *(0.7229568362236023, 1.0),
)


@operator(
    "MatMulBnb4",
    since=1,
    domain=DOMAIN,
    mapping=MANY_TO_MANY,
    flops=flop_counts.matmul,
    shape=sizes_windows.packed_matmul,
)
def _matmul_bnb4(t: Any, n: NodeView, x: Any, weight: Any, absmax: Any) -> Any:
    check_attributes(
        n, "K N block_size quant_type training_mode transB", needs=range(3)
    )
    sizes = (_positive(n, "N"), _positive(n, "K"))
    block, kind = _positive(n, "block_size"), n.attr("quant_type")
    if kind not in (0, 1):
        n.refuse(f"MatMulBnb4 with quant_type {kind}")
    levels = _NF4 if kind else _FP4
    options = present(transposed=None if n.attr("transB", 1) else False)
    helper = t.helper(helpers.float4_linear)
    return helper(x, weight, absmax, levels, sizes, block, **options)


# ---- GatherBlockQuantized


_NUMBERS = (ir.DataType.INT4, ir.DataType.UINT4)


def _gather_numbers(
    t: Any, n: NodeView, data: Any, indices: Any, scales: Any, zeros: Any
) -> Any:
    """Of integers of 4 bits, which need no unpacking."""
    rank, block = n.rank(0), n.attr("block_size", 128)
    axis, along = n.attr("gather_axis", 0), n.attr("quantize_axis", 1)
    if block < 1 or not (-rank <= axis < rank and -rank <= along < rank):
        n.refuse("GatherBlockQuantized along an axis that is not there")
    options = present(
        zero_points=zeros,
        axis=axis % rank or None,
        along=None if along % rank == rank - 1 else along % rank,
        block=None if block == 128 else block,
    )
    helper = t.helper(helpers.gathered_numbers)
    return helper(data, indices, scales, **options)


@operator(
    "GatherBlockQuantized",
    since=1,
    domain=DOMAIN,
    mapping=SHUFFLE,
    requires={1: IndexOf(0, "gather_axis")},
)
def _gather_block_quantized(
    t: Any, n: NodeView, data: Any, indices: Any, scales: Any, zeros: Any = None
) -> Any:
    check_attributes(n, "bits block_size gather_axis quantize_axis", needs=range(3))
    if n.dtype(0) in _NUMBERS:
        return _gather_numbers(t, n, data, indices, scales, zeros)
    bits, block = n.attr("bits", 4), n.attr("block_size", 128)
    if n.dtype(0) not in _BYTE or bits not in _BITS:
        n.refuse("GatherBlockQuantized of other numbers than bytes is not supported")
    last = n.rank(0) - 1
    if n.attr("gather_axis", 0) % (last + 1) or last < 1:
        n.refuse("GatherBlockQuantized along other than the first axis")
    if n.attr("quantize_axis", 1) % (last + 1) != last or block < 1:
        n.refuse("GatherBlockQuantized in blocks of other than the last axis")
    options = present(
        zero_points=zeros,
        bits=None if bits == 4 else bits,
        block=None if block == 128 else block,
    )
    return t.helper(helpers.gathered_blocks)(data, indices, scales, **options)
