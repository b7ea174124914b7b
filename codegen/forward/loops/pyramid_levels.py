"""The same layers on one map after another, joined: a loop over a pyramid's levels."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from ....analysis.spelling.expr import Expr, Leaf, Ref, renamed, render
from ...classes.dense_concat import joined_list, joined_values
from ...ir.assignment import LayerRef
from ...ir.module_call import ModuleRef
from ...ir.naming import LEVEL
from ...ir.statement_tree import Statement, reads

MIN_LEVELS, MIN_STATEMENTS = 3, 2


def fold_levels(statements: list[Statement]) -> list[Statement]:
    """Each join of what one computation makes of several values, as a loop.

    The layers must be the same ones: a loop over levels is what calls them.
    """
    if any(s.bodies for s in statements):
        return statements
    found = statements
    for join in statements:
        rounds = _rounds(join, found)
        starts = _starts(rounds)
        if starts is not None:
            found = _looped(found, join, rounds, starts)
    return found


def _rounds(join: Statement, statements: list[Statement]) -> list[list[Statement]]:
    """For each operand of a join the statements that it alone needs."""
    operands = joined_values(join)
    if operands is None or len(set(operands)) < max(len(operands), MIN_LEVELS):
        return []
    uses: Counter[ir.Value | None] = Counter(
        v for s in statements for v in reads(s.expr)
    )
    makers = {t: s for s in statements for t in s.targets if len(s.targets) == 1}
    rounds = []
    for operand in operands:
        needed: list[Statement] = []
        todo: list[ir.Value | None] = [operand]
        while todo:
            value = todo.pop()
            maker = makers.get(value)
            if maker is not None and uses[value] == 1 and not maker.kind:
                needed.append(maker)
                todo += reads(maker.expr)
        rounds.append([s for s in statements if s in needed])
    return rounds


def _starts(rounds: list[list[Statement]]) -> list[ir.Value] | None:
    """The value that each round begins with, if that is all in which they differ."""
    if len(rounds) < MIN_LEVELS or len({len(r) for r in rounds}) > 1:
        return None
    if len(rounds[0]) < MIN_STATEMENTS:
        return None
    told = [_told(r) for r in rounds]
    if any(words != told[0][0] for words, _ in told):
        return None
    columns = zip(*(values for _, values in told), strict=True)
    differing = {column for column in columns if len(set(column)) > 1}
    return list(*differing) if len(differing) == 1 else None


def _told(statements: list[Statement]) -> tuple[list[object], list[ir.Value]]:
    """What a round does, and the values from outside that it reads, in order."""
    own: dict[ir.Value | None, int] = {}
    outer: list[ir.Value] = []

    def name(leaf: Leaf) -> str:
        if isinstance(leaf, ModuleRef):
            return f"run{id(leaf.run.shares or leaf.run)}"
        if isinstance(leaf, LayerRef):
            return f"layer{id(leaf.form)}"
        if not isinstance(leaf, Ref):
            return f"leaf{id(leaf)}"
        if leaf.value in own:
            return f"own{own[leaf.value]}"
        outer.append(leaf.value)
        return "outer"

    words: list[object] = []
    for statement in statements:
        words.append((render(statement.expr, name), statement.inlines))
        for target in statement.targets:
            own[target] = len(own)
    return words, outer


def _looped(
    statements: list[Statement],
    join: Statement,
    rounds: list[list[Statement]],
    starts: list[ir.Value],
) -> list[Statement]:
    level, made = ir.Value(name=LEVEL), ir.Value(name=f"{LEVEL}s")
    first = rounds[0]
    for same in zip(*rounds, strict=True):
        same[0].places = tuple(place for s in same for place in s.places)
    for statement in first:
        statement.expr = renamed(statement.expr, {starts[0]: level})
    (last,) = first[-1].targets
    assert last is not None
    each: list[str | tuple[Expr, int]] = ["("]
    for i, start in enumerate(starts):
        each += [", " if i else "", (Ref(start), 0)]
    first.append(Statement((), Ref(made).append(Ref(last)), False, kind="call"))
    loop = [
        Statement((made,), Expr("[]"), False, f"{LEVEL}s", kind="set"),
        Statement((level,), Expr(*each, ")"), False, kind="for", bodies=[first]),
    ]
    join.expr = joined_list(join, Ref(made))
    gone = {id(s) for r in rounds for s in r}
    at = statements.index(join)
    kept = [
        [s for s in part if id(s) not in gone]
        for part in (statements[:at], statements[at:])
    ]
    return [*kept[0], *loop, *kept[1]]
