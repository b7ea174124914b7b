"""The lines of statements that have bodies, and of what stands only in bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import onnx_ir as ir

from ...analysis.spelling.expr import (
    Binary,
    Conditional,
    Expr,
    Literal,
    Ref,
    Unary,
    nodes,
    render,
)
from ..ir.identifiers import unused, variable
from ..ir.naming import GENERIC, telling
from ..ir.statement_tree import Line, Statement, parts, reads
from .inlining import WIDTH, fitting
from .roles import role

if TYPE_CHECKING:
    from .writer import BodyWriter


def if_lines(w: BodyWriter, s: Statement) -> list[Line]:
    """Results get their names first, so that both branches can assign them."""
    condition = s.expr
    copies = [_copy(body) for body in s.bodies]
    live = w.live(s.after)
    dying = [v for v in reversed(list(w.names)) if v in s.before - s.after]
    made = [{t: x.expr for x in body for t in x.targets} for body in s.bodies]
    for both in zip(*copies, strict=True):
        target, expr = both[0]
        for (_, given), inner in zip(both, made, strict=True):
            whole = inner.get(given.value, given) if isinstance(given, Ref) else given
            expr = expr if role(expr) else whole
        name = w.choose(target, Statement((target,), expr, False), dying, live)
        w.names[target] = name
        live.add(name)
    for pairs in copies:
        _prefer(w, pairs)
    then, other = (_written(w, body) for body in s.bodies)
    if not then and not other:
        return []
    if not then:
        condition, then, other = Unary(condition, label="not "), other, []
    joined = _joined(w, condition, then, other)
    if joined:
        places = (
            p for branch in (then, other) for _, ps in branch[0].lines for p in ps
        )
        return [(joined, (*s.places, *places))]
    head: Line = (f"if {render(condition, w.name)}:", s.places)
    return [head, *_indented(then), *_otherwise(other)]


def _otherwise(other: list[_Written]) -> list[Line]:
    """The other branch, as `elif` where it is nothing but a condition."""
    if not other:
        return []
    if len(other) > 1 or other[0].statement.kind != "if" or len(other[0].lines) < 2:
        return [("else:", ()), *_indented(other)]
    (text, places), *rest = other[0].lines
    return [(f"el{text}", places), *rest]


def _joined(
    w: BodyWriter, condition: Expr, then: list[_Written], other: list[_Written]
) -> str:
    """`x = a and b`, where one branch is a condition and the other a constant one; ""
    for others. Constants are Python's own only where nothing but conditions read them.
    """
    pairs = [pair for branch in (then, other) for pair in _assigned(w, branch)]
    if len(pairs) != 2 or not _is_bare(condition, "if", "and", "or"):
        return ""
    (target, first), (same, second) = pairs
    if w.names[target] != w.names[same] or _is_truth(first) == _is_truth(second):
        return ""
    sure, asked = (first, second) if _is_truth(first) else (second, first)
    if not _is_bare(asked, "if", "or"):
        return ""
    symbol = "or" if sure.label else "and"
    # if c: True else b; if c: False else b; if c: b else True; if c: b else False
    denied = (sure is first) != bool(sure.label)
    condition = Unary(condition, label="not ") if denied else condition
    texts = [render(x, w.name) for x in (condition, asked)]
    line = f"{w.names[target]} = {f' {symbol} '.join(texts)}"
    return line if len(line) <= WIDTH - 4 else ""


def _assigned(w: BodyWriter, branch: Sequence[_Written]) -> list[tuple[ir.Value, Expr]]:
    """The variable that a branch assigns in its only line, and what to."""
    if [len(written.lines) for written in branch] != [1]:
        return []
    s = branch[0].statement
    if s.kind == "copy":
        pairs = [(t, x) for t, x in parts(s) if w.names.get(t) != render(x, w.name)]
        return pairs if len(pairs) == 1 else []
    plain = len(s.targets) == 1 and s.targets[0] is not None and not s.kind
    return [(s.targets[0], s.expr)] if plain else []  # type: ignore[list-item]


def _is_truth(expr: Expr) -> bool:
    return isinstance(expr, Literal) and isinstance(expr.label, bool)


def _is_bare(expr: Expr, *words: str) -> bool:
    """Whether none of these operators stands in an expression."""
    found = {
        "if" if isinstance(x, Conditional) else x.label
        for x in nodes(expr)
        if isinstance(x, Binary | Conditional)
    }
    return found.isdisjoint(words)


def _loop_lines(w: BodyWriter, s: Statement) -> list[Line]:
    head = f"while {render(s.expr, w.name)}"
    if s.kind == "for":
        live = w.live(s.before | s.after)
        items = render(s.expr, w.name)
        names = [_target(w, s, target, live) for target in s.targets]
        head = f"for {s.spelled(names)} in {items}"
    _prefer(w, _copy(s.bodies[0]))
    return [
        (f"{head}:", s.places),
        *(_indented(_written(w, s.bodies[0])) or [("    pass", ())]),
    ]


def _target(
    w: BodyWriter, s: Statement, target: ir.Value | None, live: set[str]
) -> str:
    if target is None or target not in w.read:
        return "_"
    counts = ("i", "j", "k", "n") if target.meta.get("counter") else GENERIC
    wish = w.wishes.get(target, "") or w.turn(target, s)
    wish = wish or ("" if counts is not GENERIC else telling(target.name))
    free = (n for n in counts if n not in live)
    w.names[target] = unused(wish or next(free, counts[0]), live)
    live.add(w.names[target])
    return w.names[target]


class _Written(NamedTuple):
    """A statement of a body, and its lines, of which there are some."""

    statement: Statement
    lines: list[Line]


def _written(w: BodyWriter, body: list[Statement]) -> list[_Written]:
    found = [_Written(s, w.item(s)) for s in body]
    return [written for written in found if written.lines]


def _indented(body: Iterable[_Written]) -> list[Line]:
    lines = (line for written in body for line in written.lines)
    return [(f"    {fitting(text)}", places) for text, places in lines]


def _copy(body: list[Statement]) -> list[tuple[ir.Value, Expr]]:
    return [pair for s in body if s.kind == "copy" for pair in parts(s)]


def _prefer(w: BodyWriter, pairs: list[tuple[ir.Value, Expr]]) -> None:
    for target, expr in pairs:
        if isinstance(expr, Ref):
            w.preferred.setdefault(expr.value, target)


def copy_lines(w: BodyWriter, s: Statement) -> list[Line]:
    """One line for each pair, in an order that reads no variable too late."""
    live = w.live(s.after)
    todo: list[tuple[str, str, set[str]]] = []
    for target, expr in parts(s):
        if target not in s.after:
            continue
        if target not in w.names:
            w.names[target] = unused(variable(target.name or "x"), live)
            live.add(w.names[target])
        name, text = w.names[target], render(expr, w.name)
        if name != text:
            todo.append((name, text, {w.names.get(v, "") for v in reads(expr)}))
    lines: list[Line] = []
    while todo:
        read = [a[0] for a in todo for b in todo if a is not b and a[0] in b[2]]
        first = next((a for a in todo if a[0] not in read), None)
        if first is None:
            names, texts, _ = zip(*todo, strict=True)
            text = f"{', '.join(names)} = {', '.join(texts)}"
            return [*lines, (text, s.places)]
        todo.remove(first)
        lines.append((f"{first[0]} = {first[1]}", s.places))
    return lines


def _call_lines(w: BodyWriter, s: Statement) -> list[Line]:
    return [(render(s.expr, w.name), s.places)]


def _break_lines(w: BodyWriter, s: Statement) -> list[Line]:
    return [(f"if {render(s.expr, w.name)}:", s.places), ("    break", s.places)]


PRINTED: dict[str, Callable[[BodyWriter, Statement], list[Line]]] = {
    "if": if_lines,
    "for": _loop_lines,
    "while": _loop_lines,
    "copy": copy_lines,
    "call": _call_lines,
    "break": _break_lines,
}
