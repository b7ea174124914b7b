"""What a Squeeze of all ones leaves, where some sizes are open and may be one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, combinations

from ..errors import MALFORMED, FairhandError
from ..graph.dims import Dims, same
from ..graph.shape_facts import NodeFacts, PartialDims
from ..ops.facts.fitting_sizes import Fit, Relation

_OPEN, _READERS = 5, 40  # sizes that are tried, readers that are asked

ShapeRule = Callable[[NodeFacts], Sequence[PartialDims | None]]


def squeezed(
    site: NodeFacts, fits: Iterable[Fit], rule: ShapeRule
) -> list[PartialDims | None]:
    """The sizes, if there is one rank alone with which the model runs: what is required
    before says which sizes are 1, or each other rank is one that a reader can't take.
    """
    x = site.dims(0) or ()
    maybe = list(dict.fromkeys(d for d in x if same(d, 1) is None))
    if not maybe or len(maybe) > _OPEN:
        return []
    pairs = [{f.a, f.b} for f in fits if f.relation is Relation.EQUAL]
    ones = {d for pair in pairs if 1 in pair for d in pair}
    other = [p for p in pairs if any(isinstance(d, int) and d != 1 for d in p)]
    more = {d for pair in other for d in pair}
    found: list[Dims] = []
    for gone in chain(*(combinations(maybe, n) for n in range(len(maybe) + 1))):
        if ones.isdisjoint({*maybe} - {*gone}) and more.isdisjoint(gone):
            left = tuple(d for d in x if d != 1 and d not in gone)
            if _is_taken(site, left, rule):
                found.append(left)
    if len({len(left) for left in found}) != 1:
        return []
    columns = zip(*found, strict=True)
    return [[sizes[0] if len(set(sizes)) == 1 else None for sizes in columns]]


def _is_taken(site: NodeFacts, left: Dims, rule: ShapeRule) -> bool:
    """Whether no reader is known that can't run on these sizes, near or far."""
    shapes = site.shapes
    learnt = {site.node.outputs[0]: left}
    ask = list(learnt)
    try:
        while ask and len(learnt) < _READERS:
            value = ask.pop(0)
            shapes.learn_dims(value, learnt[value])
            for node in {use.node: 0 for use in value.uses()}:
                if node.graph is not site.node.graph:
                    continue  # it may not run
                dims = rule(NodeFacts(node, shapes))
                for out, sizes in zip(node.outputs, dims, strict=False):
                    plain = tuple(d for d in sizes or () if d is not None)
                    known = sizes is not None and len(plain) == len(sizes)
                    if known and out not in learnt and shapes.dims(out) is None:
                        learnt[out] = plain
                        ask.append(out)
    except (FairhandError, *MALFORMED):
        return False
    finally:
        for value in learnt:
            shapes.forget(value)
    return True
