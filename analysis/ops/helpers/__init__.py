"""Real Python that is copied into emitted modules.

The modules import PyTorch, so `from ..helpers import norms` gives a stand-in: the
module is loaded when a spelling first uses one of its functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...lazy import lazy

if not TYPE_CHECKING:

    def __getattr__(module: str) -> Any:
        if module.startswith("_"):
            raise AttributeError(module)
        return lazy(f".{module}", __name__)
