"""Kernels that reduce columns: a tile has all of some columns, beside each other.

So that neighbours in memory are read together, whatever the order of the result, and
of the first tensor too: PyTorch's convolutions hand on images with channels innermost.
"""

from __future__ import annotations

import onnx_ir as ir

from ...analysis.ops.triton import FLOATS
from ...analysis.spell import Expr, text_expr
from .columns import Columns, is_transpose
from .launcher import Launcher
from .layout import Axis, Layout
from .program import Argument, NoKernel, Operation, Program
from .source import Lines, Source

_INDICES = ("outer", "k", "cols")
_SIZES = ("n_outer", "depth", "n_cols")
_LETTERS = "MKN"
_REDUCED, _INNER = 1, 2


def _columns(program: Program) -> Columns:
    assert program.columns is not None
    return program.columns


def _whole(program: Program) -> Argument:
    """The tensor whose axes are the space's: the only one that strides are given of."""
    columns = _columns(program)
    order = tuple(range(len(columns.space)))
    return next(
        a
        for a in program.arguments.values()
        if columns.orders[a.value] == order and a.dims == columns.space
    )


class _ColumnLayout(Layout):
    def _axes(self) -> list[Axis]:
        return []

    def narrow(self, argument: Argument) -> bool:
        return len(self.groups(argument.value)) < 3

    def groups(self, value: ir.Value) -> list[int]:
        return _columns(self.program).of(value, self.program.dims(value))


class _Columns(Lines):
    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.count = text_expr("depth")
        self.down["keep_dims"] = True

    def argmax(self, order: Expr) -> Expr:
        raise NoKernel("a place in a column")


class ColumnSource(Source):
    layout: _ColumnLayout

    def make_layout(self, program: Program) -> Layout:
        return _ColumnLayout(program)

    def offset(self, groups: list[int]) -> str:
        if groups == [0, 1, 2]:
            return "offsets"
        text = ""
        for group in groups:
            inner = text if text.isidentifier() else f"({text})"
            more = f"{inner} * {_SIZES[group]} + " if text else ""
            if more:
                self.layout.used.add(_SIZES[group])
            text = f"{more}{_INDICES[group]}"
        return text

    def mask(self, groups: list[int]) -> str:
        conditions = {_REDUCED: "k < depth", _INNER: "cols < n_cols"}
        own = [conditions[g] for g in groups if g in conditions]
        return "mask" if len(own) == 2 else "".join(own)

    def body(self) -> list[str]:
        lines, own = _Columns(self), dict(self.names)
        for argument in self.layout.arguments:
            lines.lines.append(self._read(argument, lines))
        for op in self.program.operations:
            if is_transpose(op) and op.result not in self.program.results:
                operand = op.operands[0]
                assert isinstance(operand, ir.Value)
                self.names[op.result] = self.names[operand]
            else:
                self._operation(op, lines)
        stores = []
        for result in self.program.results:
            groups = self.layout.groups(result)
            where, mask = self.offset(groups), self.mask(groups)
            options = f", mask={mask}" if mask else ""
            stores.append(
                f"tl.store({own[result]}_ptr + {where}, {own[result]}{options})"
            )
        self.names = own
        return [*self._first(lines, stores), *lines.lines, "", *stores]

    def _first(self, lines: Lines, stores: list[str]) -> list[str]:
        found = [
            "# All of BLOCK columns, which lie beside each other.",
            "tiles = tl.cdiv(n_cols, BLOCK)",
            "outer = (tl.program_id(0) // tiles).to(tl.int64)",
            "start = tl.program_id(0) % tiles * BLOCK",
            "cols = (start + tl.arange(0, BLOCK).to(tl.int64))[None, :]",
            "k = tl.arange(0, DEPTH).to(tl.int64)[:, None]",
            "mask = (k < depth) & (cols < n_cols)",
        ]
        if any("offsets" in line for line in [*lines.lines, *stores]):
            found.append("offsets = (outer * depth + k) * n_cols + cols")
        return found

    def _read(self, argument: Argument, lines: Lines) -> str:
        name, groups = self.names[argument.value], self.layout.groups(argument.value)
        floats = argument.value.dtype in FLOATS
        where, mask = self.offset(groups), self.mask(groups)
        if argument is _whole(self.program):
            where = f"outer * {name}_outer + k * {name}_depth + cols * {name}_col"
            mask = "mask"
        options = f", mask={mask}, other={'0.0' if floats else '0'}" if mask else ""
        if _REDUCED in groups:
            lines.zero.add(name)
        pointer = f"{name}_ptr + {where}" if where else f"{name}_ptr"
        return f"{name} = tl.load({pointer}{options}){'.to(tl.float32)' * floats}"

    def _operation(self, op: Operation, lines: Lines) -> None:
        if is_transpose(op):
            name = self.names[op.operands[0]]  # type: ignore[index]
            lines.lines.append(f"{self.names[op.result]} = {name}  # Transpose")
        else:
            super()._operation(op, lines)


class ColumnLauncher(Launcher):
    layout: _ColumnLayout

    def make_source(self, program: Program) -> Source:
        return ColumnSource(program)

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.whole = _whole(program)
        self.x = self.names[self.whole.value]

    @property
    def own_sizes(self) -> tuple[str, ...]:
        return _SIZES if "n_outer" in self.layout.used else _SIZES[1:]

    def size_lines(self, tensors: tuple[str, ...]) -> list[str]:
        groups = _columns(self.program).groups
        found = []
        for size, axes in zip(_SIZES, groups, strict=True):
            if size not in self.own_sizes:
                continue
            first, last = axes[0], axes[-1] + 1
            stop = "" if last == len(self.program.space) else str(last)
            one = f"{self.x}.shape[{first}]"
            many = f"{self.x}.shape[{first}:{stop}].numel()"
            found.append(f"{size} = {one if len(axes) == 1 else many}")
        return found

    def made(self) -> list[str]:
        return [f"block = column_tile(depth, {self.x}.numel())"]

    @property
    def fits(self) -> str:
        return "depth <= MAX_DEPTH"

    def expected(self, argument: Argument) -> str:
        return "" if argument is self.whole else self.shape(argument.value)

    def shape(self, value: ir.Value) -> str:
        columns, dims = _columns(self.program), self.program.dims(value)
        order = columns.orders[value]
        if order == tuple(range(len(columns.space))) and 1 not in (
            d for d, s in zip(dims, columns.space, strict=True) if s != 1
        ):
            return f"{self.x}.shape"
        parts = [
            "1" if d == 1 and columns.space[a] != 1 else f"{self.x}.shape[{a}]"
            for a, d in zip(order, dims, strict=True)
        ]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def result(self, result: ir.Value) -> tuple[str, str]:
        like, dtype = self.dtype(result)
        kind = "" if like == self.x else f", dtype={dtype or f'{like}.dtype'}"
        shape = self.shape(result)
        if shape == f"{self.x}.shape":
            return self.names[result], f"{self.x}.new_empty({self.x}.shape{kind})"
        return self.names[result], f"{self.x}.new_empty({shape}{kind})"

    def copies(self) -> list[str]:
        """None of the first tensor, but where no strides say where its columns lie."""
        others = super().copies()
        others.remove(f"{self.x} = {self.x}.contiguous()")
        return [*others, f"columns = {self.x}.reshape(-1, depth, n_cols)"]

    def given(self, results: tuple[tuple[str, str], ...]) -> list[str]:
        return ["columns" if n == self.x else n for n in super().given(results)]

    def grid(self, result: str) -> str:
        tiles = "triton.cdiv(n_cols, block)"
        return f"({self.x}.numel() // (depth * n_cols) * {tiles},)"

    def passed(self, result: str, numbers: tuple[str, ...]) -> list[str]:
        deep = "DEPTH=triton.next_power_of_2(depth)"
        return [
            "*columns.stride()",
            *self.own_sizes,
            *numbers,
            deep,
            "BLOCK=block",
            "num_warps=8",
        ]

    def parameters(self, numbers: tuple[str, ...]) -> list[str]:
        tensors = [(a.value, "in") for a in self.layout.arguments]
        tensors += [(r, "out") for r in self.program.results]
        notes = dict(zip(_SIZES, ("M", "K, which is reduced", "N"), strict=True))
        lines = []
        for value, way in tensors:
            shown = ", ".join(_LETTERS[g] for g in self.layout.groups(value))
            lines.append(f"{self.names[value]}_ptr,  # [{shown}] {way}")
        return [
            *lines,
            *(f"{self.x}_outer,  # strides", f"{self.x}_depth,", f"{self.x}_col,"),
            *(f"{size},  # {notes[size]}" for size in self.own_sizes),
            *(f"{label}," for label in numbers),
            "DEPTH: tl.constexpr,  # power of two, at least K",
            "BLOCK: tl.constexpr,  # columns of one program",
        ]
