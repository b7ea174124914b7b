"""What a Session runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..request.choices import ENGINES

TRACED = "onednn"  # what is tried wherever a network may be traced
TRACING = ("onednn", "openvino", "aot", "compile")


@dataclass(frozen=True)
class EnginePlan:
    """`refused` says what the network can't run on, and why; '' where it may be traced.

    `channels_last`: its inputs are images, best laid out with the channels innermost.
    """

    name: str
    refused: str
    channels_last: bool
    precision: str = "float32"
    lists: bool = False  # among the results
    layers: tuple[str, ...] = ()  # for which `packed` has others
    halves: bool = False  # its products are in float16
    rows: bool = False  # which are taken as they stand for one row; nothing convolves
    joins: bool = False  # linear layers take the same single row
    caches: bool = False  # lists of them are all that is in the way of a trace
    makes: bool = False  # memory of its own for each result, from what is fed
    integers: tuple[str, ...] = ()  # layers of QDQ pairs, in model.py
    exact: tuple[str, ...] = ()  # layers that multiply integers, in model.py
    failed: tuple[tuple[str, str], ...] = ()  # engines that didn't verify, and why

    def as_dict(self) -> dict[str, Any]:
        """What the report says of it."""
        found: dict[str, Any] = {"name": self.name}
        if self.precision != "float32":
            found["precision"] = self.precision
        if self.refused:
            found["refused"] = self.refused
        if self.failed:
            found["failed"] = dict(self.failed)
        return found

    @property
    def alone(self) -> bool:
        """The network as it stands is all there is."""
        return self.name == "eager" and self.precision == "float32"

    def candidates(self) -> tuple[str, ...]:
        """What it may run on, the simplest first."""
        left_out = {*(TRACING if self.refused else ()), *dict(self.failed)}
        if self.precision == "int8":
            left_out.add("packed")  # its linear layers are others already
        return tuple(engine for engine in ENGINES if engine not in left_out)
