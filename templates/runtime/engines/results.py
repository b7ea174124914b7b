"""Results of a trace, compared with the network's, and returned as tuples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

CLOSE = 1e-3  # of the largest result: what a wrong operator would exceed


def check(found: Any, wanted: Any) -> None:
    """RuntimeError where results are no longer the network's."""
    for got, right in zip(listed(found), listed(wanted), strict=True):
        scale = right.double().abs().nan_to_num(0, 0, 0).max() if right.numel() else 0
        if not torch.allclose(
            got, right, rtol=0, atol=CLOSE * float(scale), equal_nan=True
        ):
            raise RuntimeError("the trace gives other results")


def listed(results: Any) -> list[Tensor]:
    if isinstance(results, Tensor):
        return [results]
    return [leaf for each in results for leaf in listed(each)]


def sizes_of(feeds: Any) -> tuple[tuple[int, ...], ...]:
    """Of all tensors in what is fed."""
    return tuple(tuple(tensor.shape) for tensor in listed(feeds))


def mapped(change: Callable[[Tensor], Tensor], nested: Any) -> Any:
    """Lists and tuples like these, of changed tensors."""
    if isinstance(nested, Tensor):
        return change(nested)
    return type(nested)(mapped(change, each) for each in nested)


class Tuples(nn.Module):
    """The network with tuples for lists, which torch.jit can't return."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model
        self.eval()

    def forward(self, *feeds: Tensor) -> Any:
        return tupled(self.model(*feeds))


def tupled(results: Any) -> Any:
    return results if isinstance(results, Tensor) else tuple(map(tupled, results))
