"""A model.py as it was written, and calls of its network by the names of its inputs."""

from __future__ import annotations

import importlib
import itertools
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ...analysis.oracle.child import imported

_asked = itertools.count()


def page(package: str, text: str = "") -> ModuleType:
    """model.py of the package in this folder, or as if it had this text."""
    folder, name = Path(package).resolve(), imported(package).__name__
    if not text:
        return importlib.import_module(f"{name}.model")
    made = ModuleType("as_written")
    vars(made).update(__file__=str(folder / "model.py"), __package__=name)
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


def state(module: ModuleType, network: Any) -> dict[str, object]:
    """What model.py and its modules hold, not what PyTorch's keep for themselves, as a
    GRU a list of its weights, and how far Python and NumPy drew random numbers."""
    own, seen = module.__name__, set[int]()
    drawn = random.getstate(), str(np.random.get_state())
    found: dict[str, object] = {"drawing random numbers": drawn}
    for name, part in [("model.py", module), *network.named_modules()]:
        hidden = "_" if part is not module and type(part).__module__ != own else "__"
        held = {n: v for n, v in vars(part).items() if not n.startswith(hidden)}
        found[name or "the network"] = _kept(held, own, seen)
    return found


def later(before: Mapping[str, object], module: ModuleType, network: Any) -> str:
    """The first part of a state that isn't as `before` by now; "" if there is none."""
    now = state(module, network).items()
    return next((name for name, held in now if held != before.get(name)), "")


def _kept(held: Mapping[Any, Any], own: str, seen: set[int]) -> list[object]:
    """What these hold, plain values as they are, others by identity, and what is in
    those that can grow, or are of the module `own`."""
    found: list[object] = []
    for name, value in held.items():
        plain = isinstance(value, int | float | str | bool)
        found.append((name, value if plain else id(value)))
        if not plain and id(value) not in seen:
            seen.add(id(value))
            found.append(_kept(_inside(value, own), own, seen))
    return found


def _inside(value: Any, own: str) -> Mapping[Any, Any]:
    """What an object holds that may be another in a later call."""
    value = getattr(value, "__func__", value)
    if isinstance(value, dict):
        return value
    if isinstance(value, list | tuple | set):
        return dict(enumerate(value))
    if isinstance(value, Iterator):
        return {"next": next(_asked)}  # how far it is nobody can tell
    if isinstance(value, FunctionType) and value.__module__ == own:
        defaults = *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()
        cells = (c.cell_contents for c in value.__closure__ or () if c != CellType())
        return {**dict(enumerate([*defaults, *cells])), **vars(value)}
    is_own = (value if isinstance(value, type) else type(value)).__module__ == own
    return getattr(value, "__dict__", {}) if is_own else {}
