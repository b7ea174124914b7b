"""Reductions along axes with others behind them or between them.

Where others lie behind them, they are columns in memory, else rows. Transposes around
them are not computed: they only say in which order a tensor has the axes. The space is
that of the first tensor that has them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from ....analysis.graph.dims import Dims, same
from ....analysis.ops.triton.rows import reduced_axes
from .program import KernelProgram, NoKernel, Operation, equal

# For each axis of a value the axis of the space that it is.
Order = tuple[int, ...]
OUTER, REDUCED, INNER = range(3)


@dataclass(frozen=True)
class Columns:
    """`absent` are axes of one element that the kernel takes no notice of.

    `apart` tells whether axes that are not reduced lie between those that are.
    """

    space: Dims
    orders: dict[ir.Value, Order]
    reduced: frozenset[int]
    absent: frozenset[int]
    apart: bool

    @property
    def axes(self) -> list[int]:
        """The axes of the space that some tensor has, in order."""
        return [a for a in range(len(self.space)) if a not in self.absent]

    @property
    def inner(self) -> bool:
        """Whether axes that are not reduced lie behind those that are."""
        return self.axes[-1] not in self.reduced

    def kind(self, axis: int) -> int:
        """OUTER, REDUCED or INNER: before, among or behind what is reduced."""
        if axis in self.reduced:
            return REDUCED
        return INNER if axis > max(self.reduced) else OUTER

    def of(self, value: ir.Value, dims: Dims) -> list[int]:
        """The axes that a tensor has, in its own order.

        Axes of one element count where all others are there: a tensor of the same
        shape that is given more at run time has them.
        """
        pairs = list(zip(self.orders[value], dims, strict=True))
        known = {a for a, d in pairs if d != 1 or self.space[a] == 1}
        full = known.issuperset(a for a in self.axes if a not in self.reduced)
        deep = any(d != 1 for a, d in pairs if a in self.reduced)
        found = []
        for axis, size in pairs:
            one = self.space[axis] == 1 and axis not in self.absent
            if size != 1 or (one and full and (deep or axis not in self.reduced)):
                found.append(axis)
        return found


def is_transpose(op: Operation) -> bool:
    """Whether an operation moves axes alone."""
    return op.view.node.op_type == "Transpose"


def settle_columns(program: KernelProgram) -> None:
    """Find the axes of all values and what is reduced of them; raises NoKernel."""
    rows = [op for op in program.operations if op.row is not None]
    if any(op.pieces and not is_transpose(op) for op in program.operations):
        raise NoKernel("rows whose elements are moved")
    if any(op.top for op in program.operations):
        raise NoKernel("the largest elements of columns")
    if any(op.lookup for op in program.operations):
        raise NoKernel("rows of tables beside columns")
    orders = _orders(program, rows[0])
    x = program.dims(rows[0].operands[0])  # type: ignore[arg-type]
    whole = (
        a
        for a in program.arguments
        if equal(program.dims(a), tuple(x[i] for i in orders[a]))
        and len(orders[a]) == len(x)
    )
    first = next(whole, None)
    if first is None:
        raise NoKernel("columns of a tensor that nothing holds")
    back = {axis: place for place, axis in enumerate(orders[first])}
    orders = {v: tuple(back[a] for a in order) for v, order in orders.items()}
    program.space = program.dims(first)
    reduced = {frozenset(_reduced(op, orders)) for op in rows}
    if len(reduced) > 1:
        raise NoKernel("axes that are not the same in all reductions")
    program.columns = columns = _columns(program.space, orders, reduced.pop())
    program.moved = set()
    for value, order in orders.items():
        dims = program.dims(value)
        for axis, size in zip(order, dims, strict=True):
            if size != 1 and not same(size, program.space[axis]):
                raise NoKernel("sizes that may or may not be broadcast")
    for op in rows:
        _check(program, columns, op)
    for result in program.results:
        own = columns.of(result, program.dims(result))
        missing = {a for a in columns.axes if program.space[a] != 1}.difference(own)
        if missing and missing != {a for a in columns.reduced if program.space[a] != 1}:
            raise NoKernel("results of several shapes")


def _columns(
    space: Dims, orders: dict[ir.Value, Order], reduced: frozenset[int]
) -> Columns:
    """With axes of one element where they are of no account."""
    one = {a for a, size in enumerate(space) if size == 1}
    deep = reduced - one
    if not deep:
        raise NoKernel("columns of one element")
    between = range(min(deep), max(deep) + 1)
    apart = not deep | one >= set(between)
    behind = set(range(max(deep) + 1, len(space)))
    absent = {a for a in one if (a in between) != (a in reduced)}
    absent |= behind if behind <= one else set()
    absent = one if apart else absent
    return Columns(space, orders, reduced - absent, frozenset(absent), apart)


def _check(program: KernelProgram, columns: Columns, op: Operation) -> None:
    """What is reduced has to have all of the axes, and weights those of a row."""
    x, *weights = (o for o in op.operands if isinstance(o, ir.Value))
    dims = program.dims(x)
    own = zip(columns.orders[x], dims, strict=True)
    for axis, size in own:
        if axis in columns.reduced and not same(size, columns.space[axis]):
            raise NoKernel("rows of different sizes")
    row = dims[-len(reduced_axes(op.view) or ()) :]
    if any(not equal(program.dims(w), row) for w in weights):
        raise NoKernel("a weight that is broadcast along the row")


def _reduced(op: Operation, orders: dict[ir.Value, Order]) -> Iterator[int]:
    x = op.operands[0]
    assert isinstance(x, ir.Value)
    axes = reduced_axes(op.view)
    if axes is None:
        raise NoKernel("axes that are known only at run time")
    for axis in axes:
        yield orders[x][axis]


def _orders(program: KernelProgram, row: Operation) -> dict[ir.Value, Order]:
    """Passed on between what operators read and make, until all are known."""
    x = row.operands[0]
    assert isinstance(x, ir.Value)
    orders: dict[ir.Value, Order] = {x: tuple(range(len(program.dims(x))))}
    wanted = {r for op in program.operations for r in op.results}
    wanted |= set(program.arguments)
    while wanted - orders.keys():
        before = len(orders)
        for op in program.operations:
            for value, order in _passed(program, op, orders):
                if orders.setdefault(value, order) != order:
                    raise NoKernel("a tensor that is read in two orders of its axes")
        if len(orders) == before:
            raise NoKernel("axes that nothing tells apart")
    return orders


def _passed(
    program: KernelProgram, op: Operation, orders: dict[ir.Value, Order]
) -> list[tuple[ir.Value, Order]]:
    operands = [o for o in op.operands if isinstance(o, ir.Value)]
    if is_transpose(op):
        rank = len(program.dims(op.result))
        chosen = op.view.attr("perm") or list(range(rank))[::-1]
        if operands[0] in orders:
            order = orders[operands[0]]
            return [(op.result, tuple(order[int(p)] for p in chosen))]
        if op.result in orders:
            given = dict(zip(map(int, chosen), orders[op.result], strict=True))
            return [(operands[0], tuple(given[i] for i in range(rank)))]
        return []
    found = []
    rank = len(program.dims(operands[0])) if op.row else len(program.dims(op.result))
    known = [o for o in operands if o in orders and len(orders[o]) == rank]
    if op.row is None and op.result in orders:
        known.append(op.result)
    if not known:
        return []
    order = orders[known[0]]
    if op.row is not None and not op.row.keeps and not op.view.attr("keepdims", 1):
        gone = reduced_axes(op.view) or []
        made = tuple(a for i, a in enumerate(order) if i not in gone)
        return [(operands[0], order), (op.result, made)]
    for value in (*operands, op.result):
        size = len(program.dims(value))
        if size > rank:
            raise NoKernel("results of several shapes")
        found.append((value, order[rank - size :]))
    return found
