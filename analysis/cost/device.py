"""What a machine needs for an amount of work, and what it was measured to need."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Device:
    """Rates per second, and limits of one group of operators.

    `launch` is the overhead of a call, `hand_off` the time until another lane wakes, in
    seconds. `live_values` and `on_chip_bytes` are what one tile of a group may need.
    `scaling` is what each thread after the first adds within one operator.
    """

    name: str
    flops: float
    bytes: float
    launch: float
    hand_off: float
    live_values: int
    on_chip_bytes: int
    scaling: float = 0.7

    def seconds(self, flops: float, moved_bytes: float, threads: int = 1) -> float:
        """The analytic estimate of a call: bound by arithmetic or by memory."""
        speed = 1 + (threads - 1) * self.scaling
        return max(flops / self.flops, moved_bytes / self.bytes) / speed + self.launch


# One core with AVX2 and its second-level cache; one card with its shared memory.
DEVICES = {
    device.name: device
    for device in (
        Device("cpu", 5e10, 1e10, 5e-6, 1.5e-4, 32, 2**20),
        Device("h100", 5e13, 3e12, 4e-6, 1e-5, 64, 227 * 2**10),
    )
}
CPU = DEVICES["cpu"]


class Profile:
    """Measured seconds of operators and of groups, by content, one to a file.

    `machine` is all else that they depend on. Without a folder nothing is kept. A file
    that can't be read is one that was never written.
    """

    def __init__(self, folder: Path | None = None, machine: str = "") -> None:
        self._folder, self._machine = folder, machine
        self._known: dict[str, float | None] = {}

    def key(self, device: str, signatures: Iterable[str], threads: int = 1) -> str:
        """Of a group: operators with types, shapes and dtypes, in graph order."""
        text = json.dumps([self._machine, device, threads, *signatures])
        return hashlib.sha256(text.encode()).hexdigest()

    def add(
        self, device: str, signatures: Iterable[str], seconds: float, threads: int = 1
    ) -> None:
        """Note the seconds of operators on a device with a number of threads."""
        key = self.key(device, signatures, threads)
        self._known[key] = seconds
        if self._folder is not None:
            path = self._folder / key[:2] / f"{key}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(f".{os.getpid()}")
            draft.write_text(json.dumps({"seconds": seconds}), "utf-8")
            draft.replace(path)  # nobody reads half a file

    def seconds(
        self, device: str, signatures: Iterable[str], threads: int = 1
    ) -> float | None:
        """None where it was not measured."""
        if self._folder is None and not self._known:
            return None
        key = self.key(device, signatures, threads)
        if key not in self._known:
            self._known[key] = self._read(key)
        return self._known[key]

    def _read(self, key: str) -> float | None:
        if self._folder is None:
            return None
        try:
            text = (self._folder / key[:2] / f"{key}.json").read_text("utf-8")
            seconds = float(json.loads(text)["seconds"])
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        return seconds if 0 <= seconds < 1e6 else None
