"""Sliding windows of convolution and pooling, counted as PyTorch counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..helpers import windows as helpers
from ..node_view import NodeView


def short(sizes: Sequence[int]) -> Any:
    """One number for all axes where it is the same: (3, 3) -> 3, (1, 2) -> (1, 2)."""
    return sizes[0] if len(set(sizes)) == 1 else tuple(sizes)


@dataclass(frozen=True)
class Windows:
    """One entry per spatial axis; `begin` and `end` pad the data before and behind.

    `same` is "upper" or "lower" where the padding depends on sizes not known yet.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    ceil: bool = False
    same: str = ""

    @property
    def axes(self) -> int:
        """How many axes windows go along."""
        return len(self.kernel)

    @property
    def reach(self) -> tuple[int, ...]:
        """The distance that a window spans, holes of the dilation included."""
        pairs = zip(self.kernel, self.dilation, strict=True)
        return tuple((k - 1) * d + 1 for k, d in pairs)

    @property
    def symmetric(self) -> bool:
        """Whether both ends of each axis have the same padding, not below 0."""
        return not self.same and self.begin == self.end and min(self.begin) >= 0

    @property
    def pad(self) -> tuple[int, ...]:
        """The padding as F.pad wants it: from the last axis to the first padded."""
        pairs = list(zip(self.begin, self.end, strict=True))
        while pairs and pairs[0] == (0, 0):
            del pairs[0]
        return tuple(size for pair in reversed(pairs) for size in pair)

    def dilated(self) -> bool:
        """Whether windows have holes."""
        return any(d != 1 for d in self.dilation)


def windows(n: NodeView, kernel: Sequence[int]) -> Windows:
    """The windows of a node, with auto_pad worked out as far as sizes are known."""
    axes = len(kernel)
    stride = tuple(n.attr("strides") or [1] * axes)
    dilation = tuple(n.attr("dilations") or [1] * axes)
    pads = tuple(n.attr("pads") or [0] * 2 * axes)
    auto = n.attr("auto_pad", "NOTSET")
    ceil = bool(n.attr("ceil_mode", 0))
    if not len(stride) == len(dilation) == len(pads) // 2 == axes:
        n.refuse(f"{n.node.op_type} with attributes for another number of axes")
    begin, end = pads[:axes], pads[axes:]
    if auto != "NOTSET":
        if ceil and auto != "VALID":
            n.refuse(f"{n.node.op_type} with auto_pad and ceil_mode is not supported")
        begin = end = (0,) * axes
    plain = Windows(tuple(kernel), stride, dilation, begin, end, ceil)
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        return plain
    return _same(n, plain, "upper" if auto == "SAME_UPPER" else "lower")


def _same(n: NodeView, plain: Windows, kind: str) -> Windows:
    """Padding such that there are ceil(size / stride) windows on each axis."""
    begin, end = [], []
    sizes = n.dims(0)[2:]
    for size, reach, stride in zip(sizes, plain.reach, plain.stride, strict=True):
        if stride == 1:
            total = reach - 1
        elif reach == 1 and stride == 2:
            total = 0
        elif isinstance(size, int):
            total = (-(-size // stride) - 1) * stride + reach - size
        else:
            return _same_at_run_time(n, plain, kind)
        if total < -1:
            _refuse_gaps(n)
        total = max(total, 0)
        less, more = total // 2, total - total // 2
        begin.append(less if kind == "upper" else more)
        end.append(more if kind == "upper" else less)
    return Windows(plain.kernel, plain.stride, plain.dilation, tuple(begin), tuple(end))


def _same_at_run_time(n: NodeView, plain: Windows, kind: str) -> Windows:
    if any(s - r > 1 for s, r in zip(plain.stride, plain.reach, strict=True)):
        _refuse_gaps(n)
    return Windows(
        plain.kernel, plain.stride, plain.dilation, plain.begin, plain.end, same=kind
    )


def _refuse_gaps(n: NodeView) -> None:
    # Frameworks disagree on which elements the windows then start at.
    n.refuse(
        f"{n.node.op_type} with auto_pad SAME and strides beyond the window"
        " is not supported",
        "give the padding by the attribute pads",
    )


def padded(t: Any, w: Windows, x: Any, fill: Any = 0) -> Any:
    """`x` with the windows' padding around it; just `x` where there is none."""
    if w.same:
        options: dict[str, Any] = {} if fill == 0 else {"value": fill}
        options |= {"lower": True} if w.same == "lower" else {}
        return t.helper(helpers.pad_same)(x, w.reach, w.stride, **options)
    if not any(w.begin) and not any(w.end):
        return x
    return t.F.pad(x, w.pad) if fill == 0 else t.F.pad(x, w.pad, value=fill)
