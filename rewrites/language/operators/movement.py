"""Operators that move elements and compute none."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ....analysis.graph.dims import Dim, at_least, maximum, minimum, same, simplify
from ..facts import Facts
from ..pattern import Operator
from .read_write import (
    CannotWrite,
    Draft,
    Input,
    NewConstant,
    NoReading,
    Reading,
    attribute,
    define,
    dims_of,
    from_front,
    given,
    ints,
    numbers,
    optional,
    rank_of,
    whole,
)


def _read_transpose(node: ir.Node, facts: Facts) -> Reading:
    x = given(node, 0)
    rank = rank_of(x, facts)
    perm = attribute(node, "perm", tuple(reversed(range(rank))))
    return Reading((x,), {"perm": tuple(perm)})


Transpose = define(
    Operator("Transpose", ("perm",)),
    _read_transpose,
    lambda inputs, p: Draft("Transpose", inputs, {"perm": list(p["perm"])}),
)


def sizes_input(sizes: tuple[Dim, ...]) -> NewConstant:
    """A target shape as a constant: one size that only a run tells becomes -1.

    That is right where the other sizes aren't 0, which keeps -1 from being defined.
    """
    unknown = [k for k, n in enumerate(sizes) if not isinstance(n, int)]
    if len(unknown) > 1:
        raise CannotWrite("two sizes of the result are known only at run time")
    if unknown and any(n == 0 for n in sizes):
        raise CannotWrite("a size is 0 and another known only at run time")
    return ints([n if isinstance(n, int) else -1 for n in sizes])


def _read_reshape(node: ir.Node, facts: Facts) -> Reading:
    x = given(node, 0)
    return Reading((x,), {"shape": dims_of(node.outputs[0], facts)})


def _write_reshape(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
    shape: tuple[Dim, ...] = parameters["shape"]
    if any(n == 0 for n in shape):
        return Draft("Reshape", [inputs[0], sizes_input(shape)], {"allowzero": 1})
    # A size of 0 means "as in the operand".
    kept = _unless_kept(shape, parameters.get("sizes"), 0)
    return Draft("Reshape", [inputs[0], sizes_input(kept)])


def _unless_kept(
    shape: tuple[Dim, ...], operand: tuple[Dim, ...] | None, mark: int, shift: int = 0
) -> tuple[Dim, ...]:
    """The sizes, with a mark for those of the operand's that only a run tells."""

    def kept(k: int, n: Dim) -> bool:
        if isinstance(n, int) or operand is None or not 0 <= k - shift < len(operand):
            return False
        return same(n, operand[k - shift]) is True

    return tuple(mark if kept(k, n) else n for k, n in enumerate(shape))


# Writing needs the sizes of the operand, which the builder adds as "sizes".
Reshape = define(Operator("Reshape", ("shape",)), _read_reshape, _write_reshape)


def _read_flatten(node: ir.Node, facts: Facts) -> Reading:
    x = given(node, 0)
    rank = rank_of(x, facts)
    axis = int(attribute(node, "axis", 1))
    return Reading((x,), {"axis": axis + rank if axis < 0 else axis})


Flatten = define(
    Operator("Flatten", ("axis",)),
    _read_flatten,
    lambda inputs, p: Draft("Flatten", inputs, {"axis": whole([p["axis"]])[0]}),
)


def _axes_input(node: ir.Node, facts: Facts, rank: int) -> frozenset[int]:
    found = numbers(optional(node, 1), facts, "the list of axes")
    return frozenset(from_front(axis, rank) for axis in found)


def _read_squeeze(node: ir.Node, facts: Facts) -> Reading:
    x = given(node, 0)
    dims = dims_of(x, facts)
    if optional(node, 1) is not None:
        axes = _axes_input(node, facts, len(dims))
        if not axes:  # all of size 1 to ONNX Runtime
            raise NoReading("Squeeze of an empty list of axes")
        return Reading((x,), {"axes": axes})
    if not all(isinstance(n, int) for n in dims):
        raise NoReading("Squeeze without axes of sizes known only at run time")
    return Reading((x,), {"axes": frozenset(k for k, n in enumerate(dims) if n == 1)})


def _read_unsqueeze(node: ir.Node, facts: Facts) -> Reading:
    x = given(node, 0)
    count = len(numbers(optional(node, 1), facts, "the list of axes"))
    return Reading((x,), {"axes": _axes_input(node, facts, rank_of(x, facts) + count)})


def _write_axes(op: str) -> Any:
    def write(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
        if not parameters["axes"]:
            return Draft("Identity", [inputs[0]])
        return Draft(op, [inputs[0], ints(sorted(parameters["axes"]))])

    return write


# `axes` of Squeeze counts in the operand, of Unsqueeze in the result.
Squeeze = define(Operator("Squeeze", ("axes",)), _read_squeeze, _write_axes("Squeeze"))
Unsqueeze = define(
    Operator("Unsqueeze", ("axes",)), _read_unsqueeze, _write_axes("Unsqueeze")
)


def _read_expand(node: ir.Node, facts: Facts) -> Reading:
    return Reading((given(node, 0),), {"shape": dims_of(node.outputs[0], facts)})


def _write_expand(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
    # A size of 1 leaves that of the operand.
    shape, operand = parameters["shape"], parameters.get("sizes")
    shift = len(shape) - len(operand or ())
    return Draft("Expand", [inputs[0], ints(_unless_kept(shape, operand, 1, shift))])


# `shape` is the shape of the result.
Expand = define(Operator("Expand", ("shape",)), _read_expand, _write_expand)


def _read_tile(node: ir.Node, facts: Facts) -> Reading:
    repeats = numbers(given(node, 1), facts, "the repeats of Tile")
    return Reading((given(node, 0),), {"repeats": repeats})


Tile = define(
    Operator("Tile", ("repeats",)),
    _read_tile,
    lambda inputs, p: Draft("Tile", [inputs[0], ints(p["repeats"])]),
)


def _read_slice(node: ir.Node, facts: Facts) -> Reading:
    """Begin, end and step of every axis, with 0 <= begin <= end <= size."""
    x = given(node, 0)
    dims = dims_of(x, facts)
    starts = facts.ints(given(node, 1))
    ends = facts.ints(given(node, 2))
    if starts is None or ends is None:
        raise NoReading("the range of Slice is known only at run time")
    axes = tuple(range(len(starts)))
    if optional(node, 3) is not None:
        axes = numbers(optional(node, 3), facts, "the axes of Slice")
    steps = (1,) * len(starts)
    if optional(node, 4) is not None:
        steps = numbers(optional(node, 4), facts, "the steps of Slice")
    begin: list[Dim] = [0] * len(dims)
    end: list[Dim] = list(dims)
    step = [1] * len(dims)
    for axis, low, high, by in zip(axes, starts, ends, steps, strict=True):
        axis = from_front(axis, len(dims))
        if by < 1:
            raise NoReading("a Slice that runs backwards")
        begin[axis] = _clamped(low, dims[axis])
        end[axis] = maximum(begin[axis], _clamped(high, dims[axis]))
        step[axis] = by
    parameters = {"begin": tuple(begin), "end": tuple(end), "step": tuple(step)}
    return Reading((x,), parameters)


def _clamped(place: Dim, size: Dim) -> Dim:
    """A start or end, counted from the front and inside the axis."""
    if at_least(place, 0):
        return minimum(place, size)
    if at_least(-1, place):
        return maximum(simplify(place + size), 0)
    raise NoReading("a Slice whose start may count from either side")


def _write_slice(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
    """Only axes that are cut are listed; "to the end" needs no size."""
    sizes = parameters.get("sizes")
    rows = []
    columns = zip(
        parameters["begin"], parameters["end"], parameters["step"], strict=True
    )
    for axis, (low, high, by) in enumerate(columns):
        to_end = sizes is not None and same(high, sizes[axis])
        if low == 0 and by == 1 and to_end:
            continue
        rows.append((axis, low, (1 << 63) - 1 if to_end else high, by))
    if not rows:
        if not parameters["begin"]:
            raise CannotWrite("a Slice of a scalar")
        rows = [(0, 0, (1 << 63) - 1, 1)]
    axis_, low_, high_, by_ = zip(*rows, strict=True)
    listed = [ints(low_), ints(high_), ints(axis_), ints(by_)]
    return Draft("Slice", [inputs[0], *listed])


# Writing needs the sizes of the operand, which the builder adds as "sizes".
Slice = define(Operator("Slice", ("begin", "end", "step")), _read_slice, _write_slice)


def _read_concat(node: ir.Node, facts: Facts) -> Reading:
    inputs = tuple(x for x in node.inputs if x is not None)
    axis = from_front(int(attribute(node, "axis", 0)), rank_of(inputs[0], facts))
    return Reading(inputs, {"axis": axis})


Concat = define(
    Operator("Concat", ("axis",)),
    _read_concat,
    lambda inputs, p: Draft("Concat", inputs, {"axis": whole([p["axis"]])[0]}),
)


def _read_split(node: ir.Node, facts: Facts) -> Reading:
    x = given(node, 0)
    axis = from_front(int(attribute(node, "axis", 0)), rank_of(x, facts))
    sizes = tuple(dims_of(y, facts)[axis] for y in node.outputs)
    return Reading((x,), {"axis": axis, "sizes": sizes})


def _write_split(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
    sizes = parameters["sizes"]
    attributes = {"axis": whole([parameters["axis"]])[0]}
    return Draft("Split", [inputs[0], ints(sizes)], attributes, len(sizes))


Split = define(Operator("Split", ("axis", "sizes")), _read_split, _write_split)


def _read_gather(node: ir.Node, facts: Facts) -> Reading:
    x = given(node, 0)
    axis = from_front(int(attribute(node, "axis", 0)), rank_of(x, facts))
    return Reading((x, given(node, 1)), {"axis": axis})


Gather = define(
    Operator("Gather", ("axis",)),
    _read_gather,
    lambda inputs, p: Draft("Gather", inputs, {"axis": whole([p["axis"]])[0]}),
)


def _read_pad(node: ir.Node, facts: Facts) -> Reading:
    """Pads of every axis; the value (absent: 0) is the second input."""
    x = given(node, 0)
    rank = rank_of(x, facts)
    pads = numbers(given(node, 1), facts, "the pads")
    axes = tuple(range(rank))
    if optional(node, 3) is not None:
        axes = numbers(optional(node, 3), facts, "the axes of Pad")
    low, high = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        low[from_front(axis, rank)] = pads[i]
        high[from_front(axis, rank)] = pads[i + len(axes)]
    mode = str(attribute(node, "mode", "constant"))
    if mode != "constant" and min(pads, default=0) < 0:
        raise NoReading(f"a Pad that cuts, in mode {mode}")
    found = {"low": tuple(low), "high": tuple(high), "mode": mode}
    return Reading((x, optional(node, 2)), found)


def _write_pad(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
    pads = ints([*parameters["low"], *parameters["high"]])
    mode = parameters["mode"]
    attributes = {} if mode == "constant" else {"mode": mode}
    return Draft("Pad", [inputs[0], pads, *inputs[1:]], attributes)


Pad = define(Operator("Pad", ("low", "high", "mode")), _read_pad, _write_pad)


def _read_blocks(node: ir.Node, facts: Facts) -> Reading:
    found: dict[str, Any] = {"blocksize": int(attribute(node, "blocksize", 0))}
    if node.op_type == "DepthToSpace":
        found["mode"] = str(attribute(node, "mode", "DCR"))
    return Reading((given(node, 0),), found)


def _write_blocks(op: str) -> Any:
    def write(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
        attributes: dict[str, Any] = {"blocksize": whole([parameters["blocksize"]])[0]}
        if parameters.get("mode", "DCR") != "DCR":
            attributes["mode"] = parameters["mode"]
        return Draft(op, inputs, attributes)

    return write


DepthToSpace = define(
    Operator("DepthToSpace", ("blocksize", "mode")),
    _read_blocks,
    _write_blocks("DepthToSpace"),
)
SpaceToDepth = define(
    Operator("SpaceToDepth", ("blocksize",)),
    _read_blocks,
    _write_blocks("SpaceToDepth"),
)


def _read_trilu(node: ir.Node, facts: Facts) -> Reading:
    """The diagonal `k` (absent: 0), and which triangle."""
    x, listed = given(node, 0), optional(node, 1)
    k = 0 if listed is None else numbers(listed, facts, "the diagonal")[0]
    return Reading((x,), {"k": k, "upper": int(attribute(node, "upper", 1))})


def _write_trilu(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
    k = NewConstant(np.array(whole([parameters["k"]])[0], np.int64))
    attributes = {} if parameters["upper"] else {"upper": 0}
    return Draft("Trilu", [inputs[0], k], attributes)


Trilu = define(Operator("Trilu", ("k", "upper")), _read_trilu, _write_trilu)


def _read_shape(node: ir.Node, facts: Facts) -> Reading:
    x = given(node, 0)
    part = attribute(node, "end", rank_of(x, facts)) < rank_of(x, facts)
    if part or attribute(node, "start", 0) != 0:
        raise NoReading("a part of a shape")
    return Reading((x,), {})


Shape = define(Operator("Shape"), _read_shape, lambda inputs, p: Draft("Shape", inputs))
