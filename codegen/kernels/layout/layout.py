"""Where the elements of each tensor lie: axes that go together, offsets, sizes.

Neighbouring axes that every tensor either has or is broadcast along are one axis to the
kernel, so that most kernels have one or two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from ....analysis.graph.dims import Dim, same
from ....analysis.ops.facts.index_maps import Place, Where
from ..program.program import Argument, KernelProgram, NoKernel, is_row_number

LETTERS = "ijkpq"  # `l` reads like a number
LARGEST = 2**31 - 2**16  # from here on offsets, past the end too, need 64 bits
MAX_ROW = 16384  # elements of float32 that a program keeps on chip


@dataclass(frozen=True)
class Axis:
    """Axes `first` to `last` of the space, counted from the end: -1 is the last."""

    first: int
    last: int
    has: tuple[bool, ...]  # for each argument
    index: str = ""
    size: str = ""


class Layout:
    """The axes of a kernel, and where each of its tensors has its elements."""

    def __init__(self, program: KernelProgram) -> None:
        self.program = program
        self.arguments = list(program.arguments.values())
        self.axes = self._axes()
        self.used: set[str] = set()  # sizes that the kernel is passed
        # Where the elements of a tensor are read, where some are moved.
        self.places: dict[ir.Value, tuple[Where, ...]] = {}

    @property
    def rows(self) -> bool:
        """Whether a program has a row at a time, not some elements."""
        return self.program.axes > 0

    @property
    def long(self) -> bool:
        """Whether rows are known not to fit on chip."""
        row = self.program.space[len(self.program.space) - self.program.axes :]
        return all(isinstance(d, int) for d in row) and prod(row) > MAX_ROW

    @property
    def sized(self) -> bool:
        """Whether all sizes are known: of a slice, those of the whole tensor too."""
        shapes = [self.program.space, *(a.dims for a in self.arguments)]
        return all(isinstance(d, int) for dims in shapes for d in dims)

    @property
    def wide(self) -> bool:
        """Whether offsets may need 64 bits."""
        shapes = [self.program.space, *(a.dims for a in self.arguments)]
        return not self.sized or any(prod(dims) >= LARGEST for dims in shapes)

    def _axes(self) -> list[Axis]:
        space, rank = self.program.space, len(self.program.space)
        table = [self.program.has(a) for a in self.arguments]
        found: list[Axis] = []
        for i, size in enumerate(space):
            if size == 1:
                continue
            has = tuple(row[i] for row in table)
            place = i - rank
            if found and self._joins(found[-1], i, has):
                found[-1] = Axis(found[-1].first, place, has)
            else:
                found.append(Axis(place, place, has))
        if self.rows and len(found) == 1 and rank > self.program.axes:
            alike = tuple(len(a.dims) == rank for a in self.arguments)
            found.insert(0, Axis(-rank, -self.program.axes - 1, alike))  # of one row
        if self.rows:
            columns = [a for a in found if a.first >= -self.program.axes]
            if len(columns) != 1:
                raise NoKernel("a tensor that has a part of the row's axes")
        if not found:
            found = [Axis(-rank, -1, (True,) * len(table))]
        if len(found) > len(LETTERS):
            raise NoKernel("tensors that are broadcast in too many ways")
        return self._named(found)

    def _joins(self, before: Axis, i: int, has: tuple[bool, ...]) -> bool:
        """Whether an axis of the space goes together with what came before it."""
        space, moved = self.program.space, self.program.moved
        place = i - len(space)
        if before.has != has or place in moved or before.last in moved:
            return False
        if before.last < -self.program.axes <= place:
            return False
        between = range(before.last + 1, place)  # of one element, read where it is
        return all(space[k] == 1 and k not in moved for k in between)

    def _named(self, axes: list[Axis]) -> list[Axis]:
        two = len(axes) == 2 and not self.rows
        outer = len(axes) - 1 if self.rows else len(axes)
        named = []
        for i, axis in enumerate(axes):
            if self.rows and i == len(axes) - 1:
                index, size = "cols", "n_cols"
            elif self.rows and outer == 1:
                index, size = "row", "n_rows"
            elif two:
                index, size = ("row", "n_rows") if i == 0 else ("col", "n_cols")
            elif len(axes) == 1:
                index, size = "offsets", "n_elements"
            else:
                index, size = LETTERS[i], f"n_{LETTERS[i]}"
            if axis.last in self.program.fixed:  # its size stands in the kernel
                size = str(_known(self.program.space[axis.last]))
            named.append(Axis(axis.first, axis.last, axis.has, index, size))
        return named

    def narrow(self, argument: Argument) -> bool:
        """Whether a tensor is broadcast."""
        place, apart = self.arguments.index(argument), self.program.apart
        return argument.value not in apart and not all(a.has[place] for a in self.axes)

    def small(self, result: ir.Value) -> bool:
        """Whether a result has one number for each row."""
        return is_row_number(self.program, result)

    # ---- offsets in the kernel

    def stored(self, result: ir.Value) -> str:
        """Where a result's elements are stored, behind its pointer."""
        return "row" if self.small(result) else "offsets"

    def offset(self, argument: Argument) -> str:
        """The elements of a tensor that belong to those of the space; "" for one."""
        place = self.arguments.index(argument)
        return self.join([axis for axis in self.axes if axis.has[place]])

    def join(self, axes: list[Axis]) -> str:
        """The index of an element of a tensor that has these axes alone, in order."""
        if axes == self.axes:
            return "offsets"
        outer = self.axes[:-1]
        if self.rows and axes and axes[-1] is self.axes[-1] and axes[:-1] == outer:
            return "offsets"
        if self.rows and outer and axes == outer:
            return "row"
        text = ""
        for axis in axes:
            if text:
                self.used.add(axis.size)
                text = f"{text} * {axis.size} + {axis.index}"
                text = text if axis is axes[-1] else f"({text})"
            else:
                text = axis.index
        return text

    def loads_row(self, argument: Argument) -> bool:
        """Whether a tensor has an element for each one of the row."""
        return self.rows and self.axes[-1].has[self.arguments.index(argument)]

    def index_lines(self, texts: list[str]) -> list[str]:
        """What computes the indices that the offsets `texts` are made of."""
        outer = self.axes[:-1] if self.rows else self.axes
        whole = "row" if self.rows else "offsets"
        words = {w for text in texts for w in re.findall(r"\w+", text)}
        whole_row = self.rows and "offsets" in words
        lines = ["offsets = row * n_cols + cols"] if whole_row else []
        for i, axis in enumerate(outer):
            if axis.index not in words or axis.index == whole:
                continue
            inner = outer[i + 1 :]
            self.used.update(a.size for a in inner)
            text = whole
            if len(inner) == 1:
                text += f" // {inner[0].size}"
            elif inner:
                text += f" // ({' * '.join(a.size for a in inner)})"
            if i:
                self.used.add(axis.size)
                text += f" % {axis.size}"
            lines.append(f"{axis.index} = {text}")
        return lines

    def letters(self, argument: Argument | None, rows_alone: bool = False) -> str:
        """The shape of a tensor as the kernel sees it: [M, N]; None is a result."""
        if argument is not None and self.program.moved:
            return self.moved_letters(argument)
        place = None if argument is None else self.arguments.index(argument)
        axes = self.axes[:-1] if rows_alone else self.axes
        shown = [self.letter(a) for a in axes if place is None or a.has[place]]
        if argument is not None and argument.role == "table":
            shown.insert(0, "rows")
        return f"[{', '.join(shown)}]"

    def moved_letters(self, argument: Argument) -> str:
        """Its axes in its own order; the sizes of those that the result hasn't."""
        shown = []
        for axis in self.axes:
            own = [
                i for i in range(axis.first, axis.last + 1) if -i <= len(argument.dims)
            ]
            if all(argument.dims[i] == 1 for i in own):
                continue
            found = self.axis_of(argument, own[-1])
            if found is None:
                shown.append(str(argument.dims[own[-1]]))
            else:
                letter = next(a for a in self.axes if a.first <= found <= a.last)
                shown.append(self.letter(letter))
        return f"[{', '.join(shown)}]"

    def like(self, size: Dim) -> Axis | None:
        """The axis of the space that has this size, known at run time."""
        space = self.program.space
        return next((a for a in self.axes if same(space[a.last], size)), None)

    def letter(self, axis: Axis) -> str:
        """What comments call the size of an axis."""
        if len(self.axes) == 1:
            return "N"
        if self.rows and axis is self.axes[-1]:
            return "N"
        return {"row": "M", "col": "N"}.get(axis.index, axis.index.upper())

    def counts(self, names: dict[ir.Value, str]) -> dict[str, tuple[str, str]]:
        """Other sizes that the kernel is given: where they are read, what they are."""
        tables = [names[a.value] for a in self.arguments if a.role == "table"]
        return {f"n_{t}": (f"{t}.shape[0]", f"rows of {t}") for t in tables}

    # ---- sizes in the launcher

    def sizes(self) -> dict[str, Axis]:
        """Those that the kernel is given, with the axes that have them."""
        found = {a.size: a for a in self.axes if a.size in self.used}
        if self.rows:
            found["n_cols"] = self.axes[-1]
        found.pop("n_elements", None)
        return {size: a for size, a in found.items() if size.startswith("n_")}

    def base(self) -> Argument | None:
        """A tensor of all the space's axes, from which the others' shapes follow."""
        space = self.program.space
        for argument in (a for a in self.arguments if not a.optional):
            dims = argument.dims
            if len(dims) == len(space) and all(map(same, dims, space)):
                return argument
        return None

    def owner(self, place: int) -> Argument | None:
        """The tensor to read the size of an axis of the space off."""
        base = self.base()
        if base is not None:
            return base
        for argument in self.arguments:
            if self.program.has(argument)[place]:
                return argument
        return None

    def axis_of(self, argument: Argument, place: int) -> int | None:
        """The axis of the space, from the end, that one of a tensor is, if it is one.

        With its size; and unless elements are moved along it other than by a Transpose.
        """
        space, rank = self.program.space, len(self.program.space)
        read = self.places.get(argument.value)
        at = read[place] if read else Place(place + rank)
        if not isinstance(at, Place) or at != Place(at.axis):
            return None
        return at.axis - rank if same(space[at.axis], argument.dims[place]) else None

    def moved_size(
        self, size: Dim, axis: int | None, names: dict[ir.Value, str]
    ) -> str:
        """What reads the size of an axis of the space, or what it must be."""
        if axis is None or (axis in self.program.fixed and isinstance(size, int)):
            return str(_known(size))
        base = self.base()
        if base is not None:
            return f"{names[base.value]}.shape[{axis}]"
        for argument in (a for a in self.arguments if not a.role):
            apart = argument.value in self.program.apart
            for i in range(-len(argument.dims), 0):
                if apart and same(argument.dims[i], size):
                    return f"{names[argument.value]}.shape[{i}]"
                if not apart and self.axis_of(argument, i) == axis:
                    return f"{names[argument.value]}.shape[{i}]"
        return str(_known(size))

    def size_text(self, axis: Axis, names: dict[ir.Value, str]) -> str:
        """`x.shape[-1]`, or the product of several sizes."""
        space = self.program.space
        if axis.first in self.program.moved:
            return self.moved_size(space[axis.first], axis.first, names)
        owner = self.owner(axis.first + len(space))
        if owner is None:
            sizes = space[axis.first + len(space) : axis.last + len(space) + 1]
            return str(prod(map(_known, sizes)))
        if axis.first == axis.last:
            return self._read_size(owner, axis.first, names)
        extra = owner.role == "indices"  # which has no axis for the row
        first, last = axis.first + extra, axis.last + extra
        stop = "" if last == -1 else str(last + 1)
        return f"math.prod({names[owner.value]}.shape[{first}:{stop}])"

    def _read_size(
        self, owner: Argument, place: int, names: dict[ir.Value, str]
    ) -> str:
        return f"{names[owner.value]}.shape[{place + (owner.role == 'indices')}]"

    def shape_text(self, names: dict[ir.Value, str]) -> str:
        """The sizes of the space, where no tensor has them all."""
        parts = []
        for i, size in enumerate(self.program.space):
            place = i - len(self.program.space)
            if place in self.program.moved:
                parts.append(self.moved_size(size, place, names))
                continue
            owner = None if size == 1 else self.owner(i)
            read = "" if owner is None else self._read_size(owner, place, names)
            parts.append(read or str(_known(size)))
        return spelled(parts)

    def _unchanged(self, names: dict[ir.Value, str]) -> str:
        """The shape of the largest tensor, if some of its axes must stay as they are.

        Some sizes stand in the kernel. Given more along axes of one element, it would
        read beyond the end of a tensor that has the outermost of the others alone.
        """
        base = self.base()
        if base is None or not (1 in base.dims or self.program.fixed):
            return ""
        outermost = zip(self.arguments, self.axes[0].has, strict=True)
        fixed = {i + len(base.dims) for i in self.program.fixed}
        if not all(a.dims == base.dims or not has for a, has in outermost):
            fixed |= {i for i, d in enumerate(base.dims) if d == 1}
        if not fixed:
            return ""
        name = names[base.value]
        parts = [
            str(d) if i in fixed else f"{name}.shape[{i}]"
            for i, d in enumerate(base.dims)
        ]
        return spelled(parts)

    def expected(self, argument: Argument, names: dict[ir.Value, str]) -> str:
        """The shape that a tensor must have; "" where it is that of all others."""
        space, rank = self.program.space, len(argument.dims)
        has = self.program.patterns(argument.dims)[len(space) - rank :]
        tail = range(len(space) - rank, len(space))
        base = self.base()
        if argument is base:
            return self._unchanged(names)
        full = all(h or space[i] == 1 for i, h in zip(tail, has, strict=True))
        moved = any(i - len(space) in self.program.moved for i in tail)
        if base is not None and full and not moved and not argument.role:
            name = names[base.value]
            if rank == len(space):
                return f"{name}.shape"
            return f"{name}.shape[-{rank}:]" if rank else "()"
        parts, foreign = [], False
        for i, own in zip(tail, has, strict=True):
            place = i - len(space)
            if own and place in self.program.moved:
                axis = self.axis_of(argument, place)
                parts.append(self.moved_size(argument.dims[place], axis, names))
                foreign |= parts[-1] != f"{names[argument.value]}.shape[{place}]"
                continue
            owner = self.owner(i) if own else None
            foreign |= owner is not argument
            size = argument.dims[place] if own else 1
            read = "" if owner is None else self._read_size(owner, place, names)
            parts.append(read or str(size))
        if argument.role == "table":
            parts.insert(0, f"{names[argument.value]}.shape[0]")
        if argument.role == "indices":
            parts.pop()
            foreign = any(f"{names[argument.value]}.shape" not in p for p in parts)
        return spelled(parts) if foreign else ""


def _known(size: Dim) -> int:
    if not isinstance(size, int):
        raise NoKernel("a size known at run time, which no tensor has")
    return size


def spelled(parts: list[str]) -> str:
    """A tuple of expressions."""
    return f"({', '.join(parts)},)" if len(parts) == 1 else f"({', '.join(parts)})"
