"""What PyTorch makes of a call is followed once, and told again of others like it.

Which operators a function of PyTorch comes to, and the sizes and strides of what they
make, follow from what its call is given here: which function it is, one of PyTorch's
own; type, device, sizes, strides, offset and bits of each tensor, and which of them are
one; all other arguments by type and value; the default type and autocast. What tensors
hold isn't among that, nor need it be: a call that asks for it, or whose results have
sizes that those of its operands don't tell, is followed each time. So is one that
leaves an operand's look another, does something that no operator says, is given what
isn't listed here, wants gradients, or stands under another mode than the recorder's.

So names come from here only where the operands' memories are called as before, and
nothing is drawn or written: the second network makes the calls of the first, and what
it makes is called as there. Other operators that are told again are named as those that
are followed, by what is in memories now; weights, draws and writes tell two calls apart
as ever. Only sizes aren't found anew.
Those were true when less was known of open sizes, so they are; but they may be written
otherwise than they would be now. Where two sides differ, and more was learned, all of
this is forgotten, and both run again (`Both.learned`).

Flags by which PyTorch computes one function in several ways, as by which kernel or in
which precision, are no part of it: no name tells them where calls are followed either.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch._C import _len_torch_function_stack
from torch._C._functorch import maybe_current_level
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager
from torch.fx.experimental.symbolic_shapes import free_symbols
from torch.utils._python_dispatch import (
    _get_current_dispatch_mode,
    _pop_mode_temporarily,
)

from .memory import each, tensors_in

_PLAIN = (int, bool, str, complex, type(None), type(...))
_NAMES = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_IN_C = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
)
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class _Unlike(Exception):
    """What was called for, or what it did, is like no other call."""


class _Place(NamedTuple):
    """The tensor of this number, of all that a call is given and makes on the way."""

    at: int


class _Made(NamedTuple):
    """A tensor like another, that looks at the memory of the tensor of this number, or
    at its own."""

    like: FakeTensor
    memory: int | None


class _Step(NamedTuple):
    """A call of an operator; places stand for tensors. `made` is what it makes."""

    func: Any
    args: Any
    kwargs: Any
    made: Any


class Repeats:
    """Calls functions of PyTorch while a Recorder is active, or tells it of them."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self._known: dict[object, tuple[list[_Step], Any]] = {}
        self._named: dict[object, tuple[list[Any], list[Any]]] = {}
        self._views: dict[object, Any] = {}

    def __call__(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """What a function gives."""
        given: list[FakeTensor] = []
        try:
            key = self._key(func, args, kwargs, given)
            hash(key)
        except (_Unlike, TypeError):
            return func(*args, **kwargs)
        if key in self._known:
            return self._again(key, given)
        begun = len(self.recorder.followed)
        made = func(*args, **kwargs)
        try:
            if self._key(func, args, kwargs, []) != key:
                raise _Unlike  # what it was given is another by now
            sizes = _symbols([args, kwargs, *given])
            steps = self.recorder.followed[begun:]
            self._known[key] = self._told(given, sizes, steps, made)
        except _Unlike:
            pass
        return made

    def forget(self) -> None:
        """Follow each call again, as more is known of sizes now."""
        for known in (self._known, self._named, self._views):
            known.clear()

    def stretched(self, tensor: torch.Tensor, sizes: Sequence[Any]) -> torch.Tensor:
        """A tensor as PyTorch stretches it to these sizes."""
        key = None
        with suppress(_Unlike):
            key = self._alike([tensor, sizes], [])
        if key is None or key not in self._views:
            self._views[key] = tensor.expand(sizes)
        made = self._like(self._views[key])
        self.recorder.memory.lay(made, self.recorder.memory.key(tensor))
        return made

    # ------------------------------------------------------------------- what is alike

    def _key(self, func: Any, args: Any, kwargs: Any, given: list[FakeTensor]) -> Any:
        """What a call has in common with those like it; adds the tensors to `given`."""
        others = _len_torch_function_stack() or maybe_current_level() is not None
        if others or _get_current_dispatch_mode() is not self.recorder:
            raise _Unlike  # somebody else sees it, too
        if not _is_of_torch(func):
            raise _Unlike  # it may do anything
        state = (
            torch.get_default_dtype(),
            torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"),
        )
        return func, state, self._alike([args, kwargs], given)

    def _alike(self, value: Any, given: list[FakeTensor]) -> object:
        """What stands for an argument."""
        if isinstance(value, torch.Tensor):
            for i, other in enumerate(given):
                if other is value:
                    return _Place(i)
            given.append(value)  # type: ignore[arg-type]
            return _look(value)
        if isinstance(value, _PLAIN + _NAMES):
            return type(value), value
        if isinstance(value, float):
            return type(value), repr(value)  # 0.0 and -0.0 are equal
        if isinstance(value, _SYMBOLS):
            return type(value), value.node.expr
        if isinstance(value, list | tuple):
            return type(value), *(self._alike(each, given) for each in value)
        if isinstance(value, dict):
            return dict, *value, self._alike([*value.values()], given)
        if isinstance(value, slice):
            return slice, self._alike([value.start, value.stop, value.step], given)
        raise _Unlike

    # ------------------------------------------------------------------------- telling

    def _told(
        self,
        given: Sequence[FakeTensor],
        sizes: set[object],
        steps: Sequence[Any],
        result: Any,
    ) -> tuple[list[_Step], Any]:
        """The operators that a call came to, and which tensors it gave; `sizes` are
        those that it was given. Raises _Unlike."""
        places = {id(tensor): _Place(i) for i, tensor in enumerate(given)}

        def place(tensor: torch.Tensor) -> _Place:
            if id(tensor) not in places:
                raise _Unlike
            return places[id(tensor)]

        def made(tensor: Any, operands: Sequence[torch.Tensor]) -> Any:
            if not isinstance(tensor, FakeTensor) or not _symbols(tensor) <= sizes:
                raise _Unlike
            if id(tensor) in places:
                return places[id(tensor)]
            key = self.recorder.memory.key(tensor)
            of = {place(t) for t in operands if self.recorder.memory.key(t) == key}
            if len(of) > 1:
                raise _Unlike  # at which of them it looks isn't plain
            places[id(tensor)] = _Place(len(places))
            return _Made(self._like(tensor), of.pop().at if of else None)

        told = []
        for step in steps:
            if step is None or not _keeps_sizes(step[0]):
                raise _Unlike
            func, args, kwargs, gave = step
            if any(isinstance(each, _SYMBOLS) for each in _leaves(gave)):
                raise _Unlike
            placed = _each(place, args), _each(place, kwargs)
            change = partial(made, operands=[*tensors_in([*args, *kwargs.values()])])
            told.append(_Step(func, *placed, _each(change, gave)))
        if any(not isinstance(each, torch.Tensor) for each in _leaves(result)):
            raise _Unlike
        if not told:
            raise _Unlike  # what it did no operator tells, as requires_grad_
        return told, _each(place, result)

    def _again(self, key: object, given: list[FakeTensor]) -> Any:
        memory, recorder = self.recorder.memory, self.recorder
        steps, result = self._known[key]
        found: list[FakeTensor] = [*given]

        def made(each: Any) -> Any:
            if isinstance(each, _Place):
                return found[each.at]
            found.append(self._like(each.like))
            of = None if each.memory is None else found[each.memory]
            memory.lay(found[-1], None if of is None else memory.key(of))
            return found[-1]

        held = [memory.memories.get(memory.key(tensor)) for tensor in given]
        same = key, *((m.name, m.dtype, len(m.pieces)) for m in held if m is not None)
        is_pure = bool(held) and all(held) and not any(map(_does_more, steps))
        named, begun = self._named.get(same) if is_pure else None, len(recorder.calls)
        with _pop_mode_temporarily():  # the recorder, which is told
            for step in steps:
                args, kwargs = _each(made, step.args), _each(made, step.kwargs)
                results = _each(made, step.made)
                if named is None:
                    recorder.enter(step.func, args, kwargs, lambda r=results: r)
        keys = [memory.key(tensor) for tensor in found]
        if named is not None:
            memory.memories.update(zip(keys, named[1], strict=True))
            line = recorder.caller() if named[0] else 0
            recorder.calls += [replace(call, line=line) for call in named[0]]
        elif is_pure:
            held = [memory.memories[each] for each in keys]
            self._named[same] = recorder.calls[begun:], held
        return _each(made, result)

    def _like(self, tensor: FakeTensor) -> FakeTensor:
        """Another tensor that looks like one."""
        fake = self.recorder.fake
        with in_kernel_invocation_manager(fake):
            return FakeTensor(fake, tensor, tensor.fake_device)


def _is_of_torch(func: Any) -> bool:
    """Whether this is a function or method of PyTorch's own."""
    if isinstance(func, types.FunctionType):
        return func.__module__.partition(".")[0] == "torch"
    return isinstance(func, _IN_C)


def _does_more(step: _Step) -> bool:
    """Whether an operator writes to memory, or draws."""
    drawn = torch.Tag.nondeterministic_seeded in step.func.tags
    return step.func._schema.is_mutable or drawn


def _keeps_sizes(func: Any) -> bool:
    """Whether an operator leaves sizes and strides of what it is given as they are."""
    if not func._schema.is_mutable:
        return True
    name = func._schema.name
    in_place = name.endswith("_") and "resize" not in name
    return in_place and torch.Tag.inplace_view not in func.tags


def _look(tensor: torch.Tensor) -> object:
    """How a tensor reads its memory. Raises _Unlike for what has more to it."""
    if type(tensor) is not FakeTensor or tensor.requires_grad:
        raise _Unlike
    if tensor.layout is not torch.strided:
        raise _Unlike
    numbers = (*tensor.shape, -1, *tensor.stride(), tensor.storage_offset())
    plain = (n if type(n) is int else n.node.expr for n in numbers)
    bits = tensor.is_conj(), tensor.is_neg()
    return tensor.dtype, tensor.device, bits, *plain


def _symbols(given: Any) -> set[object]:
    """The open sizes that sizes, or a tensor's with its strides and offset, are of."""
    parts = (torch.Tensor, *_SYMBOLS)
    return {*free_symbols([one for one in _leaves(given) if isinstance(one, parts)])}


def _leaves(given: Any) -> list[Any]:
    if isinstance(given, dict):
        given = list(given.values())
    if isinstance(given, slice):
        given = [given.start, given.stop, given.step]
    if isinstance(given, list | tuple):
        return [leaf for each in given for leaf in _leaves(each)]
    return [given]


def _each(change: Callable[[Any], Any], given: Any) -> Any:
    return each(change, given, torch.Tensor | _Place | _Made)
