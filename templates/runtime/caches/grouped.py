"""Where a step is told how many tokens each row has, and sees places behind them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import caches


class Room(caches.Room):
    """A part of a buffer: what is scattered into it is written there, and nothing else.

    Behind the tokens of a row are zeros, which a mask of its places leaves as they are.
    """

    masked: bool = False

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """What PyTorch calls in the place of any of its functions."""
        with torch._C.DisableTorchFunctionSubclass():
            name, room = getattr(function, "__name__", ""), args[0]
            if isinstance(room, cls):
                if name == "pad" and not any(args[1]):
                    return room
                if name == "mul" and getattr(args[1], "dtype", None) == torch.bool:
                    room.masked = True
                    return room
                if name == "scatter" and room.masked:
                    return room.as_subclass(Tensor).scatter_(*args[1:])
            return function(*args, **(kwargs or {}))
