"""Equal names stand for equal values: of tensors, by Places and by Elements."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from fairhand.codegen.validate.memory import CannotFollow
from fairhand.codegen.validate.recorder import (
    Recorder,
    _picked_by_data,
    _place_of_one,
)

Program = Callable[[Tensor], Any]
_X = torch.arange(96.0).reshape(4, 4, 6)


def name(program: Program, elements: bool) -> object:
    """What a program's result is called."""
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    recorder = Recorder(fake, elements)
    with fake:
        x = torch.empty(4, 4, 6)
    recorder.given(x, "x")
    recorder.begin("")
    with torch.no_grad(), fake, recorder:
        return recorder.name(program(x))


def _swapped(x: Tensor) -> Tensor:
    front, back = x.split([2, 4], dim=2)
    return torch.cat([back, front], dim=2)


def _then(x: Tensor, change: Callable[[Tensor], object]) -> Tensor:
    """A tensor, once something was done to it."""
    change(x)
    return x


SAME: list[tuple[Program, Program]] = [
    (lambda x: (x[:, :1] + 1).squeeze(1), lambda x: x[:, 0] + 1),
    (lambda x: (x == 0)[:, None], lambda x: x[:, None] == 0),
    (lambda x: x[:, :1].softmax(2).squeeze(1), lambda x: x[:, 0].softmax(1)),
    (_swapped, lambda x: x.roll(-2, 2)),
    (_swapped, lambda x: torch.cat([x, x], 2)[:, :, 2:8]),
    (
        lambda x: torch.cat([torch.cat([x, x.sin()], 1), x], 1),
        lambda x: torch.cat([x, x.sin(), x], 1),
    ),
    (lambda x: torch.cat([x[:, :2], x[:, 2:]], 1).sin(), torch.sin),
    (lambda x: torch.cat([x.cos(), x.sin()], 1)[:, 4:], lambda x: x.sin()),
    (
        lambda x: torch.cat([x.cos(), x.sin()], 1).chunk(2, 1)[1].transpose(1, 2),
        lambda x: x.sin().mT,
    ),
    (lambda x: x.transpose(0, 1).contiguous()[2, 3], lambda x: x[3, 2]),
    (
        lambda x: x.transpose(0, 2).reshape(6, 16).T,
        lambda x: x.flatten(0, 1).reshape(4, 4, 6).transpose(0, 1).reshape(16, 6),
    ),
    (lambda x: x.repeat(2, 1, 1)[4:], lambda x: x.clone()),
    (lambda x: x.flip(1).flip(1), lambda x: x),
    (
        lambda x: torch.pixel_shuffle(x.reshape(4, 4, 2, 3), 2),
        lambda x: x.reshape(4, 1, 2, 2, 2, 3)
        .permute(0, 1, 4, 2, 5, 3)
        .reshape(4, 1, 4, 6),
    ),
    (
        lambda x: x.reshape(-1, 1)[torch.arange(3)[:, None]].squeeze(-1),
        lambda x: x.flatten()[torch.arange(3)[:, None]],
    ),
    (
        lambda x: x[torch.arange(3)[:, None], torch.arange(1, 4)],
        lambda x: x[:3, 1:4],
    ),
    (
        lambda x: x[torch.arange(3), torch.arange(3)],
        lambda x: x.diagonal().mT[:3],
    ),
    (lambda x: x.clamp(min=0), F.relu),
    (lambda x: x.clamp(0, 6), F.relu6),
    (lambda x: x.sin() ** 2, lambda x: (y := x.sin()) * y),
    (lambda x: x.softmax(-1), lambda x: x.softmax(2)),
    (lambda x: F.max_pool2d(x, 2), nn.MaxPool2d(2)),
    (lambda x: x.mean((1, 2)), lambda x: F.adaptive_avg_pool2d(x, 1).flatten()),
    (lambda x: x.mean((-1, 1), keepdim=True)[:, 0, 0], lambda x: x.mean((1, 2))),
    (lambda x: x.sum(), lambda x: x.sum((0, 1, 2))),
    (lambda x: x.mT.sin().amax((1, 2)), lambda x: x.mT.sin().flatten(1).amax(1)),
    (lambda x: x > 0.5, lambda x: x.gt(0.5)),
    (lambda x: x.sin() <= x, lambda x: torch.ge(x, x.sin())),
    (lambda x: ~(x == 2), lambda x: x != 2),
    (torch.isnan, lambda x: x != x),
    (lambda x: torch.logical_and(x > 1, x < 2), lambda x: (x < 2) & (x > 1)),
    (lambda x: 1 - x, lambda x: torch.ones_like(x) - x),
    (lambda x: 3 - x.long(), lambda x: -x.long() + 3),
    (lambda x: -x + 1, lambda x: torch.rsub(x, 1.0)),
    (lambda x: x - x.sin(), lambda x: x.add(x.sin(), alpha=-1)),
    (lambda x: x - x[0], lambda x: -x[0].expand_as(x) + x),
    (lambda x: -(x.mT), lambda x: (-1 * x).mT),
    (lambda x: 1 / x, lambda x: x.reciprocal()),
    (lambda x: x / 4, lambda x: 0.25 * x),
    (lambda x: x.sin().add_(1).relu_(), lambda x: F.relu(1 + x.sin())),
    (lambda x: _then(x.sin(), lambda y: y.mT.mul_(3)), lambda x: (3 * x.sin().mT).mT),
    (lambda x: torch.empty_like(x).fill_(2) * x, lambda x: 2 * x),
    (lambda x: x.new_zeros(4, 4, 6), lambda x: torch.zeros(()).expand(4, 4, 6)),
    (lambda x: x.masked_fill(~(x > 1), 0), lambda x: torch.where(x > 1, x, 0.0)),
    (
        lambda x: x.masked_fill((x > 1)[:, :1], torch.tensor(5.0)),
        lambda x: torch.where((x > 1)[:, 0, None], torch.full_like(x, 5), x),
    ),
    (
        lambda x: _then(x.sin(), lambda y: y.__setitem__(x[:, :, 0] < 0, 7)),
        lambda x: torch.where((x[:, :, 0] < 0)[..., None], 7.0, x.sin()),
    ),
    (lambda x: x.max(1).values, lambda x: x.amax(1)),
    (lambda x: x.min(1, keepdim=True)[1].squeeze(1), lambda x: x.argmin(1)),
    (lambda x: x.mT.sin().mT, torch.sin),
    (lambda x: x.flatten(0, 1).sin().view(4, 4, 6), torch.sin),
    (
        lambda x: x.to(torch.int8) * x[0, 0],
        lambda x: x[0, 0] * x.to(torch.int8).float(),
    ),
    (lambda x: (x > 1).sum(1), lambda x: (x > 1).long().sum(1)),
    (lambda x: x.bool(), lambda x: x != 0),
    (torch.max, torch.amax),
    (lambda x: x.prod(0).flatten(), lambda x: x.reshape(4, 6, 4).prod(0).flatten()),
    (lambda x: (x + x[0, 0]).mT, lambda x: x.mT + x[0, 0, :, None]),
    (lambda x: x.flatten(0, 1).softmax(1).view(4, 4, 6), lambda x: x.softmax(2)),
    (lambda x: x.mT.softmax(1).mT, lambda x: x.softmax(2)),
    (lambda x: x.permute(2, 1, 0).amax(0).T, lambda x: x.amax(2)),
    (lambda x: x.mT.argmax(1, keepdim=True), lambda x: x.argmax(2)[:, None]),
]
OTHER: list[tuple[Program, Program]] = [
    (lambda x: x[:, :1].softmax(1), lambda x: x[:, :1].softmax(2)),
    (lambda x: x[:, :1].softmax(0), lambda x: x[:, :1].softmax(2)),
    (
        lambda x: x[:1, :1, 0] < torch.tensor(0.1).double(),
        lambda x: x[:1, :1, 0] < torch.tensor([0.1]).double(),
    ),
    (lambda x: (x[:, :1] + 1).mT, lambda x: x[:, 0] + 1),
    (lambda x: ~(x >= 1), lambda x: x < 1),
    (lambda x: x <= 1, lambda x: x >= 1),
    (lambda x: 1 - x, lambda x: x - 1),
    (lambda x: 0 - x, lambda x: -x),
    (lambda x: 1.5 - x.to(torch.uint8), lambda x: 1.5 + -x.to(torch.uint8)),
    (lambda x: 1.5 - x.long(), lambda x: -x.long() + 1.5),
    (lambda x: x + 0, lambda x: x.clone()),
    (lambda x: x / 3, lambda x: x * (1 / 3)),
    (lambda x: x / 2**20, lambda x: x * 2**20),
    (lambda x: torch.where(x > 1, x, 0.0), lambda x: x.masked_fill(x > 1, 0)),
    (lambda x: x.masked_fill(x > 1, 0), lambda x: x.masked_fill(x > 1, -0.0)),
    (lambda x: x.max(1).indices, lambda x: x.min(1).indices),
    (lambda x: x.argmax(1), lambda x: x.mT.argmax(1)),
    (lambda x: x.argmax(), lambda x: x.flip(0).argmax()),
    (lambda x: x.prod(0).flatten(), lambda x: x.reshape(4, 6, 4).prod(1).flatten()),
    (lambda x: x.bool().int() + 1, lambda x: x.bool() + 1),
    (lambda x: x * torch.tensor(0.1).double(), lambda x: x.double() * 0.1),
    (
        lambda x: x.int() / torch.tensor(3),
        lambda x: x.int() / torch.tensor(3).expand(4, 4, 6).double(),
    ),
    (
        lambda x: x[:1] < torch.tensor(0.1).double(),
        lambda x: x[:1] < torch.tensor(0.1).double().expand(1, 4, 6),
    ),
    (lambda x: x.sin().mul_(2), lambda x: _then(x.sin(), lambda y: y[:1].mul_(2))),
    (
        lambda x: _then(x.sin(), lambda y: y.mul_(2)),
        lambda x: _then(x.sin(), lambda y: y.mul(2)),
    ),
    (
        lambda x: x[torch.arange(2), torch.arange(2)],
        lambda x: x[torch.arange(2)[:, None], torch.arange(2)],
    ),
    (lambda x: x[torch.arange(1, 3)], lambda x: x[:2]),
    (_swapped, lambda x: x.roll(2, 2)),
    (
        lambda x: x[torch.full((2,), 1), torch.arange(-2, 0)],
        lambda x: x[0, 2:],
    ),
    (lambda x: torch.cat([x, x.sin()], 1), lambda x: torch.cat([x.sin(), x], 1)),
    (lambda x: torch.cat([x, x], 1), lambda x: torch.cat([x, x], 0)),
    (lambda x: x.mT.contiguous().view(4, 4, 6), lambda x: x.contiguous()),
    (lambda x: x.flip(1), lambda x: x.flip(2)),
    (lambda x: x[0], lambda x: x[1]),
    (lambda x: x[0].sum(0), lambda x: x[0].sum(1)),
    (lambda x: x[:, :, :4].sum(0), lambda x: x[:, :, :4].sum(1)),
    (lambda x: x.reshape(4, 4, 6).sum(2), lambda x: x.reshape(4, 6, 4).sum(2)),
    (lambda x: x.sum((0, 1)), lambda x: x.flatten().sum()),
    (lambda x: x.clamp(min=0, max=1e30), F.relu),
    (lambda x: x.clamp(min=1e-30), F.relu),
    (lambda x: x.softmax(1), lambda x: x.softmax(2)),
    (lambda x: x.mT.softmax(2), lambda x: x.softmax(2).mT),
    (lambda x: F.embedding(x[0, 0].long(), x[0]), lambda x: x[0][x[0, 0].long()]),
    (lambda x: x + x.transpose(0, 1), lambda x: x + x),
    (lambda x: x.transpose(0, 1).sin(), torch.sin),
    (lambda x: x.amax(2), lambda x: x.permute(2, 1, 0).amax(0)),
    (
        lambda x: x.clamp(min=x[0, 0, :4, None]),
        lambda x: x[..., :4].clamp(min=x[0, 0, :4]),
    ),
    (
        lambda x: x[..., :4].clamp(x[0, 0, :4]),
        lambda x: x[..., :4].clamp(x[0, 0, :4, None]),
    ),
    (lambda x: x.sum(1) + x.sum(0), lambda x: x.sum(1) + x.sum(1)),
    (lambda x: x.flatten(0, 1).sin(), lambda x: x.flatten(1).sin()),
    (lambda x: x[..., 0] + x[0, 0, :4], lambda x: x[..., 0] + x[0, 0, :4, None]),
    (lambda x: x.to(torch.int8) * x[0, 0], lambda x: (x * x[0, 0]).to(torch.int8)),
    (
        lambda x: x[..., :4].clamp(min=x[0, 0, :4]),
        lambda x: x[..., :4].mT.clamp(min=x[0, 0, :4]).mT,
    ),
    (lambda x: F.max_pool2d(x, 2), nn.MaxPool2d(2, 1)),
    (lambda x: x.reshape(16, 6), lambda x: x.reshape(6, 16)),
    (torch.rand_like, torch.zeros_like),
    (
        lambda x: torch.rand_like(x) + torch.rand_like(x),
        lambda x: (y := torch.rand_like(x)) + y,
    ),
]


@pytest.mark.parametrize("elements", [False, True], ids=["places", "elements"])
def test_one_value_has_one_name(elements: bool) -> None:
    for one, other in SAME:
        assert name(one, elements) == name(other, elements), SAME.index((one, other))


@pytest.mark.parametrize("elements", [False, True], ids=["places", "elements"])
def test_other_values_have_other_names(elements: bool) -> None:
    for one, other in OTHER:
        assert name(one, elements) != name(other, elements), OTHER.index((one, other))


def test_rows_that_are_picked_from_the_front_are_picked_from_either_end() -> None:
    """No index is below 0 where an embedding took it; which without one may be."""

    def embedded(x: Tensor) -> Tensor:
        return F.embedding(x[0, 0].long(), x[0])

    first = name(lambda x: embedded(x), False)
    assert first == name(lambda x: x[0].index_select(0, x[0, 0].long()), False)
    assert first == name(lambda x: (embedded(x), x[0][x[0, 0].long()])[1], False)
    assert first != name(lambda x: x[0][x[0, 0].long()], False)


def _into(rest: Callable[[Tensor], Tensor], row: int) -> Program:
    def program(x: Tensor) -> Tensor:
        whole = rest(x).clone()
        whole[row] = x[0].sin()
        return whole

    return program


@pytest.mark.parametrize("elements", [False, True], ids=["places", "elements"])
def test_what_is_written_stands_beside_what_was_there(elements: bool) -> None:
    """Of two memories of which the same part is written, the rest may be another."""
    ones = [_into(rest, row) for rest in (torch.cos, torch.exp) for row in (0, 1)]
    names = [name(one, elements) for one in ones]
    assert len(set(names)) == len(ones)
    assert names[0] == name(_into(torch.cos, 0), elements)


@pytest.mark.parametrize("elements", [False, True], ids=["places", "elements"])
def test_what_is_given_is_not_written_to(elements: bool) -> None:
    with pytest.raises(CannotFollow, match="written"):
        name(lambda x: x.add_(1), elements)


@pytest.mark.parametrize("elements", [False, True], ids=["places", "elements"])
def test_a_long_list_is_not_followed(elements: bool) -> None:
    """A table that became strings took more than a quarter of an hour."""
    with pytest.raises(CannotFollow, match="more than 256 rows"):
        name(lambda x: torch.stack(list(x.repeat(65, 1, 1).unbind())), elements)


STEPS: list[Callable[[random.Random, Tensor], Tensor]] = [
    lambda draw, x: x.transpose(*draw.sample(range(x.dim()), 2)),
    lambda draw, x: x.contiguous(),
    lambda draw, x: x.flip(draw.randrange(x.dim())),
    lambda draw, x: x.roll(draw.choice((-2, -1, 1, 2, 3)), draw.randrange(x.dim())),
    lambda draw, x: x.roll((1, 2), (0, x.dim() - 1)),
    lambda draw, x: torch.cat(x.chunk(2, at := draw.randrange(x.dim()))[::-1], at),
    lambda draw, x: torch.cat([x, x], draw.randrange(x.dim())),
    lambda draw, x: x.chunk(2, draw.randrange(x.dim()))[0],
    lambda draw, x: x.reshape(draw.choice(((4, -1), (2, -1), (-1, 2)))),
    lambda draw, x: x.reshape(2, 2, -1),
    lambda draw, x: x.repeat((2, *[1] * (x.dim() - 1))),
    lambda draw, x: torch.stack([x[0], x[-1]]),
    lambda draw, x: x.mT.mT.mul(1) if x.dim() > 1 else x,
]


@pytest.mark.parametrize("elements", [False, True], ids=["places", "elements"])
def test_drawn_programs_of_one_name_compute_the_same(elements: bool) -> None:
    found: dict[object, list[Tensor]] = {}
    for seed in range(250):

        def program(x: Tensor, seed: int = seed) -> Tensor:
            draw = random.Random(seed)
            for _ in range(draw.randint(1, 5)):
                x = draw.choice(STEPS)(draw, x)
            return x

        found.setdefault(name(program, elements), []).append(program(_X))
    shared = [values for values in found.values() if len(values) > 1]
    assert len(shared) > 5
    for first, *others in shared:
        assert all(torch.equal(first, other) for other in others)


_AT = torch.tensor(2)


@pytest.mark.parametrize(
    "index",
    [
        (_AT,),
        (slice(None), _AT),
        (..., _AT),
        (None, 1, slice(1, 3), _AT),
        (_AT, None, ..., slice(0, 5, 2)),
        (None, ..., None, _AT, 3),
    ],
    ids=str,
)
def test_what_data_pick_is_what_the_index_picks(index: tuple[Any, ...]) -> None:
    place = _place_of_one(index, _X.dim())
    assert place is not None
    picked = _picked_by_data(torch.Tensor.__getitem__, _X, index, *place)
    assert torch.equal(picked, _X[index])


def test_other_indices_are_pytorchs_own() -> None:
    for index in ((True, _AT), ([0, 1], _AT), (_AT, _AT), (_AT[None],), (0, 1)):
        assert _place_of_one(index, _X.dim()) is None
