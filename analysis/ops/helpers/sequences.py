"""Helpers of sequence operators, copied into the emitted module when used."""

from __future__ import annotations

from torch import Tensor


def insert_item(items: list[Tensor], x: Tensor, position: int) -> list[Tensor]:
    """A list with x before the item that is now at `position`."""
    return [*items[:position], x, *items[position:]]


def erase_item(items: list[Tensor], position: int) -> list[Tensor]:
    """A list without the item at `position`, which counts from the end below 0."""
    position %= len(items)
    return [*items[:position], *items[position + 1 :]]
