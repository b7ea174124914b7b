"""InferenceSession(model) opens a package instead, where one was made from that model.

Which one, tells the hash of the file: anything else goes to ONNX Runtime, and a line on
stderr says so. onnxruntime.InferenceSession stays the class that it is, so that
isinstance, subclasses and names that were imported before go on working.

Packages are imported as fairhand_packages.NAME, from the folder that
$FAIRHAND_PACKAGES names: so sessions can be pickled, and processes started, as well.
Needs nothing but Python.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.abc
import importlib.util
import json
import os
import re
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VARIABLE = "FAIRHAND_PACKAGES"
PARENT = "fairhand_packages"

_CHANGING: weakref.WeakSet[Any] = weakref.WeakSet()  # SessionOptions


def install_on_import() -> None:
    """Have `install` called as soon as the program imports onnxruntime."""
    if VARIABLE in os.environ:
        sys.meta_path.insert(0, _AfterImport())


def install() -> None:
    """Have InferenceSession look for packages."""
    InferenceSession = getattr(sys.modules["onnxruntime"], "InferenceSession", None)
    if InferenceSession is None:
        return

    @functools.wraps(InferenceSession.__init__)
    def new(cls: type, *arguments: Any, **options: Any) -> Any:
        found = None
        if cls is InferenceSession:
            found = _session(*arguments, **options)
        else:
            _say(f"{cls.__name__}, made of InferenceSession, runs on ONNX Runtime")
        return object.__new__(cls) if found is None else found

    InferenceSession.__new__ = staticmethod(new)
    SessionOptions = sys.modules["onnxruntime"].SessionOptions
    for name, method in list(vars(SessionOptions).items()):
        changes = re.match("add_.*(initializer|free_dimension)", name)
        if changes and not hasattr(method, "__wrapped__"):
            _remember(SessionOptions, name)


def _remember(options: type, name: str) -> None:
    """Have the method note whom it gives weights or sizes: options tell nothing."""
    method = getattr(options, name)

    @functools.wraps(method)
    def noted(self: Any, *arguments: Any, **keywords: Any) -> Any:
        _CHANGING.add(self)
        return method(self, *arguments, **keywords)

    setattr(options, name, noted)


@contextmanager
def in_place(folder: Path) -> Iterator[None]:
    """InferenceSession looks for packages in `folder`, in here."""
    InferenceSession = importlib.import_module("onnxruntime").InferenceSession
    new, variable = vars(InferenceSession).get("__new__"), os.environ.get(VARIABLE)
    _look_into(folder)
    install()
    try:
        yield
    finally:
        # object's own would refuse arguments, once a class had another one.
        own = staticmethod(lambda cls, *_, **__: object.__new__(cls))
        InferenceSession.__new__ = own if new is None else new
        _look_into(None if variable is None else Path(variable))


def _look_into(folder: Path | None) -> None:
    """Packages are those of `folder`, here and in processes that unpickle sessions."""
    for name in [name for name in sys.modules if name.startswith(f"{PARENT}.")]:
        del sys.modules[name]  # of another folder, though the same name
    os.environ.pop(VARIABLE, None)
    if folder is not None:
        os.environ[VARIABLE] = str(folder)
        _parent().__path__ = [str(folder)]


def _parent() -> Any:
    """The module whose parts are the packages."""
    here = str(Path(__file__).parent)
    if here not in sys.path:  # processes that are spawned get this path, too
        sys.path.append(here)
    return importlib.import_module(PARENT)


def _session(path_or_bytes: Any = None, *arguments: Any, **options: Any) -> Any | None:
    """A Session of the package that was made from this model, or None."""
    path_or_bytes = options.pop("path_or_bytes", path_or_bytes)
    name = (
        path_or_bytes if not isinstance(path_or_bytes, bytes) else "a model in memory"
    )
    try:
        found = _made_from(path_or_bytes)
    except (OSError, TypeError):
        return None  # ONNX Runtime says what is wrong
    if found is None:
        _say(f"{name} has no package in {_folder()}: ONNX Runtime runs it")
        return None
    given = (*arguments, *options.values())  # a set of providers has no hash
    if any(it is each for it in given for each in _CHANGING):
        _say(f"{name} is given weights or sizes by its options: ONNX Runtime runs it")
        return None
    try:
        package = importlib.import_module(f"{_parent().__name__}.{found}")
        session = package.Session(path_or_bytes, *arguments, **options)
    except Exception as problem:
        _say(f"{found} can't run {name} ({problem}): ONNX Runtime runs it")
        return None
    _say(f"{found} runs {name}")
    return session


def _made_from(path_or_bytes: Any) -> str | None:
    """The name of the package that was made from this model."""
    if isinstance(path_or_bytes, bytes):
        whole, folder = hashlib.sha256(path_or_bytes), Path()
    else:
        whole, folder = hashlib.sha256(), Path(path_or_bytes).parent
        _add(whole, Path(path_or_bytes))
    digests: dict[tuple[str, ...], str | None] = {(): whole.hexdigest()}
    for name, source in _sources():
        data = tuple(source.get("external_data", ()))
        if data not in digests:
            digests[data] = _with_data(whole.copy(), folder, data)
        if digests[data] == source.get("sha256"):
            return name
    return None


def _folder() -> str:
    return _parent().__path__[0]


def _sources() -> Iterator[tuple[str, dict[str, Any]]]:
    """The packages of the folder, by their names, and what each was made from."""
    for file in sorted(Path(_folder()).glob("*/report.json")):
        try:
            report = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        source = report.get("source") if isinstance(report, dict) else None
        if isinstance(source, dict) and "." not in file.parent.name:
            yield file.parent.name, source


def _with_data(digest: Any, folder: Path, data: Sequence[str]) -> str | None:
    try:
        for name in data:
            _add(digest, folder / name)
    except OSError:
        return None
    return digest.hexdigest()


def _add(digest: Any, path: Path) -> None:
    with path.open("rb") as file:
        while block := file.read(1 << 24):
            digest.update(block)


def _say(text: str) -> None:
    if sys.stderr is not None and not sys.stderr.closed:
        print(f"fairhand: {text}", file=sys.stderr)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds onnxruntime as it would be found, and calls install() once it is there."""

    is_asked = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "onnxruntime" or self.is_asked:
            return None
        self.is_asked = True  # by the line below: what other finders say
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.is_asked = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                install()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
