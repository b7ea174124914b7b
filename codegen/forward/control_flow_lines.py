"""The lines of statements that have bodies, and of what stands only in bodies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import onnx_ir as ir

from ...analysis.spelling.expr import Expr, Ref, render
from ..ir.identifiers import unused, variable
from ..ir.naming import GENERIC, telling
from ..ir.statement_tree import Line, Statement, parts, reads
from .inlining import WIDTH, fitting
from .loops.layer_loops import roll_lines

if TYPE_CHECKING:
    from .writer import BodyWriter


def if_lines(w: BodyWriter, s: Statement) -> list[Line]:
    """Results get their names first, so that both branches can assign them."""
    condition = render(s.expr, w.name)
    copies = [_copy(body) for body in s.bodies]
    live = w.live(s.after)
    dying = [v for v in reversed(list(w.names)) if v in s.before - s.after]
    for target, expr in copies[0]:
        name = w.choose(target, Statement((target,), expr, False), dying, live)
        w.names[target] = name
        live.add(name)
    for pairs in copies:
        _prefer(w, pairs)
    then, other = (_body(w, body) for body in s.bodies)
    if not then and not other:
        return []
    if not then:
        condition, then, other = f"not {condition}", other, []
    joined = _joined(condition, then, other)
    if joined is not None:
        return [(joined, (*s.places, *then[0][1], *other[0][1]))]
    head: Line = (f"if {condition}:", s.places)
    return [head, *then, *_otherwise(other)]


def _otherwise(other: list[Line]) -> list[Line]:
    """The other branch, as `elif` where it is nothing but a condition."""
    if not other:
        return []
    bare = [text[4:] for text, _ in other]
    outer = [text for text in bare[1:] if not text.startswith(" ")]
    follows = all(text.startswith(("elif ", "else:")) for text in outer)
    if not bare[0].startswith("if ") or not follows:
        return [("else:", ()), *other]
    texts = [f"el{bare[0]}", *bare[1:]]
    return [(text, places) for text, (_, places) in zip(texts, other, strict=True)]


def _joined(condition: str, then: list[Line], other: list[Line]) -> str | None:
    """`x = a and b`, where one branch is a condition and the other a constant one.

    Constants are Python's own only where nothing but conditions read them.
    """
    if len(then) != 1 or len(other) != 1 or re.search(r" (if|and|or) ", condition):
        return None
    (name, _, first), (same, _, second) = (
        line.strip().partition(" = ") for line, _ in (then[0], other[0])
    )
    constants = ("True", "False")
    if not name.isidentifier() or name != same:
        return None
    if (first in constants) == (second in constants):
        return None
    sure, asked = (first, second) if first in constants else (second, first)
    if not asked or re.search(r" (if|or|#) ", asked):
        return None
    word = "or" if sure == "True" else "and"
    # if c: True else b; if c: False else b; if c: b else True; if c: b else False
    denied = (sure == first) != (sure == "True")
    condition = f"not {condition}" if denied else condition
    line = f"{name} = {condition} {word} {asked}"
    return line if len(line) <= WIDTH - 4 else None


def loop_lines(w: BodyWriter, s: Statement) -> list[Line]:
    head = f"while {render(s.expr, w.name)}"
    if s.kind == "for":
        live = w.live(s.before | s.after)
        items = render(s.expr, w.name)
        head = f"for {', '.join(_targets(w, s.targets, live))} in {items}"
    _prefer(w, _copy(s.bodies[0]))
    return [(f"{head}:", s.places), *(_body(w, s.bodies[0]) or [("    pass", ())])]


def _targets(
    w: BodyWriter, targets: Iterable[ir.Value | None], live: set[str]
) -> list[str]:
    names = []
    for target in targets:
        name = "_"
        if target is not None and target in w.read:
            counts = ("i", "j", "k", "n") if target.meta.get("counter") else GENERIC
            wish = "" if counts is not GENERIC else telling(target.name)
            free = (n for n in counts if n not in live)
            name = unused(wish or next(free, counts[0]), live)
            w.names[target] = name
            live.add(name)
        names.append(name)
    return names


def _body(w: BodyWriter, body: list[Statement]) -> list[Line]:
    lines = [(fitting(text), places) for text, places in w.block(body)]
    folded = roll_lines([text for text, _ in lines], w.kind.members)
    return [
        (f"    {text}", tuple(place for i in stands_for for place in lines[i][1]))
        for text, stands_for in folded
    ]


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
        first = next((a for a in todo if not _read_later(a, todo)), None)
        if first is None:
            names, texts, _ = zip(*todo, strict=True)
            text = f"{', '.join(names)} = {', '.join(texts)}"
            return [*lines, (text, s.places)]
        todo.remove(first)
        lines.append((f"{first[0]} = {first[1]}", s.places))
    return lines


def _read_later(
    one: tuple[str, str, set[str]], todo: list[tuple[str, str, set[str]]]
) -> bool:
    return any(one[0] in other[2] for other in todo if other is not one)


def call_lines(w: BodyWriter, s: Statement) -> list[Line]:
    return [(render(s.expr, w.name), s.places)]


def break_lines(w: BodyWriter, s: Statement) -> list[Line]:
    return [(f"if {render(s.expr, w.name)}:", s.places), ("    break", s.places)]


PRINTED: dict[str, Callable[[BodyWriter, Statement], list[Line]]] = {
    "if": if_lines,
    "for": loop_lines,
    "while": loop_lines,
    "copy": copy_lines,
    "call": call_lines,
    "break": break_lines,
}
