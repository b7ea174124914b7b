"""The numbers of a class's constructor: which of them differ, and what they are called.

The constructor of one instance, written out, is a row of numbers; those of all
instances are a table. A column that is the same everywhere is printed as a number, the
others become parameters of the class, equal ones a single parameter.

What holds in every instance of a class is a law of it, and one parameter says both. So
that chance makes no laws, only what people write is looked for: widths inside a block
as multiples of the one that enters it, or of another one in three sizes; half a kernel
as padding; sizes that are equal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, permutations
from typing import Any

from ...analysis.ops.quant_layers import QUANTIZED_CONVS, QUANTIZED_LINEARS
from ..ir.naming import PARAMETERS, first_name


class _Any:
    """Stands in a column for an instance that lacks the layer: any number will do."""

    def __repr__(self) -> str:
        return "ANY"


ANY = _Any()


# What the positional arguments of a layer are called, to name a class's parameters.
ARGUMENTS = {
    "nn.Conv1d": ("in_channels", "out_channels", "kernel_size"),
    "nn.Conv2d": ("in_channels", "out_channels", "kernel_size"),
    "nn.Conv3d": ("in_channels", "out_channels", "kernel_size"),
    "nn.ConvTranspose1d": ("in_channels", "out_channels", "kernel_size"),
    "nn.ConvTranspose2d": ("in_channels", "out_channels", "kernel_size"),
    "nn.ConvTranspose3d": ("in_channels", "out_channels", "kernel_size"),
    "nn.Linear": ("in_features", "out_features"),
    **dict.fromkeys(QUANTIZED_CONVS, ("in_channels", "out_channels", "kernel_size")),
    **dict.fromkeys(QUANTIZED_LINEARS, ("in_features", "out_features")),
    "PackedLinear": ("in_features", "out_features", "block"),
    "nn.Embedding": ("num_embeddings", "embedding_dim"),
    "nn.GroupNorm": ("groups", "channels"),
    "nn.BatchNorm1d": ("num_features",),
    "nn.BatchNorm2d": ("num_features",),
    "nn.BatchNorm3d": ("num_features",),
    "nn.LayerNorm": ("num_features",),
    "nn.RMSNorm": ("num_features",),
    "nn.LSTM": ("input_size", "hidden_size"),
    "nn.GRU": ("input_size", "hidden_size"),
    "nn.RNN": ("input_size", "hidden_size"),
}

# What a reader would not know by its place: Stage(64, 128, depth=3, stride=2).
BY_NAME = ("depth", "stride", "dilation", "groups", "padding")
_COUNTED = r"^(size|width|hidden|(?:in|out)_(?:channels|features))[\d_]+$"
_CHANNELS = ("in_", "width", "hidden", "out_", "num_", "embedding", "channels")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a class: its columns, a value per instance, and its default.

    ANY is the value of instances that lack the layer; what these are given is `usual`.
    `derived` are columns that are computed of it, each with its text: "4 * {c0}" of a
    parameter whose first column is 0.
    """

    wish: str
    columns: tuple[int, ...]
    values: tuple[Any, ...]
    derived: tuple[tuple[int, str], ...] = ()

    @property
    def usual(self) -> Any:
        """The value that most instances have."""
        return Counter(v for v in self.values if v is not ANY).most_common(1)[0][0]

    @property
    def default(self) -> Any:
        """The value that may be left out, or None: switches, and strides of 1."""
        values = [self.usual if v is ANY else v for v in self.values]
        if isinstance(values[0], bool):
            return 2 * sum(values) > len(values)
        usual = {"stride": 1, "dilation": 1, "groups": 1, "padding": 0}.get(self.wish)
        return usual if 2 * values.count(usual) >= len(values) else None

    def texts(self, labels: dict[str, str]) -> dict[int, str]:
        """What stands in its columns, where parameters have these names."""
        own = dict.fromkeys(self.columns, labels[place(self)])
        return own | {column: text.format(**labels) for column, text in self.derived}


def place(group: Parameter | _Group) -> str:
    """What stands in a text for the name of a parameter."""
    return f"c{group.columns[0]}"


def parameters(
    rows: Sequence[list[Any]], labels: list[str], derives: bool = True
) -> list[Parameter]:
    """What differs between the instances, channels first, what is named last."""
    groups = _varying(rows, labels)
    bases = _dependent(groups) if derives else {}
    last = max((i for i, x in enumerate(labels) if x.startswith("out_")), default=-1)
    named = [_name(group.labels) for group in groups]
    derived: dict[int, list[tuple[int, str]]] = {}
    for i, ((base, *_), text) in bases.items():
        derived.setdefault(base, []).extend((c, text) for c in groups[i].columns)
    found: list[Parameter] = []
    for i, group in enumerate(groups):
        if i not in bases:
            wish = named[i]
            if any(wish == known.wish for known in found):
                wish = _AGAIN.get(wish, wish)
            if derives and last in group.columns and wish in _AGAIN.values():
                wish = wish if labels[last] in named else labels[last]
            columns, more = tuple(group.columns), tuple(derived.get(i, ()))
            found.append(Parameter(wish, columns, tuple(group.values), more))
    return sorted(found, key=_order)


def _order(parameter: Parameter) -> tuple[int, bool]:
    wish = parameter.wish
    last = 2 if parameter.default is not None else wish.startswith(BY_NAME)
    return last, not wish.startswith(_CHANNELS)


@dataclass
class _Group:
    """Columns of one meaning in which the instances have the same values.

    `labels` are what the number is called in each column, `values` in each instance.
    """

    meaning: str
    labels: list[str]
    values: list[Any]
    columns: list[int]


def _varying(rows: Sequence[list[Any]], labels: list[str]) -> list[_Group]:
    """The columns in which rows differ; equal ones of one meaning stand together."""
    groups: list[_Group] = []
    columns = list(zip(*rows, strict=True))
    varied = [i for i, column in enumerate(columns) if not _constant(column)]
    for i in (*varied, *_known_by_some(columns, labels)):
        column, meaning = columns[i], _meaning(labels[i])
        for group in groups:
            pairs = zip(column, group.values, strict=True)
            agree = all(a is ANY or b is ANY or bool(a == b) for a, b in pairs)
            if group.meaning == meaning and agree:
                group.columns.append(i)
                group.values = [
                    b if a is ANY else a
                    for a, b in zip(column, group.values, strict=True)
                ]
                if i in varied:
                    group.labels.append(labels[i])
                break
        else:
            if i in varied:
                groups.append(_Group(meaning, [labels[i]], list(column), [i]))
    return groups


def unexplained(rows: Sequence[list[Any]], labels: list[str]) -> bool:
    """Whether some instances have a width of their own that no parameter tells."""
    told = {i for group in _varying(rows, labels) for i in group.columns}
    alone = {*_known_by_some(list(zip(*rows, strict=True)), labels)} - told
    return any(_meaning(labels[i]) == "channels" for i in alone)


def _known_by_some(columns: Sequence[Sequence[Any]], labels: list[str]) -> list[int]:
    """The columns of one number, where some instances lack the layer."""
    return [
        i
        for i, column in enumerate(columns)
        if labels[i] not in _KERNEL and _constant(column)
        if 0 < sum(value is not ANY for value in column) < len(column)
    ]


def _constant(column: Sequence[Any]) -> bool:
    known = [value for value in column if value is not ANY]
    return all(value == known[0] for value in known)


def _meaning(label: str) -> str:
    if label.startswith((*_CHANNELS, "groups")):
        return "channels"
    return "size" if label.startswith("size") else label


def plain_size(label: str) -> str:
    """size2 of a class inside is a size of the one around it, and so of widths."""
    return re.sub(_COUNTED, r"\1", label)


def _name(labels: list[str]) -> str:
    """What a parameter is called that stands in several columns.

    One that leaves a layer and enters the next is the width inside the block, but where
    it leaves the last layer.
    """
    first, sized = labels[0], all(label.startswith("size") for label in labels)
    enters = next((label for label in labels if label.startswith("in_")), "")
    inner = {"out_channels": "width", "out_features": "hidden"}.get(first, "")
    ask: dict[str, Callable[[], str]] = {
        "stored": lambda: "size" if first == "dim" else "",
        "number": lambda: max(labels, key=len) if sized else "",
        "next layer": lambda: enters if first.startswith("num_") else "",
        "inside": lambda: inner if enters else "",
        "argument": lambda: first,
    }
    return first_name(PARAMETERS, ask)


# What enters one layer more is a width inside.
_AGAIN = {"in_channels": "width", "in_features": "hidden"}


# ---- numbers that others tell: nn.Linear(width, 4 * width)

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


def _dependent(columns: Sequence[_Group]) -> dict[int, tuple[tuple[int, ...], str]]:
    """For each column that others tell which ones, and how: "4 * {c0}"."""
    found: dict[int, tuple[tuple[int, ...], str]] = {}
    named = [_PLAIN.get(c.meaning, 2) for c in columns]
    # The largest first, and of equal ones those that have no name of their own.
    order = [
        (-max(filter(_whole, c.values), default=0), named[i], i)
        for i, c in enumerate(columns)
    ]
    for _, _, i in sorted(order):
        if any(i in bases for bases, _ in found.values()):
            continue
        free = [base for base in range(len(columns)) if base not in (i, *found)]
        before = [base for base in free if base < i]
        free.sort(key=named.__getitem__, reverse=True)
        for bases in [(base,) for base in free] + [*permutations(before, 2)]:
            wanted, first, *more = (columns[j] for j in (i, *bases))
            text = _sum(wanted, first, *more) if more else _law(wanted, first)
            if not text and not more:
                text = _multiple(wanted, first, bases[0] < i)
            if text:
                texts = (f"{{{place(columns[base])}}}" for base in bases)
                found[i] = bases, text.format(*texts)
                break
    return found


def _law(wanted: _Group, base: _Group) -> str:
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
        stated = "size" in meanings and len({a for a, _ in pairs}) > 2
        same = meanings in _SAME or stated or (sizes and (unlikely or stored))
        return "{}" if same else ""
    plain = not {"channels", *_KERNEL}.intersection(meanings)
    if plain and unlikely and all(a == b * b for a, b in pairs):
        return "{} ** 2"
    return ""


def _multiple(wanted: _Group, base: _Group, before: bool) -> str:
    """A width that is so many times another, or a part or more of one told before."""
    pairs, joined = _pairs(wanted, base), _enters(wanted)
    if not wanted.meaning == base.meaning == "channels":
        return ""
    if len(wanted.labels) > _MOST_PLACES or not all(map(_whole, chain(*pairs))):
        return ""
    # What enters a layer and comes out of none was joined, or cut, of what came in.
    sure = before and len({b for _, b in pairs}) >= (2 if joined else _SIZES)
    usual = _FACTORS if _enters(base) and not joined else ()
    for times in range(2, _MOST_TIMES + 1):
        if all(a == times * b for a, b in pairs) and (sure or times in usual):
            return f"{times} * {{}}"
        if all(times * a == b for a, b in pairs) and sure:
            return f"{{}} // {times}"
    for times in range(1, _MOST_TIMES + 1):
        more = {a - times * b for a, b in pairs}
        enough = joined if times == 1 else len({b for _, b in pairs}) >= _SIZES
        if sure and enough and len(more) == 1 and min(more) > 0:
            return f"{times} * {{}} + {min(more)}".removeprefix("1 * ")
    return ""


def _sum(wanted: _Group, base: _Group, other: _Group) -> str:
    """A width that enters a layer when one was joined with so many of another."""
    groups = wanted, base, other
    rows = [*zip(*(group.values for group in groups), strict=True)]
    if not _enters(wanted) or any(group.meaning != "channels" for group in groups):
        return ""
    if not all(map(_whole, chain(*rows))):
        return ""
    if all(a * rows[0][2] == b * rows[0][1] for _, a, b in rows):
        return ""  # all of them are one, so many times
    for times in range(1, _MOST_TIMES + 1):
        if all(c == a + times * b for c, a, b in rows):
            return "{} + {}" if times == 1 else f"{{}} + {times} * {{}}"
    return ""


def _pairs(wanted: _Group, base: _Group) -> list[tuple[Any, Any]]:
    """Their values in each instance that has the first."""
    both = zip(wanted.values, base.values, strict=True)
    return [(a, b) for a, b in both if a is not ANY]


def _enters(column: _Group) -> bool:
    """Whether it is the width of what a block is given."""
    first = column.labels[0]
    return first.startswith("in_") or (
        first.startswith("num_") and any(x.startswith("in_") for x in column.labels)
    )


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
