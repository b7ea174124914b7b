"""Loops that count have a number of iterations, where TensorFlow gives a condition.

What an iteration hands on as it is comes from outside. If a loop goes on while a state
that counts from 0 is below such a value, that is how often it runs; both may be cast to
floats of 32 bits or more, the same up to 2**24, and to no type that holds less.
"""

from __future__ import annotations

import onnx_ir as ir

from ...analysis.graph.traversal import all_nodes, is_used
from .opset_adapters import TARGET_OPSET, AdapterSite, constant_array
from .unique_names import UniqueNames

_WHOLE = {ir.DataType.INT32, ir.DataType.INT64}
_WIDE = {ir.DataType.INT64, ir.DataType.FLOAT, ir.DataType.DOUBLE}  # hold what is cast
_Bound = ir.Value | int | None


def count_loops(model: ir.Model, names: UniqueNames) -> None:
    """Bring the loops of a model to that form."""
    for node in list(all_nodes(model.graph)):
        if node.op_type == "Loop" and not node.domain:
            body = node.attributes["body"].as_graph()
            for k, given in enumerate(body.inputs[2:]):
                outer = node.inputs[2 + k]
                if body.outputs[1 + k] is given and outer is not None:
                    outer.type = outer.type or given.type
                    _replace(given, outer)
            site = AdapterSite(node, TARGET_OPSET, model.graph, names)
            any(_counted(site, body, k) for k in range(len(body.inputs) - 2))


def _replace(value: ir.Value, other: ir.Value) -> None:
    for user, place in list(value.uses()):
        user.replace_input_with(place, other)


def _counted(site: AdapterSite, body: ir.Graph, k: int) -> bool:
    """Give a Loop the number of its iterations, if state `k` counts them."""
    node, number, (limit, first) = site.node, body.inputs[0], site.node.inputs[:2]
    given, after = body.inputs[2 + k], body.outputs[1 + k]
    below = _less(body.outputs[0])
    bound = next((bound for value, bound in below if value is after), None)
    add, trips = after.producer(), bound
    if add is None or add.op_type != "Add" or {*map(_bare, add.inputs)} != {given, 1}:
        return False
    ends = below - {(number, bound)} == {(after, bound)}  # the number is one behind
    begins = _bare(node.inputs[2 + k]) == 0 and _less(first) == {(0, bound)}
    if given.dtype not in _WHOLE | _WIDE:
        return False
    if not ends or not begins or (limit is not None and _bare(limit) != bound):
        return False
    if isinstance(bound, ir.Value):
        above = bound.producer()
        inside = bound in body.inputs or (above is not None and above.graph is body)
        if inside or bound.dtype not in _WHOLE:
            return False
        trips = site.before("Cast", [bound], "trips", to=ir.DataType.INT64.value)
    trips = site.ints("trips", trips) if isinstance(trips, int) else trips
    site.set_inputs([trips, None, *node.inputs[2:]])
    body.outputs[0] = body.inputs[1]
    if given.shape == number.shape and given.type and not is_used(node.outputs[k]):
        to = given.type.dtype.value
        _replace(given, site.inside(body[0]).before("Cast", [number], "number", to=to))
    return True


def _less(value: ir.Value | None) -> set[tuple[_Bound, _Bound]]:
    """The comparisons that a condition consists of; itself where it is no such."""
    node = None if value is None else value.producer()
    if node is not None and node.op_type == "And":
        return _less(node.inputs[0]) | _less(node.inputs[1])
    if node is not None and node.op_type == "Less":
        return {(_bare(node.inputs[0]), _bare(node.inputs[1]))}
    return {(value, None)}


def _bare(value: ir.Value | None) -> _Bound:
    """A whole number that was cast, or the number that a constant is."""
    node = None if value is None else value.producer()
    if node is not None and node.op_type == "Cast" and node.inputs[0] is not None:
        given, to = node.inputs[0], ir.DataType(node.attributes.get_int("to", 0))
        whole = given.dtype in _WHOLE and to in _WIDE | {given.dtype}
        return _bare(given) if whole else value
    array = constant_array(value)
    if array is None or array.size != 1 or array.dtype.kind not in "if":
        return value
    number = float(array.reshape(-1)[0])
    return int(number) if number.is_integer() and abs(number) < 2**24 else value
