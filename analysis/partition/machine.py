"""What devices and the links between them need for an amount of work."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path

from ..errors import FairhandError


@dataclass(frozen=True)
class Machine:
    """Rates of one device per second, and of an exchange: `alpha` seconds for each
    step of it, `beta` for each byte. `memory` is the bytes that a device has."""

    name: str
    flops: float
    bytes: float
    alpha: float
    beta: float
    memory: float

    def compute(self, flops: float, moved: float) -> float:
        """Seconds: bound by arithmetic or by memory."""
        return max(flops / self.flops, moved / self.bytes)

    def gather(self, size: float, degree: int) -> float:
        """Seconds until each of `degree` devices has all of `size` bytes."""
        if degree == 1:
            return 0.0
        return (degree - 1) * (self.alpha + size / degree * self.beta)

    def sum(self, size: float, degree: int) -> float:
        """Seconds until each of `degree` devices has the sum of their `size` bytes."""
        return 2 * self.gather(size, degree)

    def send(self, size: float, before: int, after: int) -> float:
        """Seconds until each of `after` devices has `size` bytes that each of `before`
        others had: they take a slice each, and gather them."""
        link = self.alpha + size / min(before, after) * self.beta
        return link + self.gather(size, after)


MACHINES = {
    machine.name: machine
    for machine in (
        Machine("h100", 6e14, 3e12, 7e-6, 1 / 3.2e11, 80e9),
        Machine("a100", 2.4e14, 1.5e12, 8e-6, 1 / 2.4e11, 80e9),
        Machine("cpu", 5e10, 1e10, 1e-4, 1 / 1.5e9, 16e9),
    )
}


def read_machine(text: str, memory: float | None = None) -> Machine:
    """The machine of that name, or of a JSON file with the numbers of one.

    Raises FairhandError for a file that is none.
    """
    machine = MACHINES.get(text)
    if machine is None:
        machine = _from_file(Path(text))
    return machine if memory is None else replace(machine, memory=memory)


def _from_file(path: Path) -> Machine:
    names = [field.name for field in fields(Machine)][1:]
    hint = f"give {', '.join(MACHINES)} or a JSON file with {', '.join(names)}"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        numbers = {name: float(data[name]) for name in names}
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        what = f"{path} describes no devices: {type(error).__name__} {error}"
        raise FairhandError(what, hint=hint) from None
    bad = [n for n, x in numbers.items() if not 0 <= x < 1e30]
    bad += [n for n in ("flops", "bytes", "memory") if not numbers[n]]
    if bad:
        raise FairhandError(f"{path}: {bad[0]} is {numbers[bad[0]]}", hint=hint)
    return Machine(path.stem, **numbers)
