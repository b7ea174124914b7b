"""Real Python that is copied into emitted modules.

The modules import PyTorch, which takes longer than most models take to compile. So
`from ..helpers import norms` gives a stand-in, whose functions and classes are names
until one of them is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if not TYPE_CHECKING:

    class _Stand:
        """Stands for a function or a class of a module here."""

        def __init__(self, module: str, name: str) -> None:
            self.__module__ = f"{__name__}.{module}"
            self.__name__ = self.__qualname__ = name

        @property
        def __wrapped__(self) -> Any:
            return getattr(import_module(self.__module__), self.__name__)

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return self.__wrapped__(*arguments, **options)

    class _Helpers:
        """Stands for a module here."""

        def __init__(self, module: str) -> None:
            self._module = module

        def __getattr__(self, name: str) -> _Stand:
            return self.__dict__.setdefault(name, _Stand(self._module, name))

    def __getattr__(module: str) -> _Helpers:
        if module.startswith("_"):
            raise AttributeError(module)
        return globals().setdefault(module, _Helpers(module))
