"""Where places that aren't in use stand behind those that are."""

from __future__ import annotations

from torch import Tensor

from . import caches
from .caches import whole_blocks


class Caches(caches.Caches):
    """Those of a batch's rows; places behind are hidden."""

    def window(self, rows: slice, new: int) -> tuple[int, int]:
        """Where what the network sees of the caches begins, and how long it is."""
        return 0, whole_blocks(max(self.ends(rows, 0)) + new)

    def ends(self, rows: slice, seen: int) -> list[int]:
        """Where in what is seen the rows' new tokens come."""
        pairs = zip(self.first[rows], self.lengths[rows], strict=True)
        return [first + length for first, length in pairs]

    def keep(self, name: str, part: Tensor, output: Tensor, new: int) -> None:
        """Keep what the network made of a part, unless it was written in place."""
        if part.data_ptr() != output.data_ptr():
            part.as_subclass(Tensor).copy_(output)
