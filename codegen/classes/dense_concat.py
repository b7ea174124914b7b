"""A list that grows: each layer takes all maps there are, and adds one (DenseNet)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ...analysis.spelling.expr import Expr, Ref, callee, leaves, render
from ..ir.module_call import ModuleCall, ModuleRef
from ..ir.statement_tree import Statement
from ..modules.members import Attribute

MIN_LAYERS = 3


@dataclass(eq=False)
class Growth:
    """Layers called in turn on everything so far, which a last statement joins."""

    first: ir.Value
    layers: list[Statement]
    joined: Statement  # of the call's argument: torch.cat([...], dim=1)
    over: str  # what the loop is over
    places: tuple[int, ...]


def find_growth(
    statements: Sequence[Statement], members: Sequence[Attribute]
) -> tuple[int, int, Growth] | None:
    """Where such a list grows over all members, and the statements it takes."""
    if any(s.bodies for s in statements):
        return None  # what the bodies of a block read is not looked for here
    layers = [i for i, s in enumerate(statements) if _layer(s) is not None]
    whole = [m.what for m in members]
    over = _over(members)
    if (
        not over
        or len(layers) < MIN_LAYERS
        or [_layer(statements[i]) for i in layers] != whole
    ):
        return None
    start, first = layers[0], _operand(statements[layers[0]])
    maps = [first]
    last: Statement | None = None
    taken = []
    for i in layers:
        join = next(
            (
                s
                for s in statements[start:i]
                if first is not None and s.targets == (_operand(statements[i]),)
            ),
            None,
        )
        if len(maps) > 1:
            if join is None or joined_values(join) != maps:
                return None
            taken.append(join)
            last = join
        taken.append(statements[i])
        (target,) = statements[i].targets
        maps.append(target)
    if last is None or first is None:
        return None
    end = layers[-1] + 1
    if [s for s in statements[start:end] if s not in taken]:
        return None
    if end >= len(statements) or joined_values(statements[end]) != maps:
        return None
    inner = {t for s in taken for t in s.targets}
    outside = [*statements[:start], *statements[end + 1 :]]
    reads = {x.value for s in outside for x in leaves(s.expr) if isinstance(x, Ref)}
    if inner & reads:
        return None
    places = tuple(p for s in taken for p in s.places)
    calls = [statements[i] for i in layers]
    return start, end, Growth(first, calls, statements[end], over, places)


def _over(members: Sequence[Attribute]) -> str:
    """All members: of the module itself, or of its only list."""
    lists = {m.attr if m.index is not None else "" for m in members}
    if len(lists) != 1 or any(m.inner for m in members):
        return ""
    (attr,) = lists
    return f"self.{attr}" if attr else "self.children()"


def _layer(statement: Statement) -> ModuleCall | None:
    """The block that a statement calls on one value, and does no more."""
    runs = [x for x in leaves(statement.expr) if isinstance(x, ModuleRef)]
    plain = render(statement.expr, lambda x: "B" if isinstance(x, ModuleRef) else "v")
    if len(runs) != 1 or plain != "B(v)" or len(statement.targets) != 1:
        return None
    return runs[0].run


def _operand(statement: Statement) -> ir.Value | None:
    return next((x.value for x in leaves(statement.expr) if isinstance(x, Ref)), None)


def joined_values(statement: Statement) -> list[ir.Value | None] | None:
    if callee(statement.expr) != "torch.cat":
        return None
    joined = statement.expr.operands[1].operands
    if not all(isinstance(x, Ref) for x in joined):
        return None
    return [x.value for x in joined if isinstance(x, Ref)]


def joined_list(statement: Statement, name: Ref) -> Expr:
    """The same join of a whole list."""
    join, _, dim = statement.expr.operands
    return join(name, dim=dim)
