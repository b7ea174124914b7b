"""Other instances of a node: its attributes, its sizes and its elements change.

What comes out may be no node that ONNX Runtime takes: it tells.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Attributes = Mapping[str, Any]
Inputs = Sequence[np.ndarray | None]


def varied(
    attributes: Attributes,
    inputs: Inputs,
    pool: Sequence[Attributes],
    sizes: Sequence[int],
    draw: random.Random,
) -> tuple[dict[str, Any], tuple[np.ndarray | None, ...]]:
    """One to three changes; `pool` has the attributes of other cases.

    `sizes` are those that one of an input may become; if there are none, all stay.
    """
    found, arrays = dict(attributes), list(inputs)
    for _ in range(draw.choice([1, 2, 2, 3])):
        if draw.random() < 0.6 or not sizes:
            _change_attribute(found, pool, draw)
        else:
            _change_size(arrays, sizes, draw)
    return found, tuple(None if x is None else _redrawn(x, draw) for x in arrays)


def _change_attribute(
    found: dict[str, Any], pool: Sequence[Attributes], draw: random.Random
) -> None:
    names = sorted({*found, *(name for other in pool for name in other)})
    if not names:
        return
    name = draw.choice(names)
    known = [other[name] for other in pool if name in other]
    value = draw.choice([*known, *([found[name]] if name in found else [])])
    if draw.random() < 0.15:
        found.pop(name, None)
        return
    found[name] = _another(value, draw)


def _another(value: Any, draw: random.Random) -> Any:
    """A value of the same type, not far away."""
    if isinstance(value, bool | str | bytes | np.ndarray):
        return value
    if isinstance(value, int):
        return draw.choice([value, 1 - value, value + 1, value - 1, -value])
    if isinstance(value, float):
        return draw.choice([value, value / 2, value * 2, value + 0.25, -value])
    if isinstance(value, list | tuple) and value:
        place = draw.randrange(len(value))
        one = _another(value[place], draw)
        return [*value[:place], one, *value[place + 1 :]]
    return value


def _change_size(
    arrays: list[np.ndarray | None], allowed: Sequence[int], draw: random.Random
) -> None:
    """One size is another wherever it stands: elements are repeated, or left out."""
    sizes = sorted({n for x in arrays if x is not None for n in x.shape})
    if not sizes:
        return
    old, new = draw.choice(sizes), draw.choice(allowed)
    for k, x in enumerate(arrays):
        if x is None:
            continue
        for axis, size in enumerate(x.shape):
            if size == old and size:
                x = np.take(x, np.arange(new) % size, axis)
        arrays[k] = x


def _redrawn(x: np.ndarray, draw: random.Random) -> np.ndarray:
    """Other floats of as many axes, from among those that are there; some are odd."""
    if x.dtype.kind != "f" or not x.size or draw.random() < 0.3:
        return x
    values = np.random.default_rng(draw.randrange(2**32))
    found = values.permutation(x.reshape(-1)).reshape(x.shape)
    return np.asarray(found * values.choice([1, 1, 1, 0.5, 2], x.shape), x.dtype)
