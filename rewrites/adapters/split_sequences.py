"""Parts of a tensor that an exporter takes by way of a sequence: torch.split, chunk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ...analysis.graph.traversal import all_nodes
from .opset_adapters import TARGET_OPSET, AdapterSite, constant_array
from .unique_names import UniqueNames


def slice_sequences(model: ir.Model, names: UniqueNames) -> None:
    """SequenceAt(SplitToSequence(x, sizes), i) = Slice(x), where sizes and i are known.

    What the sequence is needed for besides still reads it.
    """
    for node in list(all_nodes(model.graph)):
        if (node.domain, node.op_type) != ("", "SequenceAt") or node.inputs[0] is None:
            continue
        split = node.inputs[0].producer()
        bounds = _bounds(split, node.inputs[1]) if split is not None else None
        if split is None or bounds is None:
            continue
        site = AdapterSite(node, TARGET_OPSET, model.graph, names)
        numbers = (*bounds, split.attributes.get_int("axis", 0))
        words = ("start", "end", "axis")
        rows = [site.ints(w, [x]) for w, x in zip(words, numbers, strict=True)]
        site.become("Slice", [split.inputs[0], *rows])


def _bounds(split: ir.Node, position: ir.Value | None) -> tuple[int, int] | None:
    """Where a part begins and ends; the last of equal ones may end before."""
    if (split.domain, split.op_type) != ("", "SplitToSequence"):
        return None
    if len(split.inputs) < 2:  # into parts of one, whose axis may be gone
        return None
    sizes, at = constant_array(split.inputs[1]), constant_array(position)
    if sizes is None or at is None or at.size != 1:
        return None
    return _part(sizes.reshape(-1).tolist(), sizes.ndim == 0, int(at.reshape(-1)[0]))


def _part(sizes: Sequence[int], equal: bool, i: int) -> tuple[int, int] | None:
    if min(sizes, default=-1) < 0 or not (0 <= i < len(sizes) or (equal and i >= 0)):
        return None
    if equal:
        return i * sizes[0], (i + 1) * sizes[0]
    ends = np.cumsum(sizes)
    return int(ends[i]) - sizes[i], int(ends[i])
