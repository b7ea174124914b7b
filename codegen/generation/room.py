"""Whether a decoder may see more places of its caches than are in use.

It may where a mask hides the others altogether, so that neither what stands there nor
how many there are changes a score. Attention has that law:

    Attention(q, Slice(k), Slice(v), m) = Attention(q, k, v, Pad(m, -inf))

but whether a network keeps to it hangs on all that it computes from lengths and from
the mask: so it is tried, on rows of two lengths; each has to have what it has alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from ...analysis.errors import VerificationError
from ...analysis.graph.traversal import bodies
from ..emit.session_file import kind_of
from ..ir.package_plan import InterfacePlan, TensorPlan
from ..verify.parity import run_package
from ..verify.tolerances import compare_values
from .decoder import PLACES, ROWS, Decoder
from .generate_files import BLOCK, Layout

# Lengths of a batch's rows, and how many tokens a step adds to them.
_STEPS = (((3, 70), 1), ((70,), 5), ((0,), 5))
_Arrays = dict[str, np.ndarray]


def find_layout(
    package: Path, decoder: Decoder, graph: ir.Graph, interface: InterfacePlan
) -> Layout:
    """What the package in a folder gives for both layouts beside a row alone; `graph`
    is what it was written from."""
    if any(bodies(node) for node in graph):
        return Layout(reason="it has branches or loops, which may hang on lengths")
    if not decoder.mask:
        return Layout(reason="it has no mask of places as an input")
    if any(kind_of(tensor.dtype) for tensor in interface.inputs):
        return Layout(reason="its inputs are not all of NumPy's types")
    if decoder.given or 0 < decoder.most < 2 * BLOCK or decoder.chunk:
        return Layout(reason="more can't be tried with its other inputs or sizes")
    cases = [_Case(decoder, interface.inputs, *step) for step in _STEPS]
    outputs = [tensor.name for tensor in interface.outputs]
    for room in ("before", "behind"):
        feeds = [feed for case in cases for feed in case.feeds(room)]
        try:
            found = iter(run_package(package, feeds, "eager"))
        except VerificationError:
            continue  # sizes that the network can't take
        errors = []
        for case in cases:
            alone = [dict(zip(outputs, next(found), strict=True)) for _ in case.lengths]
            shown = dict(zip(outputs, next(found), strict=True))
            errors += case.errors(room, alone, shown)
        if all(error is not None for error in errors):
            return Layout(room, max(e for e in errors if e is not None))
    return Layout(reason="with more, its scores differ")


class _Case:
    """One step of some rows: what each is fed alone, and what all are together."""

    def __init__(
        self,
        decoder: Decoder,
        inputs: Sequence[TensorPlan],
        lengths: Sequence[int],
        new: int,
    ) -> None:
        self.decoder, self.new = decoder, new
        self.lengths = lengths[-decoder.rows :] if decoder.rows else lengths
        self.types = {tensor.name: np.dtype(tensor.dtype) for tensor in inputs}
        draw = np.random.default_rng(0)
        self.ids = draw.integers(0, decoder.vocabulary, (len(self.lengths), new))
        self.rows = [
            {
                cache.input: draw.normal(size=_sizes(cache.shape, 1, length))
                for cache in decoder.caches
            }
            for length in self.lengths
        ]
        self.draw = draw

    def feeds(self, room: str) -> list[Mapping[str, Any]]:
        """Those of each row, and that of all."""
        alone = []
        for i, length in enumerate(self.lengths):
            places = length + (self.new if room == "behind" else 0)
            ones = np.ones((1, length + self.new))
            alone.append(self._feed([i], ones, self._padded([i], places, room)))
        seen = self._seen(room)
        lengths = np.array(self.lengths)[:, None]
        if room == "before":
            mask = np.arange(seen + self.new) >= seen - lengths
        else:
            mask = np.arange(seen) < lengths + self.new
        every = list(range(len(self.lengths)))
        return [*alone, self._feed(every, mask, self._padded(every, seen, room))]

    def _seen(self, room: str) -> int:
        most = max(self.lengths) + (self.new if room == "behind" else 0)
        return -(-most // BLOCK) * BLOCK

    def _padded(self, rows: Sequence[int], seen: int, room: str) -> _Arrays:
        """The caches of rows with so many places: those before hold anything, those
        behind zeros."""
        found = {}
        for cache in self.decoder.caches:
            parts = []
            for part in (self.rows[row][cache.input] for row in rows):
                if PLACES in cache.shape:
                    axis = cache.shape.index(PLACES)
                    sizes = _sizes(cache.shape, 1, seen - part.shape[axis])
                    both = [self.draw.normal(size=sizes), part]
                    if room == "behind":
                        both = [part, np.zeros(sizes)]
                    part = np.concatenate(both, axis)
                parts.append(part)
            found[cache.input] = np.concatenate(parts, cache.shape.index(ROWS))
        return found

    def _feed(
        self, rows: list[int], mask: np.ndarray, caches: Mapping[str, np.ndarray]
    ) -> _Arrays:
        lengths = np.array(self.lengths)[rows, None]
        known = {
            self.decoder.ids: self.ids[rows],
            self.decoder.mask: mask,
            self.decoder.positions: lengths + np.arange(self.new),
            **caches,
        }
        return {name: known[name].astype(dtype) for name, dtype in self.types.items()}

    def errors(
        self,
        room: str,
        alone: Sequence[Mapping[str, np.ndarray]],
        shown: Mapping[str, np.ndarray],
    ) -> list[float | None]:
        """How far scores and new places are off, row by row; None for too far."""
        found: list[float | None] = []
        for i, (length, own) in enumerate(zip(self.lengths, alone, strict=True)):
            pairs = [(shown[self.decoder.logits][i : i + 1], own[self.decoder.logits])]
            for cache in self.decoder.caches:
                rows = cache.shape.index(ROWS)
                theirs, mine = shown[cache.output].take([i], rows), own[cache.output]
                if PLACES in cache.shape:
                    axis, new = cache.shape.index(PLACES), np.arange(self.new)
                    first = self._seen(room) if room == "before" else length
                    if theirs.shape[axis] < first + self.new or (
                        mine.shape[axis] < length + self.new
                    ):
                        return [None]  # it has dropped some
                    theirs = theirs.take(first + new, axis)
                    mine = mine.take(length + new, axis)
                pairs.append((theirs, mine))
            for theirs, mine in pairs:
                distance, reason = compare_values(theirs, mine)
                found.append(None if reason else distance)
        return found


def _sizes(shape: Sequence[int | str], rows: int, places: int) -> tuple[int, ...]:
    return tuple(
        size if isinstance(size, int) else rows if size == ROWS else places
        for size in shape
    )
