"""Operators along axes: reductions, softmax, cumulative sums, selections."""

from __future__ import annotations

from typing import Any

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
    from_front,
    given,
    ints,
    numbers,
    optional,
    rank_of,
    whole,
)

# Over no axes these give each element; what the others give is read in several ways.
_EACH_OF_NONE = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")


def _reduction(name: str) -> Operator:
    """`axes` is the set that is reduced; `keepdims` 0 or 1."""

    def read(node: ir.Node, facts: Facts) -> Reading:
        x = given(node, 0)
        rank = rank_of(x, facts)
        listed = optional(node, 1)
        axes = numbers(listed, facts, "the list of axes") if listed is not None else ()
        if not axes and not attribute(node, "noop_with_empty_axes", 0):
            axes = tuple(range(rank))
        elif not axes and name not in _EACH_OF_NONE:
            raise NoReading(f"{name} over no axes")
        chosen = frozenset(from_front(axis, rank) for axis in axes)
        keepdims = int(attribute(node, "keepdims", 1))
        return Reading((x,), {"axes": chosen, "keepdims": keepdims})

    def write(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
        axes = ints(sorted(parameters["axes"]))
        attributes = {} if parameters["keepdims"] else {"keepdims": 0}
        if not parameters["axes"]:
            if name not in _EACH_OF_NONE:
                raise CannotWrite(f"{name} over no axes")
            attributes["noop_with_empty_axes"] = 1
        return Draft(name, [inputs[0], axes], attributes)

    return define(Operator(name, ("axes", "keepdims")), read, write)


ReduceSum = _reduction("ReduceSum")
ReduceMean = _reduction("ReduceMean")
ReduceMax = _reduction("ReduceMax")
ReduceMin = _reduction("ReduceMin")
ReduceProd = _reduction("ReduceProd")
ReduceL1 = _reduction("ReduceL1")
ReduceL2 = _reduction("ReduceL2")
ReduceSumSquare = _reduction("ReduceSumSquare")
ReduceLogSumExp = _reduction("ReduceLogSumExp")
ReduceLogSum = _reduction("ReduceLogSum")


def _along(name: str, default: int = -1, **defaults: Any) -> Operator:
    """An operator along one axis, given as an attribute."""

    def read(node: ir.Node, facts: Facts) -> Reading:
        x = given(node, 0)
        axis = from_front(int(attribute(node, "axis", default)), rank_of(x, facts))
        more = {key: attribute(node, key, d) for key, d in defaults.items()}
        return Reading((x,), {"axis": axis, **more})

    def write(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
        more = {k: v for k, v in parameters.items() if k != "axis" and v != defaults[k]}
        return Draft(name, inputs, {"axis": whole([parameters["axis"]])[0], **more})

    return define(Operator(name, ("axis", *defaults)), read, write)


Softmax = _along("Softmax")
LogSoftmax = _along("LogSoftmax")
ArgMax = _along("ArgMax", 0, keepdims=1, select_last_index=0)
ArgMin = _along("ArgMin", 0, keepdims=1, select_last_index=0)


def _read_cumsum(node: ir.Node, facts: Facts) -> Reading:
    x = given(node, 0)
    (axis,) = numbers(given(node, 1), facts, "the axis of CumSum")
    found = {
        "axis": from_front(axis, rank_of(x, facts)),
        "exclusive": int(attribute(node, "exclusive", 0)),
        "reverse": int(attribute(node, "reverse", 0)),
    }
    return Reading((x,), found)


def _write_cumsum(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
    flags = {k: parameters[k] for k in ("exclusive", "reverse") if parameters[k]}
    return Draft("CumSum", [inputs[0], ints([parameters["axis"]])], flags)


CumSum = define(
    Operator("CumSum", ("axis", "exclusive", "reverse")), _read_cumsum, _write_cumsum
)
