"""Statements that do the same again and again, each time to the next of a list.

A row is a stretch of a body in which the same statements come round with the next
layer of each list (`self.ln1[0]`, `self.ln1[1]`, ...) or the next past of a decoder.
One round becomes the body of a loop.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import onnx_ir as ir

from ....analysis.spelling.expr import Leaf, Ref, leaves, render
from ...ir.identifiers import unused
from ...ir.naming import list_item
from ...ir.statement_tree import RolledLoop, Statement
from ...modules.members import Attribute

# The list and the place in it that a leaf stands for, if it does.
Indexed = Callable[[Leaf], tuple[str, int] | None]


def find_rows(
    statements: list[Statement], indexed: Indexed, collected: set[ir.Value]
) -> list[Statement | RolledLoop]:
    """Fold what comes round; `collected` are results that each round may give.

    A body with blocks stays as it is: what their bodies read is not looked for here.
    """
    if any(s.bodies for s in statements):
        return list(statements)
    found: list[Statement | RolledLoop] = []
    start = 0
    while start < len(statements):
        row, hoisted, end = _row_at(statements, start, indexed, collected)
        if row is None:
            found.append(statements[start])
            start += 1
        else:
            found += [*hoisted, row]
            start = end
    return found


def _row_at(
    statements: list[Statement],
    start: int,
    indexed: Indexed,
    collected: set[ir.Value],
) -> tuple[RolledLoop | None, list[Statement], int]:
    nothing: tuple[None, list[Statement], int] = (None, [], start)
    first = _places(statements[start], indexed)
    if not first or set(first.values()) != {0}:
        return nothing
    lists = set(first)
    starts = [start]
    for i in range(start + 1, len(statements)):
        places = _places(statements[i], indexed)
        if any(n == len(starts) for a, n in places.items() if a in lists):
            starts.append(i)
    if len(starts) < 2:
        return nothing
    rest = statements[start:]
    hoisted, kept = _hoist(rest, indexed)
    gone = set(map(id, hoisted))
    places_kept = [
        i for i, s in enumerate(kept) if id(s) in {id(statements[j]) for j in starts}
    ]
    length = places_kept[1] - places_kept[0]
    rounds = [kept[i : i + length] for i in places_kept]
    even = all(b - a == length for a, b in pairwise(places_kept))
    families = any("." in attr for attr in lists) or any(
        t in collected for s in rounds[0] for t in s.targets
    )
    if (length < 2 and not families) or not even or len(rounds[-1]) < length:
        return nothing
    row = _match(rounds, indexed)
    # What was hoisted from behind the row may as well stay there.
    inside = {id(s) for r in rounds for s in r}
    last = max(i for i, s in enumerate(statements) if id(s) in inside)
    if row is None or not _closed(row, statements[last + 1 :], collected):
        return nothing
    before = [s for s in statements[start : last + 1] if id(s) in gone]
    return row, before, last + 1


def _places(statement: Statement, indexed: Indexed) -> dict[str, int]:
    found = (indexed(leaf) for leaf in leaves(statement.expr))
    return dict(entry for entry in found if entry is not None)


def _hoist(
    statements: Sequence[Statement], indexed: Indexed
) -> tuple[list[Statement], list[Statement]]:
    """What needs nothing that a list's layer computes, and the others."""
    made: set[ir.Value] = set()
    hoisted, kept = [], []
    for statement in statements:
        reads = {leaf.value for leaf in leaves(statement.expr) if isinstance(leaf, Ref)}
        if reads & made or _places(statement, indexed) or not statement.targets:
            made.update(t for t in statement.targets if t is not None)
            kept.append(statement)
        else:
            hoisted.append(statement)
    return hoisted, kept


def _match(rounds: list[list[Statement]], indexed: Indexed) -> RolledLoop | None:
    """Whether each round does what the first does, to what the one before made."""
    row = RolledLoop(len(rounds), rounds[0], rounds=rounds)
    own = [
        {t for s in statements for t in s.targets if t is not None}
        for statements in rounds
    ]
    for k in range(1, len(rounds)):
        here: dict[ir.Value, ir.Value] = {}  # first round's value -> this round's
        for a, b in zip(rounds[0], rounds[k], strict=True):
            if not _alike(a, b, k, indexed):
                return None
            for u, v in zip(_values(a, indexed), _values(b, indexed), strict=True):
                if u in own[0]:
                    if here.get(u) is not v:
                        return None
                elif v in own[k - 1]:
                    carrier = row.twins.get(v, v)
                    if row.carried.setdefault(u, carrier) is not carrier:
                        return None
                elif u is not v:
                    return None
            here.update(
                (u, v)
                for u, v in zip(a.targets, b.targets, strict=True)
                if u is not None and v is not None
            )
        row.twins.update((v, u) for u, v in here.items())
    # A value that one round takes over, no other may read unchanged.
    for k in range(1, len(rounds)):
        if any(v in row.carried for s in rounds[k] for v in _values(s, indexed)):
            return None
    return row


def _alike(a: Statement, b: Statement, place: int, indexed: Indexed) -> bool:
    def text(statement: Statement, k: int) -> str:
        def name(leaf: Leaf) -> str:
            found = indexed(leaf)
            if found is not None:
                return f"{found[0]}[{found[1] - k}]"
            return "v" if isinstance(leaf, Ref) else repr(leaf)

        return render(statement.expr, name)

    return (
        text(a, 0) == text(b, place)
        and len(a.targets) == len(b.targets)
        and [t is None for t in a.targets] == [t is None for t in b.targets]
        and a.inlines == b.inlines
    )


def _values(statement: Statement, indexed: Indexed) -> list[ir.Value]:
    return [
        leaf.value
        for leaf in leaves(statement.expr)
        if isinstance(leaf, Ref) and indexed(leaf) is None
    ]


def _closed(row: RolledLoop, after: list[Statement], collected: set[ir.Value]) -> bool:
    """Whether nobody outside reads what an earlier round made, but the results."""
    earlier = {
        t
        for statements in row.rounds[:-1]
        for s in statements
        for t in s.targets
        if t is not None
    }
    reads = {
        leaf.value for s in after for leaf in leaves(s.expr) if isinstance(leaf, Ref)
    }
    results = {v for v in row.made() if v in collected}
    firsts = {row.twins.get(v, v) for v in results}
    whole = len(results) == len(firsts) * row.count
    # A copy of what the first round reads is worth its line for three rounds.
    copied = row.count < 3 and reads & set(row.carried)
    return whole and not reads & (earlier - results) and not copied


# ---- lines that do the same to one list after another


def roll_lines(lines: list[str], members: list[Attribute]) -> list[tuple[str, range]]:
    """Fold lines that differ only in the index of one list, covering it in order.

    Each line comes with the positions of those that it stands for.
    """
    sizes: dict[str, int] = {}
    for member in members:
        if member.index is not None:
            sizes[member.attr] = sizes.get(member.attr, 0) + 1
    result: list[tuple[str, range]] = []
    i = 0
    while i < len(lines):
        if lines[i].startswith(" "):  # in a block, which was folded by itself
            result.append((lines[i], range(i, i + 1)))
            i += 1
            continue
        folded = _fold_at(lines, i, sizes) or _fold_first_apart(lines, i, sizes)
        if folded is None:
            folded = _repeat_at(lines, i)
        if folded is None:
            result.append((lines[i], range(i, i + 1)))
            i += 1
        else:
            result += [(line, range(i, i + folded[1])) for line in folded[0]]
            i += folded[1]
    return result


def _fold_at(
    lines: list[str], start: int, sizes: dict[str, int]
) -> tuple[list[str], int] | None:
    first = without_comment(lines[start])
    found = re.findall(r"self\.(\w+)\[(\d+)\]", first)
    if len(found) != 1 or first.startswith("return"):
        return None
    attr, low = found[0][0], int(found[0][1])
    item = unused(list_item(attr), set(re.findall(r"\w+", first)))
    body = first.replace(f"self.{attr}[{low}]", item)
    high = low
    while start + high - low < len(lines):
        line = without_comment(lines[start + high - low])
        here = f"self.{attr}[{high}]"
        if here not in line or line.replace(here, item) != body:
            break
        high += 1
    whole = low == 0 and high == sizes.get(attr, 0)
    if high - low < (2 if whole else 3):
        return None
    bounds = f"[{low or ''}:{high if high < sizes.get(attr, 0) else ''}]"
    head = f"for {item} in self.{attr}{'' if whole else bounds}:"
    notes = [_note(line) for line in lines[start : start + high - low]]
    shapes = [note for note in notes if note]
    comment = shapes[0] if len(shapes) == 1 and notes[0] else ""
    return [head, f"    {body}{comment}"], high - low


def _fold_first_apart(
    lines: list[str], start: int, sizes: dict[str, int]
) -> tuple[list[str], int] | None:
    """A row whose first call reads something else: `x = image`, then the loop."""
    first = without_comment(lines[start])
    call = re.match(r"(\w+) = self\.\w+\[0\]\(", first)
    if call is None or start + 1 == len(lines):
        return None
    target, opening = call[1], call[0]
    second = without_comment(lines[start + 1]).replace("[1](", "[0](", 1)
    rest = second.removeprefix(f"{opening}{target}")
    given = first.removeprefix(opening).removesuffix(rest)
    if (
        not second.startswith(f"{opening}{target}")
        or first != f"{opening}{given}{rest}"
    ):
        return None
    if given == target or not rest.startswith((",", ")")) or not _is_alone(given):
        return None
    if target in re.findall(r"\w+", rest):
        return None  # which reads what the variable was before
    line = f"{opening}{target}{rest}{_note(lines[start])}"
    folded = _fold_at([*lines[:start], line, *lines[start + 1 :]], start, sizes)
    if folded is None or folded[1] < 3:
        return None
    return [f"{target} = {given}", *folded[0]], folded[1]


def _is_alone(text: str) -> bool:
    """Whether a text is one expression, and not several arguments or half of one."""
    try:
        found = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    return not isinstance(found, (ast.Tuple, ast.Starred))


def without_comment(line: str) -> str:
    return line.partition("  #")[0]


def _note(line: str) -> str:
    return "".join(line.partition("  #")[1:])


def _repeat_at(lines: list[str], start: int) -> tuple[list[str], int] | None:
    """The same call made again and again on its own result."""
    first = without_comment(lines[start])
    end = start
    while end < len(lines) and without_comment(lines[end]) == first:
        end += 1
    target = first.partition(" = ")[0]
    count = end - start
    if count < 3 or f"({target}" not in first:
        return None
    note = _note(lines[start])
    return [f"for _ in range({count}):", f"    {first}{note}"], count
