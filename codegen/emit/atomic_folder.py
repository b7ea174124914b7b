"""The folder of a package: what may be replaced, and how it is at once."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...analysis.errors import FairhandError
from .package_files import GENERATED, is_package


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

    What a user put beside an older package's files stays there.
    """
    folder = folder.resolve()
    parent = folder.parent
    made = [p for p in (parent, *parent.parents) if not p.exists()]
    parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".fairhand-", dir=parent) as temporary:
            draft = Path(temporary) / folder.name
            draft.mkdir()
            yield draft
            shutil.rmtree(draft / "__pycache__", ignore_errors=True)
            if folder.exists():
                shutil.copytree(
                    folder,
                    draft,
                    symlinks=True,
                    ignore=lambda at, _: GENERATED if Path(at) == folder else (),
                    dirs_exist_ok=True,
                )
                folder.rename(Path(temporary) / "replaced")
            draft.rename(folder)
    except BaseException:
        for added in made:
            with suppress(OSError):
                added.rmdir()
        raise
