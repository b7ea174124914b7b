"""The numbers of a class's constructor: which of them differ, and what they are called.

The constructor of one instance, written out, is a row of numbers; those of all
instances are a table. A column that is the same everywhere is printed as a number, the
others become parameters of the class, equal ones a single parameter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..analysis.ops.quant_layers import QUANTIZED_CONVS, QUANTIZED_LINEARS

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

_CHANNELS = ("in_", "width", "hidden", "out_", "num_", "embedding", "channels")


class _Any:
    """Stands in a column for an instance that lacks the layer: any number will do."""

    def __repr__(self) -> str:
        return "ANY"


ANY = _Any()


@dataclass(frozen=True)
class Parameter:
    """A parameter of a class: its columns, a value per instance, and its default."""

    wish: str
    columns: tuple[int, ...]
    values: tuple[Any, ...]

    @property
    def default(self) -> Any:
        """The value that may be left out, or None: switches, and strides of 1."""
        if isinstance(self.values[0], bool):
            return 2 * sum(self.values) > len(self.values)
        usual = {"stride": 1, "dilation": 1, "groups": 1, "padding": 0}.get(self.wish)
        return usual if 2 * self.values.count(usual) >= len(self.values) else None


def parameters(rows: Sequence[list[Any]], labels: list[str]) -> list[Parameter]:
    """What differs between the instances, channels first, what has a default last."""
    found = []
    for columns, values in _varying(rows, labels):
        wish = _name([labels[c] for c in columns])
        found.append(Parameter(wish, tuple(columns), tuple(values)))
    return sorted(
        found,
        key=lambda p: (p.default is not None, not p.wish.startswith(_CHANNELS)),
    )


def _varying(
    rows: Sequence[list[Any]], labels: list[str]
) -> list[tuple[list[int], list[Any]]]:
    """The columns in which rows differ; equal ones of one meaning stand together."""
    groups: list[tuple[str, list[int], list[Any]]] = []
    for i, column in enumerate(zip(*rows, strict=True)):
        known = [value for value in column if value is not ANY]
        if all(value == known[0] for value in known):
            continue
        channels = labels[i].startswith((*_CHANNELS, "groups"))
        meaning = "channels" if channels else labels[i]
        for other, columns, values in groups:
            if other == meaning and all(map(_agree, column, values)):
                columns.append(i)
                values[:] = [
                    b if a is ANY else a for a, b in zip(column, values, strict=True)
                ]
                break
        else:
            groups.append((meaning, [i], list(column)))
    for _, _, values in groups:  # what no layer of an instance needs
        usual = Counter(v for v in values if v is not ANY).most_common(1)[0][0]
        values[:] = [usual if v is ANY else v for v in values]
    return [(columns, values) for _, columns, values in groups]


def _agree(a: Any, b: Any) -> bool:
    return a is ANY or b is ANY or bool(a == b)


def _name(labels: list[str]) -> str:
    """What a parameter is called that stands in several columns.

    One that leaves a layer and enters the next is the width inside the block.
    """
    inner = any(label.startswith("in_") for label in labels)
    if labels[0].startswith("num_"):  # a norm before a layer: named after the layer
        return next((label for label in labels if label.startswith("in_")), labels[0])
    if labels[0] == "out_channels" and inner:
        return "width"
    if labels[0] == "out_features" and inner:
        return "hidden"
    return labels[0]
