"""Matrix products and convolutions."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ....analysis.graph.dims import Dim, same
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
    rank_of,
    whole,
)


def _read_matmul(node: ir.Node, facts: Facts) -> Reading:
    inputs = (given(node, 0), given(node, 1))
    if any(rank_of(x, facts) < 2 for x in inputs):
        raise NoReading("a product of vectors")
    return Reading(inputs, {})


MatMul = define(
    Operator("MatMul"), _read_matmul, lambda inputs, p: Draft("MatMul", inputs)
)
Gemm = plain("Gemm", 3, alpha=1.0, beta=1.0, transA=0, transB=0)


def spatial(node: ir.Node, name: str, rank: int, fill: int) -> tuple[int, ...]:
    """A spatial attribute with an entry for every axis; the first two are `fill`."""
    listed = attribute(node, name, (fill,) * (rank - 2))
    return (fill, fill, *listed)


def window(
    node: ir.Node, sizes: tuple[Dim, ...], kernel: tuple[Dim, ...]
) -> dict[str, tuple[int, ...]]:
    """Strides, dilations and pads; `sizes` of the operand, `kernel` of the window.

    Pads that a node leaves to be found (auto_pad) follow from sizes that are known.
    """
    rank = len(sizes)
    stride = spatial(node, "strides", rank, 1)
    dilation = spatial(node, "dilations", rank, 1)
    auto = attribute(node, "auto_pad", "NOTSET")
    low, high = (0,) * rank, (0,) * rank
    if auto == "NOTSET":
        pads = attribute(node, "pads", (0,) * (2 * (rank - 2)))
        low, high = (0, 0, *pads[: rank - 2]), (0, 0, *pads[rank - 2 :])
        if any(n < 0 for n in pads):
            raise NoReading("pads that cut")
    elif auto != "VALID":
        if node.op_type == "ConvTranspose":
            raise NoReading(f"ConvTranspose with auto_pad {auto}")
        totals = [
            _same_pad(sizes[k], kernel[k], stride[k], dilation[k])
            for k in range(2, rank)
        ]
        upper = auto == "SAME_UPPER"
        low = (0, 0, *(n // 2 if upper else n - n // 2 for n in totals))
        high = (0, 0, *(n - n // 2 if upper else n // 2 for n in totals))
    return {"stride": stride, "dilation": dilation, "low": low, "high": high}


def _same_pad(size: Dim, kernel: Dim, stride: int, dilation: int) -> int:
    """Pads in all along one axis, for ceil(size / stride) places."""
    if not isinstance(size, int) or not isinstance(kernel, int):
        raise NoReading("auto_pad with sizes known only at run time")
    places = -(-size // stride)
    return max((places - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)


def window_attributes(parameters: dict[str, Any]) -> dict[str, Any]:
    """The attributes for strides, dilations and pads; defaults are left out."""
    low, high = whole(parameters["low"]), whole(parameters["high"])
    if any(low[:2]) or any(high[:2]) or any(n < 0 for n in low + high):
        raise CannotWrite("pads that are negative, or of batch or channels")
    found = {
        "pads": low[2:] + high[2:],
        "strides": whole(parameters["stride"])[2:],
        "dilations": whole(parameters["dilation"])[2:],
    }
    return {
        name: listed
        for name, listed in found.items()
        if any(n != (name != "pads") for n in listed)
    }


def _read_conv(node: ir.Node, facts: Facts) -> Reading:
    """All per-axis parameters have an entry for every axis of the operand."""
    x, w = given(node, 0), given(node, 1)
    found: dict[str, Any] = {**window(node, dims_of(x, facts), dims_of(w, facts))}
    found["group"] = int(attribute(node, "group", 1))
    return Reading((x, w, optional(node, 2)), found)


def _write_conv(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
    attributes = window_attributes(parameters)
    group = whole([parameters["group"]])[0]
    if group != 1:
        attributes["group"] = group
    return Draft("Conv", inputs, attributes)


Conv = define(
    Operator("Conv", ("stride", "dilation", "low", "high", "group")),
    _read_conv,
    _write_conv,
)


def _read_conv_transpose(node: ir.Node, facts: Facts) -> Reading:
    if "output_shape" in node.attributes:
        raise NoReading("ConvTranspose whose pads follow from output_shape")
    found = dict(_read_conv(node, facts).parameters)
    rank = rank_of(given(node, 0), facts)
    found["extra"] = spatial(node, "output_padding", rank, 0)
    return Reading((given(node, 0), given(node, 1), optional(node, 2)), found)


def _write_conv_transpose(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
    draft = _write_conv(inputs, parameters)
    extra = whole(parameters["extra"])[2:]
    if any(extra):
        draft.attributes["output_padding"] = extra
    return Draft("ConvTranspose", inputs, draft.attributes)


# `extra` is the attribute output_padding.
ConvTranspose = define(
    Operator("ConvTranspose", ("stride", "dilation", "low", "high", "group", "extra")),
    _read_conv_transpose,
    _write_conv_transpose,
)

# (x, scale, bias, mean, variance), in inference: a node that trains isn't read.
BatchNormalization = plain("BatchNormalization", 5, ignored=("momentum",), epsilon=1e-5)


def _read_einsum(node: ir.Node, facts: Facts) -> Reading:
    """The equation with an arrow, its axes lettered a, b, c in order of appearance."""
    inputs = tuple(x for x in node.inputs if x is not None)
    text = "".join(str(attribute(node, "equation", "")).split())
    sizes = [dims_of(x, facts) for x in inputs]
    equation = plain_equation(text, [len(dims) for dims in sizes])
    known: dict[str, Dim] = {}
    for axes, dims in zip(equation.partition("->")[0].split(","), sizes, strict=True):
        for letter, size in zip(axes, dims, strict=True):
            if same(known.setdefault(letter, size), size) is not True:
                raise NoReading(f"Einsum {text} that broadcasts axis {letter}")
    return Reading(inputs, {"equation": equation})


def plain_equation(text: str, ranks: list[int]) -> str:
    """An equation without dots, with an arrow, lettered in order of appearance."""
    operands, arrow, result = text.partition("->")
    terms = operands.split(",")
    if len(terms) != len(ranks):
        raise NoReading(f"Einsum {text} of {len(ranks)} operands")
    hidden = [
        rank - len(term) + 3 if "..." in term else 0
        for rank, term in zip(ranks, terms, strict=True)
    ]
    if len({n for n, term in zip(hidden, terms, strict=True) if "..." in term}) > 1:
        raise NoReading(f"Einsum {text} that broadcasts")
    if not arrow:
        letters = operands.replace(",", "").replace("...", "")
        once = sorted(x for x in set(letters) if letters.count(x) == 1)
        result = ("..." if "..." in operands else "") + "".join(once)
    dots = "".join(chr(0x4E00 + k) for k in range(max(hidden)))
    spelled = ",".join(terms).replace("...", dots) + "->" + result.replace("...", dots)
    order = dict.fromkeys(x for x in spelled if x not in ",->")
    if len(order) > 26:
        raise NoReading(f"Einsum {text} over more than 26 axes")
    named = {x: chr(ord("a") + k) for k, x in enumerate(order)}
    return "".join(named.get(x, x) for x in spelled)


# `equation` as a word; laws spell it as plain_equation does.
Einsum = define(
    Operator("Einsum", ("equation",)),
    _read_einsum,
    lambda inputs, p: Draft("Einsum", inputs, {"equation": p["equation"]}),
)
