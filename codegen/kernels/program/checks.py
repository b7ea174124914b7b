"""What a kernel goes through, element by element or row by row, and what must hold."""

from __future__ import annotations

import onnx_ir as ir

from ....analysis.graph.dims import same
from ....analysis.ops.triton.rows import channel_groups, is_channel_norm, trailing_axes
from .column_reductions import settle_columns
from .products import Extent
from .program import KernelProgram, NoKernel, Operation, equal, is_row_number


def settle_space(program: KernelProgram) -> None:
    """The elements or rows that the kernel goes through, and what must hold of them."""
    others = (op.row or op.product or op.attention for op in program.operations)
    if program.reshapes and any(others):
        raise NoKernel("a tensor that is reshaped, or taken apart, beside other parts")
    if program.attention is not None:
        *before, attention = program.operations
        if attention.attention is None or program.results != [attention.result]:
            raise NoKernel("attention beside other operators than those before it")
        parts = (
            (op.row, op.lookup, op.taps, op.product, op.attention) for op in before
        )
        if any(map(any, parts)):
            raise NoKernel("attention beside other operators than on its elements")
        program.space = program.dims(attention.result)
        return
    if program.extent is not None:
        _settle_product(program, program.extent)
        return
    rows = [op for op in program.operations if op.row is not None]
    moved = any(op.pieces or op.gathers for op in program.operations)
    if (rows or moved) and any(op.taps for op in program.operations):
        raise NoKernel("a convolution beside operators over rows, or moves")
    lookups = [op for op in program.operations if op.lookup]
    norm = next((op for op in rows if is_channel_norm(op.view.node)), None)
    if norm is not None:
        _settle_groups(program, norm)
        return
    if rows and (program.moved or not all(_is_plain(program, op) for op in rows)):
        settle_columns(program)
        return
    if lookups and program.moved:
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
    if program.reshapes:
        _settle_reshapes(program)
    for op in program.operations:
        for operand in op.operands:
            if isinstance(operand, ir.Value) and operand not in program.apart:
                program.patterns(program.dims(operand))
    found = {r for op in program.operations if op.top for r in op.results}
    if any(o in found for op in program.operations for o in op.operands):
        raise NoKernel("the largest elements are worked on")
    for result in set(program.results) - found:
        dims = program.dims(result)
        if not equal(dims, program.space) and not is_row_number(program, result):
            raise NoKernel("results of several shapes")


def _settle_groups(program: KernelProgram, norm: Operation) -> None:
    """Of a kernel with a norm of channels; raises NoKernel."""
    if any(op is not norm and (op.row or op.lookup) for op in program.operations):
        raise NoKernel("a norm of channels beside other operators over rows")
    if any(op.pieces for op in program.operations):
        raise NoKernel("rows whose elements are moved")
    x, *weights = norm.operands
    assert isinstance(x, ir.Value)
    program.space = program.dims(x)
    program.axes = len(program.space) - 1
    channels, groups = program.space[1], channel_groups(norm.view)
    if not isinstance(channels, int) or channels % groups:
        raise NoKernel("channels that don't divide into equal groups")
    program.groups = groups
    for role, weight in zip(("weight", "bias"), weights, strict=True):
        assert isinstance(weight, ir.Value)
        uses = sum(op.operands.count(weight) for op in program.operations)
        if weight not in program.arguments or uses > 1:
            raise NoKernel("a weight that is computed, or used otherwise too")
        program.arguments[weight].role = role
    if not any(equal(a.dims, program.space) for a in program.arguments.values()):
        raise NoKernel("rows of a tensor that nothing holds")
    if not all(equal(program.dims(r), program.space) for r in program.results):
        raise NoKernel("results of several shapes")


def _is_plain(program: KernelProgram, op: Operation) -> bool:
    """Whether the last axes are a row, and all tensors that have some have them all."""
    axes = trailing_axes(op.view)
    if axes is None:
        return False
    assert op.row is not None
    given = [a.dims for a in program.arguments.values() if not a.role]
    owned = [
        {i for i in range(1, axes + 1) if i <= len(d) and d[-i] != 1} for d in given
    ]
    if any(own and own != set().union(*owned) for own in owned):
        return False
    readers = {o for other in program.operations for o in other.operands}
    dropped = not (op.row.keeps or op.top or op.view.attr("keepdims", 1))
    return not (dropped and op.result in readers)


def _settle_reshapes(program: KernelProgram) -> None:
    """What is reshaped, and all that it is computed from, has axes of its own."""
    space = program.space
    program.moved = set(range(-len(space), 0))
    program.fixed = {i for i in program.moved if isinstance(space[i], int)}
    beside: set[ir.Value] = set(program.results)
    for op in reversed(program.operations):
        operands = {o for o in op.operands if isinstance(o, ir.Value)}
        if op.reshapes or not program.apart.isdisjoint(op.results):
            program.apart |= operands
        if not (op.reshapes or beside.isdisjoint(op.results)):
            beside |= operands
    if not beside.isdisjoint(program.apart):
        raise NoKernel("a tensor that is read as it is, and reshaped")
    for op in program.operations:
        for operand in (o for o in op.operands if isinstance(o, ir.Value)):
            if program.apart.isdisjoint(op.results) or op.pieces or op.gathers:
                continue
            result, own = program.dims(op.result), program.dims(operand)
            tail = result[len(result) - len(own) :]
            if not all(a == 1 or same(a, b) for a, b in zip(own, tail, strict=True)):
                raise NoKernel("sizes that may or may not be broadcast")


def _settle_product(program: KernelProgram, sizes: Extent) -> None:
    """All but the product goes element by element; its results are of one shape."""
    before = program.before_product()
    for op in program.operations:
        if op.row is not None or op.lookup or op.pieces or op.taps:
            raise NoKernel("a product beside operators over rows")
    if any(r in program.results for op in before for r in op.results):
        raise NoKernel("a left factor that is needed elsewhere")
    program.space = sizes.result
    for result in program.results:
        if not equal(program.dims(result), sizes.result):
            raise NoKernel("results of several shapes")


def _check_row(program: KernelProgram, op: Operation) -> None:
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
            if not equal(own, row):
                raise NoKernel("a weight that is broadcast along the row")
