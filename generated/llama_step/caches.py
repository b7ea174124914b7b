"""Steps of the network with its caches, which are buffers that are written in place.

The network sees a multiple of BLOCK places, and counts those in use: it compares
their number with places, which hides the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from .model import INPUTS, OUTPUTS
from .session import flat_network

IDS = "input_ids"
LOGITS = "logits"
MASK = "attention_mask"
POSITIONS = ""
AT = ()  # of new tokens in what is seen, the same for all rows
BRANCH = ""  # whether there is a past
GIVEN = ()  # inputs that are the caller's, and the same in every step
# Input -> the output that is the next one, and its sizes: "rows" of a batch, "places"
# of tokens; one without places is a state. CROSS are an encoder's, of the first step.
CACHES = {
    **{
        f"past_key_values.{i}.key": (f"present.{i}.key", ("rows", 4, "places", 64))
        for i in range(6)
    },
    **{
        f"past_key_values.{i}.value": (f"present.{i}.value", ("rows", 4, "places", 64))
        for i in range(6)
    },
}
CROSS = {}
WEIGHTS = ("float32",)  # types of the floats that load() reads
VOCABULARY = 32000  # tokens that there are
ROWS = 0  # that a batch must have; 0 for any number
CHUNK = 64  # tokens of a prompt that a step takes; 0 for all
MOST = 0  # tokens that there are places for; 0 for any number
ROOM = "counted"  # where places stand that are not in use; "" for nowhere
TOGETHER = True  # whether rows of unequal lengths share a step
BLOCK = 64  # the network sees so many places, or a multiple; 1 for those in use
# Takes an argument for each of INPUTS, and returns all of OUTPUTS.
Network = Callable[..., Sequence[Any]]
# Of a network on several devices: the axis along which a cache is cut, in how many.
Parts = Mapping[str, tuple[int, int]]
# Functions that make a tensor of given sizes, or give it other ones.
_SIZED = {"empty", "expand", "full", "ones", "repeat", "reshape", "unflatten", "zeros"}


class Room(Tensor):
    """A buffer that is seen whole, of which places are in use: what is joined to those
    is written behind them, and nothing else.

    Behind are zeros, which no new token looks at, as they come later.
    """

    buffer: Tensor
    axis: int
    start: int
    used: Places

    @classmethod
    def of(cls, buffer: Tensor, axis: int, start: int, length: int) -> Room:
        """`length` places of a buffer's axis."""
        buffer = buffer.narrow(axis, start, length)
        room = buffer.as_subclass(cls)
        room.buffer, room.axis, room.start = buffer, axis, start
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

    @classmethod
    def counted(cls, buffer: Tensor, axis: int, used: Places) -> Room:
        """A buffer of which so many places are in use."""
        room = cls.of(buffer, axis, 0, used.seen)
        room.used = used
        return room


class Caches:
    """Those of a batch's rows, each from its first token on, zeros behind its last."""

    def __init__(
        self,
        prompts: Sequence[int],
        most: int,
        device: torch.device,
        floats: torch.dtype | None = None,
        parts: Parts | None = None,
    ) -> None:
        """For rows with prompts of these lengths, and `most` tokens of the longest.

        `floats` are what `converted` says, `parts` what a device has of each.
        """
        self.device, self.most, self.floats = device, most, floats
        self.lengths = [0] * len(prompts)  # tokens of each row so far
        before = BLOCK if ROOM == "before" else 0
        longest = 0 if ROOM in ("behind", "counted") else before + max(prompts)
        self.first = [longest and longest - length for length in prompts]
        places = before + whole_blocks(most)
        self.tensors = buffers(len(prompts), places, device, floats, parts)

    def read(
        self, network: Network, prompts: list[list[int]], given: Mapping[str, Tensor]
    ) -> Tensor:
        """The scores [rows, vocabulary] of what comes behind the prompts.

        Those of one length are read together, others row by row.
        """
        count, found = len(prompts), []
        alike = len({len(prompt) for prompt in prompts}) == 1
        for i in range(1 if alike else count):
            rows = slice(0, count) if alike else slice(i, i + 1)
            chunk = CHUNK or len(prompts[i])
            for at in range(0, len(prompts[i]), chunk):
                ids = [prompt[at : at + chunk] for prompt in prompts[rows]]
                scores = self.step(network, ids, rows, given)
            found.append(scores)
        return torch.cat(found)

    def step(
        self,
        network: Network,
        ids: list[list[int]],
        rows: slice,
        given: Mapping[str, Tensor],
    ) -> Tensor:
        """The scores behind the last of `ids`, which the caches know from then on.

        Raises ValueError for other rows, or where there is no place for them.
        """
        lengths, new = self.lengths[rows], len(ids[0])
        if [len(row) for row in ids] != [new] * len(lengths):
            raise ValueError(f"{len(lengths)} rows of equal length are to be read")
        if max(lengths) + new > self.most:
            raise ValueError(f"the caches have room for {self.most} tokens")
        start, seen = self.window(rows, new)
        feeds = self.tensors | {name: value[rows] for name, value in given.items()}
        places = self.places(rows, new, seen) | {IDS: torch.tensor(ids)}
        for name in INPUTS.keys() & places.keys():
            feeds[name] = places[name].to(self.device)
        parts = {name: self.part(name, rows, start, seen) for name in CACHES}
        feeds |= parts
        try:
            outputs = self.run(network, feeds, lengths, new)
        except IndexError as error:  # a table of positions ends
            place = max(lengths) + new
            raise ValueError(f"the network has no place for {place} tokens") from error
        for name, part in parts.items():
            self.keep(name, part, outputs[CACHES[name][0]], new)
        if not lengths[0]:
            self.tensors |= {name: outputs[other] for name, (other, _) in CROSS.items()}
        self.lengths[rows] = [length + new for length in lengths]
        logits: Tensor = outputs[LOGITS]
        return logits[:, -1] if logits.dim() == 3 else logits

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

    def window(self, rows: slice, new: int) -> tuple[int, int]:
        """Where what the network sees of the caches begins, and how long it is."""
        return 0, whole_blocks(max(self.ends(rows, 0)) + new)

    def ends(self, rows: slice, seen: int) -> list[int]:
        """Where in what is seen the rows' new tokens come."""
        pairs = zip(self.first[rows], self.lengths[rows], strict=True)
        return [first + length for first, length in pairs]

    def places(self, rows: slice, new: int, seen: int) -> dict[str, Tensor]:
        """Which places each new token looks at, and which are their own."""
        known = torch.tensor(self.lengths[rows])[:, None]
        ends, each = torch.tensor(self.ends(rows, seen))[:, None], torch.arange(new)
        at, first = ends + each, ends - known
        every = torch.arange(max(seen, int(ends.max()) + new))
        return {
            MASK: (every >= first[..., None]) & (every <= at[..., None]),
            POSITIONS: known + each,
            BRANCH: known[0] > 0,
            **dict.fromkeys(AT, at),
        }

    def part(self, name: str, rows: slice, start: int, seen: int) -> Tensor:
        """What the network sees of a cache."""
        shape, count = CACHES[name][1], len(self.lengths[rows])
        part = self.tensors[name].narrow(shape.index("rows"), rows.start, count)
        if "places" not in shape:
            return part
        return Room.of(part, shape.index("places"), start, seen)

    def keep(self, name: str, part: Tensor, output: Tensor, new: int) -> None:
        """Keep what the network made of a part, unless it was written in place."""
        if part.data_ptr() != output.data_ptr():
            if isinstance(part, Room):  # without a past, there are new places alone
                part = part.buffer.narrow(part.axis, 0, output.shape[part.axis])
            part.copy_(output)

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


def last_places(index: Any, axis: int) -> int:
    """How many places an index of the last ones keeps, as a window's; 0 for others."""
    parts = index if isinstance(index, tuple) else ()
    if len(parts) != axis + 1 or {*map(type, parts)} != {slice}:
        return 0
    start = parts[axis].start
    kept = (*[slice(None)] * axis, slice(start, None))
    return -start if isinstance(start, int) and start < 0 and parts == kept else 0


def converted(model: nn.Module) -> torch.dtype | None:
    """The type that a network was brought to, as by half(), which its floating inputs
    have then; None where they are as INPUTS has them."""
    weights = [*model.parameters(), *model.buffers()]
    found = {weight.dtype for weight in weights if weight.is_floating_point()}
    as_written = found == {getattr(torch, name) for name in WEIGHTS}
    return None if as_written or len(found) != 1 else found.pop()


def buffers(
    rows: int,
    places: int,
    device: torch.device,
    floats: torch.dtype | None = None,
    parts: Parts | None = None,
) -> dict[str, Tensor]:
    """Zeros for each cache; `floats` and `parts` are those of Caches."""
    sizes: dict[int | str, Any] = {"rows": rows, "places": places}
    found = {}
    for name, (_, shape) in (CACHES | CROSS).items():
        dims = [sizes.get(size, size) for size in shape]
        if parts and name in parts:
            axis, count = parts[name]
            dims[axis] //= count
        dtype = dtype_of(name, floats)
        found[name] = torch.zeros(dims, dtype=dtype, device=device)
    return found


def whole_blocks(places: int, new: int = 0) -> int:
    """So many places, or as few more as make a multiple of BLOCK, if the network has
    these and `new` ones."""
    blocks = -(-places // BLOCK) * BLOCK
    return min(blocks, MOST - new) if MOST else blocks


def dtype_of(name: str, floats: torch.dtype | None = None) -> torch.dtype:
    """The type of an input; `floats` are what `converted` says."""
    found: torch.dtype = getattr(torch, INPUTS[name][0])
    return floats if floats is not None and found.is_floating_point else found


def fitting(name: str, value: Tensor, floats: torch.dtype | None = None) -> Tensor:
    """A value of the type that an input has, and of its rank: of one row without an
    axis of rows, and the same for each part of an image's places, which text has. Of
    the places that new tokens look at, a mask without an axis of them has the last's.
    """
    shape = INPUTS[name][1] or ()
    if name == MASK:
        value = (
            value[:, -1] if len(shape) == 2 else value.unflatten(0, (-1, *shape[1:-2]))
        )
        dtype = dtype_of(name, floats)
        if len(shape) > 2 and dtype.is_floating_point:
            added = torch.zeros_like(value, dtype=dtype)
            value = added.masked_fill(~value, torch.finfo(dtype).min)
    while len(shape) < value.dim():
        value = value[0]
    parts: Any = shape[: len(shape) - value.dim()]
    return value.expand((*parts, *value.shape)).to(dtype_of(name, floats))


def check_fit(
    prompts: list[list[int]],
    most: int,
    given: Mapping[str, Tensor],
    floats: torch.dtype | None = None,
) -> None:
    """Raise ValueError for what the network can't read, or `most` tokens behind it."""
    if not prompts or not all(prompts):
        raise ValueError("each prompt needs a token; one that begins a text will do")
    if most < 1:
        raise ValueError(f"max_new_tokens is {most}, but at least 1 is needed")
    for token in (token for prompt in prompts for token in prompt):
        if not 0 <= token < VOCABULARY:
            last = VOCABULARY - 1
            raise ValueError(f"the network has tokens 0 to {last}, not {token}")
    longest = max(map(len, prompts))
    if ROWS > 1 and [longest] * ROWS != [len(prompt) for prompt in prompts]:
        raise ValueError(f"the network takes {ROWS} prompts of one length at once")
    if MOST and longest + most > MOST:
        raise ValueError(
            f"a prompt of {longest} tokens and {most} new ones"
            f" don't fit: the network has {MOST} places"
        )
    if given.keys() != set(GIVEN):
        raise ValueError(f"`given` has {sorted(given)}, but is to have {sorted(GIVEN)}")
    for name, value in given.items():
        sizes = (len(prompts), *(INPUTS[name][1] or ())[1:])
        fits = value.dtype in (dtype_of(name), dtype_of(name, floats))
        if not fits or value.dim() != len(sizes):
            found = f"{value.dtype} {list(value.shape)}"
            raise ValueError(f"{name} is {found}, but is to be {INPUTS[name]}")
        for size, own in zip(sizes, value.shape, strict=True):
            if isinstance(size, int) and size != own:
                raise ValueError(f"{name} is {list(value.shape)}, not {list(sizes)}")


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


def _plain(value: Any) -> Any:
    """The same with buffers in the place of each Room, which compilers need."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(_plain, value))
    return value.buffer if isinstance(value, Room) else value


def flat(model: Network) -> Network:
    """What takes inputs in the order of INPUTS, and returns them in that of OUTPUTS."""
    return flat_network(model)
