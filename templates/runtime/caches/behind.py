"""Where a step is told how many tokens each row has, and sees places behind them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import caches
from .caches import MASK, POSITIONS, whole_blocks


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


class Caches(caches.Caches):
    """Those of a batch's rows, each from its first token on, and zeros behind its last.

    They are masked, so that a step sees ceil(tokens / BLOCK) shapes.
    """

    def window(self, rows: slice, new: int) -> tuple[int, int]:
        """Where what the network sees of the caches begins, and how long it is."""
        return 0, whole_blocks(max(self.lengths[rows]) + new)

    def places(self, lengths: list[int], new: int, seen: int) -> dict[str, Tensor]:
        """Which places the rows have, and those of their new tokens."""
        known = torch.tensor(lengths)[:, None]
        return {
            MASK: torch.arange(seen) < known + new,
            POSITIONS: known + torch.arange(new),
        }

    def keep(self, name: str, part: Tensor, output: Tensor, new: int) -> None:
        """Keep what the network made of a part, unless it was written in place."""
        if part.data_ptr() != output.data_ptr():
            part.as_subclass(Tensor).copy_(output)
