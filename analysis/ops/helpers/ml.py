"""Helpers for tables of labels, maps, and votes between pairs of classes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def find_strings(
    words: np.ndarray, keys: list[str], device: torch.device | str
) -> Tensor:
    """The place of each string among the keys; behind the last one if it is none."""
    places = {key: place for place, key in enumerate(keys)}
    found = [places.get(word, len(keys)) for word in words.reshape(-1)]
    return torch.tensor(found, dtype=torch.int64, device=device).reshape(words.shape)


def find_numbers(x: Tensor, keys: Tensor) -> Tensor:
    """The place of each number among sorted keys; behind the last one if it is none."""
    place = torch.searchsorted(keys, x.contiguous()).clamp(max=len(keys) - 1)
    return torch.where(keys[place] == x, place, len(keys))


def zip_map(
    scores: Tensor, keys: list[int] | list[str]
) -> list[dict[int | str, float]]:
    """A map from class to score for each row."""
    rows = scores.reshape(-1, len(keys)).tolist()
    return [dict(sorted(zip(keys, row, strict=True))) for row in rows]


def map_values(
    entries: dict[int | str, float],
    keys: list[int | str],
    dtype: torch.dtype,
    device: torch.device | str,
) -> Tensor:
    """The values of a map at these keys as a row, 0 where it has none."""
    row = [entries.get(key, 0) for key in keys]
    return torch.tensor([row], dtype=dtype, device=device)


def map_words(entries: dict[int | str, str], keys: list[int | str]) -> np.ndarray:
    """The strings of a map at these keys as a row, "" where it has none."""
    return np.array([[entries.get(key, "") for key in keys]], dtype=object)


def couple_pairs(likely: Tensor, classes: int) -> Tensor:
    """Probabilities of classes from those of the first class of each pair.

    The second method of Wu, Lin and Weng (2004), in the steps and with the limits that
    libsvm and ONNX Runtime have.
    """
    first, second = torch.triu_indices(classes, classes, 1, device=likely.device)
    r = likely.new_zeros(len(likely), classes, classes)
    r[:, first, second] = likely
    r[:, second, first] = 1 - likely
    q = -r.mT * r
    q.diagonal(dim1=1, dim2=2).copy_(r.square().sum(1))
    p = torch.full_like(r[:, 0], 1 / classes)
    for _ in range(100):
        step = p.clone()
        qp = (q @ p[..., None]).squeeze(-1)
        pqp = (p * qp).sum(1)
        going = (qp - pqp[:, None]).abs().amax(1) >= 0.005 / classes
        if not going.any():
            break
        for i in range(classes):
            q_ii = q[:, i, i]
            diff = (pqp - qp[:, i]) / q_ii
            step[:, i] += diff
            scale = 1 + diff
            pqp = (pqp + diff * (diff * q_ii + 2 * qp[:, i])) / scale / scale
            qp = (qp + diff[:, None] * q[:, i]) / scale[:, None]
            step = step / scale[:, None]
        p = torch.where(going[:, None], step, p)
    return p


def tf_idf(
    rows: list[list[int | str]],
    pool: list[int | str],
    starts: list[int],
    columns: list[int],
    skips: int,
    lengths: tuple[int, int],
    device: torch.device | str,
) -> Tensor:
    """How often the n-grams of the pool occur in each row, counted in their columns.

    The pool lists the single items, then the pairs and so on; `starts` says where each
    length begins. Up to `skips` items may stand between two of an n-gram.
    """
    ngrams, column = {}, iter(columns)
    for length, start in enumerate(starts, 1):
        stop = starts[length] if length < len(starts) else len(pool)
        for i in range(start, stop, length):
            place = next(column)
            if lengths[0] <= length <= lengths[1]:
                ngrams[tuple(pool[i : i + length])] = place
    counts = torch.zeros(len(rows), max(columns) + 1)
    for row, items in enumerate(rows):
        for length in range(lengths[0], lengths[1] + 1):
            for step in range(1, (skips if length > 1 else 0) + 2):
                reach = (length - 1) * step
                for i in range(len(items) - reach):
                    found = ngrams.get(tuple(items[i : i + reach + 1 : step]))
                    if found is not None:
                        counts[row, found] += 1
    return counts.to(device)


def map_in_order(
    entries: dict[int, float | str], convert: type[float] | type[int] | type[str]
) -> list[list[float | str]]:
    """The values of a map in the order of its keys, as a row."""
    return [[convert(entries[key]) for key in sorted(entries)]]


def map_by_place(
    entries: dict[int, float | str], convert: type[float] | type[int], size: int
) -> list[list[float]]:
    """A row that has each value of a map at the place that its key says, else 0."""
    return [[convert(entries[key]) if key in entries else 0 for key in range(size)]]
