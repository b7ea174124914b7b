"""What one kernel computes: operators in order, what they read, what leaves the kernel.

A program is made for one place of one module. Equal places give equal kernels, since
nothing of a place but sizes and numbers that are passed as arguments differs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from ...analysis.dims import Dims, same
from ...analysis.ops.table import NodeView, lookup
from ...analysis.ops.triton import (
    TYPES,
    RowSpelling,
    pointwise,
    trailing_axes,
    whole_rows,
)
from ...analysis.ops.triton_moves import Moves, Piece, moved_axes, moves
from ...analysis.shapes import Shapes
from ...analysis.spell import Expr, Ref
from ..members import Switch
from ..steps import LayerRef, Step


class NoKernel(Exception):
    """Why there is no kernel for some operators; the reason is for the report."""


@dataclass(eq=False)
class Argument:
    """A tensor that the kernel loads; `expr` is what the module passes for it.

    `role` is "table" or "indices" in a lookup. The `dims` are then those of the row
    that is found: all of it, or one number for each.
    """

    value: ir.Value
    expr: Expr
    dims: Dims
    role: str = ""


@dataclass(frozen=True)
class Surroundings:
    """What a module's other statements say about the values of one.

    `made` are all that they compute, `sizes` whole numbers; `renamed` gives the value
    that stands for another where an optional layer is left out.
    """

    shapes: Shapes
    made: Collection[ir.Value] = ()
    sizes: Collection[ir.Value] = ()
    renamed: Mapping[ir.Value, ir.Value] = field(default_factory=dict)


Operand = ir.Value | np.generic | None


@dataclass(eq=False)
class Operation:
    """An operator inside the kernel."""

    view: NodeView
    operands: tuple[Operand, ...]
    results: tuple[ir.Value, ...]
    expr: Expr  # in PyTorch
    row: RowSpelling | None = None
    eps: float = 0.0
    pieces: dict[ir.Value, list[Piece]] = field(default_factory=dict)  # if it moves
    lookup: bool = False  # of rows of a table

    @property
    def result(self) -> ir.Value:
        """The only one, but for operators that divide a tensor."""
        return self.results[0]


@dataclass(eq=False)
class Program:
    """`axes` are those of a row, counted from the last; 0 for one element at a time.

    `moved` are the axes, counted from the end, along which elements are moved.
    """

    shapes: Shapes
    operations: list[Operation] = field(default_factory=list)
    arguments: dict[ir.Value, Argument] = field(default_factory=dict)
    results: list[ir.Value] = field(default_factory=list)
    space: Dims = ()
    axes: int = 0
    moved: set[int] = field(default_factory=set)

    def dims(self, value: ir.Value) -> Dims:
        found = self.arguments.get(value)
        known = self.shapes.dims(value) if found is None else found.dims
        if known is None:
            raise NoKernel("a shape whose rank is unknown")
        return known

    def patterns(self, dims: Dims) -> tuple[bool, ...]:
        """For each axis of the space, whether a tensor has it, or is broadcast."""
        if len(dims) > len(self.space):
            raise NoKernel("results of several shapes")
        padded = (1,) * (len(self.space) - len(dims)) + tuple(dims)
        found = []
        for i, (size, own) in enumerate(zip(self.space, padded, strict=True)):
            moved = i - len(self.space) in self.moved
            if own != 1 and not moved and not same(own, size):
                raise NoKernel("sizes that may or may not be broadcast")
            found.append(own != 1)
        return tuple(found)


def make_program(
    steps: Sequence[Step], read_outside: Collection[ir.Value], around: Surroundings
) -> Program:
    """Raises NoKernel."""
    program = Program(around.shapes)
    inside: set[ir.Value] = set()
    for step in steps:
        operation = _operation(step, program, inside, around)
        program.operations.append(operation)
        inside.update(operation.results)
        program.results += [r for r in operation.results if r in read_outside]
    if not program.arguments:
        raise NoKernel("no tensor is read")
    _settle_space(program)
    return program


def _operation(
    step: Step,
    program: Program,
    inside: set[ir.Value],
    around: Surroundings,
) -> Operation:
    node = step.node
    results = tuple(v for v in step.outputs if v is not None)
    if node is None or step.optional or len(results) != len(step.outputs):
        raise NoKernel("a statement that is no plain operator")
    view = NodeView(node, program.shapes)
    row, mover = whole_rows(node), moves(node)
    if mover is None and len(results) > 1:
        raise NoKernel(f"{node.op_type} with several results")
    looks_up = is_lookup(view)
    if not (row or mover or looks_up or pointwise(node)):
        raise NoKernel(f"{node.op_type} is a PyTorch call")
    reads = step.reads()
    if any(isinstance(v, Switch) or v in around.sizes for v in reads):
        raise NoKernel("it depends on a number of the module")
    weights = _weights(step)
    operands: list[Operand] = []
    for i, given in enumerate(node.inputs):
        extra = mover is not None and node.op_type != "Concat" and i > 0
        if given is None or extra or (row is not None and not row.keeps and i > 0):
            operands.append(None)
            continue
        value = _aliased(given, reads, weights, around)
        if value is None:
            number = view.const(i)
            if number is None or number.size != 1:
                raise NoKernel("an operand that can't be told apart")
            operands.append(number.reshape(-1)[0])
            continue
        if value not in inside or looks_up:
            expr = weights.get(value, Ref(value))
            argument = _argument(value, expr, program.shapes.dims(given))
            if looks_up:
                _give_role(argument, ("table", "indices")[i])
            same_one = program.arguments.setdefault(value, argument)
            if same_one.role != argument.role or value in inside:
                raise NoKernel("indices that are used otherwise too")
        operands.append(value)
    for used in (*operands, *results):
        if isinstance(used, ir.Value) and used.dtype not in TYPES:
            raise NoKernel("a type that kernels don't handle")
    eps = 0.0
    if row is not None and row.eps is not None:
        eps = float(str(view.attr("epsilon", np.float32(row.eps))))
    made = Operation(view, tuple(operands), results, step.expr, row, eps)
    made.lookup = looks_up
    if mover is not None:
        _note_moves(program, made, mover)
    return made


def is_lookup(view: NodeView) -> bool:
    """Whether an operator finds rows of a table, as nn.Embedding does."""
    if view.node.op_type != "Gather" or view.node.domain or view.attr("axis", 0) != 0:
        return False
    return view.rank(0) == 2 and view.rank(1) > 0


def _argument(value: ir.Value, expr: Expr, dims: Dims | None) -> Argument:
    if dims is None:
        raise NoKernel("a shape whose rank is unknown")
    return Argument(value, expr, dims)


def _give_role(argument: Argument, role: str) -> None:
    argument.role = role
    argument.dims = argument.dims[1:] if role == "table" else (*argument.dims, 1)


def _note_moves(program: Program, op: Operation, mover: Moves) -> None:
    rank = len(program.dims(op.result))
    if any(
        isinstance(o, ir.Value) and len(program.dims(o)) != rank for o in op.operands
    ):
        raise NoKernel("a move between tensors of different ranks")
    for value in op.results:
        op.pieces[value] = mover(op.view, value.index() or 0)
        program.moved |= {axis - rank for axis in moved_axes(op.pieces[value])}


def _weights(step: Step) -> dict[ir.Value, Expr]:
    """What the module calls the parameters of a layer; none of other layers."""
    form = step.form
    if form is None:
        return {}
    op = lookup(step.node) if step.node is not None else None
    whole = op is not None and op.torch is not None and not form.absorbs
    if not whole or any(w.how for w in form.weights.values()):
        raise NoKernel(f"{form.layer} is a PyTorch call")
    layer = LayerRef(form)
    return {w.value: getattr(layer, name) for name, w in form.weights.items()}


def _aliased(
    value: ir.Value,
    reads: Collection[ir.Value],
    weights: Mapping[ir.Value, Expr],
    around: Surroundings,
) -> ir.Value | None:
    """The value under the name that the statement reads it by; None for a number.

    What no statement computes is the same as what its only operand is.
    """
    while value not in reads and value not in weights:
        if value in around.renamed:
            value = around.renamed[value]
            continue
        producer = value.producer()
        if producer is None or value in around.made:
            return None
        computed = [
            v for v in producer.inputs if v is not None and v.const_value is None
        ]
        if len(computed) != 1 or len(producer.outputs) != 1:
            return None
        value = computed[0]
    return value


def _settle_space(program: Program) -> None:
    """The elements or rows that the kernel goes through, and what must hold of them."""
    rows = [op for op in program.operations if op.row is not None]
    lookups = [op for op in program.operations if op.lookup]
    if (rows or lookups) and program.moved:
        raise NoKernel("rows whose elements are moved")
    if lookups:
        program.axes = 1
        program.space = program.dims(program.results[0])
    if rows:
        first = rows[0].operands[0]
        assert isinstance(first, ir.Value)
        program.space = program.dims(first)
        for op in rows:
            _check_row(program, op)
    elif program.results and not lookups:
        program.space = program.dims(program.results[0])
    for op in program.operations:
        for operand in op.operands:
            if isinstance(operand, ir.Value):
                program.patterns(program.dims(operand))
    for result in program.results:
        dims = program.dims(result)
        whole = len(dims) == len(program.space) and all(map(same, dims, program.space))
        if not whole and not is_row_number(program, result):
            raise NoKernel("results of several shapes")


def _check_row(program: Program, op: Operation) -> None:
    axes = trailing_axes(op.view)
    first = op.operands[0]
    assert isinstance(first, ir.Value) and op.row is not None
    dims = program.dims(first)
    if axes is None or program.axes not in (0, axes):
        raise NoKernel("axes that are not the last ones, or not the same")
    program.axes = axes
    if len(dims) != len(program.space):
        raise NoKernel("rows of tensors of different ranks")
    row = program.space[-axes:]
    if all(d == 1 for d in row):
        raise NoKernel("rows of one element")
    if not all(same(a, b) for a, b in zip(dims[-axes:], row, strict=True)):
        raise NoKernel("rows of different sizes")
    for extra in op.operands[1:]:
        if isinstance(extra, ir.Value):
            own = program.dims(extra)
            if len(own) != axes or not all(map(same, own, row)):
                raise NoKernel("a weight that is broadcast along the row")
    if not op.row.keeps and not op.view.attr("keepdims", 1):
        readers = {o for other in program.operations for o in other.operands}
        if op.result in readers:
            raise NoKernel("a reduction that drops axes before others read it")


def is_row_number(program: Program, value: ir.Value) -> bool:
    """Whether a value is one number of each row."""
    dims, axes = program.dims(value), program.axes
    if not axes:
        return False
    rows = program.space[:-axes]
    kept = len(dims) == len(program.space) and all(d == 1 for d in dims[-axes:])
    own = dims[:-axes] if kept else dims
    return len(own) == len(rows) and all(
        same(a, b) for a, b in zip(own, rows, strict=True)
    )


def operands_of(op: Operation) -> list[Any]:
    """Without absent ones at the end."""
    found = list(op.operands)
    while found and found[-1] is None:
        found.pop()
    return found
