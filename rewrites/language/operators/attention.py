"""Attention as one operator, and what surrounds it in transformers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from ..facts import Facts
from ..pattern import Operator
from .read_write import (
    CannotWrite,
    Draft,
    Input,
    NoReading,
    Reading,
    attribute,
    define,
    dims_of,
    given,
    optional,
    plain,
)

IsNaN = plain("IsNaN", 1)
Range = plain("Range", 3)
GatherND = plain("GatherND", 2, batch_dims=0)


def _read_attention(node: ir.Node, facts: Facts) -> Reading:
    """Of [batch, heads, length, size] tensors; the mask is added to the scores."""
    q, k, v = (given(node, i) for i in range(3))
    if len(dims_of(q, facts)) != 4:
        raise NoReading("Attention of tensors with packed heads")
    if any(optional(node, i) is not None for i in (4, 5, 6)):
        raise NoReading("Attention with a cache")
    odd = set(node.attributes) - {"scale", "is_causal"}
    if odd:
        raise NoReading(f"Attention has the attribute {min(odd)}")
    mask = optional(node, 3)
    if mask is not None and mask.dtype == ir.DataType.BOOL:
        raise NoReading("Attention with a mask of booleans")
    scale = attribute(node, "scale", None)
    if scale is None:
        size = dims_of(q, facts)[3]
        if not isinstance(size, int):
            raise NoReading("the scale follows from a size known only at run time")
        scale = float(np.float32(1 / math.sqrt(size)))
    causal = int(attribute(node, "is_causal", 0))
    return Reading((q, k, v, mask), {"scale": scale, "causal": causal})


def _write_attention(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
    scale = float(parameters["scale"])
    if not scale > 0 or not math.isfinite(scale):
        raise CannotWrite(f"an attention scale of {scale}")
    attributes: dict[str, Any] = {"scale": scale}
    if parameters["causal"]:
        attributes["is_causal"] = 1
    return Draft("Attention", inputs, attributes)


# softmax(q k^T * scale + mask) v.
Attention = define(
    Operator("Attention", ("scale", "causal")), _read_attention, _write_attention
)
