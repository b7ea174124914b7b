"""Normalisations of trailing axes, groups of channels and channels."""

from __future__ import annotations

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
    from_front,
    given,
    optional,
    rank_of,
    whole,
)

_EPSILON = 1e-5  # the default of all of them


def _check_stash(node: ir.Node) -> None:
    """The statistics are in float32 or, of float64 operands, in float64.

    Of float64 operands float32 would be a loss that the laws know nothing of.
    """
    double = given(node, 0).dtype == ir.DataType.DOUBLE
    kept = ir.DataType.DOUBLE if double else ir.DataType.FLOAT
    if attribute(node, "stash_type", 1) != kept.value:
        raise NoReading(f"{node.op_type} with another stash_type than {kept.name}")


def _attributes(
    x: Input, parameters: dict[str, Any], stash: bool = True
) -> dict[str, Any]:
    """epsilon and stash_type, where they aren't the defaults."""
    epsilon = float(parameters["epsilon"])
    double = isinstance(x, ir.Value) and x.dtype == ir.DataType.DOUBLE
    if double and float(np.float32(epsilon)) != epsilon:
        raise CannotWrite(f"the attribute epsilon can't be {epsilon}: it is float32")
    found: dict[str, Any] = {}
    if np.float32(epsilon) != np.float32(_EPSILON):
        found["epsilon"] = epsilon
    if stash and double:
        found["stash_type"] = ir.DataType.DOUBLE.value
    return found


def _trailing(name: str, arity: int) -> Operator:
    """Over the axes from `axis` (counted from the front) on."""

    def read(node: ir.Node, facts: Facts) -> Reading:
        _check_stash(node)
        x = given(node, 0)
        axis = from_front(int(attribute(node, "axis", -1)), rank_of(x, facts))
        inputs = (x, *(optional(node, i) for i in range(1, arity)))
        epsilon = attribute(node, "epsilon", _EPSILON)
        return Reading(inputs, {"axis": axis, "epsilon": epsilon})

    def write(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
        axis = {"axis": whole([parameters["axis"]])[0]}
        return Draft(name, inputs, {**axis, **_attributes(inputs[0], parameters)})

    return define(Operator(name, ("axis", "epsilon")), read, write)


LayerNormalization = _trailing("LayerNormalization", 3)  # (x, scale, bias or None)
RMSNormalization = _trailing("RMSNormalization", 2)  # (x, scale)


def _read_instance(node: ir.Node, facts: Facts) -> Reading:
    epsilon = attribute(node, "epsilon", _EPSILON)
    inputs = (given(node, 0), given(node, 1), given(node, 2))
    return Reading(inputs, {"epsilon": epsilon})


# (x, scale, bias), one of the latter two per channel.
InstanceNormalization = define(
    Operator("InstanceNormalization", ("epsilon",)),
    _read_instance,
    lambda inputs, p: Draft(
        "InstanceNormalization", inputs, _attributes(inputs[0], p, stash=False)
    ),
)


def _read_group(node: ir.Node, facts: Facts) -> Reading:
    _check_stash(node)
    found = {
        "groups": int(attribute(node, "num_groups", 0)),
        "epsilon": attribute(node, "epsilon", _EPSILON),
    }
    return Reading((given(node, 0), given(node, 1), given(node, 2)), found)


def _write_group(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
    groups = {"num_groups": whole([parameters["groups"]])[0]}
    attributes = {**groups, **_attributes(inputs[0], parameters)}
    return Draft("GroupNormalization", inputs, attributes)


# (x, scale, bias), one of the latter two per channel.
GroupNormalization = define(
    Operator("GroupNormalization", ("groups", "epsilon")), _read_group, _write_group
)
