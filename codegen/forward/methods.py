"""A written body as the plan of a method: its signature, lines and sources."""

from __future__ import annotations

import ast

from ..classes.module_classes import ModuleClass
from ..classes.provenance import Sources
from ..ir.naming_rules import GENERIC
from ..ir.package_plan import ArgumentPlan, MethodPlan
from .inlining import WIDTH
from .loops.line_loops import loops
from .writer import Body


def method_plan(
    name: str, body: Body, kind: ModuleClass, sources: Sources
) -> MethodPlan:
    """Lines that do the same to one layer after another become loops."""
    lines = _returned(loops(list(body.lines), kind.members))
    return MethodPlan(
        name,
        tuple(ArgumentPlan(n, t) for n, t in body.arguments),
        _returns(body.returns),
        tuple(line for line, _ in lines),
        tuple(
            sources.behind(kind, [p for i in rows for p in body.places[i]])
            for _, rows in lines
        ),
    )


def _returned(lines: list[tuple[str, range]]) -> list[tuple[str, range]]:
    """What the last line but one makes is returned there, if its name says nothing."""
    if len(lines) < 2:
        return lines
    *before, (made, rows), (last, end) = lines
    names = last.removeprefix("return ")
    text = made.removeprefix(f"{names} = ")
    plain = all(name in GENERIC for name in names.split(", "))
    if not plain or made == text or "  #" in made or _is_tuple(text):
        return lines
    line = f"return {text}"
    whole = range(rows.start, end.stop)
    return lines if len(line) > WIDTH else [*before, (line, whole)]


def _is_tuple(text: str) -> bool:
    return isinstance(ast.parse(text, mode="eval").body, ast.Tuple)


def _returns(kinds: tuple[str, ...]) -> str:
    if len(kinds) == 1:
        return kinds[0]
    if len(kinds) <= 4:
        return f"tuple[{', '.join(kinds) or '()'}]"
    return f"tuple[{' | '.join(dict.fromkeys(kinds))}, ...]"
