"""Helpers of recurrent operators, copied into the emitted module when used."""

from __future__ import annotations

import math

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
    ys, hs, cs = [], [], []
    for d, back in enumerate(reverse):
        names = activations[3 * d : 3 * d + 3]
        hidden = first_state(x, r, h, d, batch_first)
        cell = first_state(x, r, c, d, batch_first)
        add = x.new_zeros(1) if bias is None else bias[d].reshape(2, -1).sum(dim=0)
        look = x.new_zeros(3, 1) if peepholes is None else peepholes[d].reshape(3, -1)
        steps = []
        for time in range(len(x))[:: -1 if back else 1]:
            gates = x[time] @ w[d].T + hidden @ r[d].T + add
            h_now, c_now = lstm_step(gates, cell, look, names, clip, couple)
            steps.append(until_end(time, lengths, h_now, 0))
            hidden = until_end(time, lengths, h_now, hidden)
            cell = until_end(time, lengths, c_now, cell)
        ys.append(torch.stack(steps[:: -1 if back else 1]))
        hs.append(until_end(0, lengths, hidden, 0))
        cs.append(until_end(0, lengths, cell, 0))
    axis = 1 if batch_first else 0
    return (
        stack_outputs(ys, batch_first),
        torch.stack(hs, dim=axis),
        torch.stack(cs, dim=axis),
    )


def lstm_step(
    gates: Tensor,
    cell: Tensor,
    look: Tensor,
    activations: tuple[str | tuple[str | float, ...], ...],
    clip: float,
    couple: bool,
) -> tuple[Tensor, Tensor]:
    """The hidden state and the cell after one step; `look` are the peepholes."""
    f, g, k = activations
    i, o, forget, new = gates.chunk(4, dim=1)
    i = activate(f, i + look[0] * cell, clip)
    forget = activate(f, forget + look[2] * cell, clip)
    forget = 1 - i if couple else forget
    cell = forget * cell + i * activate(g, new, clip)
    return activate(f, o + look[1] * cell, clip) * activate(k, cell), cell


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
    (w_scale, w_zero), (r_scale, r_zero) = w_numbers, r_numbers
    ends = x.new_full((x.shape[1],), len(x)) if lengths is None else lengths
    place = torch.arange(len(x), device=x.device)[:, None]
    real = (place < ends)[:, :, None]
    backwards = torch.where(real, (ends - 1 - place)[:, :, None], place[:, :, None])
    ys, hs, cs = [], [], []
    for d, back in enumerate(reverse):
        names = activations[3 * d : 3 * d + 3]
        seen = last = first_state(x, r.mT, h, d, batch_first=False)
        cell = first_state(x, r.mT, c, d, batch_first=False)
        add = x.new_zeros(1) if bias is None else bias[d].reshape(2, -1).sum(dim=0)
        look = x.new_zeros(3, 1) if peepholes is None else peepholes[d].reshape(3, -1)
        order = backwards.long().expand(-1, -1, x.shape[2])
        given = x.gather(0, order) if back else x
        weight = exact_weight(w[d] - w_zero[d].double())
        new = rounded_product(given[: int(ends.max())], weight, w_scale[d])
        weight = exact_weight(r[d] - r_zero[d].double())
        y = x.new_zeros(*x.shape[:2], r.shape[1])
        for time, now in enumerate(real[: len(new)]):
            gates = new[time] + rounded_product(seen, weight, r_scale[d]) + add
            h_now, c_now = lstm_step(gates, cell, look, names, clip, couple)
            y[time] = seen = torch.where(now, h_now, 0)
            last = torch.where(now, h_now, last)
            cell = torch.where(now, c_now, cell)
        order = backwards.long().expand_as(y)
        ys.append(y.gather(0, order) if back else y)
        hs.append(last)
        cs.append(cell)
    return torch.stack(ys, dim=1), torch.stack(hs), torch.stack(cs)


def rounded_product(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """x @ weight * scale, with x in steps of a 255th of its range, which 0 is in."""
    some = x if x.numel() else x.new_zeros(1)  # nothing has no range
    low, high = some.amin().clamp(max=0), some.amax().clamp(min=0)
    step = torch.where(low == high, 1, (high - low) / 255)
    zero = (-low / step).clamp(0, 255).round()
    y = ((x / step).round() + zero).clamp(0, 255) - zero
    return (y.to(weight.dtype) @ weight).float() * (step * scale)


def exact_weight(integers: Tensor) -> Tensor:
    """In float32 where its sums are exact, with inputs up to 255: much faster."""
    most = 255 * integers.abs().sum(dim=0).max()
    return integers.float() if most <= 2**24 else integers


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
    ys, hs = [], []
    for d, back in enumerate(reverse):
        f, g = activations[2 * d : 2 * d + 2]
        hidden = first_state(x, r, h, d, batch_first)
        add = x.new_zeros(6, 1) if bias is None else bias[d].reshape(6, -1)
        rz, rr, rn = r[d].chunk(3)
        steps = []
        for time in range(len(x))[:: -1 if back else 1]:
            z, reset, new = (x[time] @ w[d].T).chunk(3, dim=1)
            z = activate(f, z + hidden @ rz.T + (add[0] + add[3]), clip)
            reset = activate(f, reset + hidden @ rr.T + (add[1] + add[4]), clip)
            if reset_after:
                past = reset * (hidden @ rn.T + add[5])
            else:
                past = (reset * hidden) @ rn.T + add[5]
            new = activate(g, new + past + add[2], clip)
            now = (1 - z) * new + z * hidden
            steps.append(until_end(time, lengths, now, 0))
            hidden = until_end(time, lengths, now, hidden)
        ys.append(torch.stack(steps[:: -1 if back else 1]))
        hs.append(until_end(0, lengths, hidden, 0))
    last = torch.stack(hs, dim=1 if batch_first else 0)
    return stack_outputs(ys, batch_first), last


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
    ys, hs = [], []
    for d, back in enumerate(reverse):
        hidden = first_state(x, r, h, d, batch_first)
        add = x.new_zeros(1) if bias is None else bias[d].reshape(2, -1).sum(dim=0)
        steps = []
        for time in range(len(x))[:: -1 if back else 1]:
            gate = x[time] @ w[d].T + hidden @ r[d].T + add
            now = activate(activations[d], gate, clip)
            steps.append(until_end(time, lengths, now, 0))
            hidden = until_end(time, lengths, now, hidden)
        ys.append(torch.stack(steps[:: -1 if back else 1]))
        hs.append(until_end(0, lengths, hidden, 0))
    last = torch.stack(hs, dim=1 if batch_first else 0)
    return stack_outputs(ys, batch_first), last


def first_state(
    x: Tensor, r: Tensor, given: Tensor | None, direction: int, batch_first: bool
) -> Tensor:
    """The state before the first step, [batch, hidden]; zeros if none is given."""
    if given is None:
        return x.new_zeros(x.shape[1], r.shape[2])
    return given[:, direction] if batch_first else given[direction]


def activate(
    kind: str | tuple[str | float, ...], x: Tensor, clip: float = math.inf
) -> Tensor:
    """A function of x, which is bounded to [-clip, clip] first.

    `kind` is its name, with alpha and beta after it if it has them.
    """
    name, *numbers = (kind,) if isinstance(kind, str) else kind
    a, b = (*map(float, numbers), 0.0, 0.0)[:2]
    x = x.clamp(-clip, clip) if clip < math.inf else x
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
    if name == "softplus":
        return F.softplus(x)
    if name == "softsign":
        return F.softsign(x)
    if name == "relu":
        return torch.relu(x)
    return torch.sigmoid(x) if name == "sigmoid" else torch.tanh(x)


def until_end(
    time: int, lengths: Tensor | None, now: Tensor, after: Tensor | float
) -> Tensor:
    """`now` for the sequences that have such a step, `after` for those that ended."""
    return (
        now if lengths is None else torch.where((time < lengths)[:, None], now, after)
    )


def stack_outputs(ys: list[Tensor], batch_first: bool) -> Tensor:
    """[time, directions, batch, hidden], or [batch, time, directions, hidden]."""
    y = torch.stack(ys, dim=1)
    return y.permute(2, 0, 1, 3) if batch_first else y
