"""ONNX Runtime's own operators on tensors of any kind, spelled with ONNX's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ....analysis.ops.registry import DOMAIN
from ...adapters.opset_adapters import AdapterSite, extension
from ..by_type import LoweringSite, lowering
from .one_to_one import plain


@extension("Trilu", attrs="upper")
def _trilu(site: AdapterSite) -> None:
    site.become("Trilu", site.inputs, **plain(site))


@extension("GatherND")
def _gather_nd(site: AdapterSite) -> None:
    site.become("GatherND", site.inputs)


@extension("Range")
def range_(site: AdapterSite) -> None:
    """Each of the three may be a vector of one element."""
    bounds = [site.data, site.need(1), site.input(2)]
    scalars = [
        _scalar(site, x, name)
        for x, name in zip(bounds, ("start", "limit", "delta"), strict=True)
        if x is not None
    ]
    if len(scalars) == 2:
        if site.data.dtype is None:
            raise site.unsupported("the type of its bounds is unknown")
        scalars.append(site.constant("delta", np.array(1, site.data.dtype.numpy())))
    site.become("Range", scalars)


def _scalar(site: AdapterSite, x: ir.Value, name: str) -> ir.Value:
    if site.rank(x) == 0:
        return x
    return site.before("Reshape", [x, site.ints(f"{name}_shape", [])], name)


@extension("Unique")
def unique(site: AdapterSite) -> None:
    """In the order of first occurrence."""
    names = ("uniques", "first", "inverse", "counts")
    y, _, inverse, counts = site.parts("Unique", [site.data], names, sorted=0)
    for j, value in enumerate((y, inverse, counts)):
        site.give(j, value)


@extension("Pad", attrs="mode")
def _pad(site: AdapterSite) -> None:
    pads, value = site.need(1), site.input(2)
    if site.rank(pads) == 2:
        pads = site.before("Reshape", [pads, site.ints("flat", [-1])], "pads")
    if value is not None:
        value = _scalar(site, value, "value")
    site.become("Pad", [site.data, pads, value], **plain(site))


@extension("ExpandDims")
def _expand_dims(site: AdapterSite) -> None:
    axis = site.before("Cast", [site.need(1)], "axis", to=int(ir.DataType.INT64))
    axes = site.before("Reshape", [axis, site.ints("one", [1])], "axes")
    site.become("Unsqueeze", [site.data, axes])


_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@extension("GridSample", attrs="align_corners mode padding_mode")
def _grid_sample(site: AdapterSite) -> None:
    mode = site.take_string("mode", "bilinear")
    options = plain(site) | {"mode": _MODES.get(mode, mode)}
    site.become("GridSample", site.inputs, **options)


@extension("SampleOp")
def _echo(site: AdapterSite) -> None:
    site.become("Identity", [site.data])


@extension("TorchEmbedding")
def embedding(site: AdapterSite) -> None:
    """A row of the table for each index; the other inputs concern gradients."""
    site.become("Gather", [site.data, site.need(1)])


@extension("MatMulInteger16")
def _matmul_integer16(site: AdapterSite) -> None:
    factors = [site.data, site.need(1)]
    wide = [ir.DataType.UINT16, ir.DataType.UINT16]
    unsigned = [x.dtype for x in factors] == wide
    to = ir.DataType.UINT32 if unsigned else ir.DataType.INT32
    operands = [site.before("Cast", [x], "wide", to=int(to)) for x in factors]
    site.become("MatMul", operands)


@extension("BiasSoftmax", attrs="axis is_inner_broadcast")
def bias_softmax(site: AdapterSite) -> None:
    """Softmax of a sum, over `axis` and all behind it, which then count as one."""
    x, bias, rank = site.data, site.need(1), site.rank(site.data)
    axis = site.take_int("axis", 1) % rank
    if site.take_int("is_inner_broadcast", 0) and site.rank(bias) < rank:
        raise site.unsupported("a bias that lacks axes in the middle")
    y = site.before("Add", [x, bias], "biased")
    if axis == rank - 1:
        site.become("Softmax", [y], axis=-1)
        return
    shape = site.before("Shape", [y], "shape")
    y = site.before("Flatten", [y], "flat", axis=axis)
    site.become("Reshape", [site.before("Softmax", [y], "shares", axis=-1), shape])


@extension("BiasDropout", attrs="seed")
def bias_dropout(site: AdapterSite) -> None:
    """Dropout of a sum, and what is skipped."""
    x = site.before("Add", [site.data, site.need(1)], "biased")
    inputs = [x, site.input(3), site.input(4)]
    y, mask = site.parts("Dropout", inputs, ("kept", "mask"), **plain(site))
    site.give(1, mask)
    site.node.resize_outputs(1)
    skipped = site.input(2)
    site.become("Identity" if skipped is None else "Add", [y, skipped])


@extension("IsAllFinite", attrs="isinf_only isnan_only")
def is_all_finite(site: AdapterSite) -> None:
    """Whether no number of any input is infinite, nor none at all."""
    tests = [("IsInf", "isnan_only"), ("IsNaN", "isinf_only")]
    wanted = [op for op, other in tests if not site.take_int(other, 0)]
    if not wanted or any(x is None for x in site.inputs):
        raise site.unsupported("it asks for nothing")
    found = []
    for x in site.inputs:
        for op in wanted:
            odd = site.before(op, [x], "odd")
            odd = site.before("Cast", [odd], "count", to=int(ir.DataType.INT32))
            found.append(site.before("ReduceMax", [odd], "any", keepdims=0))
    most = found[0] if len(found) == 1 else site.before("Max", found, "any")
    any_ = site.before("Cast", [most], "is_odd", to=int(ir.DataType.BOOL))
    site.become("Not", [any_])


@lowering("Tokenizer", DOMAIN)
def tokenizer(site: LoweringSite) -> Sequence[ir.Value]:
    """The same node, whose type onnx can't tell."""
    made = site.before("Tokenizer", [site.data], "tokens", **dict(site.node.attributes))
    node = made.producer()
    assert node is not None
    node.domain, made.type = DOMAIN, ir.TensorType(ir.DataType.STRING)
    if site.data.shape is not None:
        made.shape = ir.Shape([*site.data.shape, None])
    return [made]
