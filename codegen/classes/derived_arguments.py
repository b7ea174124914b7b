"""Numbers of a constructor that are told by others: nn.Linear(width, 4 * width).

What holds in every instance of a class is a law of it, and one parameter says both. So
that chance makes no laws, only what people write is looked for: widths inside a block
as multiples of the one that enters it, or of another one in three sizes; half a kernel
as padding; sizes that are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class _Any:
    """Stands in a column for an instance that lacks the layer: any number will do."""

    def __repr__(self) -> str:
        return "ANY"


ANY = _Any()


@dataclass
class Column:
    """A number of a constructor: what it means, what it is called at each place, and
    its value in each instance."""

    meaning: str
    labels: list[str]
    values: list[Any]


# Queries, keys and values; what an MLP is wider by.
_FACTORS = (3, 4)
# Between other widths a ratio is no chance where there are so many sizes, as of the
# widths in ResNet's bottlenecks, and of what DenseNet's transitions halve.
_SIZES, _MOST_TIMES = 3, 8
# Written more often than this, a multiple is easier to read under a name of its own.
_MOST_PLACES = 2
_KERNEL = {"kernel_size", "stride", "padding", "dilation"}
_PLAIN = {"dim": 0, "size": 1}
_SAME = {("stride", "kernel_size"), ("padding", "dilation")}


def dependent(columns: Sequence[Column]) -> dict[int, tuple[int, str]]:
    """For each column that another one tells which one, and how: "4 * {}"."""
    found: dict[int, tuple[int, str]] = {}
    # The largest first, and of equal ones those that have no name of their own.
    order = [
        (-max(filter(_whole, c.values), default=0), _PLAIN.get(c.meaning, 2), i)
        for i, c in enumerate(columns)
    ]
    for _, _, i in sorted(order):
        if any(base == i for base, _ in found.values()):
            continue
        for base, column in enumerate(columns):
            if base == i or base in found:
                continue
            text = _law(columns[i], column)
            if not text and base < i:
                text = _ratio(columns[i], column)
            if text:
                found[i] = base, text
                break
    return found


def _law(wanted: Column, base: Column) -> str:
    pairs = _pairs(wanted, base)
    if not all(_whole(a) and _whole(b) for a, b in pairs):
        return ""
    meanings = wanted.meaning, base.meaning
    if meanings == ("padding", "kernel_size"):
        return "{} // 2" if all(a == b // 2 for a, b in pairs) else ""
    unlikely = len({a for a, _ in pairs}) > 2 or max(a for a, _ in pairs) >= 16
    if all(a == b for a, b in pairs):
        sizes = not _KERNEL.intersection(meanings) and wanted.meaning != "channels"
        stored = "dim" in meanings and "channels" not in meanings
        same = meanings in _SAME or (sizes and (unlikely or stored))
        return "{}" if same else ""
    if meanings == ("channels", "channels") and _enters(base) and not _enters(wanted):
        for factor in _FACTORS if len(wanted.labels) <= _MOST_PLACES else ():
            if all(a == factor * b for a, b in pairs):
                return f"{factor} * {{}}"
    if "channels" not in meanings and unlikely and all(a == b * b for a, b in pairs):
        return "{} ** 2"
    return ""


def _ratio(wanted: Column, base: Column) -> str:
    """A width that is so many times one that was told before it, or such a part."""
    pairs = _pairs(wanted, base)
    channels = wanted.meaning == base.meaning == "channels"
    if not channels or len(wanted.labels) > _MOST_PLACES:
        return ""
    if not all(_whole(a) and _whole(b) for a, b in pairs):
        return ""
    if len({b for _, b in pairs}) < _SIZES:
        return ""
    for times in range(2, _MOST_TIMES + 1):
        if all(a == times * b for a, b in pairs):
            return f"{times} * {{}}"
        if all(times * a == b for a, b in pairs):
            return f"{{}} // {times}"
    return ""


def _pairs(wanted: Column, base: Column) -> list[tuple[Any, Any]]:
    """Their values in each instance that has the first."""
    both = zip(wanted.values, base.values, strict=True)
    return [(a, b) for a, b in both if a is not ANY]


def _enters(column: Column) -> bool:
    """Whether it is the width of what a block is given."""
    first = column.labels[0]
    return first.startswith("in_") or (
        first.startswith("num_") and any(x.startswith("in_") for x in column.labels)
    )


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
