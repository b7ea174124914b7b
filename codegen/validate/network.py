"""A model.py as it was written, and calls of its network by the names of its inputs."""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from ...analysis.oracle.child import imported
from .digests import digest
from .memory import CannotFollow, Opaque, each
from .recorder import Recorded, Recorder

_asked = itertools.count()
_T = torch.Tensor
# What tells how the caller made a tensor that is given, and not what it holds.
_MADE = {
    _T.is_contiguous,
    _T.storage_offset,
    _T.stride,
    _T.data_ptr,
    _T.untyped_storage,
}
_MADE |= {getattr(_T, name).__get__ for name in ("requires_grad", "is_leaf", "_base")}


class Given(TorchFunctionMode):
    """Refuses what a source asks of a tensor beside its elements, type and sizes."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self._source = source

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in _MADE and sys._getframe(1).f_code.co_filename == self._source:
            raise CannotFollow("model.py asks how a tensor was made")
        return func(*args, **(kwargs or {}))


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
    """What is in lists and tuples, but those of maps."""
    is_open = isinstance(nested, list | tuple)
    if not is_open or any(isinstance(item, dict) for item in nested):
        return [nested]
    return [leaf for item in nested for leaf in leaves(item)]


def filled(nested: Any, given: Mapping[str, Any]) -> Any:
    """Lists and tuples of names with what these stand for."""
    if isinstance(nested, str):
        return given[nested]
    return type(nested)(filled(item, given) for item in nested)


def whole(function: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """A function that stays one call where it takes or gives strings or maps."""
    takes, kinds = inspect.signature(function), set[Any]()
    with suppress(NameError):  # a user's operator may name types for checkers alone
        kinds = {*_kinds(get_type_hints(function).get("return"))}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = takes.bind(*args, **kwargs)
        bound.apply_defaults()
        given = [*bound.arguments.values()]
        fakes = [x for x in leaves(given) if isinstance(x, FakeTensor)]
        if not any(isinstance(x, Opaque) for x in leaves(given)) and (
            not fakes or kinds.isdisjoint({dict, np.ndarray})
        ):
            return function(*args, **kwargs)
        own = each(str, given, torch.device)
        name = digest(function.__name__, recorder.name(own))
        recorder.calls.append(Recorded(function.__name__, name, recorder.caller()))
        if all(type(size) is int for x in fakes for size in x.shape):
            with _disable_current_modes():
                return _renamed(
                    function(*each(_stand_in, given, _FAKES)), name, recorder
                )
        if torch.Tensor in kinds:
            raise CannotFollow("strings are followed at sizes that are numbers")
        return Opaque(name)

    return call


_FAKES = (FakeTensor, Opaque)


def _stand_in(x: Any) -> Any:
    """What has the sizes of a tensor or of strings, whatever is in there."""
    return x.held if isinstance(x, Opaque) else torch.zeros(x.shape, dtype=x.dtype)


def _renamed(made: Any, name: str, recorder: Recorder) -> Any:
    """What a function made of stand-ins, as what it is called for makes it."""
    if isinstance(made, torch.Tensor):
        with recorder.fake:
            fake = torch.empty(made.shape, dtype=made.dtype)
        recorder.memory.claim(fake)
        recorder.memory.enter(fake, name)
        return fake
    if isinstance(made, list | tuple) and any(
        isinstance(x, torch.Tensor | np.ndarray) for x in made
    ):
        return type(made)(
            _renamed(x, digest(name, i), recorder) for i, x in enumerate(made)
        )
    return Opaque(name, made)


def _kinds(hint: Any) -> Iterator[Any]:
    """A type, and those in it."""
    yield get_origin(hint) or hint
    for part in get_args(hint):
        yield from _kinds(part)


def is_same(module: ModuleType, name: str, known: Any) -> bool:
    """Whether model.py has this function under this name, with all that it calls."""
    ours = inspect.unwrap(vars(module).get(name))  # type: ignore[arg-type]
    if not isinstance(ours, FunctionType) or not isinstance(known, FunctionType):
        return ours is known
    if _bare(ours.__code__) != _bare(known.__code__):
        return False
    defaults = (ours.__defaults__, ours.__kwdefaults__)
    return defaults == (known.__defaults__, known.__kwdefaults__) and all(
        word == name or is_same(module, word, known.__globals__.get(word))
        for word in _read(ours.__code__)
    )


def _bare(code: CodeType) -> CodeType:
    """Code without the place where it stands."""
    inner = (_bare(x) if isinstance(x, CodeType) else x for x in code.co_consts)
    return code.replace(
        co_consts=(*inner,), co_filename="", co_firstlineno=1, co_linetable=b""
    )


def _read(code: CodeType) -> set[str]:
    """Names that code may take from its module."""
    inner = [_read(x) for x in code.co_consts if isinstance(x, CodeType)]
    return set(code.co_names).union(*inner)


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
