"""Consecutive lines that do the same to one list after another become a loop."""

from __future__ import annotations

import ast
import re

from ...ir.identifiers import unused
from ...ir.naming import list_item
from ...modules.members import Attribute


def loops(lines: list[str], members: list[Attribute]) -> list[tuple[str, range]]:
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
