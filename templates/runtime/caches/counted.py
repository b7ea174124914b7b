"""Where a network counts by the sizes of its caches, and sees places behind those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from ..model import INPUTS, OUTPUTS
from . import behind, caches
from .caches import BRANCH, CACHES, LOGITS, MASK, Network, fitting, last_places

# Functions that make a tensor of given sizes, or give it other ones.
_SIZED = {"empty", "expand", "full", "ones", "repeat", "reshape", "unflatten", "zeros"}


class Places(int):
    """How many places are in use: as `number`, on the device, where a network adds or
    compares; as `seen`, where it makes a tensor that has one for each."""

    number: Tensor
    seen: int

    @classmethod
    def of(cls, count: int, number: Tensor, seen: int) -> Places:
        """`number` has `count`."""
        found = cls(count)
        found.number, found.seen = number, seen
        return found

    def __add__(self, other: int) -> Places:
        return self.of(int(self) + other, self.number + other, self.seen)

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        return int(self) - other if isinstance(other, Places) else self + -other


class Counting(TorchFunctionMode):
    """In here, PyTorch takes Places for what they are."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """What PyTorch calls in the place of any of its functions."""
        name, kwargs = getattr(function, "__name__", ""), kwargs or {}
        if name == "arange" and isinstance(args[0], Places):
            start, end, *step = args if len(args) > 1 else (0, *args)
            if isinstance(start, Places):
                return function(end - start, *step, **kwargs) + start.number
            return function(end.seen, **kwargs)
        if name == "full" and isinstance(args[1], Places):
            return function(_sized(args[0]), 0, **kwargs) + args[1].number
        if name == "arange" or name in _SIZED:
            args = _sized(args)
        elif name == "__getitem__":
            args = args[0], _cut(args[1])
        else:
            args = [a.number if isinstance(a, Places) else a for a in args]
        return function(*args, **kwargs)


def _sized(value: Any) -> Any:
    """The same with sizes of what is seen."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(_sized, value))
    return value.seen if isinstance(value, Places) else value


def _cut(index: Any) -> Any:
    """The same index of what is seen; by the number where it begins at Places."""
    if isinstance(index, tuple):
        return tuple(map(_cut, index))
    if not isinstance(index, slice):
        return index.number if isinstance(index, Places) else index
    if isinstance(index.start, Places):
        new = torch.arange(index.stop - index.start, device=index.start.number.device)
        return new + index.start.number
    return slice(index.start, _sized(index.stop), index.step)


class Room(caches.Room):
    """A buffer that is seen whole, of which places are in use: what is joined to those
    is written behind them, and nothing else.

    Behind are zeros, which no new token looks at, as they come later.
    """

    used: Places

    @classmethod
    def of(cls, buffer: Tensor, axis: int, start: int, length: int) -> Room:
        """`length` places of a buffer's axis."""
        buffer = buffer.narrow(axis, start, length)
        room = buffer.as_subclass(cls)
        room.buffer, room.axis, room.start = buffer, axis, start
        return room

    @classmethod
    def counted(cls, buffer: Tensor, axis: int, used: Places) -> Room:
        """A buffer of which so many places are in use."""
        room = cls.of(buffer, axis, 0, used.seen)
        room.used = used
        return room

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """What PyTorch calls in the place of any of its functions."""
        with torch._C.DisableTorchFunctionSubclass():
            if function is torch.cat and isinstance(args[0][0], cls):
                axis = (kwargs or {}).get("dim", *args[1:])
                return args[0][0].joined(args[0][1:], axis)
            if function is Tensor.__getitem__ and isinstance(args[0], cls):
                last = last_places(args[1], args[0].axis)
                if 0 < last < args[0].used:
                    raise ValueError(f"the network keeps {last} places alone")
                if last:
                    return args[0]
            found = function(*_plain(args), **(kwargs or {}))
            if getattr(function, "__self__", None) is Tensor.shape:
                axis = args[0].axis
                return (*found[:axis], args[0].used, *found[axis + 1 :])
            return found

    def joined(self, others: Sequence[Tensor], axis: int) -> Tensor:
        """All of them, one behind the other; in place along the axis of places."""
        if axis % self.dim() != self.axis or len(others) != 1:
            return torch.cat([self.buffer, *others], axis)
        new = others[0].shape[axis]
        places = torch.arange(new, device=self.buffer.device) + self.used.number
        self.buffer.movedim(axis, 0)[places] = others[0].movedim(axis, 0)
        return self.counted(self.buffer, self.axis, self.used + new)


def _plain(value: Any) -> Any:
    """The same with buffers in the place of each Room, which compilers need."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(_plain, value))
    return value.buffer if isinstance(value, Room) else value


class Caches(behind.Caches):
    """Those of a batch's rows, each from its first token on, zeros behind its last."""

    def run(
        self,
        network: Network,
        feeds: Mapping[str, Tensor],
        lengths: list[int],
        new: int,
    ) -> dict[str, Any]:
        """What the network returns, by OUTPUTS; of rows of unequal lengths, each by its
        own, without what is no cache's and isn't LOGITS."""
        longest, numbers = max(lengths), torch.tensor(lengths, device=self.device)
        if len(set(lengths)) == 1:
            return self.counted(network, feeds, longest, numbers[0], new)
        names = [name for name in INPUTS if name != BRANCH]
        axes = {out: shape.index("rows") for out, shape in CACHES.values()}
        axes[LOGITS] = 0
        inward = [axes[CACHES[name][0]] if name in CACHES else 0 for name in names]

        def row(number: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
            batch = {
                name: value.unsqueeze(axis)
                for name, value, axis in zip(names, values, inward, strict=True)
            }
            outputs = self.counted(network, {**feeds, **batch}, longest, number, new)
            return tuple(_plain(outputs[out]).squeeze(axes[out]) for out in axes)

        rows = torch.vmap(row, (0, *inward), tuple(axes.values()))
        with sdpa_kernel(SDPBackend.MATH):  # the one that vmap has a rule for
            found = rows(numbers, *(_plain(feeds[name]) for name in names))
        return dict(zip(axes, found, strict=True))

    def counted(
        self,
        network: Network,
        feeds: Mapping[str, Tensor],
        known: int,
        number: Tensor,
        new: int,
    ) -> dict[str, Any]:
        """What the network returns for rows of `known` tokens, or of `number` each."""
        values = []
        for name in INPUTS:
            value = fitting(name, _plain(feeds[name]), self.floats)
            if name == MASK:
                used = Places.of(known + new, number + new, value.shape[-1])
                value = Room.counted(value, value.dim() - 1, used)
            elif name in CACHES and "places" in CACHES[name][1]:
                axis = CACHES[name][1].index("places")
                used = Places.of(known, number, value.shape[axis])
                value = Room.counted(value, axis, used)
            values.append(value)
        with Counting():
            return dict(zip(OUTPUTS, network(*values), strict=True))

    def keep(self, name: str, part: Tensor, output: Tensor, new: int) -> None:
        """Keep what the network made of a part, unless it was written in place."""
        if part.data_ptr() != output.data_ptr():
            if isinstance(part, Room):  # without a past, there are new places alone
                part = part.buffer.narrow(part.axis, 0, output.shape[part.axis])
            part.copy_(output)
