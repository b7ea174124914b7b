"""Helpers for tensors of strings, which are NumPy arrays of str objects."""

from __future__ import annotations

import json
import re

import numpy as np
import torch
from torch import Tensor


def stored_strings(data: Tensor) -> list[str]:
    """A table of strings that is stored as the bytes of a JSON list."""
    words: list[str] = json.loads(data.cpu().numpy().tobytes())
    return words


def positions(words: np.ndarray, device: torch.device | str = "cpu") -> Tensor:
    """The place of each string, in its stead where strings are moved about."""
    return torch.arange(words.size, device=device).reshape(words.shape)


def take(words: np.ndarray, places: Tensor) -> np.ndarray:
    """The strings that stood at these places."""
    return np.array(words.reshape(-1)[places.numpy(force=True)], dtype=object)


def equal_strings(x: np.ndarray, y: np.ndarray, device: torch.device | str) -> Tensor:
    """Where two arrays of strings are equal."""
    return torch.from_numpy(np.asarray(x == y, dtype=bool)).to(device)


def strings_to_numbers(
    words: np.ndarray, dtype: torch.dtype, device: torch.device | str
) -> Tensor:
    """The numbers that strings spell, such as "1e-5", "-INF" or "NaN"."""
    convert = float if dtype.is_floating_point else int
    numbers = [convert(word) for word in words.reshape(-1)]
    return torch.tensor(numbers, dtype=dtype, device=device).reshape(words.shape)


def floats_to_strings(x: Tensor) -> np.ndarray:
    """Decimal numbers of eight digits; NaN, INF and -INF."""
    odd = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
    texts = [f"{number:.8g}" for number in x.flatten().tolist()]
    words = np.array([odd.get(text, text) for text in texts], dtype=object)
    return words.reshape(tuple(x.shape))


def integers_to_strings(x: Tensor) -> np.ndarray:
    """Whole numbers, and truth values as 0 and 1, in decimal digits."""
    words = np.array(
        [str(int(number)) for number in x.flatten().tolist()], dtype=object
    )
    return words.reshape(tuple(x.shape))


def full_matches(words: np.ndarray, pattern: str, device: torch.device | str) -> Tensor:
    """Whether the pattern describes the whole of each string."""
    found = [re.fullmatch(pattern, word) is not None for word in words.reshape(-1)]
    return torch.tensor(found, dtype=torch.bool, device=device).reshape(words.shape)


def split_strings(
    words: np.ndarray, delimiter: str, maxsplit: int, device: torch.device | str
) -> tuple[np.ndarray, Tensor]:
    """The parts of each string in a last axis, filled up with ""; and their number."""
    parts = [
        word.split(delimiter or None, maxsplit) if word else []
        for word in words.reshape(-1)
    ]
    most = max(map(len, parts), default=0)
    table = np.full((len(parts), most), "", dtype=object)
    for row, found in zip(table, parts, strict=True):
        row[: len(found)] = found
    counts = torch.tensor([len(found) for found in parts], device=device)
    shape = words.shape
    return table.reshape(*shape, most), counts.to(torch.int64).reshape(shape)


def normalize_strings(
    words: np.ndarray, stopwords: list[str], fold_case: bool, change: str
) -> np.ndarray:
    """The strings that are no stop words, in lower or upper case; one "" if none is."""
    stops = {word.lower() for word in stopwords} if fold_case else set(stopwords)
    kept = [
        getattr(word, change)() if change else word
        for word in words.reshape(-1)
        if (word.lower() if fold_case else word) not in stops
    ]
    made = np.array(kept or [""], dtype=object)
    return made if words.ndim == 1 else made[None]


def take_each(words: np.ndarray, places: list[Tensor]) -> list[np.ndarray]:
    """The strings that stood at these places, for several results."""
    return [take(words, each) for each in places]


def tokenize(
    words: np.ndarray,
    pattern: str,
    separators: list[str],
    least: int,
    pad: str,
    marks: bool,
) -> np.ndarray:
    """The tokens of each string in a last axis, those of `least` characters or more.

    They are what the pattern finds, or else what is between the separators.
    """
    rows = []
    for word in words.reshape(-1):
        found = (
            [match[0] for match in re.finditer(pattern, word)] if pattern else [word]
        )
        for separator in separators:
            found = [part for piece in found for part in re.split(separator, piece)]
        kept = [token for token in found if token and len(token) >= least]
        rows.append(["\x02", *kept, "\x03"] if marks else kept)
    table = np.full((len(rows), max(map(len, rows), default=0)), pad, dtype=object)
    for row, tokens in zip(table, rows, strict=True):
        row[: len(tokens)] = tokens
    return table.reshape(*words.shape, -1) if table.size else table
