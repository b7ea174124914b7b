"""Results of types that NumPy lacks: TO_PLAIN says which, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from ..model import OUTPUTS


def to_results(names: list[str], outputs: Mapping[str, Tensor]) -> list[np.ndarray]:
    """Copies: writing to one changes no parameter and no other output."""
    return [to_array(OUTPUTS[name][0], outputs[name]) for name in names]


def to_array(dtype: str, tensor: Tensor) -> np.ndarray:
    if dtype in TO_PLAIN:
        tensor = TO_PLAIN[dtype](tensor)
    return np.array(tensor.numpy(force=True), order="C")


def to_bits(tensor: Tensor) -> Tensor:
    return tensor.view(getattr(torch, f"uint{8 * tensor.itemsize}"))


def to_wider(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


TO_PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "bfloat16": to_bits,
    "int4": to_wider,
}
