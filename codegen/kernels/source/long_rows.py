"""Kernels over rows too long to be kept on chip, which take a part of a row at a time.

Each reduction is a loop over the row. What it needs of each element is computed in the
loop, again in every loop that needs it, since a part is gone when the next one comes.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import Any

from ....analysis.graph.traversal import reached
from ....analysis.spelling.expr import ATOM, Expr, HelperRef, Name
from ..program.program import NoKernel, Operation
from .row_kernel import LEAST, WIDTH, KernelBody, Source, as_stored

_PART = {"cols", "mask"}


class _Loops(KernelBody):
    """Numbers of a row at once; elements when a loop asks for them."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.elements: dict[str, str] = {}  # name -> the line that computes it

    def define(self, name: str, text: str, note: str = "") -> None:
        line = f"{name} = {text}"
        above = note and len(line) + len(note) > WIDTH - 8
        line = f"# {note}\n{line}" if above else f"{line}  # {note}" if note else line
        if self._parts_of(text):
            self.elements[name] = line
        else:
            self.lines.append(line)

    def _parts_of(self, text: str) -> set[str]:
        """What of a part of the row an expression reads."""
        return set(re.findall(r"\w+", text)) & (self.elements.keys() | _PART)

    def needed(self, texts: list[str]) -> list[str]:
        """The lines, in order, that compute what some expressions read."""
        found = reached(
            set[str]().union(*map(self._parts_of, texts)),
            lambda x: self._parts_of(self.elements.get(x, "").partition(" = ")[2]),
        )
        return [v for k, v in self.elements.items() if k in found]

    def loop(self, texts: list[str], last: list[str]) -> None:
        inside = [
            "cols = start + tl.arange(0, BLOCK)",
            "mask = cols < n_cols",
            *self.needed(texts),
            *last,
        ]
        self.lines.append("for start in range(0, n_cols, BLOCK):")
        self.lines += [textwrap.indent(line, "    ") for line in inside]

    def sum(self, x: Expr) -> Expr:
        parts = self.source.wording.free("parts")
        text = self.source.text(self.summed(x))
        self.lines.append(f"{parts} = tl.zeros([BLOCK], tl.float32)")
        self.loop([text], [f"{parts} += {text}"])
        return self.let("whole", self.tl.sum(Name(parts), axis=0))

    def argmax(self, order: Expr) -> Expr:
        """Of each lane the best that it met and where, then the best of all lanes."""
        free = self.source.wording.free
        best, places, own = free("best"), free("places"), free("own")
        self.lines.append(f"{best} = tl.full([BLOCK], {LEAST}, tl.int32)")
        self.lines.append(f"{places} = tl.zeros([BLOCK], tl.int32)")
        text = f"tl.where(mask, {self.source.text(order)}, {LEAST})"
        steps = [
            f"{own} = {text}",
            f"{places} = tl.where({own} > {best}, cols, {places})",
            f"{best} = tl.maximum({best}, {own})",
        ]
        self.loop([text], steps)
        found = f"tl.where({best} == tl.max({best}, axis=0), {places}, n_cols)"
        return self.tl.min(Name(found), axis=0)

    def max(self, x: Expr) -> Expr:
        parts = self.parts(x, 'float("-inf")', "tl.maximum")
        return self.let("largest", self.tl.max(parts, axis=0))

    def cumsum(self, x: Expr, **options: bool) -> Expr:
        raise NoKernel("running sums of rows of more than one part")

    def _combined(
        self, function: Callable[..., Any], x: Expr, start: str, name: str
    ) -> Expr:
        helper = HelperRef(function)
        parts = self.parts(x, start, self.source.text(helper))
        return self.let(name, self.tl.reduce(parts, axis=0, combine_fn=helper))

    def parts(self, x: Expr, start: str, function: str) -> Expr:
        """Of each lane what it meets, joined."""
        parts, text = self.source.wording.free("parts"), self.source.text
        masked = text(self.masked(x, start))
        self.lines.append(f"{parts} = tl.full([BLOCK], {start}, tl.float32)")
        self.loop([masked], [f"{parts} = {function}({parts}, {masked})"])
        return Name(parts)


class LoopedSource(Source):
    """The lines of a kernel whose rows are gone through a part at a time."""

    def body(self) -> list[str]:
        lines = _Loops(self)
        if any(op.top for op in self.program.operations):
            raise NoKernel("the largest elements of rows of more than one part")
        if any(op.lookup for op in self.program.operations):
            raise NoKernel("a table of rows of more than one part")
        loads = [(a, self.layout.offset(a)) for a in self.layout.arguments]
        places = [*(offset for _, offset in loads), *self._places()]
        indices = self.layout.index_lines(places)
        reads = [self._load(argument, offset, lines) for argument, offset in loads]
        for line in (*self._start()[:1], *indices, *reads):
            name, _, text = line.partition(" = ")
            lines.define(name, text)
        self._operations(lines)
        results, small = self.program.results, self.layout.small
        if elements := [self._store(r) for r in results if not small(r)]:
            lines.loop(elements, elements)
        return [*lines.lines, *(self._store(r) for r in results if small(r))]

    def _operation(self, op: Operation, lines: KernelBody) -> None:
        assert isinstance(lines, _Loops)
        kind, name = op.view.node.op_type, self.names[op.result]
        made = self._made(op, lines)
        text = self.text(made)
        if self._keeps_zero(op, lines):
            lines.zero.add(name)
        if self._is_read_on(op):
            text = as_stored(name, text if made.binds == ATOM else f"({text})")
        lines.define(name, text, kind)
