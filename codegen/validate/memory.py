"""What tensors are called, by the memory that they look at.

Two ways to name what a call is given, of which both are sound: equal names stand for
equal contents.

`Places` names memory by the call that made it, and a tensor by the elements that it
sees there: strides, offset. It takes symbols for sizes, views need no rules (what
x.unbind(1)[0] and x[:, 0] are is one place), and what only puts elements elsewhere is
looked through (moves.py). `Elements` knows of each element where it
came from, whatever moved it: joined, rolled, copied in another order, a tensor is its
elements in order. It needs numbers for sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._python_dispatch import _disable_current_modes

from .digests import content_digest, digest
from .layout import View, equal, product, row_major, stored_order
from .moves import MOVES, NUMBERS, Memory, copied, counted, indexed, numbers, opposite
from .sizes import Size

_AT = torch.ops.aten
# They put elements of the first operand elsewhere, by numbers in another one.
_PICKS = frozenset(
    {
        _AT.embedding.default,
        _AT.gather.default,
        _AT.index.Tensor,
        _AT.index_select.default,
    }
)
_COUNTS = frozenset({_AT.arange.default, _AT.arange.start, _AT.arange.start_step})
_FILLS = {_AT.full.default: 1, _AT.scalar_tensor.default: 0}  # with which operand
_SIGNS = {_AT.add.Tensor: 1, _AT.sub.Tensor: -1}
_UNSAID = frozenset({_AT.empty.memory_format, _AT.empty_like.default})
_WIDTH = 40  # bits for the place of an element in what it came from
_TURNS = frozenset({_AT.bitwise_not.default, _AT.neg.default})
_MOST = 2**20  # elements of a tensor that are followed one by one
_MOST_WRITTEN = 2**24  # elements of a memory that is written to
_FEW = 16  # whole numbers of a constant that are told one by one
_MEMORY = "_fairhand_memory"  # an attribute of tensors: their storage, and its key
_SMALL = 2**12  # elements of a tensor whose numbers are computed, if they can be

SizeName = Callable[[Any], object]


class CannotFollow(Exception):
    """What was run does what a recording can't tell; the text says what that is."""


def tensors_in(given: Any) -> Iterable[torch.Tensor]:
    """The tensors among arguments, those in lists too."""
    if isinstance(given, torch.Tensor):
        yield given
    elif isinstance(given, list | tuple):
        for item in given:
            yield from tensors_in(item)


class Opaque:
    """Strings or maps that nobody looks into, by the name of the call that gave them;
    `held` stands in for them where sizes are numbers."""

    def __init__(self, name: str, held: Any = None) -> None:
        self.name, self.held = name, held

    def __getattr__(self, key: str) -> Any:
        if key not in ("ndim", "shape", "size") or self.held is None:
            raise CannotFollow(f"strings or maps are asked for {key}")
        return getattr(self.held, key)

    def tolist(self) -> Opaque:
        """The strings in lists, as an array gives them."""
        held = None if self.held is None else self.held.tolist()
        return Opaque(digest("tolist", self.name), held)

    def __add__(self, other: Any) -> Opaque:
        return _joined(self, other)

    def __radd__(self, other: Any) -> Opaque:
        return _joined(other, self)

    def _compared(self, *_: object) -> Any:
        raise CannotFollow("strings or maps are compared")

    __array_ufunc__ = None  # NumPy leaves sums to this class
    __array__ = __bool__ = __eq__ = __ne__ = _compared


def _joined(*words: Any) -> Opaque:
    """The strings of two arrays, one behind the other."""
    names = [w.name if isinstance(w, Opaque) else (w.shape, w.tolist()) for w in words]
    one, other = (w.held if isinstance(w, Opaque) else w for w in words)
    known = one is not None and other is not None
    return Opaque(digest("joined", *names), one + other if known else None)


def each(change: Callable[[Any], Any], given: Any, kinds: Any = torch.Tensor) -> Any:
    """The same, with others in the places of tensors, or of what is of these kinds."""
    if isinstance(given, kinds):
        return change(given)
    if isinstance(given, dict):
        return {key: each(change, value, kinds) for key, value in given.items()}
    if isinstance(given, list | tuple):
        items = [each(change, one, kinds) for one in given]
        return items if type(given) is list else type(given)(items)
    return given


class Places:
    """Memory by the call that made it or the memories that it copies, a tensor by what
    it sees there."""

    def __init__(
        self, size: SizeName, plain: Callable[[Any], Size], integer: Callable[..., Any]
    ) -> None:
        self.size, self.plain, self.integer = size, plain, integer
        self.memories: dict[int, Memory] = {}  # by the keys of memories
        self.within: set[str] = set()  # rows that are picked from 0 up to their number
        self._keys = itertools.count()

    def key(self, tensor: torch.Tensor) -> int:
        """What tells a tensor's memory from any other. Raises CannotFollow for that of
        a tensor that nobody claimed, or that looks elsewhere by now."""
        storage, key = vars(tensor).get(_MEMORY, (None, 0))
        if storage != tensor.untyped_storage()._cdata:
            raise CannotFollow("a tensor that no recorded call made")
        return int(key)

    def claim(self, tensor: torch.Tensor, given: Iterable[torch.Tensor] = ()) -> None:
        """Let a tensor look at the memory of what a call was given, if it shares that,
        and else at one of its own."""
        storage = tensor.untyped_storage()._cdata
        if vars(tensor).get(_MEMORY, (None, 0))[0] == storage:
            return
        shared = {
            self.key(other)
            for other in given
            if other.untyped_storage()._cdata == storage
        }
        if len(shared) > 1:
            raise CannotFollow("a tensor that may be of one of two memories")
        self.lay(tensor, *shared)

    def lay(self, tensor: torch.Tensor, key: int | None = None) -> None:
        """Let a tensor look at the memory of this key, or at one of its own."""
        storage = tensor.untyped_storage()._cdata
        vars(tensor)[_MEMORY] = storage, next(self._keys) if key is None else key

    def enter(self, tensor: torch.Tensor, name: str, denied: bool = False) -> None:
        """A new tensor whose elements, in order, are called so, or the opposite."""
        view = self.seen_by(tensor)
        order = stored_order(view.dims) if view.offset == 0 else None
        if order is None:
            name = digest(name, self.place(tensor))
            made = Memory(name, tensor.dtype)
            made = made.opposite if denied else made
        else:
            there = row_major([size for size, _ in view.dims])
            space = View(tuple(there[i] for i in order), 0)
            made = Memory(name, tensor.dtype)
            made = copied(made.opposite if denied else made, space, self.text)
        self.memories[self.key(tensor)] = made

    def write(self, tensor: torch.Tensor, name: str) -> None:
        """A tensor's memory was written to, by a call of that name."""
        old = self.memory(tensor)
        changed = digest(name, "written", old.name, self.place(tensor))
        self.memories[self.key(tensor)] = Memory(changed, old.dtype)

    def moved(
        self, func: Any, args: Sequence[Any], kwargs: Any, made: torch.Tensor
    ) -> bool:
        """Enter what a call only copied or picked, if it can be told; whether so."""
        given = list(tensors_in([*args, *kwargs.values()]))
        if any(x.is_conj() or x.is_neg() for x in (made, *given)):
            return False
        if any(self.memory(tensor).dtype != tensor.dtype for tensor in given):
            return False
        if func in _PICKS:
            return self._picked(func, args, made)
        if func not in MOVES:
            return False
        if len({tensor.dtype for tensor in (made, *given)}) > 1:
            return False
        sources = [(self.memory(tensor), self.seen_by(tensor)) for tensor in given]
        return self._put_in_order(made, MOVES[func](sources, args, kwargs, self.text))

    def _put_in_order(self, made: torch.Tensor, moved: Memory | None) -> bool:
        """Let a new tensor have the elements of a memory, in order; whether it can."""
        order = stored_order(self.seen_by(made).dims)
        if order is None or moved is None:
            return False
        there = row_major([self.plain(size) for size in made.shape])
        space = View(tuple(there[i] for i in order), 0)
        self.memories[self.key(made)] = copied(moved, space, self.text)
        return True

    def _picked(self, func: Any, args: Sequence[Any], made: torch.Tensor) -> bool:
        """Rows of the first operand, by the numbers that the other one holds."""
        source, *rest = args
        which = list(tensors_in(rest))
        if func is _AT.index.Tensor and self._indexed(source, rest[0], made):
            return True
        plain = func in (_AT.embedding.default, _AT.index.Tensor) or rest[0] == 0
        if func is _AT.gather.default or len(which) != 1 or not plain:
            return False
        if func is _AT.index.Tensor and len(rest[0]) != 1:
            return False
        if which[0].dtype not in (torch.int32, torch.int64) or not source.dim():
            return False
        rows = product(map(self.plain, source.shape[1:]))
        known = [self._elements(tensor) for tensor in (source, which[0])]
        name = digest("rows", known, self.text(rows))
        if func is not _AT.index.Tensor:
            self.within.add(name)
        elif name not in self.within:  # which else counts from the end, too
            name = digest("from either end", name)
        self.enter(made, name)
        return True

    def _indexed(
        self, source: torch.Tensor, indices: Sequence[Any], made: torch.Tensor
    ) -> bool:
        """Whether the numbers only count, and what stands there is a view."""
        if any(i is None or i.dtype != torch.int64 for i in indices):
            return False
        if not made.is_contiguous():
            return False
        left = source.dim() - len(indices)
        sizes = [self.plain(size) for size in made.shape[: made.dim() - left]]
        x, *counts = ((self.memory(t), self.seen_by(t)) for t in (source, *indices))
        found = indexed(x, counts, sizes, self.text, self._needs)
        if found is not None:
            self.memories[self.key(made)] = found
        return found is not None

    def _needs(self, low: Size, high: Size) -> bool:
        torch._check(self.integer(low) < self.integer(high))
        return True

    def hold(self, tensor: torch.Tensor, real: torch.Tensor) -> None:
        """A new tensor holds these numbers, for who computes with them."""
        if real.dtype == torch.int64 and tensor.is_contiguous() and real.numel():
            with _disable_current_modes():
                flat = real.detach().reshape(-1)
                steps = flat.diff().unique().tolist()
                values = flat[:_FEW].tolist()
            held: Memory | None = None
            if len(steps) == 1:
                view = View(((real.numel(), steps[0]),), values[0])
                held = copied(NUMBERS, view, self.text)
            elif real.numel() <= _FEW:
                held = numbers(values, self.text)
            if held is not None:
                self.memories[self.key(tensor)] = held

    def numbers(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """What a tensor holds, if that is known."""
        return None

    def number(self, tensor: torch.Tensor) -> Size | None:
        """The whole number that a tensor of one element holds, if that is known."""
        found = counted((self.memory(tensor), self.seen_by(tensor)), tensor.dim())
        return None if found is None or tensor.dtype != torch.int64 else found.offset

    def learn(
        self, func: Any, args: Sequence[Any], kwargs: Any, made: torch.Tensor
    ) -> bool:
        """Enter the numbers that a call gives, if they can be told; whether so."""
        if made.dtype != torch.int64:
            return False
        view = self._counted(func, args, kwargs, made)
        if view is None:
            return False
        return self._put_in_order(made, copied(NUMBERS, view, self.text))

    def _counted(
        self, func: Any, args: Sequence[Any], kwargs: Any, made: torch.Tensor
    ) -> View | None:
        """What a call gives as a view of NUMBERS; None of what isn't linear."""
        sizes = list(map(self.plain, made.shape))
        if func in _COUNTS and all(map(_is_whole, args)):
            start = self.plain(args[0]) if len(args) > 1 else 0
            return View(
                ((sizes[0], self.plain(args[2]) if len(args) > 2 else 1),), start
            )
        if func in _FILLS and _is_whole(args[_FILLS[func]]):
            return View(tuple((n, 0) for n in sizes), self.plain(args[_FILLS[func]]))
        rounding = kwargs.get("rounding_mode")
        linear = func in _SIGNS or func is _AT.mul.Tensor
        if not ((linear and not kwargs) or (func is _AT.div.Tensor_mode and rounding)):
            return None
        one, other = (self._whole(given, len(sizes)) for given in args)
        if one is None or other is None:
            return None
        if rounding:
            quotient = self._divided(one, other, rounding == "trunc")
            if quotient is None:
                return None
            return View(tuple((n, 0) for n in sizes), quotient)
        pairs = [(a, b) for (_, a), (_, b) in zip(one.dims, other.dims, strict=True)]
        if func in _SIGNS:
            sign = _SIGNS[func]
            steps = [a + sign * b for a, b in pairs]
            offset = one.offset + sign * other.offset
        elif any(a for a, _ in pairs) and any(b for _, b in pairs):
            return None
        else:
            steps = [a * other.offset + b * one.offset for a, b in pairs]
            offset = one.offset * other.offset
        return View(tuple(zip(sizes, steps, strict=True)), offset)

    def _divided(self, one: View, other: View, to_zero: bool) -> Size | None:
        """The whole quotient of two numbers; None of many, or where signs may count."""
        if any(step for _, step in (*one.dims, *other.dims)):
            return None
        a, b = self.integer(one.offset), self.integer(other.offset)
        if not statically_known_true(b > 0):
            return None
        if to_zero and not statically_known_true(a >= 0):
            return None
        return self.plain(a // b)

    def _whole(self, given: Any, rank: int) -> View | None:
        """Whole numbers as a view of NUMBERS of so many dimensions, if they count."""
        if _is_whole(given):
            return View(((1, 0),) * rank, self.plain(given))
        if not isinstance(given, torch.Tensor) or given.dtype != torch.int64:
            return None
        return counted((self.memory(given), self.seen_by(given)), rank)

    def is_whole(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor sees all of its memory, each element once."""
        room = self.plain(tensor.untyped_storage().nbytes())
        view = self.seen_by(tensor)
        size = product(n for n, _ in view.dims) * tensor.element_size()
        return equal(room, size) and stored_order(view.dims) is not None

    def name(
        self,
        tensor: torch.Tensor,
        sizes: tuple[Size, ...] | None = None,
        turned: bool = False,
    ) -> object:
        """What a tensor is called as an operand: its elements, its type, its sizes or
        these in their place; `turned` into opposites."""
        bits = (tensor.is_conj(), tensor.is_neg())
        return self._elements(tensor, turned), *self._sizes(tensor, sizes), *bits

    def _elements(self, tensor: torch.Tensor, turned: bool = False) -> object:
        memory = self.memory(tensor)
        if 0 in map(self.plain, tensor.shape):
            return "no elements", str(tensor.dtype)
        if memory.dtype != tensor.dtype:
            return (memory.name, self.place(tensor), turned)
        source, view = memory.behind(self.seen_by(tensor))
        if turned:
            source, view = opposite((source, view))
        part = source.columns(view, self.text)
        if part is not None:
            source, view = part.behind(View(((part.size, 1),), 0))
        return (source.name, str(tensor.dtype), *view.merged.texts(self.text))

    def text(self, size: Size) -> object:
        """A size as names have it: equal ones alike."""
        return self.size(size if isinstance(size, int) else sympy.expand(size))

    def memory(self, tensor: torch.Tensor) -> Memory:
        """The memory that a tensor looks at. Raises CannotFollow for an unknown one."""
        return self.memories[self.key(tensor)]

    def steps(self, tensor: torch.Tensor) -> tuple[str, list[Size]]:
        """What a tensor sees, and how far apart there are two along each dimension."""
        own = self.seen_by(tensor)
        source, view = self.memory(tensor).behind(own)
        dims = view.dims if len(view.dims) == len(own.dims) else own.dims
        return source.name, [0 if equal(n, 1) else step for n, step in dims]

    def place(self, tensor: torch.Tensor) -> tuple[object, ...]:
        """Where a tensor looks, and how it reads what is there."""
        sizes = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
        bits = (tensor.is_conj(), tensor.is_neg())
        return (str(tensor.dtype), *map(self.size, sizes), *bits)

    def _sizes(
        self, tensor: torch.Tensor, sizes: tuple[Size, ...] | None
    ) -> Iterable[object]:
        return map(self.text, map(self.plain, tensor.shape) if sizes is None else sizes)

    def seen_by(self, tensor: torch.Tensor) -> View:
        """What a tensor sees of its memory."""
        sizes, strides = map(self.plain, tensor.shape), map(self.plain, tensor.stride())
        dims = tuple(zip(sizes, strides, strict=True))
        return View(dims, self.plain(tensor.storage_offset()))


def _is_whole(given: object) -> bool:
    return type(given) is int or isinstance(given, torch.SymInt)


@dataclass(frozen=True)
class _Memory:
    """What one memory holds: all of `base` in order, or these `elements`."""

    serial: int
    dtype: torch.dtype
    size: int
    base: int = -1
    elements: np.ndarray | None = None
    numbers: torch.Tensor | None = None  # those of the whole memory, where known

    def all(self) -> np.ndarray:
        if self.elements is not None:
            return self.elements
        start = self.base << _WIDTH
        return np.arange(start, start + self.size)


class Elements(Places):
    """Each element by what made it, and where in that it stood.

    A tensor of more than _MOST elements is named by its place in what made it.
    """

    def __init__(self, *sizes: Any) -> None:
        super().__init__(*sizes)
        self._bases: list[str] = []  # each second one the opposite of that before
        self._numbers: dict[str, int] = {}
        self._held: dict[int, _Memory] = {}
        self._serials = itertools.count()
        self._known: dict[object, object] = {}

    def enter(self, tensor: torch.Tensor, name: str, denied: bool = False) -> None:
        size, base = _room(tensor), self._base(name)
        base ^= denied
        if tensor.is_contiguous() and tensor.numel() == size:
            self._hold(tensor, size, base=base)
        else:
            start = base << _WIDTH
            self._put(tensor, np.arange(start, start + tensor.numel()))

    def write(self, tensor: torch.Tensor, name: str) -> None:
        room, held = _room(tensor), self._memory(tensor)
        if room > _MOST_WRITTEN:
            raise CannotFollow("a large tensor is written to in place")
        start, elements = self._base(name) << _WIDTH, held.all().copy()
        at = _looks(tensor, np.arange(room))
        elements[at] = np.arange(start, start + len(at))
        self._hold(tensor, room, elements=elements)

    def _base(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self._bases)
            self._bases += [name, digest("opposite", name)]
        return self._numbers[name]

    def _turned(self, elements: np.ndarray) -> np.ndarray:
        """The opposites of elements."""
        if elements.size and elements.min() < 0:
            raise CannotFollow("a tensor that is read where nothing was written")
        return elements ^ (1 << _WIDTH)

    def _hold(self, tensor: torch.Tensor, size: int, **held: Any) -> None:
        memory = _Memory(next(self._serials), tensor.dtype, size, **held)
        self._held[self.key(tensor)] = memory

    def _put(self, tensor: torch.Tensor, elements: np.ndarray) -> None:
        """A new tensor has these elements, in order."""
        size, held = _room(tensor), elements
        if not tensor.is_contiguous() or size != tensor.numel():
            held = np.full(size, -1)
            held[_looks(tensor, np.arange(size))] = elements
        self._hold(tensor, size, elements=held)

    def _memory(self, tensor: torch.Tensor) -> _Memory:
        held = self._held[self.key(tensor)]
        if held.dtype != tensor.dtype:
            raise CannotFollow("a tensor that is read as one of another type")
        return held

    def moved(
        self, func: Any, args: Sequence[Any], kwargs: Any, made: torch.Tensor
    ) -> bool:
        picks = func in _PICKS
        if made.numel() > _MOST or not (picks or func in MOVES):
            return False
        source, rest = (args[:1], args[1:]) if picks else (args, ())
        if func in _TURNS:
            if func is not _AT.neg.default and made.dtype != torch.bool:
                return False
            self._put(made, self._turned(_looks(args[0], self._memory(args[0]).all())))
            return True
        if len({tensor.dtype for tensor in tensors_in(source)}) > 1:
            return False
        numbers = each(self.numbers, list(rest))
        if any(self.numbers(tensor) is None for tensor in tensors_in(rest)):
            return False
        try:
            with _disable_current_modes():
                found = func(*each(self._places, list(source)), *numbers)
                elements = found.contiguous().reshape(-1).numpy()
        except IndexError:
            return False  # at sizes at which it can't run
        self._put(made, elements)
        return True

    def steps(self, tensor: torch.Tensor) -> tuple[str, list[Size]]:
        if not 0 < tensor.numel() <= _MOST:
            return "", list(tensor.stride())
        seen = _looks(tensor, self._memory(tensor).all()).reshape(tuple(tensor.shape))
        first = int(seen.flat[0])
        shape = [*map(int, seen.shape)]
        ends = (seen.take(min(1, n - 1), i).flat[0] for i, n in enumerate(shape))
        return self._bases[first >> _WIDTH], [int(end) - first for end in ends]

    def _places(self, tensor: torch.Tensor) -> torch.Tensor:
        seen = _looks(tensor, self._memory(tensor).all())
        return torch.from_numpy(seen).reshape(tensor.shape)

    def numbers(self, tensor: torch.Tensor) -> torch.Tensor | None:
        found = self._memory(tensor).numbers
        if found is None:
            return None
        with _disable_current_modes():
            place = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
            return found.as_strided(*place)

    def number(self, tensor: torch.Tensor) -> Size | None:
        return None

    def hold(self, tensor: torch.Tensor, real: torch.Tensor) -> None:
        if tensor.numel() > _SMALL or not tensor.is_contiguous():
            return
        with _disable_current_modes():
            whole = real.detach().clone().contiguous()
            base = self._base(real_digest(whole))
            whole = whole.reshape(-1)
            bits = whole.view(torch.uint8).reshape(len(whole), -1)
            if len(whole) and torch.equal(bits, bits[:1].expand_as(bits)):
                one = whole[0]
                start = np.full(len(whole), self._base(real_digest(one)) << _WIDTH)
                return self._hold(tensor, len(whole), elements=start, numbers=whole)
        self._hold(tensor, len(whole), base=base, numbers=whole)

    def learn(
        self, func: Any, args: Sequence[Any], kwargs: Any, made: torch.Tensor
    ) -> bool:
        if made.numel() > _SMALL or not made.is_contiguous():
            return False
        if func in _UNSAID or torch.Tag.nondeterministic_seeded in func.tags:
            return False
        if func._schema.is_mutable or _room(made) != made.numel():
            return False
        given = list(tensors_in([*args, *kwargs.values()]))
        if any(t.numel() > _SMALL or self.numbers(t) is None for t in given):
            return False
        real = each(self.numbers, list(args))
        with _disable_current_modes():
            found = func(*real, **each(self.numbers, dict(kwargs)))
        if not isinstance(found, torch.Tensor) or found.dtype != made.dtype:
            return False
        self.hold(made, found)
        return True

    def name(
        self,
        tensor: torch.Tensor,
        sizes: tuple[Size, ...] | None = None,
        turned: bool = False,
    ) -> object:
        place = self._memory(tensor).serial, self.place(tensor), sizes, turned
        if place not in self._known:
            self._known[place] = self._name(tensor, sizes, turned)
        return self._known[place]

    def _name(
        self, tensor: torch.Tensor, sizes: tuple[Size, ...] | None, turned: bool
    ) -> object:
        memory = self._memory(tensor)
        bits = tensor.is_conj(), tensor.is_neg()
        kind = (str(tensor.dtype), *self._sizes(tensor, sizes), *bits)
        whole = tensor.is_contiguous() and tensor.numel() == memory.size
        if memory.elements is None and whole and not turned:
            return (self._bases[memory.base], *kind)
        if memory.elements is None and tensor.numel() > _MOST:
            return (self._bases[memory.base], *self.place(tensor), turned)
        seen = _looks(tensor, memory.all())
        seen = self._turned(seen) if turned else seen
        if seen.size and seen.min() < 0:
            raise CannotFollow("a tensor that is read where nothing was written")
        used, which = np.unique(seen >> _WIDTH, return_inverse=True)
        names = [self._bases[i] for i in used]
        if len(names) == 1:
            start = int(used[0]) << _WIDTH
            if np.array_equal(seen, np.arange(start, start + seen.size)):
                return (names[0], *kind)
        ranks = np.argsort(np.argsort(np.array(names, dtype=object)))
        shown = seen & ((1 << _WIDTH) - 1) | ranks[which.reshape(-1)] << _WIDTH
        return (
            tuple(sorted(names)),
            content_digest("int64", shown.shape, [shown.data]),
            *kind,
        )


def real_digest(tensor: torch.Tensor) -> str:
    """The digest of a real tensor, as reference.py makes it of an array."""
    whole = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    dtype = str(tensor.dtype).removeprefix("torch.")
    return content_digest(dtype, tensor.shape, [whole.numpy().data])


def _room(tensor: torch.Tensor) -> int:
    """The elements that a tensor's memory has room for."""
    return int(tensor.untyped_storage().nbytes()) // tensor.element_size()


def _looks(tensor: torch.Tensor, held: np.ndarray) -> np.ndarray:
    """What a tensor sees of what its memory holds, in order."""
    steps = tuple(8 * step for step in tensor.stride())
    begin = held[tensor.storage_offset() :]
    seen = np.lib.stride_tricks.as_strided(begin, tuple(tensor.shape), steps)
    return np.ascontiguousarray(seen).reshape(-1)
