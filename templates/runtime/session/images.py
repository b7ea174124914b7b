"""Where inputs are images, best laid out with the channels innermost."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..model import INPUTS
from .session import checked


def to_input(name: str, value: Any, device: torch.device) -> Tensor:
    """What was fed, in memory of its own."""
    array = checked(name, value, *INPUTS[name])
    # The copy is in native bytes, whatever the caller's array is.
    array = array.astype(INPUTS[name][0], "C", subok=False)
    return torch.from_numpy(array).to(device, memory_format=torch.channels_last)
