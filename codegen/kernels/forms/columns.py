"""Kernels that reduce columns: a tile has all of some columns, beside each other.

So that neighbours in memory are read together, whatever the order of the result, and
of the first tensor too: PyTorch's convolutions hand on images with channels innermost.
"""

from __future__ import annotations

import onnx_ir as ir

from ....analysis.ops.triton.elementwise import FLOATS
from ....analysis.spelling.expr import Expr, Name
from ..launch.launcher import Launcher, Parameter
from ..layout.permuted import OrderedLayout
from ..program.column_reductions import INNER, REDUCED
from ..program.program import Argument, KernelProgram, NoKernel
from ..source.row_kernel import KernelBody, Source


class _Columns(KernelBody):
    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.count = Name("depth")
        self.down["keep_dims"] = True

    def argmax(self, order: Expr) -> Expr:
        raise NoKernel("a place in a column")


class _ColumnSource(Source):
    layout: OrderedLayout

    def mask(self, value: ir.Value) -> str:
        """The elements that a tile has of a tensor."""
        conditions = {REDUCED: "k < depth", INNER: "cols < n_cols"}
        own = [conditions[k] for k in conditions if k in self.layout.has(value)]
        return "mask" if len(own) == 2 else "".join(own)

    def body(self) -> list[str]:
        lines, stores = _Columns(self), []
        for argument in self.layout.arguments:
            lines.lines.append(self._read(argument, lines))
        self._operations(lines)
        for result in self.program.results:
            name, mask = self.names[result], self.mask(result)
            where = f"{name}_ptr + {self.layout.stored(result)}"
            options = f", mask={mask}" if mask else ""
            stores.append(f"tl.store({where}, {name}{options})")
        indices = self.layout.index_lines([*lines.lines, *stores])
        return [*self._start(), *indices, *lines.lines, "", *stores]

    def _start(self) -> list[str]:
        return [
            "# All of BLOCK columns, which lie beside each other.",
            "tiles = tl.cdiv(n_cols, BLOCK)",
            "outer = (tl.program_id(0) // tiles).to(tl.int64)",
            "start = tl.program_id(0) % tiles * BLOCK",
            "cols = (start + tl.arange(0, BLOCK).to(tl.int64))[None, :]",
            "k = tl.arange(0, DEPTH).to(tl.int64)[:, None]",
            "mask = (k < depth) & (cols < n_cols)",
        ]

    def _read(self, argument: Argument, lines: KernelBody) -> str:
        name, value = self.names[argument.value], argument.value
        floats = value.dtype in FLOATS
        where, mask = self.layout.stored(value), self.mask(value)
        if argument is self.layout.strided:
            where = f"outer * {name}_outer + k * {name}_depth + cols * {name}_col"
        options = f", mask={mask}, other={'0.0' if floats else '0'}" if mask else ""
        if self.layout.loads_row(argument):
            lines.zero.add(name)
        pointer = f"{name}_ptr + {where}" if where else f"{name}_ptr"
        return f"{name} = tl.load({pointer}{options}){'.to(tl.float32)' * floats}"


class OrderedLauncher(Launcher):
    """Of rows too, whose axes lie apart or are turned."""

    layout: OrderedLayout

    def result(self, result: ir.Value) -> tuple[str, str]:
        x = self.names[self.layout.whole.value]
        kind = self.dtype(result, x)
        shape = self.layout.shape(result, self.names)
        return self.names[result], f"{x}.new_empty({shape}{kind})"

    def letters_of(self, result: ir.Value) -> str:
        return self.layout.value_letters(result)

    def letters(self, argument: Argument) -> str:
        return self.layout.value_letters(argument.value)

    def size_parameters(self) -> list[Parameter]:
        """Where several axes, or columns, are reduced, which they are."""
        layout, found = self.layout, []
        for size, axis in self.sizes.items():
            note = layout.letter(axis)
            whole = axis not in layout.axes or layout.columns.inner
            if whole and layout.kind(axis) == REDUCED and size in ("depth", "n_cols"):
                note += f", which {'are' if ' ' in note else 'is'} reduced"
            found.append(Parameter(size, note, size))
        return found


class ColumnLauncher(OrderedLauncher):
    """What launches reductions of columns beside each other."""

    def make_source(self, program: KernelProgram) -> Source:
        return _ColumnSource(program)

    def __init__(self, program: KernelProgram) -> None:
        super().__init__(program)
        self.x = self.names[self.layout.whole.value]

    def allocated(self) -> list[str]:
        return [f"block = column_tile(depth, {self.x}.numel())"]

    @property
    def fits(self) -> str:
        return "depth <= MAX_DEPTH"

    def copies(self) -> list[str]:
        """None of the first tensor, but where no strides say where its columns lie."""
        found = super().copies()
        if self.layout.strided:
            found.remove(f"{self.x} = {self.x}.contiguous()")
            found.append(f"columns = {self.x}.reshape(-1, depth, n_cols)")
        return found

    def passed(self, argument: Argument) -> str:
        name = super().passed(argument)
        return "columns" if self.layout.strided and name == self.x else name

    def grid(self, result: str) -> str:
        tiles = "triton.cdiv(n_cols, block)"
        return f"({self.x}.numel() // (depth * n_cols) * {tiles},)"

    def options(self) -> dict[str, str]:
        return {"num_warps": "8"}

    def parameters(self, numbers: tuple[str, ...]) -> list[Parameter]:
        deep = "depth" if self.layout.columns.apart else "K"
        found = self.tensors()
        if self.layout.strided:
            found += [
                Parameter(f"{self.x}_outer", "strides", "*columns.stride()"),
                *(Parameter(f"{self.x}_depth"), Parameter(f"{self.x}_col")),
            ]
        power = "triton.next_power_of_2(depth)"
        return [
            *found,
            *self.size_parameters(),
            *(Parameter(label, "", label) for label in numbers),
            Parameter("DEPTH", f"power of two, at least {deep}", power, constant=True),
            Parameter("BLOCK", "columns of one program", "block", constant=True),
        ]
