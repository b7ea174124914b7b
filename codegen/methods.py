"""A written body as the plan of a method: its signature, lines and sources."""

from __future__ import annotations

from .body import Body
from .kinds import Kind
from .loops import loops
from .plan import ArgumentPlan, MethodPlan
from .sources import Sources


def method_plan(name: str, body: Body, kind: Kind, sources: Sources) -> MethodPlan:
    """Lines that do the same to one layer after another become loops."""
    lines = loops(list(body.lines), kind.members)
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


def _returns(kinds: tuple[str, ...]) -> str:
    if len(kinds) == 1:
        return kinds[0]
    if len(kinds) <= 4:
        return f"tuple[{', '.join(kinds) or '()'}]"
    return f"tuple[{' | '.join(dict.fromkeys(kinds))}, ...]"
