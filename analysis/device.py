"""What a machine needs for an amount of work, and what it was measured to need."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .errors import FairhandError


@dataclass(frozen=True)
class Device:
    """Rates per second, and limits of one group of operators.

    `launch` is the overhead of a call, `hand_off` that of waiting for another lane, in
    seconds. `live_values` and `on_chip_bytes` are what one tile of a group may need.
    """

    name: str
    flops: float
    bytes: float
    launch: float
    hand_off: float
    live_values: int
    on_chip_bytes: int

    def seconds(self, flops: float, moved_bytes: float, launches: int = 1) -> float:
        """The analytic estimate: bound by arithmetic or by memory."""
        return (
            max(flops / self.flops, moved_bytes / self.bytes) + launches * self.launch
        )


# One core with AVX2 and its second-level cache; one card with its shared memory.
DEVICES = {
    device.name: device
    for device in (
        Device("cpu", 5e10, 1e10, 5e-6, 2e-5, 32, 2**20),
        Device("h100", 5e13, 3e12, 4e-6, 1e-5, 64, 227 * 2**10),
    )
}
CPU = DEVICES["cpu"]


class Profile:
    """Measured seconds of operators and of groups, by content, kept in a JSON file."""

    def __init__(self, seconds: dict[str, float] | None = None) -> None:
        self._seconds = dict(seconds or {})

    @staticmethod
    def key(device: str, signatures: Iterable[str]) -> str:
        """Of a group: operators with types, shapes and dtypes, in graph order."""
        text = json.dumps([device, *signatures])
        return hashlib.sha256(text.encode()).hexdigest()

    def add(self, device: str, signatures: Iterable[str], seconds: float) -> None:
        self._seconds[self.key(device, signatures)] = seconds

    def seconds(self, device: str, signatures: Iterable[str]) -> float | None:
        """None where it was not measured."""
        if not self._seconds:
            return None
        return self._seconds.get(self.key(device, signatures))

    @classmethod
    def load(cls, path: Path) -> Profile:
        """An empty one where there is no such file yet."""
        if not path.exists():
            return cls()
        try:
            found = json.loads(path.read_text("utf-8"))
            return cls({str(key): float(n) for key, n in found.items()})
        except (ValueError, TypeError, AttributeError) as error:
            raise FairhandError(
                f"{path} is no profile: {error}", hint="delete it to measure again"
            ) from error

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self._seconds, indent=1, sort_keys=True), "utf-8")
