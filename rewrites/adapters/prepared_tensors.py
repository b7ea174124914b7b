"""Names of parameters that torch's exporter stores as it prepared them for an operator.

A tensor that is indexed is turned so that the indexed axes come first, before anything
runs, and is called val_7 then, even where they do come first. The call that the node is
made of says which tensor it was: `aten.index.Tensor(args = (%p_experts_w1, [%rows]))`.
"""

from __future__ import annotations

import re

import onnx_ir as ir

from ...analysis.graph.parameters import has_name, note_kind
from ...analysis.graph.traversal import all_nodes
from ...analysis.literals import strings_in
from .provenance import SCOPES

_CALL = "pkg.torch.onnx.fx_node"
_ROWS = re.compile(r"aten\.index\.Tensor\]\(args = \(%([pb])_(\w+), \[%")
_KINDS = {"p": "PARAMETER", "b": "BUFFER"}


def name_prepared(model: ir.Model) -> None:
    """Give constants that are indexed from their first axis on the names they had."""
    taken = set(model.graph.initializers)
    for node in all_nodes(model.graph):
        value = node.inputs[0] if node.op_type in ("Gather", "GatherND") else None
        if value is None or not value.is_initializer() or has_name(value):
            continue
        call = _ROWS.search(node.metadata_props.get(_CALL, "")[:1000])
        module = "".join(strings_in(node.metadata_props.get(SCOPES))[-2:-1])
        start = f"{module}.".replace(".", "_")
        if call is None or not module or not call[2].startswith(start):
            continue
        name = f"{module}.{call[2].removeprefix(start)}"
        if name not in taken and re.fullmatch(r"[\w.]+", name):
            taken.add(name)
            value.name = name
            note_kind(value, _KINDS[call[1]])
