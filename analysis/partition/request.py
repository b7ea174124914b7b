"""What is asked for: how many devices, along which dimensions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import FairhandError

DIMENSIONS = ("pp", "dp", "tp")
_HINT = "give tp=2, pp=2, dp=2,tp=2, pp=2,tp=2+1 or a number of devices"
MOST_DEVICES = 65536


@dataclass(frozen=True)
class Degrees:
    """Stages of a pipeline, parts of a batch, and parts of the layers: `each` has those
    of each stage where they differ, `tp` what all of them divide."""

    pp: int = 1
    dp: int = 1
    tp: int = 1
    each: tuple[int, ...] = ()

    @classmethod
    def of_stages(cls, dp: int, tps: Sequence[int]) -> Degrees:
        """Layers are cut into so many parts in each stage."""
        each = tuple(tps) if len(set(tps)) > 1 else ()
        return cls(len(tps), dp, math.lcm(*tps), each)

    @property
    def tps(self) -> tuple[int, ...]:
        """The parts of the layers of each stage."""
        return self.each or (self.tp,) * self.pp

    @property
    def world(self) -> int:
        """How many devices that is."""
        return self.dp * sum(self.tps)

    @property
    def mesh(self) -> dict[str, Any]:
        """The dimensions along which there is more than one device."""
        sizes = {name: getattr(self, name) for name in DIMENSIONS}
        found = {name: n for name, n in sizes.items() if n > 1}
        return found | ({"tp": list(self.each)} if self.each else {})

    def __str__(self) -> str:
        said = self.mesh | ({"tp": "+".join(map(str, self.each))} if self.each else {})
        return ",".join(f"{name}={n}" for name, n in said.items()) or "1"


def read_degrees(text: str) -> Degrees | int:
    """`tp=2,dp=4`, `pp=2,tp=2+1` where stages differ, or a number of devices to divide.
    Raises FairhandError."""
    if re.fullmatch(r"[0-9]{1,6}", text):
        if not 1 < int(text) <= MOST_DEVICES:
            raise FairhandError(f"{text} is no number of devices", hint=_HINT)
        return int(text)
    found: dict[str, list[int]] = {}
    for part in text.split(","):
        form = r" *(pp|dp|tp) *= *([0-9]{1,6}(?:\+[0-9]{1,6}){0,255}) *"
        match = re.fullmatch(form, part)
        numbers = [int(n) for n in match[2].split("+")] if match else [0]
        uneven = len(numbers) > 1 and not part.strip().startswith("tp")
        if match is None or min(numbers) < 1 or uneven:
            raise FairhandError(f"{part[:40]!r} is no degree", hint=_HINT)
        if match[1] in found:
            raise FairhandError(f"{match[1]} is given twice", hint=_HINT)
        found[match[1]] = numbers
    tps, (dp,) = found.get("tp", [1]), found.get("dp", [1])
    (pp,) = found.get("pp", [len(tps)])
    if len(tps) not in (1, pp):
        what = f"tp={'+'.join(map(str, tps))} is of {len(tps)} stages, and pp={pp}"
        raise FairhandError(what, hint=_HINT)
    degrees = Degrees.of_stages(dp, tps) if len(tps) > 1 else Degrees(pp, dp, tps[0])
    if not 1 < degrees.world <= MOST_DEVICES:
        raise FairhandError(
            f"{degrees.world} devices can't share a network", hint=_HINT
        )
    return degrees


def divisions(devices: int) -> Iterator[Degrees]:
    """All ways to arrange so many devices: in stages of equal degrees, or in two."""
    for tp in range(1, devices + 1):
        if devices % tp == 0:
            rest = devices // tp
            for pp in range(1, rest + 1):
                if rest % pp == 0:
                    yield Degrees(pp, rest // pp, tp)
    for dp in range(1, devices // 3 + 1):
        for first in range(1, devices // dp if devices % dp == 0 else 1):
            if 2 * first != devices // dp:
                yield Degrees.of_stages(dp, (first, devices // dp - first))


def reduced(degrees: Degrees) -> Degrees:
    """The least devices that show what these do: for a rehearsal of a plan."""
    dp, least = _least(degrees.dp), min(degrees.tps)
    if degrees.each:
        tps = [1 if n == least else _least(n) for n in degrees.each]
        return Degrees.of_stages(dp, tps)
    return Degrees(_least(degrees.pp), dp, _least(degrees.tp))


def _least(n: int) -> int:
    return next((p for p in range(2, math.isqrt(n) + 1) if n % p == 0), n)
