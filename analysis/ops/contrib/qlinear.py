"""ONNX Runtime's operators from 8-bit integers to 8-bit integers.

Each rounds where ONNX Runtime does, so that all of its integers are the same.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..facts import sizes_elementwise, sizes_windows
from ..helpers import quant as helpers
from ..module_form import ModuleForm, Weight
from ..node_view import NodeView
from ..operands import number
from ..quant_layers import integer_linear
from ..registry import DOMAIN, MANY_TO_MANY, ONE_TO_ONE, operator
from .attributes import check_attributes

_A, _B, _Y = 0, 3, 6  # of a pair: a tensor, its scale and its zero point


def _pair(helper: str) -> Any:
    def spell(t: Any, n: NodeView, *operands: Any) -> Any:
        check_attributes(n, needs=range(8))
        return t.helper(getattr(helpers, helper))(*operands)

    return spell


def _pair_form(n: NodeView) -> ModuleForm | None:
    """A layer, if scales and zero points are constants, one for each tensor."""
    scales = [i for i in range(1, 8) if i != _B]
    if n.arity < 8 or any(n.const(i) is None or n.dims(i) for i in scales):
        return None
    places = {"input": _A + 1, "other": _B + 1, "output": _Y}
    weights = {f"{name}_scale": Weight(n.value(i)) for name, i in places.items()}
    weights |= {
        f"{name}_zero_point": Weight(n.value(i + 1)) for name, i in places.items()
    }
    layer = n.node.op_type
    return ModuleForm(
        layer=layer,
        positional=(),
        keywords={"signed": (n.out_dtype() == ir.DataType.INT8, False)},
        weights=weights,
        inputs=(n.value(_A), n.value(_B)),
        outputs=(n.node.outputs[0],),
        source=getattr(helpers, layer),
    )


def _check_gemm(n: NodeView) -> None:
    check_attributes(n, "transA transB", "alpha", needs=range(6))


def _gemm_form(n: NodeView) -> ModuleForm | None:
    _check_gemm(n)
    if n.arity < 9 or n.attr("transA", 0) or n.attr("alpha", 1.0) != 1:
        return None
    return integer_linear(n, (7, 8), bias=6, flip=not n.attr("transB", 0))


for _name, _spelling in (
    ("QLinearAdd", _pair("qlinear_add")),
    ("QLinearMul", _pair("qlinear_mul")),
):
    operator(
        _name,
        since=1,
        domain=DOMAIN,
        mapping=ONE_TO_ONE,
        shape=sizes_elementwise.integer_pair,
        module=_pair_form,
    )(_spelling)


@operator(
    "QGemm",
    since=1,
    domain=DOMAIN,
    mapping=MANY_TO_MANY,
    shape=sizes_windows.with_scales(sizes_windows.gemm),
    module=_gemm_form,
)
def _gemm(t: Any, n: NodeView, *operands: Any) -> Any:
    """alpha * (A' @ B' + C); C is in units of both scales."""
    _check_gemm(n)
    a, a_scale, a_zero, b, b_scale, b_zero, *more = operands
    c, y_scale, y_zero = (*more, *[None] * 3)[:3]
    a = (a.T if n.attr("transA", 0) else a).double() - a_zero
    b = (b.T if n.attr("transB", 0) else b).double() - b_zero
    y = a @ b
    y = y if c is None else y + c
    alpha = number(n, "alpha", 1.0)
    scale = a_scale * b_scale if alpha == 1 else a_scale * alpha * b_scale
    if y_scale is None:
        return y.float() * scale
    options = {} if n.out_dtype() == ir.DataType.UINT8 else {"dtype": t.int8}
    return t.helper(helpers.requantize)(y, scale / y_scale, y_zero, **options)
