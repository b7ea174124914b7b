"""Sums that some instances of a class leave out, as the residual of a block whose sizes
change: one kernel for all of them, which is given the other tensor or None.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from ....analysis.spelling.expr import Binary, Conditional, Expr, Ref, spell
from ...ir.assignment import Assignment
from ...modules.members import ConstructorValue
from .program import KernelProgram, NoKernel, equal

_OPERATORS = {"Add": operator.add, "Mul": operator.mul}


@dataclass(frozen=True)
class Switch:
    """A step that is done if the flag is set; else what is `kept` is handed on."""

    flag: ConstructorValue
    kept: ir.Value
    other: ir.Value

    def expr(self) -> Expr:
        """What the module passes for the other tensor."""
        return Conditional(Ref(self.other), Ref(self.flag), spell(None))


def switch_of(step: Assignment) -> Switch | None:
    """Of `a + b if self.residual else a`."""
    reads = step.reads()
    if step.node is None or step.node.op_type not in _OPERATORS or len(reads) != 4:
        return None
    *pair, flag, kept = reads
    if not (isinstance(flag, ConstructorValue) and isinstance(flag.value, bool)):
        return None
    others = [value for value in pair if value is not kept]
    if len(others) != 1 or isinstance(others[0], ConstructorValue):
        return None
    return Switch(flag, kept, others[0])


def either(kind: str, kept: ir.Value, operands: Any) -> Expr:
    """The same of what the function is given."""
    (other,) = (o for o in operands if o is not kept)
    both = _OPERATORS[kind](*map(Ref, operands))
    return Conditional(Ref(kept), Binary(Ref(other), spell(None), label="is"), both)


def check_optional(program: KernelProgram) -> None:
    """Whether a kernel finds everything it needs without what may be left out."""
    optional = [a for a in program.arguments.values() if a.optional]
    if not optional:
        return
    plain = program.product is not None or any(
        equal(a.dims, program.space) and not a.optional
        for a in program.arguments.values()
    )
    others = program.columns or program.attention or program.groups
    others = others or program.indexed or program.reshapes
    if others or not plain:
        raise NoKernel("a tensor that may be left out, in a kernel of another kind")
    for argument in optional:
        uses = sum(op.operands.count(argument.value) for op in program.operations)
        if uses > 1 or not equal(argument.dims, program.space):
            raise NoKernel("a tensor that may be left out, and is read otherwise too")


def fuller(programs: list[KernelProgram]) -> KernelProgram:
    """One of the programs that leave nothing out, if there is one."""
    return min(programs, key=lambda p: sum(op.left_out for op in p.operations))
