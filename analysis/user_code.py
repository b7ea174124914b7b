"""Python files of the user's own: operators and laws. They are trusted to run."""

from __future__ import annotations

import sys
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any

from .errors import FairhandError


def run_file(path: Path, hint: str) -> dict[str, Any]:
    """What a Python file defines, by name.

    It is a module of its own, so that what it defines is found again by its module.
    Raises FairhandError where it fails, with the line, the function and the `hint`.
    """
    if not path.is_file():
        raise FairhandError(f"there is no file {path}", hint=hint)
    module = ModuleType(str(path.resolve()))
    module.__file__ = module.__name__
    sys.modules[module.__name__] = module
    try:
        code = compile(path.read_bytes(), module.__name__, "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except FairhandError:
        raise
    except (Exception, SystemExit) as error:
        what = f"{path} failed: {type(error).__name__}: {error}"
        raise FairhandError(what, _place(error, module.__name__), hint) from error
    return module.__dict__


def _place(error: BaseException, file: str) -> str:
    """The line of the file that was at work, and its function."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return f"line {error.lineno}"
    frames = [
        (line, frame.f_code.co_name)
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_code.co_filename == file
    ]
    if not frames:
        return ""
    line, name = frames[-1]
    return f"line {line}" + ("" if name == "<module>" else f", in {name}")
