"""Kernel programs from assignments: what a kernel can hold, or why it can not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from ....analysis.graph.dims import Dims
from ....analysis.ops.module_form import ModuleForm
from ....analysis.ops.node_view import NodeView
from ....analysis.ops.registry import lookup
from ....analysis.ops.triton.elementwise import FLOATS, TYPES, pointwise
from ....analysis.ops.triton.index_maps import RESHAPES, Moves, moved_axes, moves
from ....analysis.ops.triton.rows import top_of, whole_rows
from ....analysis.spelling.expr import Expr, Ref
from ...ir.assignment import Assignment, LayerRef
from ...modules.members import ConstructorValue
from .attention_form import ROLES, Attention, attention_of, gathers, is_lookup
from .checks import settle_space
from .depthwise import Taps, taps_of
from .optional_operands import Switch, check_optional, switch_of
from .products import Found, extent, product_of
from .program import (
    Argument,
    KernelProgram,
    NoKernel,
    Operand,
    Operation,
    Surroundings,
    equal,
)


def make_program(
    steps: Sequence[Assignment],
    read_outside: Collection[ir.Value],
    around: Surroundings,
) -> KernelProgram:
    """What a kernel for these statements computes. Raises NoKernel where none can."""
    builder = _Builder(around)
    program = builder.program
    for step in steps:
        operation = builder.operation(step)
        program.operations.append(operation)
        builder.inside.update(operation.results)
        program.results += [r for r in operation.results if r in read_outside]
    if not program.arguments:
        raise NoKernel("no tensor is read")
    settle_space(program)
    check_optional(program)
    return program


class _Statement:
    """An assignment of one plain operator. Raises NoKernel for any other."""

    def __init__(self, step: Assignment, program: KernelProgram) -> None:
        results = tuple(v for v in step.outputs if v is not None)
        if step.node is None or step.optional or len(results) != len(step.outputs):
            raise NoKernel("a statement that is no plain operator")
        self.step, self.node, self.results = step, step.node, results
        self.reads, self.view = step.reads(), NodeView(step.node, program.shapes)

    def computing(self, *operands: Operand) -> Operation:
        """The operation that it is, on these operands."""
        return Operation(self.view, operands, self.results, self.step.expr)


class _Builder:
    """A program, statement by statement; `inside` are the values that it computes."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.program = KernelProgram(around.shapes)
        self.inside: set[ir.Value] = set()

    def operation(self, step: Assignment) -> Operation:
        """The operation of the next statement, whose arguments the program gets."""
        one = _Statement(step, self.program)
        if (switch := switch_of(step)) is not None:
            return self._switched(one, switch)
        if (product := product_of(step, one.view)) is not None:
            return self._product(one, product)
        if (attention := attention_of(one.view)) is not None:
            return self._attention(one, attention)
        if (convolution := taps_of(step, one.view)) is not None:
            return self._depthwise(one, *convolution)
        return self._plain(one)

    def _plain(self, one: _Statement) -> Operation:
        node, view = one.node, one.view
        row, mover, top = whole_rows(node), moves(node), top_of(view)
        if node.op_type == "TopK" and not top:
            raise NoKernel("TopK of rows whose size is known only at run time")
        if mover is None and not top and len(one.results) > 1:
            raise NoKernel(f"{node.op_type} with several results")
        looks_up, taken = is_lookup(view), gathers(view)
        if not (row or mover or looks_up or taken or pointwise(node)):
            by = "cuDNN's" if node.op_type == "Conv" else "a PyTorch call"
            raise NoKernel(f"{node.op_type} is {by}")
        sizes = self.around.sizes
        if any(isinstance(v, ConstructorValue) or v in sizes for v in one.reads):
            raise NoKernel("it depends on a number of the module")
        skipped = mover is not None and node.op_type != "Concat"
        skipped |= row is not None and not row.names
        operation = one.computing(*self._operands(one, skipped, looks_up))
        for used in (*operation.operands, *one.results):
            if isinstance(used, ir.Value) and used.dtype not in TYPES:
                raise NoKernel("a type that kernels don't handle")
        if row is not None:
            operation.row = row
            if row.eps is not None:
                eps = view.attr("epsilon", np.float32(row.eps))
                operation.eps = float(str(eps))
        operation.lookup, operation.gathers, operation.top = looks_up, taken, top
        if mover is not None:
            _note_moves(self.program, operation, mover)
        return operation

    def _operands(
        self, one: _Statement, first_alone: bool, looks_up: bool
    ) -> list[Operand]:
        """Tensors and numbers; what says how to move or reduce the first is none."""
        program, weights = self.program, _weights(one.step)
        operands: list[Operand] = []
        for i, given in enumerate(one.node.inputs):
            if given is None or (first_alone and i > 0):
                operands.append(None)
                continue
            value = self._aliased(given, one, weights)
            if value is None:
                number = one.view.const(i)
                if number is None or number.size != 1:
                    raise NoKernel("an operand that can't be told apart")
                operands.append(number.reshape(-1)[0])
                continue
            if value not in self.inside or looks_up:
                expr = weights.get(value, Ref(value))
                argument = _argument(value, expr, program.shapes.dims(given))
                if looks_up:
                    _give_role(argument, ("table", "indices")[i])
                same_one = program.arguments.setdefault(value, argument)
                if same_one.role != argument.role or value in self.inside:
                    raise NoKernel("indices that are used otherwise too")
            operands.append(value)
        return operands

    def _switched(self, one: _Statement, switch: Switch) -> Operation:
        """A sum that is left out where the other tensor is None."""
        program, kept, other = self.program, switch.kept, switch.other
        if other in self.inside or other in program.arguments:
            raise NoKernel("a tensor that may be left out, and is read otherwise too")
        if kept not in self.inside:
            self._read(kept, kept)
        dims, own = program.dims(kept), program.shapes.dims(other)
        if switch.flag.value and (own is None or not equal(own, dims)):
            raise NoKernel("a tensor that may be left out, and is broadcast")
        if not {kept.dtype, other.dtype} <= FLOATS:
            raise NoKernel("a type that kernels don't handle")
        argument = Argument(other, switch.expr(), dims, optional=True)
        program.arguments[other] = argument
        op = one.computing(*one.reads[:2])
        op.kept, op.left_out = kept, not switch.flag.value
        return op

    def _product(self, one: _Statement, found: Found) -> Operation:
        program = self.program
        product, given, factors, twin = found
        if program.product is not None:
            raise NoKernel("two products in one kernel")
        x = self._aliased(given, one)
        if x is None:
            raise NoKernel("an operand that can't be told apart")
        if x not in self.inside:
            self._read(x, given)
        operands = [x]
        for factor in factors:
            value = factor.value
            if one.step.form is None:
                value = self._aliased(value, one) or value
            if value in self.inside or value in program.arguments:
                raise NoKernel("a factor that is used otherwise too")
            argument = Argument(value, factor.expr, factor.dims, factor.role)
            program.arguments[value] = argument
            operands.append(value)
        op = one.computing(*operands)
        op.product, op.twin = product, twin
        op.absorbs = one.step.form.absorbs if one.step.form is not None else ()
        weight = next(f.dims for f in factors if f.role == "weight")
        sizes = extent(product, program.dims(x), weight, program.dims(op.result))
        if isinstance(sizes, str):
            raise NoKernel(sizes)
        program.extent = sizes
        return op

    def _depthwise(self, one: _Statement, taps: Taps, form: ModuleForm) -> Operation:
        program, layer = self.program, LayerRef(form)
        x = self._aliased(form.inputs[0], one)
        if x is None or x in self.inside or program.operations:
            raise NoKernel("a convolution of what the kernel computes")
        if any(isinstance(v, ConstructorValue) for v in one.reads):
            raise NoKernel("it depends on a number of the module")
        operands, dims = [x], program.dims(form.inputs[0])
        program.arguments[x] = _argument(x, Ref(x), dims)
        for name, weight in form.weights.items():
            each, expr = (dims[1], 1, 1), getattr(layer, name)
            program.arguments[weight.value] = Argument(weight.value, expr, each, name)
            operands.append(weight.value)
        if any(v.dtype not in FLOATS for v in operands):
            raise NoKernel("a type that kernels don't handle")
        op = one.computing(*operands)
        op.taps, op.twin = taps, taps.twin
        w = taps.windows
        program.options = [(layer.stride, w.stride), (layer.padding, w.begin)]
        program.moved |= {-1, -2}
        return op

    def _attention(self, one: _Statement, form: Attention) -> Operation:
        program = self.program
        operands: list[ir.Value] = []
        for role, given in zip(ROLES, one.node.inputs, strict=False):
            value = None if given is None else self._aliased(given, one)
            used = (*operands, *program.arguments)
            if given is None or value is None or value in used:
                raise NoKernel("attention on operands that can't be told apart")
            operands.append(value)
            if value in self.inside and role in ("q", "k"):
                continue
            if value in self.inside:
                raise NoKernel("values or a mask of attention that the kernel computes")
            if value.dtype not in TYPES:
                raise NoKernel("a type that kernels don't handle")
            self._read(value, given).role = role
        op = one.computing(*operands)
        op.attention = form
        return op

    def _read(self, value: ir.Value, given: ir.Value) -> Argument:
        """The argument for a value from outside, with the sizes that `given` has."""
        argument = _argument(value, Ref(value), self.program.shapes.dims(given))
        return self.program.arguments.setdefault(value, argument)

    def _aliased(
        self,
        value: ir.Value,
        one: _Statement,
        weights: Mapping[ir.Value, Expr] = MappingProxyType({}),
    ) -> ir.Value | None:
        """The value under the name that the statement reads it by; None for a number.

        What no statement computes is the same as what its only operand is.
        """
        around = self.around
        while value not in one.reads and value not in weights:
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


def _argument(value: ir.Value, expr: Expr, dims: Dims | None) -> Argument:
    if dims is None:
        raise NoKernel("a shape whose rank is unknown")
    return Argument(value, expr, dims)


def _give_role(argument: Argument, role: str) -> None:
    argument.role = role
    argument.dims = argument.dims[1:] if role == "table" else (*argument.dims, 1)


def _note_moves(program: KernelProgram, op: Operation, mover: Moves) -> None:
    rank = len(program.dims(op.result))
    free = op.view.node.op_type in ("Expand", *RESHAPES)
    if not free and any(
        isinstance(o, ir.Value) and len(program.dims(o)) != rank for o in op.operands
    ):
        raise NoKernel("a move between tensors of different ranks")
    for value in op.results:
        op.pieces[value] = mover.pieces(op.view, value.index() or 0)
        if op.reshapes:
            program.moved.add(-1)
            continue
        axes = {axis - rank for axis in moved_axes(op.pieces[value])}
        program.moved |= axes
        if op.view.node.op_type != "Transpose":
            program.fixed |= axes


def _weights(step: Assignment) -> dict[ir.Value, Expr]:
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
