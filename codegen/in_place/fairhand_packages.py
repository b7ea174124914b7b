"""InferenceSession(model) opens a package instead, where one was made from that model.

Which one, tells the hash of the file: anything else goes to ONNX Runtime, and a line on
stderr says so. onnxruntime.InferenceSession stays the class that it is, so that
isinstance, subclasses and names that were imported before go on working.

Packages are imported as fairhand_packages.NAME, from the folder that
$FAIRHAND_PACKAGES names: so sessions can be pickled, and processes started, as well.
Needs nothing but Python.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.abc
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VARIABLE = "FAIRHAND_PACKAGES"
FOLDER = Path(os.environ.get(VARIABLE, "."))
__path__ = [str(FOLDER)]  # makes this module a package


def install_on_import() -> None:
    """Have `install` called as soon as the program imports onnxruntime."""
    if VARIABLE in os.environ:
        sys.meta_path.insert(0, _AfterImport())


def install() -> None:
    """Have InferenceSession look for packages."""
    InferenceSession = importlib.import_module("onnxruntime").InferenceSession

    def new(cls: type, *arguments: Any, **options: Any) -> Any:
        found = None
        if cls is InferenceSession:
            found = _session(*arguments, **options)
        return object.__new__(cls) if found is None else found

    InferenceSession.__new__ = staticmethod(new)


def uninstall() -> None:
    """InferenceSession is ONNX Runtime's own again."""
    InferenceSession = importlib.import_module("onnxruntime").InferenceSession
    # object's own would refuse arguments, once a class had another one.
    InferenceSession.__new__ = staticmethod(lambda cls, *_, **__: object.__new__(cls))


@contextmanager
def in_place(folder: Path) -> Iterator[None]:
    """InferenceSession looks for packages in `folder`, in here."""
    before = list(__path__), os.environ.get(VARIABLE)
    __path__[:] = [str(folder)]
    os.environ[VARIABLE] = str(folder)  # for processes that unpickle a session
    install()
    try:
        yield
    finally:
        uninstall()
        __path__[:] = before[0]
        del os.environ[VARIABLE]
        if before[1] is not None:
            os.environ[VARIABLE] = before[1]


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
        _say(f"{name} has no package in {__path__[0]}: ONNX Runtime runs it")
        return None
    try:
        package = importlib.import_module(f"{__name__}.{found}")
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


def _sources() -> Iterator[tuple[str, dict[str, Any]]]:
    """The packages of the folder, by their names, and what each was made from."""
    for report in sorted(Path(__path__[0]).glob("*/report.json")):
        if report.parent.name.isidentifier():
            try:
                yield report.parent.name, json.loads(report.read_text("utf-8"))[
                    "source"
                ]
            except (KeyError, OSError, TypeError, ValueError):
                continue


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
    print(f"fairhand: {text}", file=sys.stderr)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds onnxruntime as it would be found, and calls install() once it is there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "onnxruntime":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                install()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
