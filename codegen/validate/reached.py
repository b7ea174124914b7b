"""Which parts of an edited model.py ran where it was compared.

What runs on another device alone, in another environment, at another time or from some
call on is compared by nobody: an edit that decides so is refused. What members of the
network and arguments decide, as they are, is its caller's choice.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_KIND = r"self\.\w+((\.dtype)? [!=]= (torch\.\w+|'\w*'))?"
_OWN = {"torch", "nn", "F"}
_SETTING = rf"((not )?({_KIND}|(self\.)?\w+ is (not )?None|%s)( and | or |$))+"


@contextmanager
def noted(source: str, ran: set[Any]) -> Iterator[None]:
    """Add the instructions of a file that run meanwhile: of which code, how far in."""

    def step(frame: Any, event: str, _: object) -> Any:
        if frame.f_code.co_filename != source:
            return None
        frame.f_trace_opcodes = True
        ran.add((frame.f_code, frame.f_lasti))
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        yield
    finally:
        sys.settrace(before)


def missed(text: bytes, written: str, ran: set[Any], built: set[Any]) -> int:
    """The first line where a test that is new led elsewhere each time, and asks for no
    setting, or of what was `built` before all calls, something outside; 0 for none."""
    places = ([_places(f)[i // 2] for f, i in some if i >= 0] for some in (ran, built))
    whole, first = ([x for x in spans if None not in x] for spans in places)
    kinds = ast.Import | ast.ImportFrom
    imports = (n for n in ast.walk(ast.parse(text)) if isinstance(n, kinds))
    names = {a.asname or a.name.partition(".")[0] for n in imports for a in n.names}
    called, read = ("|".join(map(re.escape, each)) for each in (names, names - _OWN))
    outside = re.compile(rf"\b(?:{called or '$.'})\b[\w.]*\(|\b(?:{read or '$.'})\.")
    known = {ast.dump(node) for node in ast.walk(ast.parse(written))}
    calls = (
        n.args for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)
    )
    arguments = [
        a.arg for n in calls for a in n.args[-len(n.defaults) or len(n.args) :]
    ]
    setting = re.compile(_SETTING % "|".join(arguments))
    tree = ast.parse(text)
    asked = {id(getattr(node, "test", None)) for node in ast.walk(tree)}
    for node in ast.walk(tree):
        ways = [] if id(node) in asked else _unasked(node)
        for test, parts in [*_asked(node), *ways]:
            for part in parts:
                is_new = test is not None and ast.dump(test) not in known
                asks = is_new and outside.search(ast.unparse(test))
                spans = whole + first if asks else whole
                if is_new and _ran(test, spans) and not _ran(part, whole + first):
                    raises = any(isinstance(other, ast.Raise) for other in parts)
                    if not raises and not setting.fullmatch(ast.unparse(test)):
                        return int(part.lineno)
                test = getattr(part, "test", test)
    return 0


def _asked(node: Any) -> Iterator[tuple[Any, list[Any]]]:
    """What decides whether parts of a node run, and these, block by block."""
    for block in (getattr(node, "body", []), getattr(node, "orelse", [])):
        test = getattr(node, "test", None)
        yield test, block if isinstance(block, list) else [block]


def _unasked(node: Any) -> Iterator[tuple[Any, list[Any]]]:
    """The same of what decides without a test of its own: what fails, or matches, how
    many there are, and what stands in front of it."""
    if isinstance(node, ast.BoolOp):
        yield from ((one, [then]) for one, then in itertools.pairwise(node.values))
    elif isinstance(node, ast.For):
        yield node.iter, node.body
    elif isinstance(node, ast.With):
        yield node, node.body
    elif isinstance(node, ast.Try):
        yield node, node.body
        yield from ((node, part.body) for part in node.handlers)
    elif isinstance(node, ast.Match):
        yield from ((node, case.body) for case in node.cases)
    found = getattr(node, "elt", getattr(node, "value", None))
    for each in getattr(node, "generators", []):
        yield from ((test, [found]) for test in each.ifs)


def _places(code: Any) -> list[Any]:
    """Where each instruction stands: from and to which line, and column."""
    if sys.version_info >= (3, 11):
        return [*code.co_positions()]
    lines = ([line] * ((end - start) // 2) for start, end, line in code.co_lines())
    return [(line, line, 10**6, 0) for part in lines for line in part]


def _ran(part: Any, spans: list[Any]) -> bool:
    start, end = (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)
    return any(start <= (a, at) and (b, last) <= end for a, b, at, last in spans)
