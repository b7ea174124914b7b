"""Attention with less to take in: without a causal mask, and copies of keys and values.

For a mask that lets each position see itself and those before, exporters write minus
infinity above the diagonal, or the lowest number of the element type, which comes to
the same where scores are far from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from ...analysis.graph.dims import same
from ...analysis.ops.facts.index_functions import Count, Natural
from ..language.facts import Facts
from ..language.operators.read_write import Draft
from .attention import producer_of
from .movement_chains import MOST, MOVEMENTS, keeps_order
from .recognition import Recognition
from .regions import Neighbourhoods

STATEMENTS = {
    "attention_causal": "Attention(q, k, v, 0 up to the diagonal, minus infinity above)"
    " = causal Attention(q, k, v), for as many queries as keys",
    "attention_grouped": "Attention(q, repeat(k, g), repeat(v, g)) with g heads of "
    "queries per head of keys = Attention(q, k, v)",
}
_GIVEN = {"scale", "q_num_heads", "kv_num_heads"}


def causal(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """Attention with such a mask, stored or known at each place."""
    facts = around.facts
    inputs = [x for x in node.inputs if x is not None]
    if node.domain or len(inputs) != 4 or len(node.inputs) != 4:
        return
    sizes = [facts.dims(x) for x in inputs]
    q, k, _, wanted = sizes
    if not q or not k or not wanted or not node.attributes.keys() <= _GIVEN:
        return
    if not all(same(n, q[-2]) is True for n in (k[-2], *wanted[-2:])):
        return
    mask = inputs[3]
    if mask.dtype is None or not mask.dtype.is_floating_point():
        return
    lowest = mask.dtype.min
    if _is_causal(facts.array(mask), lowest) or _computes(mask, lowest, facts):
        given = {name: a.value for name, a in node.attributes.items()}
        drafts = (Draft("Attention", [*inputs[:3]], {**given, "is_causal": 1}),)
        why = f"{mask.name} is 0 up to the diagonal, and minus infinity above it"
        # Half of the scores aren't needed.
        yield Recognition("attention_causal", (node,), drafts, why, measure="flops")


def _is_causal(mask: np.ndarray | None, lowest: Any) -> bool:
    if mask is None or mask.ndim < 2:
        return False
    above = np.triu(np.ones(mask.shape[-2:], np.bool_), 1)
    if np.any(mask[..., ~above] != 0):
        return False
    return bool(np.all(mask[..., above] <= lowest))


def _computes(mask: ir.Value, lowest: Any, facts: Facts) -> bool:
    """Where(key <= query, 0, lowest), or the other way round."""
    node, dims = mask.producer(), facts.dims(mask)
    if node is None or node.op_type != "Where" or node.domain or dims is None:
        return False
    condition, seen, hidden = node.inputs
    found = facts.places.aligned(condition, dims)
    before = (0,) * (len(dims) - 2)
    if found == Natural(Count(-1, (*before, -1, 1))):
        seen, hidden = hidden, seen
    elif found != Natural(Count(0, (*before, 1, -1))):
        return False
    if seen is None or hidden is None:
        return False
    most = facts.uniform(hidden)
    return facts.uniform(seen) == 0 and most is not None and most <= lowest


def shared_heads(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """Attention whose keys and values are copied for several heads of queries each."""
    facts = around.facts
    if node.op_type != "Attention" or node.domain or len(node.inputs) < 3:
        return
    k, v = (_repeated(x, node, facts) for x in node.inputs[1:3])
    if k is None or v is None:
        return
    heads = [facts.dims(x[0]) for x in (k, v)]
    if heads[0] is None or heads[1] is None or heads[0][1] != heads[1][1]:
        return
    given = {name: a.value for name, a in node.attributes.items()}
    inputs = [node.inputs[0], k[0], v[0], *node.inputs[3:]]
    drafts = (Draft("Attention", [*inputs], given),)
    evidence = "keys and values are copied, head by head"
    yield Recognition("attention_grouped", (node, *k[1], *v[1]), drafts, evidence)


def _repeated(
    value: ir.Value | None, root: ir.Node, facts: Facts
) -> tuple[ir.Value, tuple[ir.Node, ...]] | None:
    """What is copied [b, h, t, d] -> [b, h, g, t, d] -> [b, h g, t, d], and by what."""
    row, x = list[ir.Node](), value
    while (node := producer_of(x, root, *MOVEMENTS)) is not None and len(row) < MOST:
        row.append(node)
        x = node.inputs[0]
    copies = producer_of(x, root, "Expand", "Tile")
    apart = None if copies is None else copies.inputs[0]
    first = producer_of(apart, root, "Unsqueeze", "Reshape")
    base = None if first is None else first.inputs[0]
    if not row or copies is None or first is None or base is None:
        return None
    sizes = [facts.dims(y) for y in (base, apart, copies.outputs[0], value) if y]
    if any(dims is None for dims in sizes):
        return None
    of, one, wide, whole = (dims for dims in sizes if dims is not None)
    if len(of) != 4 or len(wide) != 5 or len(whole) != 4:
        return None
    b, h, t, d = of
    together = (b, h * wide[2], t, d)
    if one != (b, h, 1, t, d) or wide != (b, h, wide[2], t, d) or whole != together:
        return None
    return (base, (*row, copies, first)) if keeps_order(row, facts) else None
