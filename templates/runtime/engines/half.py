"""The network in another precision than its own."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..model import OUTPUTS
from .results import mapped

PRECISION = torch.bfloat16  # what weights are held and computed in


class Converted(nn.Module):
    """The network with its weights and arithmetic in PRECISION, its own types outside.

    One in float16 is there for other engines as well, and makes a copy.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        if PRECISION is torch.float32:
            model = copy.deepcopy(model)
        self.model = model.to(PRECISION)
        self.eval()

    def forward(self, *feeds: Any) -> Any:
        with Renamed():
            found = self.model(*mapped(converted, feeds))
        types = (getattr(torch, dtype) for dtype, _ in OUTPUTS.values())
        return mapped(lambda result: result.to(next(types)), found)


def converted(feed: Tensor) -> Tensor:
    return feed.to(PRECISION) if feed.is_floating_point() else feed


class Renamed(TorchFunctionMode):
    """Puts PRECISION where the network names float16."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is Tensor.half:
            return args[0].to(PRECISION)
        named = {name: renamed(value) for name, value in (kwargs or {}).items()}
        return function(*map(renamed, args), **named)


def renamed(argument: Any) -> Any:
    return PRECISION if argument is torch.float16 else argument
