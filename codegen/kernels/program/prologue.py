"""What attention reads, computed as it is loaded: rotary embeddings above all.

Operators element by element, and those that only move elements, before q or k: their
result is never stored. An index along each axis says which element is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from ....analysis.ops.triton.index_maps import Place
from ....analysis.spelling.expr import Expr
from ..layout.layout import Axis, Layout, spelled
from ..source.indexed_kernel import Index, IndexedSource
from ..source.names import Wording
from .program import Argument, KernelProgram, NoKernel, Operation


@dataclass(frozen=True)
class HeadIndices:
    """The indices of an element along batches, heads, rows and the width of a head.

    `sizes` are those of the axes, `letters` what comments call them; `mask` says which
    elements there are.
    """

    indices: tuple[str, str, str, str]
    sizes: tuple[str, str, str, str]
    letters: str
    mask: str


def before_attention(program: KernelProgram, value: ir.Value) -> KernelProgram:
    """The operators that compute what attention reads, with what they read."""
    needed, found = {value}, list[Operation]()
    for op in reversed(program.operations):
        if op.attention is None and not needed.isdisjoint(op.results):
            found.insert(0, op)
            needed.update(o for o in op.operands if isinstance(o, ir.Value))
    arguments = {v: a for v, a in program.arguments.items() if v in needed}
    made = KernelProgram(program.shapes, found, arguments, [value], program.dims(value))
    made.moved, made.fixed = program.moved, program.fixed
    return made


class _HeadLayout(Layout):
    """Four axes apart, found by the indices that attention has."""

    def __init__(self, program: KernelProgram, where: HeadIndices) -> None:
        self.where = where
        super().__init__(program)

    def _axes(self) -> list[Axis]:
        if len(self.program.space) != 4:
            raise NoKernel("attention on operands of other ranks")
        table = [self.program.patterns(a.dims) for a in self.arguments]
        axes = []
        for i, (index, size) in enumerate(
            zip(self.where.indices, self.where.sizes, strict=True)
        ):
            known = self.program.space[i]
            if i - 4 in self.program.fixed:
                size = str(known)
            axes.append(Axis(i - 4, i - 4, tuple(r[i] for r in table), index, size))
        return axes

    def letter(self, axis: Axis) -> str:
        return self.where.letters[axis.first]

    def base(self) -> Argument | None:
        return None


class Prologue(IndexedSource):
    """The lines that compute one operand of attention where it is loaded."""

    layout: _HeadLayout

    def __init__(
        self, program: KernelProgram, wording: Wording, where: HeadIndices
    ) -> None:
        self.where = where
        self.own: dict[str, str] = {}  # what the key's are called
        super().__init__(program, wording)
        self.role = self.names[program.results[0]]
        self.mask = f"inside_{self.role}"

    def make_layout(self, program: KernelProgram) -> Layout:
        return _HeadLayout(program, self.where)

    def body(self) -> list[str]:
        """In the type of v, by which the scores are multiplied; 0 outside."""
        self.start()
        (result,) = self.program.results
        whole: Index = tuple(Place(axis) for axis in range(4))
        name = self.value(result, whole, ())
        cast = f"tl.where({self.mask}, {name}, 0.0).to(v_ptr.dtype.element_ty)"
        inside = f"{self.mask} = {self.where.mask}"
        return [inside, *self.lines, f"{self.role} = {cast}"]

    def label(self, name: str, index: Index) -> str:
        """None that the other operand has, which is computed in a loop."""
        if self.role in (name, "q"):
            return super().label(name, index)
        if name not in self.own:
            self.own[name] = self.wording.free("k_" + name.rstrip("0123456789"))
        return super().label(self.own[name], index)

    def assign(self, op: Operation, value: ir.Value, index: Index, made: Expr) -> str:
        """The result has the name of what it is computed from, if that is its role."""
        if value not in self.program.results:
            return super().assign(op, value, index, made)
        self.lines.append(f"{self.role} = {self.text(made)}  # {op.view.node.op_type}")
        return self.role

    def shifted(self, argument: Argument, index: Index) -> str:
        return ""

    def expected(self, argument: Argument, others: Mapping[str, str]) -> str:
        """The shape that a tensor must have, with `others` in the place of sizes."""
        name, rank = self.names[argument.value], len(argument.dims)
        own = [f"{name}.shape[{i}]" for i in range(-rank, 0)]
        known = self.layout.expected(argument, self.names)
        parts = known.strip("(,)").split(", ") if known else own
        parts = [others.get(part, part) for part in parts]
        return spelled(parts) if parts != own else ""

    def size_texts(self) -> list[str]:
        """What reads the sizes of the four axes off the tensors."""
        space, names = self.program.space, self.names
        return [self.layout.moved_size(space[i], i, names) for i in range(-4, 0)]
