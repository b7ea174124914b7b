"""Where the network writes to nothing that it is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..model import INPUTS
from .session import checked


def to_input(name: str, value: Any, device: torch.device) -> Tensor:
    """What was fed."""
    array = checked(name, value, *INPUTS[name])
    # Contiguous and in native bytes; the caller's memory if it is. PyTorch warns of
    # what is not writeable, and nothing here writes to it.
    array = np.require(array, INPUTS[name][0], ["C", "A", "W", "E"])
    return torch.from_numpy(array).to(device)
