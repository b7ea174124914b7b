"""Reshapes and transposes in a row, as the fewest that put each element there.

Each only takes axes apart, puts neighbours together or reorders them. So all elements
stand where a list of factors of the first tensor's axes says: in the order that the
result has them, under the axes it has. Sizes are polynomials, and a factor is only
split off where the product gives the size back; equal lists are equal tensors for all
sizes. The steps of the file stay where no half of them goes, since they say what its
author thought of, and where one is needed elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import onnx_ir as ir

from ...analysis.graph.dims import Dim, Dims, ones, product, quotient, same
from ..language.facts import Facts
from ..language.operators.read_write import WORDS, CannotWrite, Draft, Input, Output

STATEMENT = "Reshapes and Transposes in a row = half as many that move the same"
_REGROUP = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
MOVEMENTS = _REGROUP | {"Transpose"}
_MOST = 8  # in a row


@dataclass(frozen=True)
class Moved:
    """A row of movements of `source`, and what does the same."""

    source: ir.Value
    nodes: tuple[ir.Node, ...]
    drafts: tuple[Draft, ...]
    result: Input


@dataclass(eq=False)
class _Factor:
    """Of the size of an axis; once it is split, the product of two others."""

    size: Dim
    split: tuple[_Factor, _Factor] | None = None

    def leaves(self) -> Iterator[_Factor]:
        if self.split is None:
            yield self
        else:
            for part in self.split:
                yield from part.leaves()


_Axes = list[list[_Factor]]  # outermost first


def movement_chains(node: ir.Node, facts: Facts) -> Iterator[Moved]:
    """What the movements that end at a node come to, the longest row first."""
    row = [node]
    while len(row) < _MOST:
        x = row[-1].inputs[0] if row[-1].inputs else None
        above = None if x is None else x.producer()
        if x is None or above is None or not _moves(above) or len(x.uses()) > 1:
            break
        if x.is_graph_output() or above.graph is not node.graph:
            break
        row.append(above)
    if not _moves(node):
        return
    for count in range(len(row), 1, -1):
        found = _shortest(row[:count], facts)
        if found is not None:
            yield found


def _moves(node: ir.Node) -> bool:
    return node.op_type in MOVEMENTS and not node.domain


def _shortest(row: list[ir.Node], facts: Facts) -> Moved | None:
    source, root = row[-1].inputs[0], row[0].outputs[0]
    sizes, wanted = (None if x is None else facts.dims(x) for x in (source, root))
    if source is None or sizes is None or wanted is None:
        return None
    before: _Axes = [[_Factor(n)] if n != 1 else [] for n in sizes]
    after: _Axes | None = before
    for node in reversed(row):
        after = None if after is None else _through(node, after, facts)
    if after is None:
        return None
    axes = [[leaf for x in axis for leaf in x.leaves()] for axis in before]
    try:
        steps = _steps(axes, after, sizes, wanted)
        drafts, result = _written(source, steps, sizes)
    except CannotWrite:
        return None
    if len(drafts) > len(row) // 2:
        return None
    return Moved(source, tuple(row), tuple(drafts), result)


def _through(node: ir.Node, axes: _Axes, facts: Facts) -> _Axes | None:
    """The axes of what a movement makes; None where sizes don't tell."""
    if node.op_type == "Transpose":
        perm = node.attributes.get("perm")
        order = range(len(axes))[::-1] if perm is None else perm.as_ints()
        return [axes[k] for k in order]
    dims = facts.dims(node.outputs[0])
    return None if dims is None else _regrouped([x for a in axes for x in a], dims)


def _regrouped(factors: list[_Factor], dims: Dims) -> _Axes | None:
    """The factors under axes of these sizes, in the same order."""
    left = factors[::-1]
    found: _Axes = []
    for size in dims:
        axis: list[_Factor] = []
        while same(size, 1) is not True:
            if not left:
                return None
            factor = left.pop()
            rest = _divided(size, factor.size)
            if rest is None:
                other = _divided(factor.size, size)
                if other is None:
                    return None
                factor.split = _Factor(size), _Factor(other)
                factor, inner = factor.split
                left.append(inner)
                rest = 1
            axis.append(factor)
            size = rest
        found.append(axis)
    return None if left else found


def _divided(a: Dim, b: Dim) -> Dim | None:
    """The whole number that b must be multiplied by to give a, if that is shown."""
    found = 1 if same(a, b) is True else quotient([a], [b])
    return found if found is not None and same(product([found, b]), a) else None


def _steps(
    before: _Axes, after: _Axes, sizes: Dims, wanted: Dims
) -> list[Dims | list[int]]:
    """Shapes and permutations that lead from axes to others, in as few as there are."""
    steps: list[Dims | list[int]] = []
    flat = [x for axis in after for x in axis]
    if flat != [x for axis in before for x in axis]:
        whole = _contiguous(before, flat) and not _taken_apart(before, after)
        blocks = before if whole else _by_order(before, after)
        if blocks is not before:
            sizes = tuple(product(x.size for x in block) for block in blocks)
            steps.append(sizes)
        perm = _order(blocks, after)
        steps.append(perm)
        sizes = tuple(sizes[k] for k in perm)
    if len(sizes) != len(wanted) or any(
        same(a, b) is not True for a, b in zip(sizes, wanted, strict=True)
    ):
        steps.append(wanted)
    return steps


def _contiguous(blocks: _Axes, flat: list[_Factor]) -> bool:
    """Whether the factors of each stand together."""
    places = {x: k for k, x in enumerate(flat)}
    return all(
        places[b] == places[a] + 1 for block in blocks for a, b in pairwise(block)
    )


def _taken_apart(before: _Axes, after: _Axes) -> bool:
    """Whether axes are split and none put together: done first, as view and permute."""
    under = {x: k for k, axis in enumerate(after) for x in axis}
    split = any(len({under[x] for x in axis}) > 1 for axis in before)
    return split and _contiguous(after, [x for axis in before for x in axis])


def _by_order(before: _Axes, after: _Axes) -> _Axes:
    """Blocks in the order of `before` that are moved whole: the axes of `after`, if
    their factors stand together there, else as many factors as stay neighbours."""
    flat = [x for axis in before for x in axis]
    places = {x: k for k, x in enumerate(flat)}
    blocks = after
    if not _contiguous(after, flat):
        blocks = []
        for x in (x for axis in after for x in axis):
            if blocks and places[x] == places[blocks[-1][-1]] + 1:
                blocks[-1].append(x)
            else:
                blocks.append([x])
    return sorted(blocks, key=lambda block: places[block[0]] if block else -1)


def _order(blocks: _Axes, after: _Axes) -> list[int]:
    """The permutation that brings blocks to their places; empty ones fill the rest."""
    places = {axis[0]: k for k, axis in enumerate(blocks) if axis}
    empty = [k for k, axis in enumerate(blocks) if not axis]
    order: list[int] = []
    for axis in after:
        if not axis:
            order += empty[:1]
            empty = empty[1:]
        order += [places[x] for x in axis if x in places]
    return [*order, *empty]


def _written(
    source: ir.Value, steps: list[Dims | list[int]], sizes: Dims
) -> tuple[list[Draft], Input]:
    drafts: list[Draft] = []
    result: Input = source
    for step in steps:
        if isinstance(step, list):
            draft = WORDS["Transpose"].write([result], {"perm": step})
            sizes = tuple(sizes[k] for k in step)
        else:
            draft = _reshaped(result, step, sizes)
            sizes = step
        drafts.append(draft)
        result = Output(draft)
    return drafts, result


def _reshaped(x: Input, shape: Dims, sizes: Dims) -> Draft:
    """Where sizes are open, axes of 1 may still come or go by their places."""
    try:
        return WORDS["Reshape"].write([x], {"shape": shape, "sizes": sizes})
    except CannotWrite:
        added, gone = ones(shape, sizes), ones(sizes, shape)
        if added is None and gone is None:
            raise
    word = "Squeeze" if added is None else "Unsqueeze"
    return WORDS[word].write([x], {"axes": gone if added is None else added})
