"""Convolutions of integers in float64, of which ONNX Runtime has none."""

from __future__ import annotations

import onnx_ir as ir

_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)


def whole_convolutions(graph: ir.Graph) -> None:
    """ConvInteger where integers are convolved in float64, of which ONNX Runtime has no
    Conv, and become int32: what ConvInteger is spelled as where it is no layer."""
    for node in list(graph.all_nodes()):
        users = list(node.outputs[0].uses()) if node.op_type == "Conv" else []
        cast = users[0].node if len(users) == 1 else None
        if cast is None or cast.op_type != "Cast" or not _are_zeros(*node.inputs[2:]):
            continue
        pairs = [_integers(value) for value in node.inputs[:2]]
        if cast.outputs[0].dtype != ir.DataType.INT32 or None in pairs:
            continue
        (x, x_zero), (w, w_zero) = (pair for pair in pairs if pair is not None)
        made = ir.node("ConvInteger", [x, w, x_zero, w_zero], node.attributes)
        made.metadata_props.update(node.metadata_props)
        made.outputs[0].type, made.outputs[0].shape = cast.outputs[0].type, None
        made.outputs[0].name = cast.outputs[0].name
        cast.outputs[0].replace_all_uses_with(
            made.outputs[0], replace_graph_outputs=True
        )
        assert node.graph is not None
        node.graph.insert_before(node, made)
        node.graph.remove([cast, node], safe=True)


def _are_zeros(*biases: ir.Value | None) -> bool:
    """Whether nothing is added: the exporter spells what a layer hasn't."""
    for value in biases:
        while value is not None and (node := value.producer()) is not None:
            if node.op_type not in ("CastLike", "Expand"):
                break
            value = node.inputs[0]
        known = None if value is None else ir.convenience.get_const_tensor(value)
        if value is not None and (known is None or known.numpy().any()):
            return False
    return True


def _integers(value: ir.Value | None) -> tuple[ir.Value, ir.Value | None] | None:
    """Bytes, and the zero point if one is taken from them, of which a value is made."""
    node = value.producer() if value is not None else None
    if node is not None and node.op_type == "Sub":
        pairs = [_integers(each) for each in node.inputs]
        if None in pairs or pairs[0] is None or pairs[1] is None:
            return None
        (x, none), (zero, other) = pairs[0], pairs[1]
        fits = none is None and other is None and x.dtype == zero.dtype
        return (x, zero) if fits and zero.shape == ir.Shape([]) else None
    if node is None or node.op_type != "Cast" or node.inputs[0] is None:
        return None
    return (node.inputs[0], None) if node.inputs[0].dtype in _BYTES else None
