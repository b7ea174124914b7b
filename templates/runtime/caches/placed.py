"""Where caches are buffers that a step writes at the places that it is told."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import caches

# Methods by which a network turns a buffer, and those by which it writes into it.
_TURNS = {"flatten", "movedim", "permute", "reshape", "transpose", "unflatten", "view"}
_WRITES = {"index_copy", "index_put", "scatter", "slice_scatter"}


class Room(caches.Room):
    """A part of a buffer: what is put at a place of it is written there, and nothing
    else."""

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """What PyTorch calls in the place of any of its functions."""
        name, kwargs = getattr(function, "__name__", ""), kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            if name in _WRITES and isinstance(args[0], cls):
                function = getattr(Tensor, f"{name}_")
            found = function(*args, **kwargs)
            return found.as_subclass(cls) if name in _TURNS else found
