"""Engines that prepare each combination of sizes."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .results import sizes_of

MOST_SIZES = 8  # that are prepared
MOST_SEEN = 64  # that are remembered


class BySize:
    """The network, prepared for each combination of sizes and threads that recurs.

    A combination is prepared when it comes a second time, and checked against the
    network. At most MOST_SIZES are prepared and none is given up for another; for the
    rest the network runs as it stands. Several threads may call at once: one prepares,
    the others don't wait.
    """

    def __init__(self, model: nn.Module):
        self.model = model
        self.prepared: dict[Any, Callable[..., Any]] = {}
        self.seen: set[Any] = set()
        self.lock = threading.Lock()

    def __call__(self, *feeds: Any) -> Any:
        key = (torch.get_num_threads(), *sizes_of(feeds))
        run = self.prepared.get(key)
        if run is None:
            run = self.prepare(key, feeds) if key in self.seen else self.model
            if len(self.seen) == MOST_SEEN:
                self.seen.clear()
            self.seen.add(key)
        return run(*feeds)

    def prepare(self, key: Any, feeds: tuple[Any, ...]) -> Callable[..., Any]:
        full = len(self.prepared) >= MOST_SIZES
        empty = any(0 in size for size in sizes_of(feeds))  # oneDNN gives anything
        if full or empty or not self.lock.acquire(blocking=False):
            return self.model
        try:
            if key not in self.prepared:
                self.prepared[key] = self.made_for(feeds)
        except (RuntimeError, AttributeError) as error:  # these have their gaps
            warnings.warn(f"the network runs as it stands: {error}", stacklevel=4)
            self.prepared[key] = self.model
        finally:
            self.lock.release()
        return self.prepared[key]

    def made_for(self, feeds: tuple[Tensor, ...]) -> Callable[..., Any]:
        """What gives the network's results on feeds of these sizes."""
        raise NotImplementedError
