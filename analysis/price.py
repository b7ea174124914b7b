"""What two groups cost apart and as one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from .dataflow import Dataflow
from .device import Device, Profile


class Price:
    """Seconds of groups on a device: measured where the profile has them."""

    def __init__(self, flow: Dataflow, device: Device, profile: Profile) -> None:
        self.flow, self.device, self._profile = flow, device, profile

    def compare(self, first: Sequence[int], second: Sequence[int]) -> tuple[bool, str]:
        """Whether `second`, which reads of `first`, had better join it; figures."""
        measured = [self._measured(g) for g in (first, second, [*first, *second])]
        if None not in measured:
            one, other, fused = (m or 0.0 for m in measured)
            source = "measured"
        else:
            one, other = self.estimate(first), self.estimate(second)
            fused, source = self._fused(first, second), "estimated"
        apart = one + other
        relation = "no slower" if fused <= apart else "slower"
        text = (
            f"{source} {relation}: {fused * 1e6:.1f} us fused, {apart * 1e6:.1f} apart"
        )
        return fused <= apart, text

    def estimate(self, group: Iterable[int]) -> float:
        """Seconds of a group by itself."""
        flops, moved = self._work(set(group))
        return self.device.seconds(flops, moved)

    def _measured(self, group: Iterable[int]) -> float | None:
        signatures = [self.flow.operators[i].signature for i in sorted(group)]
        return self._profile.seconds(self.device.name, signatures)

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
