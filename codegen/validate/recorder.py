"""Runs of a network as the calls of PyTorch that it makes, on tensors without content.

A `Recorder` is a dispatch mode over fake tensors: nothing is computed, sizes are
symbols where the network's are open. What a call makes is named by the call: the
operator that PyTorch dispatches to, and the names of its operands (memory.py). So equal
names say that one function of inputs and weights was called for, whatever those hold.
That is sound because a call's result is a function of its operands, random numbers
aside, which are named by their turn.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, NamedTuple

import numpy as np
import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from .digests import digest
from .layout import equal, product
from .meanings import (
    PARTS,
    Opposite,
    Options,
    cast,
    filled,
    functional,
    meaning,
    plain,
    reduced,
)
from .memory import (
    CannotFollow,
    Elements,
    Opaque,
    Places,
    each,
    real_digest,
    tensors_in,
)
from .moves import MOVES
from .repeats import Repeats
from .sizes import less, normal

_AT = torch.ops.aten
# Of two tensors, one result to the bit in either order.
_COMMUTE = frozenset(
    {
        _AT.add.Tensor,
        _AT.bitwise_and.Tensor,
        _AT.bitwise_or.Tensor,
        _AT.bitwise_xor.Tensor,
        _AT.eq.Tensor,
        _AT.logical_and.default,
        _AT.logical_or.default,
        _AT.logical_xor.default,
        _AT.maximum.default,
        _AT.minimum.default,
        _AT.mul.Tensor,
        _AT.ne.Tensor,
    }
)
# Recurrent layers, which PyTorch takes apart step by step.
_LAYERS = {
    torch.gru: _AT.gru.input,
    torch.rnn_relu: _AT.rnn_relu.input,
    torch.rnn_tanh: _AT.rnn_tanh.input,
}
_WHOLE_NUMBERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
_MOST_ROWS = 256  # of a tensor that becomes a list: each is followed
COUNTS = (2, 1, 0, 3)  # what a number is followed as that data decide
_SYMBOLS = torch.SymInt | torch.SymFloat | torch.SymBool


@dataclass(frozen=True)
class Recorded:
    """One call of PyTorch: the operator, what its result is named, who called it.

    `line` is that of the source that is recorded, 0 if it wasn't called from there;
    `options` are arguments that are no tensors, as "dim=[2, 3]", for people.
    """

    operator: str
    name: str
    line: int
    options: tuple[str, ...] = ()


class _Call(NamedTuple):
    """An operator, what it is given, and the name of what it makes, or of the opposite
    of that, with its dimensions in this order."""

    func: Any
    given: Options
    name: str
    denied: bool
    order: list[int]


def _operands(given: Options) -> list[torch.Tensor]:
    """The tensors of a call, those that stand as their opposites too."""
    plain = (x.of if isinstance(x, Opposite) else x for x in given.values())
    return [x for x in plain if isinstance(x, torch.Tensor)]


def _is_held(value: object, dtype: Any) -> bool:
    """Whether a number meets tensors of a type as one of that type, to the bit."""
    if type(value) is float:
        return dtype in (torch.float32, torch.float64)
    if type(value) is not int or dtype not in _WHOLE_NUMBERS:
        return False
    limits = torch.iinfo(dtype)
    return limits.min <= value <= limits.max


_SQUEEZES = {torch.squeeze, torch.Tensor.squeeze}


class Whole(TorchFunctionMode):
    """Keeps calls whole that PyTorch takes apart by the numbers that sizes are."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__self__", None) is torch.Tensor.data and len(args) > 1:
            raise CannotFollow("a tensor is given the memory of another")
        layer = _LAYERS.get(func)
        if layer is not None and len(args) == 9 and args[0].dim() == 3:
            return self.recorder.recurrent(layer, args)
        if func in _SQUEEZES:
            apart = _without_ones(args[0], *args[1:], *kwargs.values())
            if apart is not None:
                return apart
        if func is torch.tensor and _has_symbols(args[0]):
            return _tensor(args[0], kwargs.get("dtype"))
        if func is torch.Tensor.__getitem__:
            index = _read_bounds(args[1])
            place = _place_of_one(index, args[0].dim())
            if place is not None and self.recorder.is_data(index[place[0]]):
                return _picked_by_data(func, args[0], index, *place)
            args = args[0], _places(index)
        return self.recorder.again(func, args, kwargs)


def _without_ones(x: torch.Tensor, dims: Any = (), *rest: Any) -> torch.Tensor | None:
    """A tensor without axes of which the size is 1 here, and from then on always; None
    where none of these is open. PyTorch leaves open sizes where they are."""
    asked = dims if isinstance(dims, tuple | list) else () if dims is None else (dims,)
    sizes: dict[int, Any] = {dim % x.dim(): x.shape[dim] for dim in asked}
    is_open = [size for size in sizes.values() if isinstance(size, torch.SymInt)]
    if not any(size.node.hint == 1 for size in is_open):
        return None
    gone = {dim for dim, size in sizes.items() if size == 1}
    return x.reshape([size for dim, size in enumerate(x.shape) if dim not in gone])


def _read_bounds(index: Any) -> tuple[Any, ...]:
    """An index item by item, whose slices have numbers where they had tensors."""
    items = index if isinstance(index, tuple) else (index,)
    return tuple(_read(item) if isinstance(item, slice) else item for item in items)


def _places(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index with the places of truths for these, as PyTorch looks them up."""
    found: list[Any] = []
    for item in index:
        is_truth = isinstance(item, torch.Tensor) and item.dtype == torch.bool
        found += item.nonzero().unbind(1) if is_truth and item.dim() else [item]
    return tuple(found)


def _read(part: slice) -> slice:
    bounds = (part.start, part.stop, part.step)
    return slice(*(x.item() if isinstance(x, torch.Tensor) else x for x in bounds))


def _place_of_one(index: Any, rank: int) -> tuple[int, int] | None:
    """Which item of an index is a tensor of one whole number, and which dimension that
    is in what the others leave; None if these aren't numbers and slices alone."""
    used = sum(item is not None and item is not ... for item in index)
    wide = {slice: 1, type(None): 1, type(...): rank - used, int: 0, torch.SymInt: 0}
    others = [i for i, item in enumerate(index) if type(item) not in wide]
    if len(others) != 1 or not isinstance(index[others[0]], torch.Tensor):
        return None
    one = index[others[0]]
    if one.dim() or one.dtype not in (torch.int32, torch.int64):
        return None
    return others[0], sum(wide[type(item)] for item in index[: others[0]])


def _picked_by_data(func: Any, x: Any, index: Any, item: int, dim: int) -> Any:
    """What stands at a place that data say, without asking them which: the only one of
    those that a list of that picks."""
    rest = (*index[:item], slice(None), *index[item + 1 :])
    return func(x, rest).index_select(dim, index[item].reshape(1)).squeeze(dim)


def _tensor(given: Any, dtype: torch.dtype | None) -> torch.Tensor:
    """`torch.tensor` of numbers among which are sizes."""
    if isinstance(given, list | tuple):
        return torch.stack([_tensor(item, dtype or torch.int64) for item in given])
    return torch.scalar_tensor(given, dtype=dtype or torch.int64)


def _has_symbols(given: object) -> bool:
    """Whether these are whole numbers or lists of such, symbols among them."""
    if isinstance(given, list | tuple):
        return any(map(_has_symbols, given))
    return isinstance(given, torch.SymInt)


def _spread(
    root: bool,
    x: torch.Tensor,
    dim: Any = None,
    *,
    correction: Any = 1,
    keepdim: bool = False,
) -> torch.Tensor:
    """The variance as exporters write it, or its root."""
    dims = [dim] if isinstance(dim, int) else dim or range(x.dim())
    change = x - x.mean(dim, keepdim=True)
    if correction == 0:
        found = change.square().mean(dim, keepdim=keepdim)
    else:
        count = math.prod(x.shape[i] for i in dims) - correction
        found = change.square().sum(dim, keepdim=keepdim) / count
    return found.sqrt() if root else found


class Recorder(TorchDispatchMode):
    """Names what is computed while it is active, in run after run.

    `elements` says whether each element is followed, which needs numbers for sizes.
    """

    def __init__(self, fake: FakeTensorMode, elements: bool = False) -> None:
        super().__init__()
        self.fake = fake
        self.memory = (Elements if elements else Places)(
            self._size, self.plain, self.integer
        )
        self.calls: list[Recorded] = []
        self.lines: set[int] = set()  # of the source, behind which calls are
        self._source = ""
        # Calls that were dispatched: operator, operands, what it made; None for those
        # that depend on what a tensor holds.
        self.followed: list[tuple[Any, Any, Any, Any] | None] = []
        self.again = Repeats(self)
        self._given: set[int] = set()  # memory that is weights' or inputs'
        self._lent: dict[int, torch.Tensor] = {}  # for real tensors, by id
        self._alive: list[torch.Tensor] = []
        self.equal: dict[sympy.Expr, sympy.Expr] = {}  # sizes, for others
        self._sizes: dict[sympy.Expr, object] = {}
        self._unknown: dict[sympy.Symbol, sympy.Symbol] = {}  # sizes that data decide
        self._numbers: dict[object, torch.Tensor] = {}
        self._draws = 0
        self._choices: Mapping[str, object] = {}
        self.chosen: dict[str, Sequence[object]] = {}

    def begin(self, source: str, choices: Mapping[str, object] | None = None) -> None:
        """Record another run; calls are ascribed to lines of the file `source`.

        Numbers that data decide, and the source asks for, are those of `choices`, by
        what they are called. `chosen` has then, of those that `choices` lacked, what
        they may be: the first was taken.
        """
        self._source, self.calls, self.lines = source, [], set()
        self._choices, self.chosen, self.followed = choices or {}, {}, []
        if source.startswith("<"):  # the graph's side
            self.memory.within.clear()
        self._sizes.clear()
        self._draws = 0

    def given(
        self, tensor: torch.Tensor, name: str, real: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The same fake tensor, whose elements, which runs are given, have a name.

        `real` is a tensor with its content, if that is to be known: whole numbers.
        """
        self.memory.claim(tensor)
        self._given.add(self.memory.key(tensor))
        self.memory.enter(tensor, name)
        if real is not None:
            self.memory.hold(tensor, real)
        return tensor

    # ------------------------------------------------------------------------- names

    def name(self, thing: object, bare: bool = False) -> object:
        """What stands for a tensor, a number or a list of them in names of calls; a
        tensor is its elements in order, of whatever sizes, where it is `bare`.

        Raises CannotFollow for tensors that it didn't see made.
        """
        if isinstance(thing, torch.Tensor | Opposite):
            turned = isinstance(thing, Opposite)
            tensor = self.lend(thing.of if isinstance(thing, Opposite) else thing)
            count = product(map(self.plain, tensor.shape))
            wide = ((count,) if tensor.dim() else ()) if bare else None
            return self.memory.name(tensor, wide, turned)
        if isinstance(thing, list | tuple):
            return tuple(map(self.name, thing))
        if isinstance(thing, np.ndarray):  # of strings
            return thing.dtype.str, thing.shape, self.name(thing.tolist())
        if isinstance(thing, Opaque):
            return thing.name
        return self._size(thing) if isinstance(thing, _SYMBOLS) else repr(thing)

    def lend(self, tensor: torch.Tensor) -> torch.Tensor:
        """The fake tensor in the place of a real one, named by its content."""
        if isinstance(tensor, FakeTensor):
            return tensor
        if id(tensor) not in self._lent:
            with _disable_current_modes():
                name = real_digest(tensor)
                place = tensor.shape, tensor.stride()
                with self.fake:
                    fake = torch.empty_strided(*place, dtype=tensor.dtype)
            self._alive.append(tensor)
            whole = not (tensor.is_floating_point() or tensor.is_complex())
            known = tensor if whole else None
            self._lent[id(tensor)] = self.given(fake, name, known)
        return self._lent[id(tensor)]

    def _size(self, size: Any) -> object:
        if isinstance(size, int):
            return size
        expr = size if isinstance(size, sympy.Expr) else self.plain(size)
        if expr not in self._sizes:
            free = {
                s: self._unknown[s] for s in expr.free_symbols & self._unknown.keys()
            }
            found = self._equal(expr).xreplace(free)
            self._sizes[expr] = int(found) if found.is_Integer else str(found)
        return self._sizes[expr]

    def plain(self, size: Any) -> Any:
        """A size as an expression, in one way of writing."""
        return size if isinstance(size, int) else self._equal(size.node.expr)

    def _equal(self, expr: sympy.Expr) -> Any:
        known = normal(expr)
        return normal(known.xreplace(self.equal)) if self.equal else known

    # ------------------------------------------------------------------------- calls

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default or func.namespace == "profiler":
            return func(*args, **kwargs)
        if func in (_AT._local_scalar_dense.default, _AT.lift_fresh.default):
            self.followed.append(None)  # what is told again is told of others, too
        if func is _AT.glu.default:  # up to its rounding
            with self:
                hidden, gate = args[0].chunk(2, *(*args[1:], -1)[:1])
                return hidden * gate.sigmoid()
        if func in (_AT.var.correction, _AT.std.correction):  # up to its rounding
            with self:
                return _spread(func is _AT.std.correction, *args, **kwargs)
        if func is _AT.index.Tensor and args[1][0] is None:
            *before, index = args[1]
            if not any(x is not None for x in before) and index.dim() == 1:
                with self:  # x[:, index] of the axis brought to the front, and back
                    return (
                        args[0].movedim(len(before), 0)[index].movedim(0, len(before))
                    )
        if func is _AT.unbind.int:
            rows: Any = args[0].shape[(*args, 0)[1]]
            rows = (rows.node.hint or 0) if isinstance(rows, torch.SymInt) else rows
            if rows > _MOST_ROWS:
                raise CannotFollow(f"a list is made of more than {_MOST_ROWS} rows")
        if func is _AT._local_scalar_dense.default:
            number = self._number(args[0])
            if number is not None:
                return number
        if func is _AT.lift_fresh.default:
            return self.lend(args[0])
        if func.overloadpacket is _AT.set_:
            raise CannotFollow("a tensor is given the memory of another")
        args, kwargs = each(self.lend, args), each(self.lend, kwargs)
        made = self.enter(func, args, kwargs, lambda: func(*args, **kwargs))
        self.followed.append((func, args, kwargs, made))
        return made

    def enter(
        self, func: Any, args: Any, kwargs: Any, compute: Callable[[], Any]
    ) -> Any:
        """Name what a call makes, which is what `compute` gives; returns that."""
        pure, like = functional(func), None
        if pure is not None and self._is_own(*args, *kwargs.values()):
            like = pure(*args, **kwargs)
        is_new = like is not None and like.dtype == args[0].dtype
        how = (pure if is_new else func), args, kwargs
        made = None if func._schema.is_mutable else compute()
        calls, shown = self._calls(*how, args[0] if made is None else made)
        made = compute() if made is None else made
        call = self._enter(*how, calls, args[0] if is_new else made, is_new)
        if call:
            self.calls.append(Recorded(str(func), call, self.caller(), shown))
        return made

    def _is_own(self, tensor: Any, *others: Any) -> bool:
        """Whether what is written to a tensor is all that its memory holds then, and
        none of it is read as one of the others."""
        if not isinstance(tensor, torch.Tensor):
            return False  # but a list of them
        key = self.memory.key(tensor)
        if key in self._given:
            raise CannotFollow("a weight or an input is written to")
        read = {self.memory.key(other) for other in tensors_in(others)}
        return key not in read and self.memory.is_whole(tensor)

    def _number(self, tensor: torch.Tensor) -> Any:
        """A number that Python is given: that of a constant, or one that was chosen;
        None for what may be a symbol."""
        is_fake = isinstance(tensor, FakeTensor)
        size = self.memory.number(tensor) if is_fake else None
        if size is not None:
            return self.integer(size)
        known = self.memory.numbers(tensor) if is_fake else tensor
        if known is not None:
            with _disable_current_modes():
                return known.item()
        if tensor.dtype == torch.bool:
            ways: Sequence[object] = (False, True)  # a loop ends first
        elif self.fake.shape_env is None and not tensor.is_floating_point():
            ways = COUNTS
        else:
            return None
        name = digest(self.name(tensor))
        if name not in self._choices:
            self.chosen.setdefault(name, ways)
        return self._choices.get(name, ways[0])

    def is_data(self, tensor: torch.Tensor) -> bool:
        """Whether nothing tells the number that a tensor of one holds."""
        return isinstance(tensor, FakeTensor) and self.memory.number(tensor) is None

    def integer(self, size: Any) -> Any:
        """A size as PyTorch has it: a number, or of symbols."""
        if isinstance(size, int) or size.is_Integer:
            return int(size)
        assert self.fake.shape_env is not None  # else there are no symbols
        return self.fake.shape_env.create_symintnode(size, hint=None)

    def recurrent(self, func: Any, args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """What a recurrent layer gives, as of one call, however many steps it takes."""
        args = x, state, *others, by_batch = each(self.lend, args)
        if by_batch:  # as it would be in the order of time
            y, last = self.recurrent(func, [x.transpose(0, 1), state, *others, False])
            return y.transpose(0, 1), last
        (call, *_), shown = self._calls(func, args, {}, None)
        width = state.shape[-1] * (2 if args[7] else 1)
        with _disable_current_modes(), self.fake:
            made = x.new_empty((*x.shape[:-1], width)), torch.empty_like(state)
        for i, result in enumerate(made):
            self.memory.claim(result)
            self.memory.enter(result, digest(call.name, i))
        self.calls.append(Recorded(str(func), call.name, self.caller(), shown))
        return made

    def _calls(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: Any
    ) -> tuple[list[_Call], tuple[str, ...]]:
        """The call that a call comes to, or one for each of its results, and its
        options for people."""
        means, given = meaning(func, args, kwargs)
        drawn = 0
        if torch.Tag.nondeterministic_seeded in means.tags:
            self._draws = drawn = self._draws + 1
        shown = tuple(f"{k}={v}" for k, v in given.items() if not [*tensors_in(v)])
        each_part = [meaning(part, (), given) for part in PARTS.get(means, ())]
        parts = each_part or [(means, given)]
        return [self._call(*part, drawn, made) for part in parts], shown

    def _call(self, func: Any, given: Options, drawn: int, made: Any) -> _Call:
        """A call by the fewest operators. `made` looks like what it makes."""
        func, given, denied = plain(func, before := given)
        begun = len(self.calls), len(self.followed)
        with self:
            given = cast(func, given)
        del self.calls[begun[0] :], self.followed[begun[1] :]  # it is part of this one
        for view in tensors_in(list(given.values())):  # some are made on the way
            self.memory.claim(view, tensors_in(list(before.values())))
        found, bare = given, False  # without sizes
        order = list[int]()
        part = reduced(func, given)
        if part is not None:
            x, dims, found = part
            order = self._order([x], [i for i in range(x.dim()) if i not in dims])
            sizes = list(map(self.plain, x.shape))
            whole = tuple(product(sizes[i] for i in some) for some in (order, dims))
            tensor = x.permute([*order, *dims])
            self.memory.claim(tensor, [x])
            found = {**found, "self": self.memory.name(tensor, whole)}
            result = made if isinstance(made, torch.Tensor) else made[0]
            if result.dim() == x.dim():
                order = [*order, *dims]
            else:
                order = [sorted(order).index(i) for i in order]
        elif isinstance(made, torch.Tensor) and (
            torch.Tag.pointwise in func.tags or func is _AT._to_copy.default
        ):
            found = self._spread(func, given, made.shape)
            bare = all(x.dim() in (0, made.dim()) for x in _operands(found))
            if bare:
                order = self._order(_operands(found), range(made.dim()))
                found = {key: self._turned(x, order) for key, x in found.items()}
        names: list[Any] = [(key, self.name(x, bare)) for key, x in found.items()]
        if func in _COMMUTE and len(found) == 2:
            names = sorted((name for _, name in names), key=str)
        elif func is _AT.where.self and found["condition"].dtype == torch.bool:
            (_, mask), (_, one), (_, other) = names
            denial = self.name(Opposite(found["condition"]), bare)
            names = min([mask, one, other], [denial, other, one], key=str)
        return _Call(func, given, digest(str(func), names, drawn), denied, order)

    def _order(self, tensors: Sequence[torch.Tensor], dims: Iterable[int]) -> list[int]:
        """Dimensions of tensors in the order of what they see: however these were
        turned, one order."""
        ways = [self.memory.steps(x) for x in tensors if x.dim()]
        ways.sort(key=str)

        def apart(i: int, j: int) -> int:
            for _, steps in ways:
                a, b = steps[i], steps[j]
                if not equal(a, b) and (less(a, b) or less(b, a)):
                    return 1 if less(a, b) else -1
            return 0

        return sorted(dims, key=cmp_to_key(apart))

    def _turned(self, x: Any, order: list[int]) -> Any:
        """An operand with its dimensions in this order."""
        if isinstance(x, Opposite):
            return Opposite(self._turned(x.of, order))
        if not isinstance(x, torch.Tensor) or not x.dim() or order == sorted(order):
            return x
        turned = x.permute(order)
        self.memory.claim(turned, [x])
        return turned

    def _spread(self, func: Any, given: Options, shape: Sequence[Any]) -> Options:
        """What a call that takes elements one by one is given, each of its operands as
        large as its result: numbers, and what PyTorch stretches to that."""
        kinds = {x.dtype for x in tensors_in(list(given.values()))} - {torch.bool}
        alone = next(iter(kinds)) if len(kinds) == 1 else None
        found = dict(given)
        kind = ("Tensor", "Optional[Tensor]")
        for key in (a.name for a in func._schema.arguments if str(a.type) in kind):
            value = given.get(key)
            if _is_held(value, alone):
                value = self._number_as(value, alone)
            one = value.of if isinstance(value, Opposite) else value
            if not isinstance(one, torch.Tensor) or not (one.dim() or len(kinds) < 2):
                continue  # the type of the result hangs on which are without dimensions
            found[key] = self._spread_to(value, shape)
        return found

    def _spread_to(self, x: Any, shape: Sequence[Any]) -> Any:
        """An operand as PyTorch stretches it to these sizes."""
        if isinstance(x, Opposite):
            return Opposite(self._spread_to(x.of, shape))
        if not isinstance(x, torch.Tensor):
            return x
        own = [1] * (len(shape) - x.dim()) + [*x.shape]
        ones = [equal(self.plain(size), 1) for size in own]
        if len(shape) == x.dim() and not any(ones):
            return x
        sizes = zip(own, shape, ones, strict=True)
        return self.again.stretched(x, [n if is_one else m for m, n, is_one in sizes])

    def _number_as(self, value: object, dtype: Any) -> torch.Tensor:
        """A number as a tensor without dimensions."""
        key = repr(value), dtype
        if key not in self._numbers:
            with _disable_current_modes():
                self._numbers[key] = torch.tensor(value, dtype=dtype)
        return self.lend(self._numbers[key])

    def _enter(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Any,
        calls: Sequence[_Call],
        made: Any,
        is_new: bool,
    ) -> str:
        """Name what a call made or wrote; returns what the call is named then: by what
        was moved or counted, not by how, and "" if it did no more than look elsewhere.
        `made` `is_new` though it was given, too: all of it was written.
        """
        given = [*args, *kwargs.values()]
        known = {self.memory.key(tensor) for tensor in tensors_in(given)}
        did = ""
        for i, tensor in self._written(func, args, kwargs):
            if self.memory.key(tensor) in self._given:
                raise CannotFollow("a weight or an input is written to")
            if torch.Tag.inplace_view in func.tags and "resize" not in str(func):
                continue  # it looks elsewhere, as another view
            self.memory.write(tensor, digest(calls[0].name, i))
            did = calls[0].name
        for i, result in enumerate(made if isinstance(made, list | tuple) else [made]):
            call = calls[i] if len(calls) > 1 else calls[0]
            if isinstance(result, torch.Tensor):
                self.memory.claim(result, tensors_in(given))
                new = [*free_unbacked_symbols(result) - self._unknown.keys()]
                new.sort(key=lambda symbol: int(symbol.name.lstrip("zuf")))
                for k, symbol in enumerate(new):
                    name = digest(call.name, "size", i, k)  # data decide that
                    self._unknown[symbol] = sympy.Symbol(name)
                if self.memory.key(result) in known and not is_new:
                    continue
                how = self._how(func, args, kwargs, call, result)
                if self.memory.learn(func, args, kwargs, result) or self.memory.moved(
                    *how, result
                ):
                    did = did or digest(self.name(result))
                    continue
                name = digest(call.name, 0 if len(calls) > 1 else i)
                self.memory.enter(self._turned(result, call.order), name, call.denied)
            elif isinstance(result, _SYMBOLS):
                for symbol in result.node.expr.free_symbols:
                    name = digest(call.name, i)
                    self._unknown.setdefault(symbol, sympy.Symbol(name))
            did = did or call.name
        return did

    def _how(
        self, func: Any, args: Any, kwargs: Any, call: _Call, made: Any
    ) -> tuple[Any, Any, Any]:
        """A call as one that puts elements elsewhere, where it comes to that."""
        number = filled(func, args, kwargs)
        if number is not None:
            one = self._number_as(number, made.dtype)
            everywhere = one.expand(made.shape)
            self.memory.claim(everywhere, [one])
            return _AT.clone.default, [everywhere], {}
        if call.func in MOVES and call.func is not func:
            return call.func, [call.given["self"]], {}
        return func, args, kwargs

    def _written(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Iterable[tuple[int, torch.Tensor]]:
        if not func._schema.is_mutable:
            return
        for i, argument in enumerate(func._schema.arguments):
            given = args[i] if i < len(args) else kwargs.get(argument.name)
            if argument.alias_info is not None and argument.alias_info.is_write:
                for tensor in tensors_in(given):
                    yield i, tensor

    def caller(self) -> int:
        """The line of the source that is running."""
        frame, line = sys._getframe(2), 0
        while frame is not None:
            if frame.f_code.co_filename == self._source:
                self.lines.add(frame.f_lineno)
                line = line or frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return line
