"""Helpers of recurrent operators, copied into the emitted module when used."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def unpack_lstm(
    result: tuple[Tensor, tuple[Tensor, Tensor]],
    directions: int = 0,
    flip: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """An LSTM's outputs, last hidden state and last cell.

    `directions` get an axis of their own, the second; `flip` is the axis of time that
    ran backwards.
    """
    y, (h, c) = result
    y = y if flip is None else y.flip(flip)
    if directions:
        y = torch.unflatten(y, 2, (directions, -1)).transpose(1, 2)
    return y, h, c


def unpack_rnn(
    result: tuple[Tensor, Tensor], directions: int = 0, flip: int | None = None
) -> tuple[Tensor, Tensor]:
    """The outputs and the last state of a GRU or RNN.

    `directions` get an axis of their own, the second; `flip` is the axis of time that
    ran backwards.
    """
    y, h = result
    y = y if flip is None else y.flip(flip)
    if directions:
        y = torch.unflatten(y, 2, (directions, -1)).transpose(1, 2)
    return y, h


def run_lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    peepholes: Tensor | None = None,
    reverse: tuple[bool, ...] = (False,),
    activations: tuple[str | tuple[str | float, ...], ...] = ("sigmoid", "tanh", "tanh")
    * 2,
    clip: float = math.inf,
    couple: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """LSTM whose gates stand in the order input, output, forget, cell.

    w, r, bias and peepholes begin with an axis of directions. `clip` bounds what goes
    into the gates; `couple` makes the forget gate 1 - the input gate.
    """
    x = x.transpose(0, 1) if batch_first else x
    added: Tensor | int = 0 if bias is None else sum(bias[:, None].chunk(2, dim=-1))
    states = [first_state(x, r, s, batch_first) for s in (h, c)]

    def step(gates: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
        gates = torch.baddbmm(gates, hidden, r.mT)
        return lstm_step(gates, cell, peepholes, activations, clip, couple)

    gates = input_gates(x, w, added)
    y, h, c = over_time(step, gates, states, lengths, reverse, batch_first)
    return y, h, c


def lstm_step(
    gates: Tensor,
    cell: Tensor,
    peepholes: Tensor | None,
    activations: tuple[str | tuple[str | float, ...], ...],
    clip: float,
    couple: bool,
) -> tuple[Tensor, Tensor]:
    """The hidden state and the cell after one step, [directions, batch, hidden]."""
    f, g, k = activations[0::3], activations[1::3], activations[2::3]
    size = cell.shape[-1]
    if peepholes is None:
        i, o, forget = activate(f, gates[..., : 3 * size], clip).chunk(3, dim=-1)
    else:
        look_i, look_o, look_forget = peepholes[:, None].chunk(3, dim=-1)
        i, o, forget = gates[..., : 3 * size].chunk(3, dim=-1)
        i = activate(f, i + look_i * cell, clip)
        forget = activate(f, forget + look_forget * cell, clip)
    forget = 1 - i if couple else forget
    cell = forget * cell + i * activate(g, gates[..., 3 * size :], clip)
    if peepholes is not None:
        o = activate(f, o + look_o * cell, clip)
    return o * activate(k, cell), cell


def run_dynamic_quantized_lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    w_numbers: tuple[Tensor, Tensor],
    r_numbers: tuple[Tensor, Tensor],
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    peepholes: Tensor | None = None,
    reverse: tuple[bool, ...] = (False,),
    activations: tuple[str | tuple[str | float, ...], ...] = ("sigmoid", "tanh", "tanh")
    * 2,
    clip: float = math.inf,
    couple: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """run_lstm that rounds x and each state to 8 bits, so that products are exact.

    w and r are integers [directions, size, 4 * hidden], with scales and zero points.
    """
    w_scale, w_zero = (part.reshape(len(w), 1, -1) for part in w_numbers)
    r_scale, r_zero = (part.reshape(len(r), 1, -1) for part in r_numbers)
    r_weight = exact_weight(r - r_zero.float())
    added: Tensor | int = 0 if bias is None else sum(bias[:, None].chunk(2, dim=-1))
    states = [first_state(x, r.mT, s) for s in (h, c)]

    def step(gates: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
        gates = gates + rounded_product(hidden, r_weight, r_scale) + added
        return lstm_step(gates, cell, peepholes, activations, clip, couple)

    read = x if lengths is None else x[: int(lengths.max())]
    weight = exact_weight(w - w_zero.float())
    gates = rounded_product(read.flatten(0, 1)[None], weight, w_scale)
    gates = torch.unflatten(gates, 1, read.shape[:2]).transpose(0, 1)
    y, h, c = over_time(step, gates, states, lengths, reverse, keeps=True)
    return F.pad(y, [0] * 7 + [len(x) - len(read)]), h, c


def rounded_product(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """x @ weight * scale, with x in steps of a 255th of its range, which 0 is in.

    Each of x [..., rows, size] has a range of its own.
    """
    some = x if x.numel() else x.new_zeros(1, 1)  # nothing has no range
    low = some.amin((-2, -1), keepdim=True).clamp(max=0)
    high = some.amax((-2, -1), keepdim=True).clamp(min=0)
    step = torch.where(low == high, 1, (high - low) / 255)
    y = torch.minimum((x / step).round(), (low / step).round() + 255)
    return (y.to(weight.dtype) @ weight).float() * (step * scale)


def exact_weight(integers: Tensor) -> Tensor:
    """In float64 where sums with inputs up to 255 aren't exact in float32."""
    most = 255 * integers.abs().sum(dim=-2).max()
    return integers.float() if most <= 2**24 else integers.double()


def run_gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    reverse: tuple[bool, ...] = (False,),
    activations: tuple[str | tuple[str | float, ...], ...] = ("sigmoid", "tanh") * 2,
    clip: float = math.inf,
    reset_after: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """GRU whose gates stand in the order update, reset, hidden.

    w, r and bias begin with an axis of directions. `clip` bounds what goes into the
    gates; `reset_after` resets the product with r, not the state that goes into it.
    """
    x = x.transpose(0, 1) if batch_first else x
    f, g = activations[0::2], activations[1::2]
    size = r.shape[2]
    r_gates, r_new = r.mT.split_with_sizes((2 * size, size), dim=2)
    bias = x.new_zeros(len(r), 6 * size) if bias is None else bias
    of_gates, of_new, past_gates, past_new = bias[:, None].split_with_sizes(
        (2 * size, size) * 2, dim=-1
    )
    added = torch.cat([of_gates + past_gates, of_new], dim=-1)

    def step(inputs: Tensor, hidden: Tensor) -> tuple[Tensor, ...]:
        gates, new = inputs.split_with_sizes((2 * size, size), dim=-1)
        gates = activate(f, torch.baddbmm(gates, hidden, r_gates), clip)
        z, reset = gates.chunk(2, dim=-1)
        if reset_after:
            past = reset * torch.baddbmm(past_new, hidden, r_new)
        else:
            past = torch.baddbmm(past_new, reset * hidden, r_new)
        return (torch.lerp(activate(g, new + past, clip), hidden, z),)

    gates, first = input_gates(x, w, added), first_state(x, r, h, batch_first)
    y, h = over_time(step, gates, [first], lengths, reverse, batch_first)
    return y, h


def run_rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    reverse: tuple[bool, ...] = (False,),
    activations: tuple[str | tuple[str | float, ...], ...] = ("tanh", "tanh"),
    clip: float = math.inf,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Recurrent layer of one gate; w, r and bias begin with an axis of directions."""
    x = x.transpose(0, 1) if batch_first else x
    added: Tensor | int = 0 if bias is None else sum(bias[:, None].chunk(2, dim=-1))

    def step(gate: Tensor, hidden: Tensor) -> tuple[Tensor, ...]:
        return (activate(activations, torch.baddbmm(gate, hidden, r.mT), clip),)

    gates, first = input_gates(x, w, added), first_state(x, r, h, batch_first)
    y, h = over_time(step, gates, [first], lengths, reverse, batch_first)
    return y, h


def input_gates(x: Tensor, w: Tensor, bias: Tensor | int) -> Tensor:
    """What x adds to the gates of all steps: [time, directions, batch, size]."""
    y = x.flatten(0, 1) @ w.mT + bias
    return torch.unflatten(y, 1, x.shape[:2]).transpose(0, 1)


def first_state(
    x: Tensor, r: Tensor, given: Tensor | None, batch_first: bool = False
) -> Tensor:
    """The state before the first step, [directions, batch, hidden], zeros for None."""
    if given is None:
        return x.new_zeros(len(r), x.shape[1], r.shape[2])
    return given.transpose(0, 1) if batch_first else given


def over_time(
    step: Callable[..., tuple[Tensor, ...]],
    gates: Tensor,
    states: Sequence[Tensor],
    lengths: Tensor | None,
    reverse: tuple[bool, ...],
    batch_first: bool = False,
    keeps: bool = False,
) -> tuple[Tensor, ...]:
    """A cell's hidden states at all times, 0 after a sequence's end, and last states.

    step(gates, *states) makes the next states, the hidden one first. A sequence of no
    steps `keeps` the states before them, or ends with zeros.
    """
    made = [tuple(states)]
    for time, now in enumerate(in_own_time(gates, lengths, reverse).unbind()):
        hidden, *others = step(now, *made[-1])
        if lengths is not None:
            hidden = torch.where((time < lengths)[:, None], hidden, 0)
        made.append((hidden, *others))
    y = in_own_time(torch.stack([each[0] for each in made])[1:], lengths, reverse)
    last = made[-1]
    if lengths is not None:
        made[0] = made[0] if keeps else tuple(map(torch.zeros_like, states))
        ends = lengths.long()[:, None].expand(1, *last[0].shape)
        whole = map(torch.stack, zip(*made, strict=True))
        last = tuple(each.gather(0, ends)[0] for each in whole)
    if batch_first:
        return y.permute(2, 0, 1, 3), *(state.transpose(0, 1) for state in last)
    return y, *last


def in_own_time(y: Tensor, lengths: Tensor | None, reverse: tuple[bool, ...]) -> Tensor:
    """y [time, directions, ...], those that run backwards from a sequence's end on."""
    if not any(reverse):
        return y
    place = torch.arange(len(y), device=y.device)[:, None]
    ends: Tensor | int = len(y) if lengths is None else lengths
    order = torch.where(place < ends, ends - 1 - place, place).long()
    batch = torch.arange(y.shape[2], device=y.device)
    parts = zip(y.unbind(1), reverse, strict=True)
    return torch.stack([p[order, batch] if b else p for p, b in parts], dim=1)


def activate(
    kinds: tuple[str | tuple[str | float, ...], ...], x: Tensor, clip: float = math.inf
) -> Tensor:
    """Each direction's function of x [directions, ...], after bounding it by clip."""
    x = x.clamp(-clip, clip) if clip < math.inf else x
    if len({*kinds[: len(x)]}) < 2:
        return activation(kinds[0], x)
    return torch.stack([activation(*each) for each in zip(kinds, x, strict=False)])


def activation(kind: str | tuple[str | float, ...], x: Tensor) -> Tensor:
    """A function of x: `kind` is its name, alpha and beta after it if it has them."""
    name, *numbers = (kind,) if isinstance(kind, str) else kind
    a, b = (*map(float, numbers), 0.0, 0.0)[:2]
    if name == "affine":
        return a * x + b
    if name == "elu":
        return F.elu(x, a)
    if name == "hardsigmoid":
        return (a * x + b).clamp(0, 1)
    if name == "leakyrelu":
        return F.leaky_relu(x, a)
    if name == "scaledtanh":
        return a * torch.tanh(b * x)
    if name == "thresholdedrelu":
        return torch.where(x > a, x, 0)
    y: Tensor = getattr(F, str(name))(x)  # relu, sigmoid, softplus, softsign or tanh
    return y
