"""Helpers of optimisers, copied into the emitted module when used.

Each takes one step: the rate, the count of steps before it, and lists of tensors that
belong together, place by place. It gives the new tensors and then their new state.
"""

from __future__ import annotations

from torch import Tensor


def adagrad(
    rate: Tensor,
    step: Tensor,
    xs: list[Tensor],
    gradients: list[Tensor],
    squares: list[Tensor],
    norm: float = 0.0,
    decay: float = 0.0,
    eps: float = 1e-6,
) -> list[Tensor]:
    """A step against the gradients, each divided by the root of its squares so far."""
    rate = rate / (1 + step * decay)
    gradients = [norm * x + g for x, g in zip(xs, gradients, strict=True)]
    squares = [h + g * g for h, g in zip(squares, gradients, strict=True)]
    parts = zip(xs, gradients, squares, strict=True)
    return [x - rate * g / (h.sqrt() + eps) for x, g, h in parts] + squares


def momentum(
    rate: Tensor,
    step: Tensor,
    xs: list[Tensor],
    gradients: list[Tensor],
    velocities: list[Tensor],
    norm: float,
    alpha: float,
    beta: float,
    nesterov: bool = False,
) -> list[Tensor]:
    """A step along a running sum of the gradients, or a look ahead along it."""
    beta = beta if step > 0 else 1.0
    gradients = [norm * x + g for x, g in zip(xs, gradients, strict=True)]
    velocities = [
        alpha * v + beta * g for v, g in zip(velocities, gradients, strict=True)
    ]
    ways = velocities
    if nesterov:
        ways = [g + alpha * v for g, v in zip(gradients, velocities, strict=True)]
    return [x - rate * way for x, way in zip(xs, ways, strict=True)] + velocities


def adam(
    rate: Tensor,
    step: Tensor,
    xs: list[Tensor],
    gradients: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    norm: float = 0.0,
    norm_post: float = 0.0,
    alpha: float = 0.9,
    beta: float = 0.999,
    eps: float = 1e-6,
) -> list[Tensor]:
    """A step along running means of the gradients, scaled by those of their squares."""
    gradients = [norm * x + g for x, g in zip(xs, gradients, strict=True)]
    means = [alpha * v + (1 - alpha) * g for v, g in zip(means, gradients, strict=True)]
    squares = [
        beta * h + (1 - beta) * g * g for h, g in zip(squares, gradients, strict=True)
    ]
    if step > 0:
        rate = rate * (1 - beta**step).sqrt() / (1 - alpha**step)
    parts = zip(xs, means, squares, strict=True)
    new = [x - rate * v / (h.sqrt() + eps) for x, v, h in parts]
    return [(1 - norm_post) * x for x in new] + means + squares
