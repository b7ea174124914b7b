"""Python that packages get copies of, definition by definition, from files here.

Such a file is read and never imported: it needs PyTorch, which compiling does without.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from textwrap import dedent
from types import MappingProxyType
from typing import Any

_TREE = Path(__file__).parents[2]
RUNTIME = _TREE / "templates" / "runtime"


@dataclass(frozen=True)
class Definition:
    """A function, class or constant at the top of a file; `text` is the file's own.

    `reads` are the names that it reads of what the file defines, or imports.
    """

    name: str
    text: str
    reads: tuple[str, ...]
    is_constant: bool = False


@dataclass(frozen=True)
class SourceFile:
    """What stands at the top of a file. `imports`: name -> (module, name in it or '');
    a module of this tree starts with a dot, as seen from the folder of the package."""

    definitions: Mapping[str, Definition]
    imports: Mapping[str, tuple[str, str]]


@lru_cache(maxsize=64)
def source_file(path: Path, folder: Path | None = None) -> SourceFile:
    """The definitions and imports of a file; `folder` is what becomes the package's."""
    text = path.read_text("utf-8")
    lines = text.splitlines()
    definitions: dict[str, Definition] = {}
    imports: dict[str, tuple[str, str]] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= _imported(node, path, folder)
        elif name := _name(node):
            first = min([node, *getattr(node, "decorator_list", ())], key=_line).lineno
            while lines[first - 2].startswith("#"):
                first -= 1
            own = "\n".join(lines[first - 1 : node.end_lineno])
            definitions[name] = definition(own)
    return SourceFile(definitions, imports)


def definition(text: str) -> Definition:
    """One definition, from its text."""
    (node,) = ast.parse(text).body
    name = _name(node)
    assert name is not None, text
    return Definition(name, text, _free(node), not hasattr(node, "body"))


def _free(node: ast.stmt) -> tuple[str, ...]:
    """The names that a definition reads and doesn't bind; builtins apart."""
    bound, reads = {_name(node), *vars(builtins)}, dict[str, None]()
    for part in ast.walk(node):
        if isinstance(part, ast.arg):
            bound.add(part.arg)
        elif isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            bound.add(part.id)
        elif isinstance(part, ast.Name):
            reads[part.id] = None
    return tuple(name for name in reads if name not in bound)


def names_read(texts: Iterable[str]) -> list[str]:
    """What functions and classes at the top of these texts read."""
    nodes = (node for text in texts for node in ast.parse(text).body)
    free = (_free(node) for node in nodes if _name(node))
    return list(dict.fromkeys(name for names in free for name in names))


def _closure(
    names: Iterable[str], space: Mapping[str, Definition]
) -> dict[str, Definition]:
    """The definitions of `names` in `space`, and all that they read; callees first."""
    found: dict[str, Definition] = {}
    visited: set[str] = set()

    def visit(name: str) -> None:
        if name in visited or name not in space:
            return
        visited.add(name)
        for other in space[name].reads:
            visit(other)
        found[name] = space[name]

    for name in names:
        visit(name)
    return found


def helper_sources(helpers: Iterable[Callable[..., Any]]) -> list[str]:
    """Functions and classes of this tree, and those that they call, as text; callees
    first."""
    done: dict[str, str] = {}
    for helper in helpers:
        # Those of this tree are seldom imported, those of a user's file are.
        module = sys.modules.get(helper.__module__)
        file = _TREE.joinpath(*helper.__module__.split(".")[1:]).with_suffix(".py")
        path = Path(module.__file__) if module and module.__file__ else file
        found = _closure([helper.__name__], source_file(path).definitions)
        for name, each in found.items():
            done.setdefault(name, each.text)
    return list(done.values())


def combined(files: Iterable[SourceFile]) -> dict[str, Definition]:
    """All definitions of several files: those of a later one take the place of others.

    A class that extends the one of its name is put together with it: its docstring and
    methods take the place of others, what it adds comes last; attributes come first.
    """
    space: dict[str, Definition] = {}
    for file in files:
        for name, each in file.definitions.items():
            old = space.get(name)
            added = _extended(old, each) if old is not None else None
            if added is None:
                space.pop(name, None)
            space[name] = added or each
    return space


def _extended(old: Definition, new: Definition) -> Definition | None:
    """Both together, where the new one is a class that extends the old one."""
    before, after = ast.parse(old.text).body[0], ast.parse(new.text).body[0]
    if not isinstance(after, ast.ClassDef) or not isinstance(before, ast.ClassDef):
        return None
    if not any(
        isinstance(b, ast.Attribute) and b.attr == new.name for b in after.bases
    ):
        return None
    members = _members(before, old.text) | _members(after, new.text)
    head = old.text.splitlines()[before.lineno - 1]
    parts = [f"{head}\n{members.pop('')}"]
    held = [each for each in members.values() if definition(dedent(each)).is_constant]
    parts += ["\n".join(held)] if held else []
    parts += [each for each in members.values() if each not in held]
    return definition("\n\n".join(parts))


def _members(node: ast.ClassDef, text: str) -> dict[str, str]:
    """The docstring, which has no name, attributes and methods of a class, as text."""
    lines = text.splitlines()
    found = {}
    for part in node.body:
        first = min([part, *getattr(part, "decorator_list", ())], key=_line).lineno
        own = "\n".join(lines[first - 1 : part.end_lineno])
        found[_name(part) or ""] = own
    return found


@dataclass(frozen=True)
class Picked:
    """Parts of a file as text, in their order: statements that import, constants,
    functions and classes, and the tables that hold these."""

    imports: list[str]
    constants: list[str]
    definitions: list[str]
    tables: list[str]


def picked(
    files: Iterable[str],
    names: Iterable[str],
    given: Mapping[str, str],
    modules: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> Picked:
    """The definitions of `names`, and all that they read, from files of
    templates/runtime, where those of a later one take the place of an earlier one's.

    `given` are the constants, as text, that differ between packages: they take the
    place of those of these names, which stand there for an example. `modules` are what
    may be imported besides what the files import.
    """
    sources = [source_file(RUNTIME / name, RUNTIME) for name in files]
    space = combined(sources)
    space |= {name: definition(text) for name, text in given.items()}
    found = _closure(names, space)
    importable = dict(modules)
    for source in sources:
        importable |= source.imports
    read = {name for each in found.values() for name in each.reads} | set(names)
    imports = {
        name: importable[name] for name in (read & importable.keys()) - found.keys()
    }
    chosen = [each for name, each in space.items() if name in found]
    tables = [each for each in found.values() if _is_table(each, found)]
    return Picked(
        imports=import_lines(imports),
        constants=[e.text for e in chosen if e.is_constant and e not in tables],
        definitions=[each.text for each in chosen if not each.is_constant],
        tables=[each.text for each in tables],
    )


def import_lines(names: Mapping[str, tuple[str, str]]) -> list[str]:
    """Statements that bind these names, each to (module, name in it or ''), in isort's
    order: a blank line stands between the standard library, others and the package."""
    plain: dict[str, str] = {}
    joined: dict[str, list[str]] = {}
    for name, (module, inside) in names.items():
        if inside:
            alias = inside if inside == name else f"{inside} as {name}"
            joined.setdefault(module, []).append(alias)
        else:
            plain[module] = f" as {name}" if name != module.partition(".")[0] else ""
    sections: list[list[str]] = [[], [], []]
    for module in sorted(plain):
        sections[_section(module)].append(f"import {module}{plain[module]}")
    for module in sorted(joined):
        listed = ", ".join(sorted(joined[module], key=_by_type))
        sections[_section(module)].append(f"from {module} import {listed}")
    return "\n\n".join("\n".join(lines) for lines in sections if lines).splitlines()


def _by_type(name: str) -> tuple[int, str, str]:
    """CONSTANTS, then Classes, then functions, of which cases are alike."""
    kind = 0 if name.isupper() and name[1:] else 1 if name[0].isupper() else 2
    return kind, name.lower(), name


def _section(module: str) -> int:
    if module.startswith("."):
        return 2
    return 0 if module.partition(".")[0] in sys.stdlib_module_names else 1


def _imported(
    node: ast.Import | ast.ImportFrom, path: Path, folder: Path | None
) -> dict[str, tuple[str, str]]:
    if isinstance(node, ast.Import):
        return {a.asname or a.name.partition(".")[0]: (a.name, "") for a in node.names}
    module = node.module or ""
    if node.level and folder is not None:
        # Of the package: the file that the folder's file or folder becomes.
        base = path.parents[node.level - 1].relative_to(folder).parts
        module = "." + (*base, *module.split("."))[0]
    elif node.level:
        module = "." * node.level + module
    return {a.asname or a.name: (module, a.name) for a in node.names}


def _name(node: ast.stmt) -> str | None:
    """Of a definition; None for another statement."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    targets = node.targets if isinstance(node, ast.Assign) else []
    target = node.target if isinstance(node, ast.AnnAssign) else (*targets, None)[0]
    return target.id if isinstance(target, ast.Name) else None


def _line(node: ast.stmt | ast.expr) -> int:
    return node.lineno


def _is_table(each: Definition, found: Mapping[str, Definition]) -> bool:
    """A constant that holds functions or classes, and so comes behind them."""
    return each.is_constant and any(
        name in found and not found[name].is_constant for name in each.reads
    )
