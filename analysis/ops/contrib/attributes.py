"""Attributes of operators for which ONNX has no schema to check them by."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ..node_view import NodeView


def check_attributes(
    n: NodeView,
    ints: str = "",
    floats: str = "",
    strings: str = "",
    needs: Sequence[int] = (0,),
) -> None:
    """Refuse a node with an attribute that isn't listed, or of another kind.

    `needs` are the inputs that must be there.
    """
    for i in needs:
        n.value(i)
    kinds = {
        **dict.fromkeys(ints.split(), ir.AttributeType.INT),
        **dict.fromkeys(floats.split(), ir.AttributeType.FLOAT),
        **dict.fromkeys(strings.split(), ir.AttributeType.STRING),
    }
    for name, attribute in n.node.attributes.items():
        if kinds.get(name) != attribute.type:
            n.refuse(f"{n.node.op_type} with the attribute {name[:40]!r} as it is here")
