"""What one kernel computes: operators in order, what they read, what leaves the kernel.

A program is made for one place of one module. Equal places give equal kernels, since
nothing of a place but sizes and numbers that are passed as arguments differs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from ....analysis.graph.dims import Dims, same
from ....analysis.graph.shape_facts import ShapeFacts
from ....analysis.ops.facts.index_maps import Piece
from ....analysis.ops.node_view import NodeView
from ....analysis.ops.triton.index_maps import RESHAPES
from ....analysis.ops.triton.rows import RowSpelling
from ....analysis.spelling.expr import Expr
from .attention_form import Attention
from .depthwise import Taps
from .products import Extent, Product

if TYPE_CHECKING:
    from .column_reductions import Columns


class NoKernel(Exception):
    """Why there is no kernel for some operators; the reason is for the report."""


@dataclass(eq=False)
class Argument:
    """A tensor that the kernel loads; `expr` is what the module passes for it.

    `role` is "table" or "indices" in a lookup. The `dims` are then those of the row
    that is found: all of it, or one number for each. In a product it is a factor's, in
    a convolution its weight or bias, with the `dims` of a number per channel.
    One that is `optional` may be None.
    """

    value: ir.Value
    expr: Expr
    dims: Dims
    role: str = ""
    optional: bool = False


@dataclass(frozen=True)
class Surroundings:
    """What a module's other statements say about the values of one.

    `made` are all that they compute, `sizes` whole numbers; `renamed` gives the value
    that stands for another where an optional layer is left out.
    """

    shapes: ShapeFacts
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
    gathers: bool = False  # elements, at places that another tensor says
    top: int = 0  # how many elements of a row it finds
    product: Product | None = None
    absorbs: tuple[ir.Node, ...] = ()  # whose work it does too
    attention: Attention | None = None
    taps: Taps | None = None
    twin: Callable[..., Expr] | None = None  # in PyTorch, where `expr` is a layer's
    kept: ir.Value | None = None  # what is handed on where the other operand is None
    left_out: bool = False  # as it is at this place

    @property
    def nodes(self) -> list[ir.Node]:
        """In the graph's order: weights are dequantised before, biases added after."""
        if self.left_out:
            return []
        before = [n for n in self.absorbs if n.op_type == "DequantizeLinear"]
        after = [n for n in self.absorbs if n.op_type != "DequantizeLinear"]
        return [*before, self.view.node, *after]

    @property
    def reshapes(self) -> bool:
        """Whether what it reads has other axes than its result."""
        whole = bool(self.pieces) and self.view.node.op_type in RESHAPES
        return whole or self.gathers

    @property
    def passes(self) -> int:
        """Further launches of PyTorch's, each over a tensor that a kernel never stores.

        Those are the floats of a packed weight, and scores of attention: PyTorch has no
        fused kernel for grouped queries in float32.
        """
        if self.attention is not None:
            wide = self.result.dtype == ir.DataType.FLOAT
            return 5 if self.attention.group > 1 and wide else 0
        return 0 if self.product is None else self.product.passes

    @property
    def result(self) -> ir.Value:
        """The only one, but for operators that divide a tensor."""
        return self.results[0]


VIEWS = frozenset({"Expand", "Split", "Transpose"})


def is_view(value: ir.Value) -> bool:
    """Whether PyTorch gives it as a view out of order, which a kernel has copied."""
    node = value.producer()
    if node is None or node.domain or node.op_type not in VIEWS:
        return False
    axis = node.attributes.get("axis")
    return node.op_type != "Split" or (axis is not None and axis.as_int() != 0)


@dataclass(eq=False)
class KernelProgram:
    """`axes` are those of a row, counted from the last; 0 for one element at a time.

    `moved` are the axes, counted from the end, along which elements are moved, `fixed`
    those where otherwise than by a Transpose, so that their sizes must be known.
    """

    shapes: ShapeFacts
    operations: list[Operation] = field(default_factory=list)
    arguments: dict[ir.Value, Argument] = field(default_factory=dict)
    results: list[ir.Value] = field(default_factory=list)
    space: Dims = ()
    axes: int = 0
    moved: set[int] = field(default_factory=set)
    fixed: set[int] = field(default_factory=set)
    extent: Extent | None = None  # of its product
    columns: Columns | None = None  # if it reduces others than the last axes
    groups: int = 0  # of channels, if it normalises those
    apart: set[ir.Value] = field(default_factory=set)  # has other axes: is reshaped
    # What else the module passes, and what it is.
    options: list[tuple[Expr, tuple[int, ...]]] = field(default_factory=list)

    @property
    def product(self) -> Operation | None:
        """The matrix product of the program, which has one at most."""
        return next((op for op in self.operations if op.product is not None), None)

    @property
    def attention(self) -> Attention | None:
        """The attention of the program, which comes last."""
        return next((op.attention for op in self.operations if op.attention), None)

    @property
    def given(self) -> list[ir.Value]:
        """What is read at this place: all but what is left out here."""
        kept = [o for op in self.operations if not op.left_out for o in op.operands]
        return [v for v, a in self.arguments.items() if not a.optional or v in kept]

    @property
    def indexed(self) -> bool:
        """Whether elements are found by their indices."""
        return any(op.pieces or op.taps or op.gathers for op in self.operations)

    @property
    def reshapes(self) -> bool:
        """Whether some tensor has other axes than the result."""
        return any(op.reshapes for op in self.operations)

    def top(self, result: ir.Value) -> int:
        """How many elements of each row a result has, if TopK finds it."""
        return next((op.top for op in self.operations if result in op.results), 0)

    def before_product(self) -> list[Operation]:
        """What computes the left factor."""
        product = self.product
        needed = set() if product is None else {product.operands[0]}
        found = []
        for op in reversed(self.operations):
            if op is not product and not needed.isdisjoint(op.results):
                found.append(op)
                needed.update(op.operands)
        return found[::-1]

    def before(self, value: ir.Value) -> KernelProgram:
        """The operators that compute what attention reads, with what they read."""
        needed, found = {value}, list[Operation]()
        for op in reversed(self.operations):
            if op.attention is None and not needed.isdisjoint(op.results):
                found.insert(0, op)
                needed.update(o for o in op.operands if isinstance(o, ir.Value))
        arguments = {v: a for v, a in self.arguments.items() if v in needed}
        made = KernelProgram(self.shapes, found, arguments, [value], self.dims(value))
        made.moved, made.fixed = self.moved, self.fixed
        return made

    def dims(self, value: ir.Value) -> Dims:
        """The shape of a value, as the kernel reads it; NoKernel if unknown."""
        found = self.arguments.get(value)
        known = self.shapes.dims(value) if found is None else found.dims
        if known is None:
            raise NoKernel("a shape whose rank is unknown")
        return known

    def has(self, argument: Argument) -> tuple[bool, ...]:
        """The patterns of an argument: none of the axes, if it has others."""
        if argument.value in self.apart:
            return (False,) * len(self.space)
        return self.patterns(argument.dims)

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


def equal(first: Dims, second: Dims) -> bool:
    """Whether two shapes are proven to be the same."""
    return len(first) == len(second) and all(map(same, first, second))


def is_row_number(program: KernelProgram, value: ir.Value) -> bool:
    """Whether a value is one number of each row."""
    dims, axes = program.dims(value), program.axes
    if not axes:
        return False
    rows = program.space[:-axes]
    kept = len(dims) == len(program.space) and all(d == 1 for d in dims[-axes:])
    own = dims[:-axes] if kept else dims
    return equal(own, rows)
