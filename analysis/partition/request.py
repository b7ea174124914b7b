"""What is asked for: how many devices, along which dimensions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import FairhandError

DIMENSIONS = ("pp", "dp", "tp")
_HINT = "give tp=2, pp=2, dp=2,tp=2 or a number of devices"
MOST_DEVICES = 65536


@dataclass(frozen=True)
class Degrees:
    """Stages of a pipeline, parts of a batch, and parts of the layers."""

    pp: int = 1
    dp: int = 1
    tp: int = 1

    @property
    def world(self) -> int:
        """How many devices that is."""
        return self.pp * self.dp * self.tp

    @property
    def mesh(self) -> dict[str, int]:
        """The dimensions along which there is more than one device."""
        sizes = {name: getattr(self, name) for name in DIMENSIONS}
        return {name: n for name, n in sizes.items() if n > 1}

    def __str__(self) -> str:
        return ",".join(f"{name}={n}" for name, n in self.mesh.items()) or "1"


def read_degrees(text: str) -> Degrees | int:
    """`tp=2,dp=4`, or a number of devices to divide. Raises FairhandError."""
    if re.fullmatch(r"[0-9]{1,6}", text):
        if not 1 < int(text) <= MOST_DEVICES:
            raise FairhandError(f"{text} is no number of devices", hint=_HINT)
        return int(text)
    found: dict[str, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r" *(pp|dp|tp) *= *([0-9]{1,6}) *", part)
        if match is None or int(match[2]) < 1:
            raise FairhandError(f"{part[:40]!r} is no degree", hint=_HINT)
        if match[1] in found:
            raise FairhandError(f"{match[1]} is given twice", hint=_HINT)
        found[match[1]] = int(match[2])
    degrees = Degrees(**found)
    if not 1 < degrees.world <= MOST_DEVICES:
        raise FairhandError(
            f"{degrees.world} devices can't share a network", hint=_HINT
        )
    return degrees


def divisions(devices: int) -> Iterator[Degrees]:
    """All ways to arrange so many devices."""
    for tp in range(1, devices + 1):
        if devices % tp == 0:
            rest = devices // tp
            for pp in range(1, rest + 1):
                if rest % pp == 0:
                    yield Degrees(pp, rest // pp, tp)


def reduced(degrees: Degrees) -> Degrees:
    """The least devices that show what these do: for a rehearsal of a plan."""
    return Degrees(*(_least(n) for n in (degrees.pp, degrees.dp, degrees.tp)))


def _least(n: int) -> int:
    return next((p for p in range(2, math.isqrt(n) + 1) if n % p == 0), n)
