"""In which floating-point types outputs of a model are computed, beside their own."""

from __future__ import annotations

import onnx_ir as ir

from ...rewrites.adapters.cleanup import inlined
from ..load.random_outputs import inner_nodes
from .tolerances import tolerance

_SINGLE = ir.DataType.FLOAT
_NARROW = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16, _SINGLE})


def coarsest(model: ir.Model) -> dict[str, float]:
    """What each output may be off for the narrowest type on the way to it.

    A network in half precision that gives float32, as converters make it that keep the
    types of inputs and outputs, is no closer for that; nor is float64 of float32. 0 for
    an output of which nothing is computed in less than its own type.
    """
    model = inlined(model)
    allowed = dict[ir.Value | None, float](dict.fromkeys(model.graph.inputs, 0.0))
    dtypes: dict[ir.Value | None, ir.DataType | None] = {}
    for node in model.graph:
        whole = (*inner_nodes(node), node)
        read = [allowed[x] for each in whole for x in each.inputs if x in allowed]
        made = [value for each in whole for value in each.outputs]
        for value in made:
            dtypes[value] = _dtype(value, dtypes)
        if read:  # else it is a constant
            own = (tolerance(dtypes[v]) for v in made if dtypes[v] in _NARROW)
            allowed.update(dict.fromkeys(node.outputs, max(*read, *own, 0.0)))
    least = {v: tolerance(v.dtype) or tolerance(_SINGLE) for v in model.graph.outputs}
    found = {v: allowed.get(v, 0.0) for v in least}
    return {str(v.name): x if x > least[v] else 0.0 for v, x in found.items()}


def _dtype(
    value: ir.Value, known: dict[ir.Value | None, ir.DataType | None]
) -> ir.DataType | None:
    """As declared, or as the type of its operator's operands has it."""
    node = value.producer()
    if value.dtype is not None or node is None:
        return value.dtype
    if node.op_type == "Cast":
        return ir.DataType(node.attributes.get_int("to", ir.DataType.FLOAT))
    given = (known.get(x) or x.dtype for x in node.inputs if x is not None)
    return next((d for d in given if d is not None and d.is_floating_point()), None)
