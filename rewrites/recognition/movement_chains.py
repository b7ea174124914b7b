"""Reshapes and transposes in a row, as the fewest that put each element there.

Each only takes axes apart, puts neighbours together or reorders them. So all elements
stand where a list of factors of the first tensor's axes says: in the order that the
result has them, under the axes it has. Sizes are polynomials, and a factor is only
split off where the product gives the size back; equal lists are equal tensors for all
sizes. Where nothing has moved, sizes alone say what the row does. The steps of the file
stay where no half of them goes, no transpose, and no axis that one moves, since they
say what its author thought of; and where one is needed elsewhere, unless nothing is
left of a row, but for axes that are added in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import onnx_ir as ir

from ...analysis.graph.dims import Dim, Dims, ones, product, quotient, same
from ..language.facts import Facts
from ..language.operators.read_write import WORDS, CannotWrite, Draft, Input, Output
from .recognition import Recognition
from .regions import Neighbourhoods

STATEMENT = "Reshapes and Transposes in a row = half as many that move the same"
_REGROUP = frozenset({"Reshape", "Flatten"})
MOVEMENTS = _REGROUP | {"Squeeze", "Unsqueeze", "Transpose"}
MOST = 8  # in a row


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
_Step = Dims | list[int]  # a shape, or a permutation


def movement_chains(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """What the movements that end at a node come to: nothing, or the longest row
    first."""
    if not _moves(node):
        return
    row, shared, branched = [node], MOST, MOST
    while len(row) < MOST:
        x = row[-1].inputs[0] if row[-1].inputs else None
        above = None if x is None else x.producer()
        if x is None or above is None or not _moves(above):
            break
        if above.graph is not node.graph:
            break
        read = [user for user, _ in x.uses() if user.op_type != "Shape"]  # not its size
        if len(read) > 1 or x.is_graph_output():
            adds = {user.op_type for user in (above, *read)} == {"Unsqueeze"}
            if adds and not x.is_graph_output():
                branched = min(branched, len(row))
            else:
                shared = min(shared, len(row))
        row.append(above)
    for count in (1, *range(len(row), 1, -1)):
        found = _shortest(row[:count], around.facts)
        if found is not None and (count <= shared or not found.drafts):
            yield found if count <= branched else replace(found, measure="order")


def with_rows_behind(nodes: Iterable[ir.Node]) -> list[ir.Node]:
    """These, and what the rows that begin with them end with."""
    found = dict.fromkeys(nodes)
    last = [*found]
    for _ in range(MOST):
        values = [y for node in last if _moves(node) for y in node.outputs]
        last = [user for y in values for user, _ in y.uses() if user not in found]
        found.update(dict.fromkeys(last))
    return [*found]


def keeps_order(row: Sequence[ir.Node], facts: Facts) -> bool:
    """Whether a row, its last step first, leaves all elements in their order."""
    x = row[-1].inputs[0]
    sizes = None if x is None else facts.dims(x)
    try:
        before, after = _followed(row, sizes or (), facts)
    except CannotWrite:
        return False
    flat = [[y for axis in axes or before for y in axis] for axes in (before, after)]
    return flat[0] == flat[1]


def _followed(
    row: Sequence[ir.Node], sizes: Dims, facts: Facts
) -> tuple[_Axes, _Axes | None]:
    """The axes in front of a row and behind it, its last step first; see `_through`."""
    before: _Axes = [[_Factor(n)] if n != 1 else [] for n in sizes]
    after: _Axes | None = before
    for node in reversed(row):
        after = _through(node, before, after, facts)
    return _leaves(before), after


def _moves(node: ir.Node) -> bool:
    if node.op_type not in MOVEMENTS or node.domain:
        return False
    # ONNX Runtime squeezes all axes of size 1 where none are listed.
    axes = node.inputs[1] if node.op_type == "Squeeze" and node.inputs[1:] else None
    return axes is None or axes.shape is None or axes.shape != (0,)


def _shortest(row: list[ir.Node], facts: Facts) -> Recognition | None:
    source, root = row[-1].inputs[0], row[0].outputs[0]
    sizes, wanted = (None if x is None else facts.dims(x) for x in (source, root))
    if source is None or sizes is None or wanted is None:
        return None
    try:
        axes, after = _followed(row, sizes, facts)
        if {node.op_type for node in row} == {"Transpose"}:
            steps = _turned(row, sizes, wanted)
        else:
            steps = _steps(axes, axes if after is None else after, sizes, wanted)
        plain = _REGROUP.isdisjoint(node.op_type for node in row)
        drafts = _written(source, steps, sizes, plain)
    except CannotWrite:
        return None
    turns = [len(s) for s in steps if isinstance(s, list)], _turns(row, facts)
    now, before = ((len(each), sum(each)) for each in turns)  # as many, of fewer axes
    fewer = len(drafts) < len(row) and now < before
    if len(drafts) > len(row) // 2 and not fewer:
        return None
    evidence = f"each element of {source.name} comes to the same place"
    return Recognition("movement_chain", tuple(row), tuple(drafts), evidence, source)


def _turns(row: Sequence[ir.Node], facts: Facts) -> list[int]:
    """Of how many axes a row changes the order, for each time that it does."""
    turned = [node.outputs[0] for node in row if node.op_type == "Transpose"]
    return [len(facts.dims(y) or ()) for y in turned]


def _leaves(axes: _Axes) -> _Axes:
    return [[leaf for x in axis for leaf in x.leaves()] for axis in axes]


def _through(
    node: ir.Node, before: _Axes, axes: _Axes | None, facts: Facts
) -> _Axes | None:
    """The axes of what a movement makes; None where all is in its first order, and
    sizes don't tell which factors are under which axis."""
    given = None if node.inputs[0] is None else facts.dims(node.inputs[0])
    made = facts.dims(node.outputs[0])
    if given is None or made is None:
        raise CannotWrite("sizes are not known")
    if node.op_type == "Transpose":
        order = permutation(node, len(given))
        if axes is not None:
            return [axes[k] for k in order]
        moved = [k for k in order if given[k] != 1]
        if moved != sorted(moved):
            raise CannotWrite("axes of which the factors are not known change places")
        return None
    flat = None if axes is None else [x for axis in _leaves(axes) for x in axis]
    found = None if flat is None else _regrouped(flat, made)
    if found is None and flat not in (None, [x for a in _leaves(before) for x in a]):
        raise CannotWrite("factors that were moved are joined otherwise")
    return found


def permutation(node: ir.Node, rank: int) -> list[int]:
    """The axes of what a Transpose is given, in their new order."""
    return list(node.attributes.get_ints("perm") or range(rank)[::-1])


def _turned(row: list[ir.Node], sizes: Dims, wanted: Dims) -> list[_Step]:
    """Transposes alone are one, whatever the sizes, unless it moves nothing."""
    order = list(range(len(sizes)))
    for node in reversed(row):
        order = [order[k] for k in permutation(node, len(sizes))]
    moved = [k for k in order if sizes[k] != 1]
    return [] if moved == sorted(moved) and sizes == wanted else [order]


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


def _steps(before: _Axes, after: _Axes, sizes: Dims, wanted: Dims) -> list[_Step]:
    """Shapes and permutations that lead from axes to others, in as few as there are."""
    steps: list[_Step] = []
    flat = [x for axis in after for x in axis]
    if flat != [x for axis in before for x in axis]:
        whole = _contiguous(before, flat) and not _taken_apart(before, after)
        blocks = before if whole else _by_order(before, after)
        moved = [block for block in blocks if block]  # axes of 1 go first, if all do
        blocks = moved if len(moved) == len(after) < len(blocks) else blocks
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
    source: ir.Value, steps: list[_Step], sizes: Dims, plain: bool
) -> list[Draft]:
    drafts: list[Draft] = []
    result: Input = source
    for step in steps:
        if isinstance(step, list):
            draft = WORDS["Transpose"].write([result], {"perm": step})
            sizes = tuple(sizes[k] for k in step)
        else:
            draft = _reshaped(result, step, sizes, plain)
            sizes = step
        drafts.append(draft)
        result = Output(draft)
    return drafts


def _reshaped(x: Input, shape: Dims, sizes: Dims, plain: bool) -> Draft:
    """Axes of 1 come or go by their places where the row has no more (`plain`), and
    where sizes are open."""
    places = {"Unsqueeze": ones(shape, sizes), "Squeeze": ones(sizes, shape)}
    by_place = ((word, axes) for word, axes in places.items() if axes is not None)
    word, axes = next(by_place, ("", None))
    if not (plain and word):
        try:
            return WORDS["Reshape"].write([x], {"shape": shape, "sizes": sizes})
        except CannotWrite:
            if not word:
                raise
    return WORDS[word].write([x], {"axes": axes})
