"""A model.py as it was written, and calls of its network by the names of its inputs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any


def page(package: str, text: str = "") -> ModuleType:
    """model.py of the package in this folder, or as if it had this text."""
    folder = Path(package).resolve()
    if not text:
        if str(folder.parent) not in sys.path:
            sys.path.insert(0, str(folder.parent))
        return importlib.import_module(f"{folder.name}.model")
    made = ModuleType("as_written")
    vars(made).update(__file__=str(folder / "model.py"), __package__=folder.name)
    sys.modules[made.__name__] = made  # where dataclasses look for it
    exec(compile(text, "as written", "exec"), vars(made))
    return made


def called(
    module: Any,
    network: Any,
    inputs: Sequence[Any],
    takes: Sequence[str] = (),
    gives: Sequence[str] = (),
) -> list[Any]:
    """The outputs of a model.py's network, whose lists are filled and opened.

    Inputs and outputs are in the order of these names, where model.py has the same
    ones in another, and else in its own.
    """
    nested = getattr(module, "NESTED", {})
    given = dict(zip(_names(takes, module.INPUTS), inputs, strict=True))
    lists = [rows for rows in nested.values() if leaves(rows)[0] in given]
    inside = {name for rows in lists for name in leaves(rows)}
    flat = [given[name] for name in module.INPUTS if name not in inside]
    starts = {leaves(rows)[0]: leaves(rows) for rows in nested.values()}
    made = network(*flat, *(filled(rows, given) for rows in lists))
    found: dict[str, Any] = {}
    for value in made if isinstance(made, tuple) else (made,):
        name = next(name for name in module.OUTPUTS if name not in found)
        if name in starts:
            found.update(zip(starts[name], leaves(value), strict=True))
        else:
            found[name] = value
    return [found[name] for name in _names(gives, module.OUTPUTS)]


def _names(wanted: Sequence[str], own: Mapping[str, Any]) -> list[str]:
    return list(wanted if sorted(wanted) == sorted(own) else own)


def leaves(nested: Any) -> list[Any]:
    """What is in lists and tuples."""
    if not isinstance(nested, list | tuple):
        return [nested]
    return [leaf for item in nested for leaf in leaves(item)]


def filled(nested: Any, given: Mapping[str, Any]) -> Any:
    """Lists and tuples of names with what these stand for."""
    if isinstance(nested, str):
        return given[nested]
    return type(nested)(filled(item, given) for item in nested)


def takes_as_much(edited: ModuleType, written: ModuleType) -> bool:
    """Whether INPUTS and OUTPUTS of an edited model.py are as written, or say of fewer
    sizes which number they are, or that they are others'."""
    for table in ("INPUTS", "OUTPUTS"):
        now, was = getattr(edited, table, {}), getattr(written, table)
        if [(k, v[0]) for k, v in now.items()] != [(k, v[0]) for k, v in was.items()]:
            return False
        means: dict[object, object] = {}
        for name, (_, dims) in was.items():
            sizes, dims = now[name][1] or (), dims or ()
            if len(sizes) != len(dims):
                return False
            for axis, (size, before) in enumerate(zip(sizes, dims, strict=True)):
                known = (name, axis) if before in (None, "") else before
                means.setdefault(size, known if isinstance(size, str) else size)
                if size not in (None, "") and means[size] != known:
                    return False
    return True
