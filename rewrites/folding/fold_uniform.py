"""Results that are one number throughout, without computing them in full."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir as ir

from .island import Island, constant, infer, is_feedable, run
from .uniform_tensors import uniform, uniform_element

# Nodes that give the elements of their first input, moved or repeated.
MOVES = frozenset("Expand Flatten Identity Reshape Squeeze Transpose Unsqueeze".split())

# Above this many elements, one number throughout is kept as a view of that number.
_LARGEST_FILL = 1024


def is_fill(node: ir.Node) -> bool:
    """Whether a node makes a tensor of one number."""
    return node.op_type == "ConstantOfShape" and node.domain == ""


def uniform_result(island: Island) -> ir.TensorProtocol | None:
    """The result of the one node of `island`, if it is known to be uniform.

    ConstantOfShape always is; so is what only moves, repeats or casts such a tensor.
    None for every other node, and when the shape is not known or not possible.
    """
    (node,) = island.nodes
    element = _element(node, island)
    if element is None:
        return None
    name = node.outputs[0].name
    found = infer(island).get(name or "")
    if found is None or any(dim < 0 for dim in found[1]):
        return None
    dtype, shape = found
    if prod(shape) > _LARGEST_FILL:
        try:
            return uniform(element, dtype, shape, name)
        except ValueError:
            return None  # more elements than any array can have
    if not is_fill(node):
        return None  # an ordinary constant: it is computed with the others
    return ir.Tensor(np.full(shape, element), dtype, name=name)


def _element(node: ir.Node, island: Island) -> np.ndarray | None:
    """The number that a node's result consists of, as an array of one element."""
    source = node.inputs[0]
    if source is None:
        return None
    if is_fill(node):
        value = node.attributes.get("value")
        return np.zeros((), np.float32) if value is None else _only(value.as_tensor())
    given = constant(source)
    if node.op_type == "Expand" and given.size == 1 and is_feedable(source):
        return given.numpy().reshape(())
    if node.op_type in MOVES and node.domain == "":
        return uniform_element(given)
    element = uniform_element(given)
    if node.op_type != "Cast" or element is None or not is_feedable(source):
        return None
    results = run(island, {source.name or "": element.reshape(1)})
    return next(iter(results.values())) if results else None


def _only(tensor: ir.TensorProtocol) -> np.ndarray | None:
    return tensor.numpy().reshape(()) if tensor.size == 1 else None
