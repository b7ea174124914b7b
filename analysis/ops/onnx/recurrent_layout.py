"""What stands around a recurrent node and can be the layer's own work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from ...graph.dims import Dim, same
from ..node_view import NodeView, constant


@dataclass(frozen=True)
class Surroundings:
    """The nodes that are one layer, its input, and what it gives: y, h and c.

    `layers` are recurrent nodes on top of each other; `absorbed` are those but the
    first and the nodes around them. `flat`: the directions stand side by side in the
    last axis of y, as PyTorch gives them.
    """

    layers: tuple[NodeView, ...]
    source: ir.Value
    outputs: tuple[ir.Value, ...]
    absorbed: tuple[ir.Node, ...] = ()
    flat: bool = False
    batch_first: bool = False


def surroundings(
    n: NodeView, directions: int, hidden: int, joins: Callable[[NodeView], bool]
) -> Surroundings:
    """Take in what exporters write around a layer to follow ONNX's order of axes.

    Squeeze, Reshape, or Transpose and Reshape, of Y [time, directions, batch, hidden]
    to [time, batch, directions * hidden]; further layers that `joins` allows, with the
    Concat of their states; a Transpose that puts the batch first, if one stands before
    the node too. Of one sequence, a Reshape may have done that as well.
    """
    plain = Surroundings((n,), n.value(0), tuple(n.node.outputs))
    if n.attr("layout", 0):
        return replace(plain, batch_first=True)
    layers, glue = [n], _flattening(n, directions, hidden)
    single = list(glue)
    while glue and (above := _above(n, glue[-1].outputs[0], joins)) is not None:
        layers.append(above)
        flat = _flattening(above, directions, hidden)
        if not flat:
            glue.append(above.node)
            break
        glue += [above.node, *flat]
    turned = _turning(layers[-1], directions, hidden)
    found = None
    if len(layers) > 1 and (turned or layers[-1].node is not glue[-1]):
        found = _with_states(n, layers, [*glue, *turned], bool(turned))
    if found is None and len(layers) == 1 and turned:
        found = _with_states(n, layers, turned, True)
    return found or (_with_states(n, [n], single) if single else None) or plain


def _above(
    n: NodeView, value: ir.Value, joins: Callable[[NodeView], bool]
) -> NodeView | None:
    """The node of the same kind that alone reads `value`, as its input."""
    user = n.only_reader(value)
    if user is None or user.op_type != n.node.op_type or user.inputs[0] is not value:
        return None
    above = NodeView(user, n.shapes)
    return above if joins(above) else None


def _with_states(
    n: NodeView, layers: list[NodeView], glue: list[ir.Node], turned: bool = False
) -> Surroundings | None:
    """The layers as one, or None where something reads a value too early.

    `turned`: the last of `glue` puts the batch first.
    """
    outputs, absorbed = [glue[-1].outputs[0]], list(glue)
    for j in range(1, max(len(layer.node.outputs) for layer in layers)):
        made = [layer.node.outputs[j] for layer in layers if j < layer.outputs]
        used = any(v.uses() or v.is_graph_output() for v in made)
        if len(layers) == 1 or not used:
            outputs.append(made[-1])
            continue
        concat = n.only_reader(made[0]) if len(made) == len(layers) else None
        if concat is None or concat.op_type != "Concat" or list(concat.inputs) != made:
            return None
        if concat.attributes["axis"].as_int() not in (0, -3):
            return None
        outputs.append(concat.outputs[0])
        absorbed.append(concat)
    found = Surroundings(
        tuple(layers), n.value(0), tuple(outputs), tuple(absorbed), flat=True
    )
    swapped = _batch_first(n, found, turned)
    choices = (swapped,) if turned else (swapped, found)
    return next((x for x in choices if x and _may_move(n, x)), None)


def _batch_first(n: NodeView, found: Surroundings, turned: bool) -> Surroundings | None:
    """The same with the Transposes before and behind, if both are there."""
    before, after = n.value(0).producer(), n.only_reader(found.outputs[0])
    if before is None or not _swaps(before):
        return None
    source = before.inputs[0]
    assert source is not None
    if turned:
        return replace(found, source=source, batch_first=True)
    if after is None or not _swaps(after):
        return None
    return replace(
        found,
        source=source,
        outputs=(after.outputs[0], *found.outputs[1:]),
        absorbed=(*found.absorbed, after),
        batch_first=True,
    )


def _flattening(n: NodeView, directions: int, hidden: int) -> list[ir.Node]:
    """The nodes from Y to [time, batch, directions * hidden]."""
    user = n.only_user(0)
    given = n.shapes.dims(n.value(0))
    if user is None or given is None:
        return []
    wanted = (*given[:2], directions * hidden)
    # One direction, or one sequence: the elements lie in that order already.
    if directions == 1 or same(given[1], 1):
        if user.op_type == "Squeeze" and directions == 1:
            axes = _ints(n, user, 1)
            return [user] if axes is not None and axes in ([1], [-3]) else []
        if user.op_type == "Reshape" and _has(n, user, wanted):
            return [user]
    if user.op_type != "Transpose" or _permutation(user) != [0, 2, 1, 3]:
        return []
    reshape = n.only_reader(user.outputs[0])
    if reshape is None or reshape.op_type != "Reshape":
        return []
    return [user, reshape] if _has(n, reshape, wanted) else []


def _turning(n: NodeView, directions: int, hidden: int) -> list[ir.Node]:
    """A Transpose and a Reshape of Y to [batch, time, directions * hidden]; of one
    sequence a Reshape alone, as the elements have that order already."""
    user, given = n.only_user(0), n.shapes.dims(n.value(0))
    if user is None or given is None:
        return []
    nodes: list[ir.Node] = []
    if user.op_type == "Transpose" and _permutation(user) == [2, 0, 1, 3]:
        nodes, user = [user], n.only_reader(user.outputs[0])
    elif not same(given[1], 1) or same(given[0], 1):
        return []
    wanted = (given[1], given[0], directions * hidden)
    fits = user is not None and user.op_type == "Reshape" and _has(n, user, wanted)
    return [*nodes, user] if user is not None and fits else []


def _has(n: NodeView, node: ir.Node, wanted: Sequence[Dim]) -> bool:
    dims = n.shapes.dims(node.outputs[0])
    return (
        dims is not None
        and len(dims) == len(wanted)
        and all(same(a, b) for a, b in zip(dims, wanted, strict=True))
    )


def _may_move(n: NodeView, found: Surroundings) -> bool:
    """Whether all that reads the outputs comes behind the last of the nodes."""
    order = {node: i for i, node in enumerate(n.node.graph or ())}
    users = [use.node for out in found.outputs for use in out.uses()]
    last = max(order[node] for node in found.absorbed)
    return all(order.get(user, -1) > last for user in users)


def _permutation(node: ir.Node) -> list[int] | None:
    perm = node.attributes.get("perm")
    return None if perm is None else list(perm.as_ints())


def _swaps(node: ir.Node) -> bool:
    """Whether the node exchanges time and batch."""
    return node.op_type == "Transpose" and _permutation(node) == [1, 0, 2]


def _ints(n: NodeView, node: ir.Node, i: int) -> list[int] | None:
    value = node.inputs[i] if i < len(node.inputs) else None
    array = None if value is None else constant(value, n.shapes)
    return None if array is None else [int(x) for x in array.flatten()]


def is_zero(value: ir.Value | None, depth: int = 8) -> bool:
    """Whether a tensor is zeros of some shape: a constant, or made from zeros."""
    if value is None or depth == 0:
        return False
    if value.const_value is not None:
        array = value.const_value.numpy()
        return array.size <= 2**20 and not np.any(array)
    node = value.producer()
    if node is None:
        return False
    if node.op_type == "ConstantOfShape":
        fill = node.attributes.get("value")
        return fill is None or not np.any(fill.as_tensor().numpy())
    if node.op_type == "Concat":
        return all(is_zero(v, depth - 1) for v in node.inputs)
    if node.op_type in _KEEPS_ZEROS:
        return is_zero(node.inputs[0], depth - 1)
    return False


_KEEPS_ZEROS = (
    *("Expand", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Slice", "Identity"),
    *("Cast", "Tile", "Gather", "Split"),
)


def whole_length(n: NodeView, i: int, time: int) -> bool:
    """Whether input i gives every sequence the full length, or is absent."""
    if not n.has(i):
        return True
    content, dims = n.shapes.content(n.value(i)), n.shapes.dims(n.value(0))
    if content is None or dims is None:
        return False
    return all(same(length, dims[time]) for length in content.flat)


def first_axis(order: Sequence[int], width: int) -> np.ndarray:
    """Row numbers that put blocks of `width` rows into another order."""
    return np.concatenate([np.arange(k * width, (k + 1) * width) for k in order])
