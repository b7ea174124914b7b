"""What is written where it is read, and what has a line of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ...analysis.spelling.expr import (
    Binary,
    Call,
    Expr,
    List,
    Ref,
    Subscript,
    Tuple,
    depth,
    joined,
    nodes,
    renamed,
    render,
)
from ..ir.assignment import LayerRef
from ..ir.module_call import ModuleRef, member, members
from ..ir.statement_tree import Statement, changes, flat, reads
from .variable_names import Naming

WIDTH = 80  # what is left of 88 columns in a method
MAX_DEPTH = 3  # calls nested in each other
MAX_WORK = 5  # calls and operators in one expression
MAX_TEXT = 64  # columns of one inlined expression
MAX_TELLING = 24  # columns up to which a value with a telling name may lose it


def fitting(line: str) -> str:
    """Without its comment, if that doesn't fit into a loop."""
    return line if len(line) <= WIDTH - 4 else line.partition("  #")[0]


class Inlining(Naming):
    """Puts expressions into each other, as far as a reader can follow."""

    def inline(self, statements: list[Statement]) -> list[Statement]:
        """Put each value that is read once where it is read, if a reader can follow.

        Nothing goes into a loop, where it would be computed again and again.
        """
        counts = Counter(v for s in flat(statements) for v in reads(s.expr))
        counts.update(dict.fromkeys(self.kept, 2))
        return self._inlined(statements, counts, {})

    def _inlined(
        self,
        statements: Sequence[Statement],
        counts: Mapping[ir.Value, int],
        ready: dict[ir.Value, Statement],
    ) -> list[Statement]:
        """`ready` are the values that may still move, of the statements around too."""
        for statement in statements:
            if statement.kind != "while":  # its line is run again and again
                self._absorb(statement, ready)
            for i, body in enumerate(statement.bodies):
                seen = {} if statement.loops else dict(ready)
                statement.bodies[i] = self._inlined(body, counts, seen)
            if statement.kind == "copy":
                for value in [v for v, s in ready.items() if changes(statement, s)]:
                    del ready[value]
            single = len(statement.targets) == 1 and statement.targets[0] is not None
            if single and statement.inlines:
                target = statement.targets[0]
                assert target is not None
                if counts.get(target) == 1 and target not in self.ints:
                    ready[target] = statement
        return [s for s in statements if not any(t in self.moved for t in s.targets)]

    def _tells(self, statement: Statement) -> bool:
        """Whether the value deserves a line of its own, under its own name."""
        if not self.hint(statement):
            return False
        return len(render(statement.expr, self.rough)) > MAX_TELLING

    def _absorb(self, statement: Statement, ready: dict[ir.Value, Statement]) -> None:
        """Inline into one statement what is read there."""
        values = dict.fromkeys(reads(statement.expr))
        if len(values) > WIDTH:  # more than a line has columns
            return
        for value in values:
            source = ready.get(value)
            if source is None:
                continue
            if (
                not statement.targets
                and value in self.fixed
                and not isinstance(source.expr, Call | Ref)
            ):
                continue
            if self._tells(source) and not self.stays(statement.expr, value):
                continue
            if depth(source.expr) and self.in_list(statement):
                continue  # one layer of a list is a line
            if self.repeats(source) and not _sums(statement.expr):
                continue
            merged = renamed(statement.expr, {value: source.expr})
            if self._readable(merged, statement):
                statement.expr = merged
                statement.places += source.places
                self.moved.add(value)
                if not members(source.expr):
                    self.sources[value] = [*self._sources(source.expr) - self.ints]

    def _readable(self, expr: Expr, statement: Statement) -> bool:
        """Whether a reader can follow a statement that has this expression instead."""
        if statement.kind == "return" and isinstance(statement.expr, Ref):
            return True
        if not _are_steps_apart(expr):
            return False
        whole, expr = render(expr, self.rough), _told_once(expr)
        text = render(expr, self.rough)
        longest = max((len(self.names.get(v, "")) for v in reads(expr)), default=0)
        limit = MAX_TEXT + 4
        if statement.targets:
            limit = min(MAX_TEXT, WIDTH - longest - 3)
        if statement.kind in ("if", "for", "while", "break"):
            limit -= len("if ")
        # Calls, operators and tuples, which a reader has to put together.
        work = sum(isinstance(node, Call | Binary | Tuple) for node in nodes(expr))
        plain = depth(expr) <= MAX_DEPTH and work <= MAX_WORK
        return plain and len(text) <= limit and len(whole) <= 2 * WIDTH


def _told_once(expr: Expr) -> Expr:
    """A call on a list of cuts, as those of every second row, with one of them: a
    reader puts them together once."""
    cuts = [isinstance(item, Subscript) and not depth(item) for item in joined(expr)]
    if sum(cuts) < 2:
        return expr
    function, whole, *others = expr.operands
    items = zip(whole.operands, cuts, strict=True)
    first = cuts.index(True)
    left = [x for i, (x, is_cut) in enumerate(items) if not is_cut or i == first]
    return expr._of(function, List(*left), *others)


def _sums(expr: Expr) -> bool:
    """Whether an expression is the sum of two values: a residual connection."""
    match expr:
        case Binary((Ref(), Ref()), "+"):
            return True
    return False


def _are_steps_apart(expr: Expr, above: LayerRef | ModuleRef | None = None) -> bool:
    """Convolutions and blocks are steps of their own: one to a line."""
    called = member(expr.operands[0]) if isinstance(expr, Call) else None
    if called is not None:
        if above is not None:
            after = ("Norm", "FakeQuantize")
            normed = any(word in _layer_name(above) for word in after)
            normed = normed and "Conv" in _layer_name(called)
            names = _layer_name(called) + _layer_name(above)
            convolution = "Conv" in names and not normed
            blocks = isinstance(called, ModuleRef) and isinstance(above, ModuleRef)
            if convolution or blocks:
                return False
        above = called
    return all(_are_steps_apart(operand, above) for operand in expr.operands)


def _layer_name(leaf: LayerRef | ModuleRef) -> str:
    return leaf.form.layer if isinstance(leaf, LayerRef) else ""
