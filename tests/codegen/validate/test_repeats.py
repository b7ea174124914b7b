"""What is told again has the names that it has where it is followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from fairhand.codegen.validate.memory import CannotFollow
from fairhand.codegen.validate.recorder import Recorder, Whole
from fairhand.codegen.validate.repeats import Repeats

Program = Callable[[Tensor, Tensor], Any]


def _written(x: Tensor, y: Tensor) -> Tensor:
    one, other = x.sin(), y.sin()  # alike, and of a memory each
    one.mul_(2)
    return one[1:] + other[1:] + x.sin()[1:]


def _layers(x: Tensor, y: Tensor) -> list[Tensor]:
    found = []
    for z in (x, y, x + y):
        found += F.linear(z, y[0, :6].expand(6, 6)).chunk(2, -1)
        found += [F.rms_norm(z, (6,), x[0, 0])[..., 1:], z.transpose(0, 1).flatten(1)]
        found += z.max(dim=-1)
    return [*found, found[0] * found[0], found[0] * found[6]]


def _wanted(x: Tensor, y: Tensor) -> Tensor:
    """What is done is told by no operator."""
    found = x.sin().requires_grad_()
    return found * 2 if found.requires_grad else found + y


def _drawn(x: Tensor, y: Tensor) -> list[Tensor]:
    """Draws are told apart, and what one written place is read as before and after."""
    one = x.sin()
    before = one.cos()
    one.add_(torch.rand_like(y))
    return [before, one.cos(), x.sin().cos(), torch.rand_like(x) + torch.rand_like(x)]


def _by_data(x: Tensor, y: Tensor) -> list[Tensor]:
    return [z[z[:, 0, 0] > 0].sin() for z in (x, y)]


class Followed(Repeats):
    """Tells nothing again."""

    def __call__(self, func: Any, args: Any, kwargs: Any) -> Any:
        return func(*args, **kwargs)

    def stretched(self, tensor: Tensor, sizes: Any) -> Tensor:
        self.forget()
        return super().stretched(tensor, sizes)


def names(program: Program, again: bool) -> list[object]:
    """What a program's results are called, when it runs once more if `again`."""
    env = ShapeEnv()
    fake = FakeTensorMode(shape_env=env)
    size = env.create_symbol(5, ConstantSource("n"), DimDynamic.DYNAMIC)
    recorder = Recorder(fake)
    given = []
    for name in "xy":
        with fake:
            n = env.create_symintnode(size, hint=5)
            tensor = torch.empty(n, 7, 6)
        given.append(recorder.given(tensor, name))
    if not again:
        recorder.again = Followed(recorder)
    for _ in range(1 + again):
        recorder.begin("")
        modes = fake, recorder, Whole(recorder)
        with torch.no_grad(), enable_python_dispatcher(), modes[0], modes[1], modes[2]:
            made = program(*given)
            made = made if isinstance(made, list) else [made]
        found = [recorder.name(tensor) for tensor in made]
    return found


@pytest.mark.parametrize("program", [_written, _layers, _wanted, _drawn])
def test_what_is_told_again_has_the_same_names(program: Program) -> None:
    assert names(program, again=True) == names(program, again=False)


def test_a_call_that_is_told_again_of_the_same_is_not_named_anew() -> None:
    enter = Recorder.enter
    with patch.object(Recorder, "enter", autospec=True, side_effect=enter) as entered:
        names(_layers, again=False)
        once = entered.call_count
        names(_layers, again=True)
    assert entered.call_count - once < 2 * once


def test_sizes_that_data_decide_are_never_those_of_other_data() -> None:
    one, other = names(_by_data, again=True)
    assert one[1] != other[1]  # type: ignore[index]


@pytest.mark.parametrize(
    "replace", [lambda x, y: setattr(x, "data", y), lambda x, y: x.set_(y)]
)
def test_a_tensor_given_the_memory_of_another_is_not_followed(replace: Program) -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        one, other = x.sin(), y.sin()
        replace(one, other)
        return one

    with pytest.raises(CannotFollow, match="memory of another"):
        names(program, again=True)
