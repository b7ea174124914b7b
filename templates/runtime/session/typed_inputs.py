"""Inputs of types that NumPy lacks: FROM_ARRAY says which, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..model import INPUTS
from .session import checked
from .types import NARROW


def to_input(name: str, value: Any, device: torch.device) -> Tensor:
    """What was fed, in memory of its own."""
    return to_tensor(checked(name, value, *INPUTS[name]), device)


def to_tensor(array: np.ndarray, device: torch.device) -> Tensor:
    # The copy is contiguous and in native bytes, whatever the caller's array is.
    array = array.astype(array.dtype.name, "C", subok=False)
    return FROM_ARRAY.get(array.dtype.name, torch.from_numpy)(array).to(device)


def from_bits(array: np.ndarray) -> Tensor:
    bits = torch.from_numpy(array.view(f"uint{8 * array.itemsize}"))
    return bits.view(getattr(torch, array.dtype.name))


def from_narrow(array: np.ndarray) -> Tensor:
    plain, held = NARROW[array.dtype.name]
    return torch.from_numpy(array.astype(plain)).to(getattr(torch, held))


FROM_ARRAY: dict[str, Callable[[np.ndarray], Tensor]] = {
    "bfloat16": from_bits,
    "int4": from_narrow,
}
