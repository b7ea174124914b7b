"""A forward on PyTorch's device "meta", which stands for a GPU and computes nothing."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map


class Apart(TorchDispatchMode):
    """Refuses operators on tensors of both devices, and copies between them.

    But for scalars of the CPU, which PyTorch passes to a GPU as it passes numbers.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        made = func(*args, **(kwargs or {}))
        results = [x for x in tree_leaves(made) if isinstance(x, Tensor)]
        found = {x.device.type for x in given if x.dim()}
        found |= {x.device.type for x in results if found}
        if len(found) > 1:
            raise RuntimeError(f"{func} of tensors of {' and '.join(sorted(found))}")
        return made


def inputs(model: ModuleType) -> list[Any]:
    """Of `forward`: pairs of a cache are behind the others, as Session passes them."""
    sizes: dict[Any, int] = {"batch": 2, "total": 10}  # of past and new ones, 5 each
    feeds = {
        name: torch.empty(
            [d if isinstance(d, int) else sizes.setdefault(d, 5) for d in shape],
            dtype=getattr(torch, dtype),
            device="meta",
        )
        for name, (dtype, shape) in model.INPUTS.items()
    }

    def pick(names: Any) -> Any:
        return (
            feeds.pop(names)
            if isinstance(names, str)
            else type(names)(map(pick, names))
        )

    nested = getattr(model, "NESTED", {}).values()
    lists = [pick(rows) for rows in nested if tree_leaves(rows)[0] in feeds]
    return [*feeds.values(), *lists]


def run(model: ModuleType, dtype: torch.dtype | None = None) -> Any:
    """A forward; of weights and inputs of another type than the model's, if given."""
    network = re.search(r"model = (\w+)\(\)", inspect.getsource(model.load))
    assert network is not None
    with torch.device("meta"):
        made: nn.Module = getattr(model, network[1])()
    made.eval().requires_grad_(False)
    given = inputs(model)
    if dtype is not None:
        made.to(dtype)
        given = tree_map(lambda x: x.to(dtype) if x.is_floating_point() else x, given)
    with torch.inference_mode(), Apart():
        return made(*given)
