"""Modules that are loaded when they are first used: the one place for late imports.

PyTorch takes longer to load than most models take to compile, and z3 and ONNX Runtime's
tools are seldom needed. What imports one of them says

    if TYPE_CHECKING:
        import torch
    else:
        torch = lazy("torch")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Lazy:
    """Stands for a module until it is asked for something."""

    def __init__(self, name: str, package: str | None) -> None:
        self.__dict__.update(_name=name, _package=package)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name, self._package), attribute)

    def __setattr__(self, attribute: str, value: Any) -> None:
        setattr(import_module(self._name, self._package), attribute, value)


def lazy(name: str, package: str | None = None) -> Any:
    """The module of this name, relative to `package` where it begins with a dot."""
    return _Lazy(name, package)
