"""Statements, those that stand inside of others, and what is read after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import onnx_ir as ir

from ...analysis.spelling.expr import Expr, Ref, leaves

# A line of a body, and where the items stand that it computes.
Line: TypeAlias = tuple[str, tuple[int, ...]]


@dataclass(eq=False)
class Statement:
    """`targets = expr`; `kind` says what else it may be: "return", or an Action's.

    An if has two `bodies`, a loop one; `expr` is the condition, or what `for` is over.
    `groups` are the numbers of targets that come as tuples: y, (z, u) = ...
    """

    targets: tuple[ir.Value | None, ...]
    expr: Expr
    inlines: bool
    result: str = ""
    places: tuple[int, ...] = ()  # of the call's contents that it computes
    kind: str = ""
    bodies: list[list[Statement]] = field(default_factory=list)
    groups: tuple[int, ...] = ()
    before: frozenset[ir.Value] = frozenset()  # values that it or what follows reads
    after: frozenset[ir.Value] = frozenset()

    @property
    def loops(self) -> bool:
        """Whether its body is run again and again."""
        return self.kind in ("for", "while")

    def spelled(self, names: Sequence[str]) -> str:
        """What stands left of the equals sign."""
        left, texts = list(names), list[str]()
        for size in self.groups:
            text = ", ".join(left[:size])
            texts.append(text if size == 1 else f"({text})")
            left = left[size:]
        return ", ".join([*texts, *left])


def hand_over(statements: list[Statement]) -> list[Statement]:
    """What only becomes a variable of a loop is computed as that variable.

    Such as a, b = f(x), whose calls can't move to where the variables are set.
    """
    _hand_over(statements, Counter(v for s in flat(statements) for v in reads(s.expr)))
    return statements


def _hand_over(statements: list[Statement], counts: Mapping[ir.Value, int]) -> None:
    made: dict[ir.Value, tuple[int, Statement]] = {}
    kept: list[Statement] = []
    for statement in statements:
        for body in statement.bodies:
            _hand_over(body, counts)
        value = statement.expr.value if isinstance(statement.expr, Ref) else None
        if statement.kind == "set" and value in made and counts[value] == 1:
            (variable,), (at, maker) = statement.targets, made[value]
            between = [s for s in flat(kept[at:]) if s is not maker]
            if variable is not None and not any(
                variable in s.targets or variable in reads(s.expr) for s in between
            ):
                variable.meta.setdefault("word", statement.result)
                maker.targets = tuple(
                    variable if t is value else t for t in maker.targets
                )
                maker.places += statement.places
                continue
        if not statement.kind and (len(statement.targets) > 1 or not statement.inlines):
            made |= {t: (len(kept), statement) for t in statement.targets if t}
        kept.append(statement)
    statements[:] = kept


def flat(items: Iterable[Statement]) -> Iterator[Statement]:
    """The statements, and those inside of them."""
    for item in items:
        yield item
        for body in item.bodies:
            yield from flat(body)


def reads(expr: Expr) -> list[ir.Value]:
    """Values in the order they are read, call targets and constants included."""
    return [leaf.value for leaf in leaves(expr) if isinstance(leaf, Ref)]


def parts(copy: Statement) -> list[tuple[ir.Value, Expr]]:
    """The pairs of a copy."""
    pairs = zip(copy.targets, copy.expr.operands, strict=True)
    return [(target, expr) for target, expr in pairs if target is not None]


def trace(
    items: Sequence[Statement],
    members: Container[object],
    live: frozenset[ir.Value] = frozenset(),
    leave: frozenset[ir.Value] = frozenset(),
) -> frozenset[ir.Value]:
    """Fill `before` and `after`; `live` are the values read after the last statement.

    `leave` are those that are read where a break leads; `members` are no variables.
    What an iteration makes may be read by the next one, so a loop's body is traced
    until nothing is added.
    """
    for item in reversed(items):
        item.after = live
        own = frozenset(v for v in reads(item.expr) if v not in members)
        made = frozenset(t for t in item.targets if t is not None)
        if item.loops:
            again = own if item.kind == "while" else frozenset()
            ends = live | again
            begins = trace(item.bodies[0], members, ends, live) - made
            while not begins <= ends:
                ends |= begins
                begins = trace(item.bodies[0], members, ends, live) - made
            live = ends | own
        elif item.bodies:
            begin = [trace(body, members, live, leave) for body in item.bodies]
            live = own.union(*begin)
        elif item.kind == "break":
            live = live | own | leave
        else:
            live = (live - made) | own
        item.before = live
    return live


def overwritten(items: Iterable[Statement]) -> dict[ir.Value, set[ir.Value]]:
    """For each value the variables that get another one while it is still read."""
    found: dict[ir.Value, set[ir.Value]] = {}
    for copy in flat(items):
        for target, expr in parts(copy) if copy.kind == "copy" else ():
            same = expr.value if isinstance(expr, Ref) else None
            for value in copy.after if target in copy.after else ():
                if value not in (target, same):
                    found.setdefault(value, set()).add(target)
    return found


def changes(copy: Statement, other: Statement) -> bool:
    """Whether an expression means something else after a copy."""
    return not {t for t in copy.targets if t}.isdisjoint(reads(other.expr))
