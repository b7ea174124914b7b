"""Kernels that find elements by their indices, since some operators move them.

What is moved is not copied: an element of a result is computed from the elements of the
tensors that it comes from. A value that is read at two places is computed at both.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import onnx_ir as ir

from ....analysis.graph.dims import Dim, same
from ....analysis.graph.traversal import trimmed
from ....analysis.ops.facts.index_maps import Formula, Piece, Place, Size, Where, is_one
from ....analysis.ops.triton.elementwise import FLOATS, Language, number, pointwise
from ....analysis.spelling.expr import ATOM, Expr, Name
from ..layout.reshaped import ReshapedLayout
from ..program.depthwise import Taps
from ..program.program import Argument, NoKernel, Operation
from .row_kernel import Source, as_stored

# Where a value is read: a place for each axis of the space.
Index: TypeAlias = tuple[Where, ...]
_FIRST = Place(0, 0)  # along an axis of one element


class IndexedSource(Source):
    """The lines of a kernel that computes the index of what it reads."""

    mask = "mask"  # of the elements that there are

    def start(self) -> None:
        """Forget what was written, to write the body once more."""
        self.lines: list[str] = []
        self.known: dict[tuple[ir.Value, Index, tuple[str, ...]], str] = {}
        self.texts: list[str] = []  # offsets and conditions, which indices stand in
        self.maker = {r: op for op in self.program.operations for r in op.results}

    def body(self) -> list[str]:
        self.start()
        rank = len(self.program.space)
        whole: Index = tuple(Place(axis) for axis in range(rank))
        stores = []
        for result in self.program.results:
            name = self.value(result, whole, ())
            label = self.names[result]
            stores.append(f"tl.store({label}_ptr + offsets, {name}, mask=mask)")
        indices = self.layout.index_lines(self.texts)
        return [*self._start(), *indices, *self.lines, "", *stores]

    def value(self, value: ir.Value, index: Index, guards: tuple[str, ...]) -> str:
        """The name of a value at some indices, where all `guards` hold."""
        dims = self.program.dims(value)
        padded = (1,) * (len(index) - len(dims)) + tuple(dims)
        index = tuple(
            _FIRST if d == 1 else i for i, d in zip(index, padded, strict=True)
        )
        key = (value, index, guards)
        if key not in self.known:
            argument = self.program.arguments.get(value)
            if argument is not None:
                self.known[key] = self.load(argument, index, guards)
            else:
                self.known[key] = self.compute(self.maker[value], value, index, guards)
        return self.known[key]

    def load(self, argument: Argument, index: Index, guards: tuple[str, ...]) -> str:
        """The name of an element that is read from memory."""
        name = self.names[argument.value]
        self.layout.places.setdefault(argument.value, index)
        offset = self.offset(argument, index)
        label = self.label(name, index)
        mask = self.mask_of(offset, guards)
        where = f"{name}_ptr + {offset}" if offset else f"{name}_ptr"
        cast = ".to(tl.float32)" if argument.value.dtype in FLOATS else ""
        options = f", mask={mask}" if mask else ""
        self.texts += [offset, mask]
        self.lines.append(f"{label} = tl.load({where}{options}){cast}")
        return label

    def mask_of(self, offset: str, guards: tuple[str, ...]) -> str:
        """The elements that are read, if it isn't one and the same for all."""
        return " & ".join([self.mask, *guards]) if re.search("[a-z]", offset) else ""

    def label(self, name: str, index: Index) -> str:
        """A name for a value at other places than its own."""
        if name not in self.known.values():
            return name
        shifts = [p.shift for p in index if isinstance(p, Place) and p.shift]
        end = "moved" if not shifts else "after" if shifts[0] > 0 else "before"
        return self.wording.free(f"{name}_{end}")

    def compute(
        self, op: Operation, value: ir.Value, index: Index, guards: tuple[str, ...]
    ) -> str:
        """The name of what an operator gives at some indices."""
        if op.taps is not None:
            return self.convolve(op, op.taps, value, index, guards)
        if op.gathers:
            return self.gather(op, value, index, guards)
        if op.pieces:
            return self.move(op, value, index, guards)
        operands = [
            (
                None
                if o is None
                else (
                    Name(self.value(o, index, guards))
                    if isinstance(o, ir.Value)
                    else number(o)
                )
            )
            for o in trimmed(op.operands)
        ]
        spelling = pointwise(op.view.node)
        assert spelling is not None
        made = spelling.spell(Language("tl."), op.view, *operands)
        return self.assign(op, value, index, made)

    def convolve(
        self,
        op: Operation,
        taps: Taps,
        value: ir.Value,
        index: Index,
        guards: tuple[str, ...],
    ) -> str:
        """The name of a convolution's result at some indices."""
        raise NoKernel("a convolution in a kernel of another kind")

    def assign(self, op: Operation, value: ir.Value, index: Index, made: Expr) -> str:
        """A line that computes a value; the name that it is given."""
        label = self.label(self.names[value], index)
        text, kind = self.text(made), op.view.node.op_type
        stored = value in self.program.results and len(self.program.operations) > 1
        if stored and any(value in o.operands for o in self.program.operations):
            inner = text if made.binds == ATOM else f"({text})"
            text = as_stored(self.names[value], inner)
        self.lines.append(f"{label} = {text}  # {kind}")
        return label

    def move(
        self, op: Operation, value: ir.Value, index: Index, guards: tuple[str, ...]
    ) -> str:
        """An element of an operand; of several, the one that the index says."""
        index = index[len(index) - len(self.program.dims(value)) :]  # its own axes
        pieces = [p for p in op.pieces[value] if p.meets(index)]
        if not pieces:
            raise NoKernel("nothing of a tensor is left but what it was padded with")
        if len(pieces) == 1:
            return self.only(op, value, pieces[0], index, guards)
        found: list[tuple[str, str]] = []
        for i, piece in enumerate(pieces):
            ((axis, low, high),) = piece.bounds
            at = self._index_text(index[axis])
            after = f"({at} >= {low})" if i else ""
            before = f"({at} < {high})" if i < len(pieces) - 1 else ""
            condition = " & ".join(c for c in (after, before) if c)
            name = self.operand(op, piece, index, (*guards, condition))
            found.append((f"{at} < {high}", name))
        made: Expr = Name(found[-1][1])
        for limit, name in reversed(found[:-1]):
            self.texts.append(limit)
            made = Language("tl.").where(Name(limit), Name(name), made)
        return self.assign(op, value, index, made)

    def gather(
        self, op: Operation, value: ir.Value, index: Index, guards: tuple[str, ...]
    ) -> str:
        """An element at the place that is read; negative ones count from the end.

        Of a place outside nothing is read, and the result is 0.
        """
        x, places = op.operands[:2]
        assert isinstance(x, ir.Value) and isinstance(places, ir.Value)
        dims, count = self.program.dims(x), len(self.program.dims(places))
        axis = int(op.view.attr("axis", 0)) % len(dims)
        index = index[len(index) - len(self.program.dims(value)) :]
        read = self.value(places, index[axis : axis + count], guards)
        size, at = self.own_size(dims[axis]), self.wording.free("place")
        self.lines.append(f"{at} = tl.where({read} < 0, {read} + {size}, {read})")
        own = (*index[:axis], Formula(at), *index[axis + count :])
        inside = (f"({at} >= 0)", f"({at} < {size})")
        self.texts += inside
        name = self.value(x, own, (*guards, *inside))
        made = Language("tl.").where(Name(" & ".join(inside)), Name(name), 0)
        return self.assign(op, value, index, made)

    def only(
        self,
        op: Operation,
        value: ir.Value,
        piece: Piece,
        index: Index,
        guards: tuple[str, ...],
    ) -> str:
        """An element of the only operand, or what lies around it."""
        conditions = []
        for axis, low, high in piece.bounds:
            if is_one(index[axis]):
                continue  # it is inside
            at = self._index_text(index[axis])
            conditions += [f"({at} >= {low})"] if low is not None else []
            conditions += [f"({at} < {high})"] if high is not None else []
        name = self.operand(op, piece, index, (*guards, *conditions))
        if not conditions:
            return name
        inside = " & ".join(conditions)
        self.texts.append(inside)
        made = Language("tl.").where(
            Name(inside if len(conditions) > 1 else inside[1:-1]),
            Name(name),
            number(piece.fill),
        )
        return self.assign(op, value, index, made)

    def operand(
        self, op: Operation, piece: Piece, index: Index, guards: tuple[str, ...]
    ) -> str:
        """The name of the element that a piece is taken from."""
        operand = op.operands[piece.operand]
        assert isinstance(operand, ir.Value)
        return self.value(operand, tuple(p.of(index) for p in piece.places), guards)

    # ---- offsets

    def _index_text(self, place: Where) -> str:
        """A place as arithmetic: k - 32."""
        if isinstance(place, Size):
            return self.own_size(place.size)
        if not isinstance(place, Place):
            return self._formula_text(place)
        if place.step == 0:
            return str(place.shift)
        own = place.axis - len(self.program.space)
        axis = next(a for a in self.layout.axes if a.first <= own <= a.last)
        text = axis.index if place.step == 1 else f"{place.step} * {axis.index}"
        if place.shift:
            text += f" {'+' if place.shift > 0 else '-'} {abs(place.shift)}"
        return text

    def _formula_text(self, formula: Formula) -> str:
        """With brackets around parts that are neither names nor alone in a call's."""
        text, *rest = formula.text.split("{}")
        for part, after in zip(formula.parts, rest, strict=True):
            inner = self._index_text(part)
            alone = text.endswith("(") and after[:1] in (")", ",")
            plain = alone or re.fullmatch(r"\w+", inner)
            text += (inner if plain else f"({inner})") + after
        return text

    def offset(self, argument: Argument, index: Index) -> str:
        """Where an element lies in its tensor."""
        if argument.value in self.program.apart:
            return self.joined(self._own_terms(argument, index))
        base = self.shifted(argument, index)
        if base:
            return base
        return self.joined(self.terms(argument, index))

    def _own_terms(self, argument: Argument, index: Index) -> list[tuple[str, str]]:
        """Size and index of each axis of a tensor that hasn't those of the space."""
        found = []
        dims = argument.dims
        for size, at in zip(dims, index[len(index) - len(dims) :], strict=True):
            if size != 1:
                found.append((size, self._index_text(at)))
        sizes = ["", *(self.own_size(size) for size, _ in found[1:])]
        return [(size, at) for size, (_, at) in zip(sizes, found, strict=False)]

    def own_size(self, size: Dim) -> str:
        """A number, or what the kernel calls the axis of the space of this size."""
        axis = None if isinstance(size, int) else self.layout.like(size)
        if axis is not None:
            self.layout.used.add(axis.size)
            return axis.size
        if isinstance(size, int):
            return str(size)
        if not isinstance(self.layout, ReshapedLayout):
            raise NoKernel("a size known at run time, which no tensor has")
        return self.layout.own_size(size, self.names)

    def joined(self, terms: list[tuple[str, str]]) -> str:
        """The offset with these sizes and indices, the outermost first."""
        text = ""
        for size, inside in terms:
            if not text:
                text = inside
                continue
            if not size.isdigit():
                self.layout.used.add(size)
            plain = re.fullmatch(r"\w+(\[[^]]*\])?", text)
            outer = text if plain else f"({text})"
            text = f"{outer} * {size}{f' + {inside}' * (inside != '0')}"
        return text

    def terms(self, argument: Argument, index: Index) -> list[tuple[str, str]]:
        """Size and index of each axis that a tensor has, the outermost first."""
        dims = argument.dims
        place = self.layout.arguments.index(argument)
        found = [
            (axis.first, axis.size, axis.index)
            for axis in self.layout.axes
            if axis.has[place] and axis.first not in self.program.moved
        ]
        for axis in self.program.moved:
            if -axis > len(dims) or dims[axis] == 1:
                continue
            at = index[axis]
            found.append((axis, self._size_name(dims[axis], at), self._index_text(at)))
        return [(size, inside) for _, size, inside in sorted(found)]

    def _size_name(self, size: Dim, at: Where) -> str:
        """A number, or what the kernel calls the size of the axis that it is."""
        if isinstance(at, Place) and (at.step, at.shift) == (1, 0):
            own = at.axis - len(self.program.space)
            if same(self.program.space[at.axis], size):
                return next(
                    a.size for a in self.layout.axes if a.first <= own <= a.last
                )
        if isinstance(size, int):
            return str(size)
        raise NoKernel("elements are moved along a size known at run time")

    def shifted(self, argument: Argument, index: Index) -> str:
        """An offset as seen from the element's own, where all sizes are the same."""
        space = self.program.space
        if len(argument.dims) != len(space) or not all(map(same, argument.dims, space)):
            return ""
        change, inner = 0, 1
        for axis in reversed(range(len(space))):
            at, size = index[axis], space[axis]
            if size == 1:
                continue
            if not isinstance(at, Place) or at.axis != axis or at.step != 1:
                return ""
            if at.shift and inner == 0:
                return ""  # behind a size that isn't known
            change += at.shift * inner
            inner = inner * size if isinstance(size, int) else 0
        sign = "+" if change > 0 else "-"
        return f"offsets {sign} {abs(change)}" if change else "offsets"
