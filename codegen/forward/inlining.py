"""What is written where it is read, and what has a line of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from ...analysis.spelling.expr import Call, Expr, Leaf, Ref, depth, renamed, render
from ..ir.assignment import LayerRef
from ..ir.module_call import ModuleRef
from ..ir.statement_tree import RolledLoop, Statement, changes, flat, reads
from .naming import Naming, members_of

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

    def inline(
        self,
        items: Sequence[Statement | RolledLoop],
        kept_values: Collection[ir.Value] = (),
    ) -> list[Statement | RolledLoop]:
        """Put each value that is read once where it is read, if a reader can follow.

        Nothing goes into a loop, where it would be computed again and again.
        """
        counts = Counter(v for s in flat(items) for v in reads(s.expr))
        for item in items:
            if isinstance(item, RolledLoop):
                counts.update(dict.fromkeys(item.reads(), 1))
        counts.update(dict.fromkeys(kept_values, 2))
        return self.inlined(items, counts, {})

    def inlined(
        self,
        items: Sequence[Statement | RolledLoop],
        counts: Mapping[ir.Value, int],
        ready: dict[ir.Value, Statement],
    ) -> list[Statement | RolledLoop]:
        """`ready` are the values that may still move, of the statements around too."""
        kept: list[Statement | RolledLoop] = []
        for statement in items:
            if isinstance(statement, RolledLoop):
                statement.body = [
                    s
                    for s in self.inline(list(statement.body), statement.handed_on)
                    if isinstance(s, Statement)
                ]
                kept.append(statement)
                continue
            if statement.kind != "while":  # its line is run again and again
                self.absorb(statement, ready)
            for i, body in enumerate(statement.bodies):
                seen = {} if statement.loops else dict(ready)
                statement.bodies[i] = [
                    s
                    for s in self.inlined(body, counts, seen)
                    if isinstance(s, Statement)
                ]
            if statement.kind == "copy":
                for value in [v for v, s in ready.items() if changes(statement, s)]:
                    del ready[value]
            single = len(statement.targets) == 1 and statement.targets[0] is not None
            if single and statement.inlines:
                target = statement.targets[0]
                assert target is not None
                if counts.get(target) == 1 and target not in self.ints:
                    ready[target] = statement
            kept.append(statement)
        return [
            s
            for s in kept
            if isinstance(s, RolledLoop) or not any(t in self.moved for t in s.targets)
        ]

    def tells(self, statement: Statement) -> bool:
        """Whether the value deserves a line of its own, under its own name."""
        if not self.hint(statement):
            return False
        return len(render(statement.expr, self.rough)) > MAX_TELLING

    def absorb(self, statement: Statement, ready: dict[ir.Value, Statement]) -> None:
        """Inline into one statement what is read there."""
        for value in dict.fromkeys(reads(statement.expr)):
            source = ready.get(value)
            if source is None:
                continue
            if (
                not statement.targets
                and value in self.fixed
                and not isinstance(source.expr, Call)
            ):
                continue
            if self.tells(source) and not self.stays(statement.expr, value):
                continue
            if depth(source.expr) and self.in_list(statement):
                continue  # so that the rows of a loop stay alike
            if self.repeats(source):
                continue
            merged = renamed(statement.expr, {value: source.expr})
            if self.readable(merged, statement):
                statement.expr = merged
                statement.places += source.places
                self.moved.add(value)
                if not members_of(source.expr):
                    self.sources[value] = [
                        v for v in reads(source.expr) if v not in self.texts
                    ]

    def readable(self, expr: Expr, statement: Statement) -> bool:
        """Whether a reader can follow a statement that has this expression instead."""
        if statement.kind == "return" and isinstance(statement.expr, Ref):
            return True
        if not _are_steps_apart(expr):
            return False
        text = render(expr, self.rough)
        work = text.count("(") + len(re.findall(r" [-+*/@&|<>=]+ ", text))
        longest = max((len(self.names.get(v, "")) for v in reads(expr)), default=0)
        limit = MAX_TEXT + 4
        if statement.targets:
            limit = min(MAX_TEXT, WIDTH - longest - 3)
        if statement.kind in ("if", "for", "while", "break"):
            limit -= len("if ")
        return depth(expr) <= MAX_DEPTH and work <= MAX_WORK and len(text) <= limit


def _are_steps_apart(expr: Expr, above: Leaf | None = None) -> bool:
    """Convolutions and blocks are steps of their own: one to a line."""
    if isinstance(expr, Call) and isinstance(expr.operands[0], LayerRef | ModuleRef):
        callee = expr.operands[0]
        if above is not None:
            after = ("Norm", "FakeQuantize")
            normed = any(word in _layer_name(above) for word in after)
            normed = normed and "Conv" in _layer_name(callee)
            names = _layer_name(callee) + _layer_name(above)
            convolution = "Conv" in names and not normed
            blocks = isinstance(callee, ModuleRef) and isinstance(above, ModuleRef)
            if convolution or blocks:
                return False
        above = callee
    return all(_are_steps_apart(operand, above) for operand in expr.operands)


def _layer_name(leaf: Leaf) -> str:
    return leaf.form.layer if isinstance(leaf, LayerRef) else ""
