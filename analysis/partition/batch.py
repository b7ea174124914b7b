"""Whether the rows of a batch are computed each by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ..graph.dims import Dim, product
from ..graph.shape_facts import ShapeFacts
from ..literals import one_line
from ..ops.facts.cuts import ALL, Cut, Pieces
from ..ops.facts.index_functions import Count
from ..shapes.index_functions import Places
from ..shapes.one_batch import one_batch
from .regions import keeps_pieces, known_by_sizes, site_cuts


@dataclass(frozen=True)
class Place:
    """Where a value is cut: along `axis`, each of `pieces` that lie side by side.

    Elements that count what is cut do so from each part's own first: all of them, or
    those of component `counted` of the last axis.
    """

    axis: int
    pieces: Pieces = 1
    counted: int | None = None


Claim = tuple[tuple[Place | None, ...], tuple[Place | None, ...]]


class Rows:
    """Every input is cut along its first axis. Where every operator may be cut
    likewise, as OpDef.cut says, up to all outputs, parts of a batch give the parts of
    the results.

    `mixed` says why the network can't be given part of a batch, `joined` why the
    results of parts aren't put together along their first axes; "" if they are.
    `claims` have how inputs and outputs of each node are cut.
    """

    def __init__(self, model: ir.Model, shapes: ShapeFacts) -> None:
        graph = model.graph
        self._shapes, self._sizes = one_batch(model, shapes)
        self._elements = Places(self._shapes)
        self._places: dict[ir.Value, Place] = dict.fromkeys(graph.inputs, Place(0))
        self._lost: dict[ir.Value, ir.Node] = {}  # what may hang on several rows
        self.claims: dict[ir.Node, Claim] = {}
        self.mixed = self.joined = ""
        if not self._sizes:
            self.mixed = self.joined = "an input has no open size that comes first"
            return
        for node in graph:
            self._through(node)
        for value in graph.outputs:
            place, name = self._places.get(value), one_line(value.name or "?", 40)
            content = self._shapes.content(value)  # which may be numbers of rows
            counts = content is not None and self._hang(content.flat)
            if self.mixed:
                break
            if value in self._lost:
                node = self._lost[value]
                name = one_line(node.name or node.outputs[0].name or "?", 40)
                self.mixed = f"{node.op_type} {name} may take rows of a batch together"
            elif counts or (place and place != Place(place.axis)):
                self.mixed = f"{name} is no result for each row"
            elif place != Place(0):
                self.joined = f"{name} has no rows first"
        self.joined = self.mixed or self.joined

    def _through(self, node: ir.Node) -> None:
        """Note how a node's results are cut; those of which it isn't known are lost."""
        taken = [self._places.get(v) if v is not None else None for v in node.inputs]
        lost = [self._lost[v] for v in node.inputs if v is not None and v in self._lost]
        has_rows = any(map(self._has, node.outputs))
        if not has_rows and known_by_sizes(node, self._shapes):
            return
        if not has_rows and not lost and not any(taken):
            return
        claim = None if lost else self._claim(node, taken)
        if claim is None:
            self._lost |= dict.fromkeys(node.outputs, lost[0] if lost else node)
            return
        self.claims[node] = claim
        pairs = zip(node.outputs, claim[1], strict=True)
        self._places |= {value: place for value, place in pairs if place is not None}

    def _claim(self, node: ir.Node, taken: Sequence[Place | None]) -> Claim | None:
        pieces = {place.pieces for place in taken if place is not None} or {1}
        counted = tuple(None if p is None else p.counted for p in taken)
        held, *_ = pieces
        for law in site_cuts(node, self._shapes):
            axes = zip(taken, law.inputs, strict=False)
            if len(pieces) > 1 or any((p and p.axis) != axis for p, axis in axes):
                continue
            if not any(taken) and not self._has(node.outputs[0], law.outputs[0]):
                continue
            wanted = (*law.counted, *[None] * len(counted))[: len(counted)]
            made = law.made if law.pieces == held else held
            kept = law.pieces == held or keeps_pieces(node, law, self._shapes)
            if counted != wanted or not kept or not self._fit(node, law):
                continue
            places = [
                None if a is None else Place(a, made, law.gives) for a in law.outputs
            ]
            return tuple(taken), tuple(places)
        return self._numbered(node, taken)

    def _fit(self, node: ir.Node, law: Cut) -> bool:
        """Whether what is looked up has as many places for a row as are counted."""
        if law.gives is not None or not law.counted:
            return True
        counted, sizes = (*law.counted, *[None] * len(node.inputs)), set()
        for value, axis, place in zip(node.inputs, law.inputs, counted, strict=False):
            if value is not None and axis is not None:
                step: Dim = 1
                if place is not None:
                    step = self._elements.step(value, axis, place)
                sizes.add(product([(self._shapes.dims(value) or ())[axis], step]))
        return len(sizes) == 1

    def _numbered(self, node: ir.Node, taken: Sequence[Place | None]) -> Claim | None:
        """Of whole numbers that grow by one step from row to row."""
        value, found = node.outputs[0], self._elements.of(node.outputs[0])
        axes = [a for a in range(self._shapes.rank(value) or 0) if self._has(value, a)]
        if len(axes) * len(node.outputs) != 1 or not isinstance(found, Count):
            return None
        if self._hang((found.first, *found.steps)):
            return None
        return tuple(taken), (Place(axes[0], 1, ALL if found.steps[axes[0]] else None),)

    def _has(self, value: ir.Value, axis: int | None = None) -> bool:
        dims = self._shapes.dims(value) or ()
        return self._hang(dims if axis is None else dims[axis : axis + 1])

    def _hang(self, numbers: Iterable[Dim]) -> bool:
        return any(
            not isinstance(n, int) and not self._sizes.isdisjoint(n.free_symbols)
            for n in numbers
        )
