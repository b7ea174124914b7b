"""What two groups cost apart and as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from ..cost.device import Device, Profile
from ..dataflow.dataflow import Dataflow

# Seconds of two groups, the second of which reads of the first: apart, and as one.
# None if that can't be measured.
Timer = Callable[[Sequence[int], Sequence[int]], tuple[float, float] | None]

NOISE = 1.05  # between times of the same code; what was measured differs by more


class Price:
    """Seconds of groups on a device: measured where the profile has them.

    With a `timer` the profile gets what it doesn't have.
    """

    def __init__(
        self,
        flow: Dataflow,
        device: Device,
        profile: Profile,
        timer: Timer | None = None,
    ) -> None:
        self.flow, self.device, self._profile = flow, device, profile
        self._timer = timer

    def compare(self, first: Sequence[int], second: Sequence[int]) -> tuple[bool, str]:
        """Whether `second`, which reads of `first`, had better join it; figures."""
        measured = self._measured(first, second)
        if measured is not None:
            apart, fused = measured
            slower = fused > NOISE * apart
            as_fast = "as fast" if apart <= NOISE * fused else "faster"
            text = "measured " + ("slower" if slower else as_fast)
        else:
            apart = self.estimate(first) + self.estimate(second)
            fused = self._fused(first, second)
            slower = fused > apart
            text = "estimated " + ("slower" if slower else "no slower")
        text += f": {fused * 1e6:.1f} us fused, {apart * 1e6:.1f} apart"
        return not slower, text

    def estimate(self, group: Iterable[int]) -> float:
        """Seconds of a group by itself."""
        flops, moved = self._work(set(group))
        return self.device.seconds(flops, moved)

    def _measured(
        self, first: Sequence[int], second: Sequence[int]
    ) -> tuple[float, float] | None:
        """Of the two apart, and as one."""
        pair, device = pair_signature(self.flow, first, second), self.device.name
        apart = self._profile.seconds(device, [*pair, "apart"])
        fused = self._profile.seconds(device, [*pair, "fused"])
        if apart is not None and fused is not None:
            return apart, fused
        found = None if self._timer is None else self._timer(first, second)
        if found is not None:
            for way, seconds in zip(("apart", "fused"), found, strict=True):
                self._profile.add(device, [*pair, way], seconds)
        return found

    def _fused(self, first: Sequence[int], second: Sequence[int]) -> float:
        """Where a row of `first` is read for several of `second`, it runs again."""
        again = math.prod(self.flow.operators[i].repeats for i in second) - 1
        flops, moved = self._work({*first, *second})
        once, inner = self._work(set(first))
        return self.device.seconds(flops + again * once, moved + again * inner)

    def _work(self, group: set[int]) -> tuple[float, float]:
        """Operations and bytes; a tensor within the group is not read, nor written
        unless someone else needs it."""
        flops = moved = 0
        for i in group:
            op = self.flow.operators[i]
            flops += op.flops
            moved += op.moved_bytes
            if not op.moved_bytes:
                continue
            for t in op.reads:
                if self.flow.tensors[t].producer in group:
                    moved -= self.flow.tensors[t].bytes
            for t in op.writes:
                tensor = self.flow.tensors[t]
                if not tensor.returned and all(r in group for r in tensor.readers):
                    moved -= tensor.bytes
        return flops, max(moved, 0)


def pair_signature(
    flow: Dataflow, first: Sequence[int], second: Sequence[int]
) -> list[str]:
    """All that the time of two groups depends on: a line for each operator, with the
    group that it is in and the tensors that it reads and writes, numbered by their
    first appearance."""
    numbers: dict[int, int] = {}
    lines = []
    for i in sorted([*first, *second]):
        op = flow.operators[i]
        wires = [numbers.setdefault(t, len(numbers)) for t in (*op.reads, *op.writes)]
        lines.append(f"{2 if i in second else 1} {op.signature} {wires}")
    return lines


def live(flow: Dataflow, operators: Iterable[int], enough: int) -> tuple[int, int]:
    """The most values, and bytes of rows, that one tile of a group needs at a time.

    Not counted exactly while there are no more than `enough` values in all.
    """
    members = sorted(operators)
    size: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, i in enumerate(members):
        op = flow.operators[i]
        for t in op.reads:
            size.setdefault(t, min(op.row_bytes, flow.tensors[t].bytes))
            last[t] = step
        for t in op.writes:
            size[t] = min(op.row_bytes, flow.tensors[t].bytes)
            last.setdefault(t, step)
    if len(size) <= enough:
        return len(size), sum(size.values())
    return _peak(flow, members, size, last)


def _peak(
    flow: Dataflow, members: list[int], size: dict[int, int], last: dict[int, int]
) -> tuple[int, int]:
    """Values are read when first needed and given up after their last use."""
    held: set[int] = set()
    peak, peak_bytes = 0, 0
    for step, i in enumerate(members):
        op = flow.operators[i]
        held.update(op.reads)
        held.update(op.writes)
        peak = max(peak, len(held))
        peak_bytes = max(peak_bytes, sum(size[t] for t in held))
        held -= {t for t in (*op.reads, *op.writes) if last[t] <= step}
    return peak, peak_bytes
