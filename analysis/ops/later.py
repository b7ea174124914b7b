"""Modules of helpers, which import PyTorch: loaded when a spelling first needs one."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Later:
    """Stands for a module of this package until it is asked for something."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> Any:
        return getattr(import_module(f".{self._name}", __package__), function)
