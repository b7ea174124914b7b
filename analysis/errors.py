"""One base error; every message says what, where and what to do.

Resize with coordinate mode 'tf_crop_and_resize' is not supported
  at node '/up/Resize' (Resize, opset 19), inputs x [1, 3, 8, 8], roi [8]
  hint: supported modes are half_pixel, align_corners, asymmetric
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from traceback import extract_tb
from types import MappingProxyType
from typing import Any

from .literals import one_line

_REPORT = "report it with the model; FAIRHAND_TRACEBACK=1 shows the calls to there"


class FairhandError(Exception):
    """A model that can't be compiled, or a package that can't be verified.

    `what` is a sentence; `where` names the file, node or value; `hint` says what to do.
    """

    def __init__(self, what: str, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = what, where, hint
        lines = [what]
        if where:
            lines.append(f"  at {where}")
        if hint:
            lines.append(f"  hint: {hint}")
        super().__init__("\n".join(lines))


def message_of(error: Exception) -> str:
    """What an error says; the system's without its number, and with the file alike; any
    other is a fault of ours, with its place."""
    if not isinstance(error, FairhandError | OSError):
        what = f"{type(error).__name__}: {one_line(str(error), 200)}"
        *_, at = extract_tb(error.__traceback__)
        where = f"{Path(at.filename).name}, line {at.lineno}"
        error = FairhandError(f"this is a fault of fairhand, {what}", where, _REPORT)
    if isinstance(error, OSError) and error.strerror:
        where = f"\n  at file {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}"
    return str(error)


class LoadError(FairhandError):
    """The file is not a model that ONNX admits, or it reaches outside its folder."""


class Unsupported(FairhandError):
    """The model is valid, but fairhand has no spelling for a part of it.

    `nodes` are those of the rewritten graph that can't be compiled, if they are known.
    """

    nodes: frozenset[Any] = frozenset()


# What code written for valid models runs into where a node is malformed.
MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def malformed(error: Exception) -> str:
    """What is wrong with such a node. In a sound one, what is named is our fault."""
    found = f"{type(error).__name__}: {one_line(str(error))}"
    return f"its attributes or inputs are not what they should be ({found})"


class VerificationError(FairhandError):
    """The emitted package and ONNX Runtime disagree.

    `feed` holds inputs on which they do, where there are such, and `expected` what ONNX
    Runtime made of them; `off` is how far a named output is from that, relative to its
    largest element.
    """

    feed: Mapping[str, Any] | None = None
    expected: Sequence[Any] = ()
    off: Mapping[str, float] = MappingProxyType({})
