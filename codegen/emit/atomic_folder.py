"""The folder of a package: what may be replaced, and how it is at once."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Any

from ...analysis.errors import FairhandError
from .package_files import GENERATED, is_package

_PREFIX = ".fairhand-"  # of folders for drafts
_REPLACED = ".replaced"  # in them: the package whose place is taken

# Of renameat2, as <fcntl.h> and <linux/fs.h> have them.
_HERE, _EXCHANGE = -100, 2


def check_target(folder: Path) -> None:
    """Refuse to replace anything that isn't an emitted package, or where we stand."""
    if Path.cwd().is_relative_to(folder.resolve()):
        raise FairhandError(
            f"{folder} is the current folder, or one around it",
            hint="name a folder of its own with -o",
        )
    if "." in folder.resolve().name:
        raise FairhandError(
            f"{folder} could not be imported: a dot begins the name of a module in it",
            hint="choose a name without dots with -o",
        )
    if iskeyword(folder.resolve().name):
        raise FairhandError(
            f"{folder} could not be imported: {folder.resolve().name} is a Python word",
            hint="choose another name with -o",
        )
    if not folder.exists() or is_package(folder):
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise FairhandError(
            f"{folder} exists and is not a package that fairhand wrote",
            hint="choose another folder with -o",
        )


def empty(folder: Path) -> None:
    """Remove all that a folder holds; it stays."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A draft beside `folder` that takes its place when the block ends well.

    What a user put beside an older package's files stays there. Whenever the process
    ends, the folder is the old package or the new one; what compilers that were ended
    left beside it goes.
    """
    folder = folder.resolve()
    parent = folder.parent
    added = [p for p in (parent, *parent.parents) if not p.exists()]
    parent.mkdir(parents=True, exist_ok=True)
    _clear(parent)
    try:
        with _drafts(parent) as temporary:
            draft = temporary / folder.name
            draft.mkdir()
            yield draft
            shutil.rmtree(draft / "__pycache__", ignore_errors=True)
            with _locked(parent):
                _take_place(draft, folder, temporary / _REPLACED)
    except BaseException:
        for path in added:
            with suppress(OSError):
                path.rmdir()
        raise


def _take_place(draft: Path, folder: Path, replaced: Path) -> None:
    if not folder.exists():
        draft.rename(folder)
        return
    shutil.copytree(
        folder,
        draft,
        symlinks=True,
        ignore=lambda at, _: GENERATED if Path(at) == folder else (),
        dirs_exist_ok=True,
    )
    if not _exchanged(draft, folder):
        replaced.mkdir()
        folder.rename(replaced / folder.name)  # `_clear` brings it back
        draft.rename(folder)


def _exchanged(one: Path, other: Path) -> bool:
    """Let two folders change places at once; False where the system can't."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    paths = os.fsencode(one), os.fsencode(other)
    return bool(rename(_HERE, paths[0], _HERE, paths[1], _EXCHANGE) == 0)


@contextmanager
def _drafts(parent: Path) -> Iterator[Path]:
    """A new folder for drafts, locked as long as this process lives."""
    while True:
        folder = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent)
        with folder as temporary, _locked(Path(temporary)):
            if Path(temporary).exists():  # not cleared before it was locked
                yield Path(temporary)
                return


def _clear(parent: Path) -> None:
    """Remove the drafts of processes that ended; a package that one moved aside, and
    put nothing in the place of, goes back."""
    for left in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError), _locked(left, wait=False) as alone:
            if not alone:
                continue
            for package in (left / _REPLACED).glob("*"):
                if not (parent / package.name).exists():
                    package.rename(parent / package.name)
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _locked(folder: Path, wait: bool = True) -> Iterator[bool]:
    """Hold a folder's lock, which ends with the process; False if another one does, or
    the system has none."""
    try:
        fcntl: Any = import_module("fcntl")
        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield False
        return
    try:
        mode = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
        try:
            fcntl.flock(handle, mode)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)
