"""Where elements lie of tensors that have the axes in orders of their own.

A program has a row, or columns beside each other, of the axes that are reduced; where
these or the others are several to a tensor, their indices follow from the program's.
"""

from __future__ import annotations

import re
from math import prod

import onnx_ir as ir

from ..program.column_reductions import INNER, OUTER, REDUCED, Columns
from ..program.program import Argument, KernelProgram, NoKernel
from .layout import LETTERS, MAX_ROW, Axis, Layout, spelled

# What goes through all axes of a kind: index, size, and letter.
_ROWS = {OUTER: ("row", "n_rows", "M"), REDUCED: ("cols", "n_cols", "N")}
_COLUMNS = {
    OUTER: ("outer", "n_outer", "M"),
    REDUCED: ("k", "depth", "K"),
    INNER: ("cols", "n_cols", "N"),
}


def _columns_of(program: KernelProgram) -> Columns:
    assert program.columns is not None
    return program.columns


class OrderedLayout(Layout):
    """Its axes are neighbours that each tensor has beside each other, or none of."""

    def __init__(self, program: KernelProgram) -> None:
        self.columns = _columns_of(program)
        self.rank = len(program.space)
        self.kinds = _COLUMNS if self.columns.inner else _ROWS
        super().__init__(program)
        order = tuple(range(self.rank))  # its tensor is the one whose sizes are read
        self.whole = next(
            a
            for a in self.arguments
            if self.columns.orders[a.value] == order and a.dims == program.space
        )

    def _axes(self) -> list[Axis]:
        values = [*self.program.arguments, *self.program.results]
        orders = [self.columns.of(v, self.program.dims(v)) for v in values]
        found: list[list[int]] = []
        for axis in self.columns.axes:
            if found and self._follows(axis, found[-1][-1], orders):
                found[-1].append(axis)
            else:
                found.append([axis])
        letters = [
            c for c in LETTERS if c not in [i for i, _, _ in self.kinds.values()]
        ]
        if len(found) > len(letters):
            raise NoKernel("tensors that are broadcast in too many ways")
        kinds = [self.columns.kind(run[0]) for run in found]
        made = []
        for run, kind, letter in zip(found, kinds, letters, strict=False):
            alone = kinds.count(kind) == 1
            index, size = self.kinds[kind][:2] if alone else (letter, f"n_{letter}")
            made.append(Axis(run[0] - self.rank, run[-1] - self.rank, (), index, size))
        return made

    def _follows(self, axis: int, before: int, orders: list[list[int]]) -> bool:
        alike = self.columns.kind(axis) == self.columns.kind(before)
        return alike and all(
            (
                own.index(axis) == own.index(before) + 1
                if axis in own and before in own
                else axis not in own and before not in own
            )
            for own in orders
        )

    def kind(self, axis: Axis) -> int:
        """OUTER, REDUCED or INNER: how the program goes through an axis."""
        return self.columns.kind(axis.first + self.rank)

    @property
    def rows(self) -> bool:
        return True

    @property
    def long(self) -> bool:
        """Whether rows don't fit on chip, or may not, and go along several axes."""
        row = [self.program.space[a] for a in self.columns.reduced]
        if all(isinstance(d, int) for d in row):
            return prod(row) > MAX_ROW
        return sum(self.kind(axis) == REDUCED for axis in self.axes) > 1

    def axes_of(self, value: ir.Value) -> list[Axis]:
        """In the order in which a tensor has them."""
        own = self.columns.of(value, self.program.dims(value))
        first = {a.first + self.rank: a for a in self.axes}
        return [first[axis] for axis in own if axis in first]

    def has(self, value: ir.Value) -> set[int]:
        """The kinds of the axes that a tensor has."""
        return set(map(self.kind, self.axes_of(value)))

    def narrow(self, argument: Argument) -> bool:
        return len(self.axes_of(argument.value)) < len(self.axes)

    def loads_row(self, argument: Argument) -> bool:
        return REDUCED in self.has(argument.value)

    def small(self, result: ir.Value) -> bool:
        return REDUCED not in self.has(result)

    # ---- offsets in the kernel

    def offset(self, argument: Argument) -> str:
        return self.stored(argument.value)

    def stored(self, value: ir.Value) -> str:
        axes = self.axes_of(value)
        return "offsets" if axes == self.axes else self.join(axes)

    def join(self, axes: list[Axis]) -> str:
        text = ""
        for axis in axes:
            if not text:
                text = self._first(axis, axes)
                continue
            self.used.add(axis.size)
            outer = text if re.fullmatch(r"[\w.()]+", text) else f"({text})"
            text = f"{outer} * {axis.size} + {axis.index}"
        return text

    def _first(self, axis: Axis, axes: list[Axis]) -> str:
        """A place in a row, of 32 bits, times the number of rows may need 64."""
        more = any(self.kind(a) != REDUCED for a in axes)
        wide = more and self.wide and not self.columns.inner
        wide &= self.kind(axis) == REDUCED
        return f"{axis.index}.to(tl.int64)" if wide else axis.index

    def index_lines(self, texts: list[str]) -> list[str]:
        lines = []
        whole = self.join(self.axes)
        words = {w for text in texts for w in re.findall(r"\w+", text)}
        if "offsets" in words:
            words |= set(re.findall(r"\w+", whole))
        for kind, (base, _, _) in self.kinds.items():
            own = [a for a in self.axes if self.kind(a) == kind]
            for i, axis in enumerate(own):
                if axis.index == base or axis.index not in words:
                    continue
                inner = [a.size for a in own[i + 1 :]]
                self.used.update(inner)
                joined = " * ".join(inner)
                text = f"{base} // {f'({joined})' if len(inner) > 1 else joined}"
                text = text if inner else base
                if i:
                    self.used.add(axis.size)
                    text += f" % {axis.size}"
                lines.append(f"{axis.index} = {text}")
        return [*lines, *([f"offsets = {whole}"] if "offsets" in words else [])]

    # ---- shapes

    def letter(self, axis: Axis) -> str:
        index, _, letter = self.kinds[self.kind(axis)]
        if axis in self.axes:
            return letter if axis.index == index else axis.index.upper()
        own = [self.letter(a) for a in self.axes if self.kind(a) == self.kind(axis)]
        return " * ".join(own)

    def letters(self, argument: Argument | None, rows_alone: bool = False) -> str:
        assert argument is not None
        return self.value_letters(argument.value)

    def value_letters(self, value: ir.Value) -> str:
        """The shape of a tensor or result as the kernel sees it: [M, N]."""
        return f"[{', '.join(map(self.letter, self.axes_of(value)))}]"

    @property
    def strided(self) -> Argument | None:
        """The tensor of which strides say where its columns lie."""
        return None if self.columns.apart else self.whole

    def base(self) -> Argument:
        return self.whole

    def sizes(self) -> dict[str, Axis]:
        """Those of single axes that are used, and of all that are gone through."""
        found = {a.size: a for a in self.axes if a.size in self.used}
        for kind, (index, size, _) in self.kinds.items():
            own = [a for a in self.axes if self.kind(a) == kind]
            if kind != OUTER:
                found.pop(size, None)
                last = Axis(own[0].first, own[-1].last, (), index, size)
                found[size] = own[0] if len(own) == 1 else last
        return found

    def size_text(self, axis: Axis, names: dict[ir.Value, str]) -> str:
        if axis not in self.axes:  # all of a kind
            own = [a for a in self.axes if self.kind(a) == self.kind(axis)]
            return " * ".join(self.size_text(a, names) for a in own)
        first, last = axis.first + self.rank, axis.last + self.rank + 1
        name, stop = names[self.whole.value], "" if last == self.rank else str(last)
        if last == first + 1:
            return f"{name}.shape[{first}]"
        return f"math.prod({name}.shape[{first}:{stop}])"

    def expected(self, argument: Argument, names: dict[ir.Value, str]) -> str:
        if argument is self.whole and not self.columns.absent:
            return ""
        if argument is self.whole:
            return self.sizes_of(argument.value, names)
        return self.shape(argument.value, names)

    def shape(self, value: ir.Value, names: dict[ir.Value, str]) -> str:
        """The shape of a tensor, read off the one that has all axes."""
        own = self.columns.of(value, self.program.dims(value))
        full = len(self.columns.orders[value]) == self.rank
        if full and own == self.columns.axes:
            return f"{names[self.whole.value]}.shape"
        return self.sizes_of(value, names)

    def sizes_of(self, value: ir.Value, names: dict[ir.Value, str]) -> str:
        """The same, size by size; axes that it is broadcast along have 1."""
        own = self.columns.of(value, self.program.dims(value))
        x = names[self.whole.value]
        order = self.columns.orders[value]
        return spelled([f"{x}.shape[{a}]" if a in own else "1" for a in order])
