"""Where the network makes the memory that its results are in."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor


def to_results(names: list[str], outputs: Mapping[str, Tensor]) -> list[np.ndarray]:
    """Writing to one changes no parameter, no input and no other one.

    The network made these, so memory that one has to itself need not be copied.
    """
    tensors = [outputs[name] for name in names]
    memory = [tensor.untyped_storage() for tensor in tensors]
    users = [each.data_ptr() for each in memory]
    arrays = []
    for tensor, whole in zip(tensors, memory, strict=True):
        alone = users.count(whole.data_ptr()) == 1 and whole.nbytes() == tensor.nbytes
        make = np.asarray if alone else np.array
        arrays.append(make(tensor.numpy(force=True), order="C"))
    return arrays
