"""Where a network drops places of its caches: what it gives back are the next ones."""

from __future__ import annotations

from torch import Tensor

from . import caches
from .caches import CACHES


class Caches(caches.Caches):
    """Those of a batch's rows, of one length, as the network gave them back."""

    def part(self, name: str, rows: slice, start: int, seen: int) -> Tensor:
        """What the network sees of a cache."""
        tensor, shape = self.tensors[name], CACHES[name][1]
        if "places" in shape and not self.lengths[rows.start]:
            return tensor.narrow(shape.index("places"), 0, 0)
        return tensor

    def keep(self, name: str, part: Tensor, output: Tensor, new: int) -> None:
        """Keep what the network gave back."""
        self.tensors[name] = output
