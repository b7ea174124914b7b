"""Kernel programs from assignments: what a kernel can hold, or why it can not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

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
from .products import extent, product_of
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
    """Raises NoKernel."""
    program = KernelProgram(around.shapes)
    inside: set[ir.Value] = set()
    for step in steps:
        operation = _operation(step, program, inside, around)
        program.operations.append(operation)
        inside.update(operation.results)
        program.results += [r for r in operation.results if r in read_outside]
    if not program.arguments:
        raise NoKernel("no tensor is read")
    settle_space(program)
    check_optional(program)
    return program


def _operation(
    step: Assignment,
    program: KernelProgram,
    inside: set[ir.Value],
    around: Surroundings,
) -> Operation:
    node = step.node
    results = tuple(v for v in step.outputs if v is not None)
    if node is None or step.optional or len(results) != len(step.outputs):
        raise NoKernel("a statement that is no plain operator")
    view = NodeView(node, program.shapes)
    switch = switch_of(step)
    if switch is not None:
        return _switched(step, view, results, program, inside, switch)
    product = _product(step, view, results, program, inside, around)
    if product is not None:
        return product
    attention = attention_of(view)
    if attention is not None:
        return _attention(step, view, results, program, inside, around, attention)
    convolution = taps_of(step, view)
    if convolution is not None:
        return _depthwise(step, view, results, program, inside, around, *convolution)
    row, mover, top = whole_rows(node), moves(node), top_of(view)
    if node.op_type == "TopK" and not top:
        raise NoKernel("TopK of rows whose size is known only at run time")
    if mover is None and not top and len(results) > 1:
        raise NoKernel(f"{node.op_type} with several results")
    looks_up, taken = is_lookup(view), gathers(view)
    if not (row or mover or looks_up or taken or pointwise(node)):
        by = "cuDNN's" if node.op_type == "Conv" else "a PyTorch call"
        raise NoKernel(f"{node.op_type} is {by}")
    reads = step.reads()
    if any(isinstance(v, ConstructorValue) or v in around.sizes for v in reads):
        raise NoKernel("it depends on a number of the module")
    skipped = mover is not None and node.op_type != "Concat"
    skipped |= row is not None and not row.names
    operands = _operands(step, program, inside, around, skipped, looks_up)
    for used in (*operands, *results):
        if isinstance(used, ir.Value) and used.dtype not in TYPES:
            raise NoKernel("a type that kernels don't handle")
    eps = 0.0
    if row is not None and row.eps is not None:
        eps = float(str(view.attr("epsilon", np.float32(row.eps))))
    made = Operation(view, tuple(operands), results, step.expr, row, eps)
    made.lookup, made.gathers, made.top = looks_up, taken, top
    if mover is not None:
        _note_moves(program, made, mover)
    return made


def _operands(
    step: Assignment,
    program: KernelProgram,
    inside: Collection[ir.Value],
    around: Surroundings,
    first_alone: bool,
    looks_up: bool,
) -> list[Operand]:
    """Tensors and numbers; what says how to move or reduce the first is no operand."""
    assert step.node is not None
    reads, weights = step.reads(), _weights(step)
    view = NodeView(step.node, program.shapes)
    operands: list[Operand] = []
    for i, given in enumerate(step.node.inputs):
        if given is None or (first_alone and i > 0):
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
    return operands


def _switched(
    step: Assignment,
    view: NodeView,
    results: tuple[ir.Value, ...],
    program: KernelProgram,
    inside: Collection[ir.Value],
    switch: Switch,
) -> Operation:
    """A sum that is left out where the other tensor is None."""
    kept, other = switch.kept, switch.other
    if other in inside or other in program.arguments:
        raise NoKernel("a tensor that may be left out, and is read otherwise too")
    if kept not in inside:
        made = _argument(kept, Ref(kept), program.shapes.dims(kept))
        program.arguments.setdefault(kept, made)
    dims, own = program.dims(kept), program.shapes.dims(other)
    if switch.flag.value and (own is None or not equal(own, dims)):
        raise NoKernel("a tensor that may be left out, and is broadcast")
    if not {kept.dtype, other.dtype} <= FLOATS:
        raise NoKernel("a type that kernels don't handle")
    program.arguments[other] = Argument(other, switch.expr(), dims, optional=True)
    op = Operation(view, tuple(step.reads()[:2]), results, step.expr)
    op.kept, op.left_out = kept, not switch.flag.value
    return op


def _product(
    step: Assignment,
    view: NodeView,
    results: tuple[ir.Value, ...],
    program: KernelProgram,
    inside: Collection[ir.Value],
    around: Surroundings,
) -> Operation | None:
    found = product_of(step, view)
    if found is None:
        return None
    if program.product is not None:
        raise NoKernel("two products in one kernel")
    product, given, factors, twin = found
    x = _aliased(given, step.reads(), {}, around)
    if x is None:
        raise NoKernel("an operand that can't be told apart")
    if x not in inside:
        dims = program.shapes.dims(given)
        program.arguments.setdefault(x, _argument(x, Ref(x), dims))
    operands = [x]
    for factor in factors:
        value = factor.value
        if step.form is None:
            value = _aliased(value, step.reads(), {}, around) or value
        if value in inside or value in program.arguments:
            raise NoKernel("a factor that is used otherwise too")
        program.arguments[value] = Argument(
            value, factor.expr, factor.dims, factor.role
        )
        operands.append(value)
    op = Operation(view, tuple(operands), results, step.expr)
    op.product, op.twin = product, twin
    op.absorbs = step.form.absorbs if step.form is not None else ()
    weight = next(f.dims for f in factors if f.role == "weight")
    sizes = extent(product, program.dims(x), weight, program.dims(op.result))
    if isinstance(sizes, str):
        raise NoKernel(sizes)
    program.extent = sizes
    return op


def _depthwise(
    step: Assignment,
    view: NodeView,
    results: tuple[ir.Value, ...],
    program: KernelProgram,
    inside: Collection[ir.Value],
    around: Surroundings,
    taps: Taps,
    form: ModuleForm,
) -> Operation:
    reads, layer = step.reads(), LayerRef(form)
    x = _aliased(form.inputs[0], reads, {}, around)
    if x is None or x in inside or program.operations:
        raise NoKernel("a convolution of what the kernel computes")
    if any(isinstance(v, ConstructorValue) for v in reads):
        raise NoKernel("it depends on a number of the module")
    operands, dims = [x], program.dims(form.inputs[0])
    program.arguments[x] = _argument(x, Ref(x), dims)
    for name, weight in form.weights.items():
        each, expr = (dims[1], 1, 1), getattr(layer, name)
        program.arguments[weight.value] = Argument(weight.value, expr, each, name)
        operands.append(weight.value)
    if any(v.dtype not in FLOATS for v in operands):
        raise NoKernel("a type that kernels don't handle")
    op = Operation(view, tuple(operands), results, step.expr)
    op.taps, op.twin = taps, taps.twin
    w = taps.windows
    program.options = [(layer.stride, w.stride), (layer.padding, w.begin)]
    program.moved |= {-1, -2}
    return op


def _attention(
    step: Assignment,
    view: NodeView,
    results: tuple[ir.Value, ...],
    program: KernelProgram,
    inside: Collection[ir.Value],
    around: Surroundings,
    form: Attention,
) -> Operation:
    operands: list[ir.Value] = []
    for role, given in zip(ROLES, view.node.inputs, strict=False):
        value = None if given is None else _aliased(given, step.reads(), {}, around)
        if given is None or value is None or value in (*operands, *program.arguments):
            raise NoKernel("attention on operands that can't be told apart")
        if value in inside and role in ("q", "k"):
            operands.append(value)
            continue
        if value in inside:
            raise NoKernel("values or a mask of attention that the kernel computes")
        if value.dtype not in TYPES:
            raise NoKernel("a type that kernels don't handle")
        dims = program.shapes.dims(given)
        program.arguments[value] = _argument(value, Ref(value), dims)
        program.arguments[value].role = role
        operands.append(value)
    op = Operation(view, tuple(operands), results, step.expr)
    op.attention = form
    return op


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
