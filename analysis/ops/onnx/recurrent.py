"""LSTM, GRU and RNN: PyTorch's layers where they are equal, else a loop over time."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...literals import one_line, shortest
from ..facts import cuts, fitting_sizes, flop_counts, sizes_windows
from ..facts.requirements import Between
from ..helpers import recurrent as helpers
from ..module_form import ModuleForm, Weight
from ..node_view import NodeView
from ..operands import number, present, wanted
from ..registry import MANY_TO_MANY, operator
from .recurrent_layout import first_axis, is_zero, surroundings, whole_length

# The order of PyTorch's gates in ONNX's: i o f c -> i f g o, z r h -> r z n.
_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
_ACTIVATIONS = {
    "LSTM": ["sigmoid", "tanh", "tanh"],
    "GRU": ["sigmoid", "tanh"],
    "RNN": ["tanh"],
}
# What ONNX Runtime takes for alpha and beta where the node gives none.
_NUMBERS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("relu", "sigmoid", "softplus", "softsign", "tanh"), ()),
    "affine": (0.0, 0.0),
    "elu": (1.0,),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01,),
    "scaledtanh": (0.0, 0.0),
    "thresholdedrelu": (0.0,),
}
_LENGTHS, _H, _C, _PEEPHOLES = 4, 5, 6, 7


def _usual(n: NodeView) -> list[str]:
    """The activations of one direction, unless the node says otherwise."""
    return _ACTIVATIONS[n.node.op_type.removeprefix("DynamicQuantize")]


def _directions(n: NodeView) -> list[str]:
    direction = n.attr("direction", "forward")
    return ["forward", "reverse"] if direction == "bidirectional" else [direction]


def _activations(n: NodeView) -> list[str]:
    default = _usual(n) * len(_directions(n))
    return [name.lower() for name in n.attr("activations") or default]


def _nonlinearity(n: NodeView) -> str | None:
    """The keyword of nn.RNN; None where the activations are no layer's."""
    found = _activations(n)
    if n.node.op_type == "RNN" and set(found) == {"relu"}:
        return "relu"
    usual = found == _usual(n) * len(_directions(n))
    return "tanh" if usual else None


def _is_layer(n: NodeView) -> bool:
    owned = [i for i in (1, 2, 3) if n.has(i)]
    time = 1 if n.attr("layout", 0) else 0
    return (
        all(n.value(i).const_value is not None for i in owned)
        and whole_length(n, _LENGTHS, time)
        and _nonlinearity(n) is not None
        and n.attr("clip") is None
        and not n.attr("input_forget", 0)
        and not (n.has(_PEEPHOLES) and not is_zero(n.value(_PEEPHOLES)))
        and (n.node.op_type != "GRU" or bool(n.attr("linear_before_reset", 0)))
    )


def _joins(n: NodeView, above: NodeView) -> bool:
    """Whether `above`, which reads the output of `n`, can be its second layer."""
    views = (n, above)
    zero = all(
        is_zero(view.value(i)) for view in views for i in (_H, _C) if view.has(i)
    )
    facts = [
        (_directions(view), _nonlinearity(view), view.has(3), view.size(2, 2))
        for view in views
    ]
    return (
        _is_layer(above) and zero and facts[0] == facts[1] and not above.attr("layout")
    )


def _in_order(op: str, hidden: int, d: int, half: int, array: np.ndarray) -> np.ndarray:
    """One direction's weights of one half of the rows, in PyTorch's order of gates."""
    gates = _GATES[op]
    rows = len(gates) * hidden
    chosen = array[d, rows:] if half else array[d, :rows]
    return np.ascontiguousarray(chosen[first_axis(gates, hidden)])


def _weights(n: NodeView, layer: int, hidden: int) -> dict[str, Weight]:
    found: dict[str, Weight] = {}
    for d, suffix in enumerate(["", "_reverse"][: len(_directions(n))]):
        first = partial(_in_order, n.node.op_type, hidden, d, 0)
        second = partial(_in_order, n.node.op_type, hidden, d, 1)
        end = f"_l{layer}{suffix}"
        how = f"direction {d} in PyTorch's order of gates"
        found[f"weight_ih{end}"] = Weight(n.value(1), first, how)
        found[f"weight_hh{end}"] = Weight(n.value(2), first, how)
        if n.has(3):
            found[f"bias_ih{end}"] = Weight(n.value(3), first, how)
            found[f"bias_hh{end}"] = Weight(n.value(3), second, f"{how}, second half")
    return found


def _module(n: NodeView) -> ModuleForm | None:
    if not _is_layer(n):
        return None
    kind, directions = n.node.op_type, _directions(n)
    hidden, width = n.size(2, 2), n.size(1, 2)
    around = surroundings(n, len(directions), hidden, partial(_joins, n))
    outputs = around.outputs
    used = [out for out in outputs if out.uses() or out.is_graph_output()]
    if around.batch_first and not around.flat and used != [outputs[0]]:
        return None  # the states would have to be transposed too
    states = [i for i in (_H, _C) if n.has(i) and not is_zero(n.value(i))]
    keywords: dict[str, tuple[Any, Any]] = {
        "num_layers": (len(around.layers), 1),
        "bias": (n.has(3), True),
        "batch_first": (around.batch_first, False),
        "bidirectional": (len(directions) == 2, False),
    }
    if kind == "RNN":
        keywords = {"nonlinearity": (_nonlinearity(n), "tanh"), **keywords}

    def call(t: Any, layer: Any, x: Any, *given: Any) -> Any:
        time = 1 if around.batch_first else 0
        back = directions == ["reverse"]
        x = x.flip(time) if back else x
        swapped = [s.transpose(0, 1) if n.attr("layout", 0) else s for s in given]
        state = _state(t, kind, dict(zip(states, swapped, strict=True)))
        result = layer(x) if state is None else layer(x, state)
        split = 0 if around.flat else len(directions)
        if used == [outputs[0]]:
            y = result[0].flip(time) if back else result[0]
            return _split(y, split, hidden, around.batch_first)
        if len(used) == 1:
            ends, place = result[1], outputs.index(used[0]) - 1
            return ends[place] if kind == "LSTM" else ends
        if kind == "LSTM" and outputs[0] not in used:
            return result[1]
        if kind != "LSTM" and not back and not split:
            return result
        made = _unpacked(t, kind, result, split, back, time)
        return made if len(outputs) != 2 or kind != "LSTM" else made[:2]

    weights: dict[str, Weight] = {}
    for i, layer in enumerate(around.layers):
        weights |= _weights(layer, i, hidden)
    return ModuleForm(
        layer=f"nn.{kind}",
        positional=(width, hidden),
        keywords=keywords,
        weights=weights,
        inputs=(around.source, *(n.value(i) for i in states)),
        outputs=tuple(used) if len(used) == 1 or outputs[0] not in used else outputs,
        call=call,
        absorbs=around.absorbed,
    )


def _state(t: Any, kind: str, given: dict[int, Any]) -> Any:
    """The initial state as the layer takes it; what is absent is zero."""
    if not given or kind != "LSTM":
        return given.get(_H)
    known = given[_H] if _H in given else given[_C]
    zeros = t.zeros_like(known)
    return (given.get(_H, zeros), given.get(_C, zeros))


def _split(y: Any, directions: int, hidden: int, batch_first: bool) -> Any:
    """PyTorch's [.., .., directions * hidden] with ONNX's axis for the directions."""
    if directions == 0:
        return y
    if directions == 1:
        return y[:, :, None] if batch_first else y[:, None]
    y = y.unflatten(2, (directions, hidden))
    return y if batch_first else y.transpose(1, 2)


def _unpacked(t: Any, kind: str, result: Any, split: int, back: bool, time: int) -> Any:
    function = helpers.unpack_lstm if kind == "LSTM" else helpers.unpack_rnn
    options = {"directions": split} if split else {}
    return t.helper(function)(result, **options, **({"flip": time} if back else {}))


# ---- the loop over time


def options_of(n: NodeView) -> dict[str, Any]:
    """What the attributes of a cell say."""
    options: dict[str, Any] = {}
    directions = _directions(n)
    if directions != ["forward"]:
        options["reverse"] = tuple(d == "reverse" for d in directions)
    found = _activations(n)
    if found != _usual(n) * len(directions):
        options["activations"] = _with_numbers(n, found)
    if n.attr("clip") is not None:
        options["clip"] = number(n, "clip", 0.0)
    if n.attr("input_forget", 0):
        options["couple"] = True
    return options


def _with_numbers(n: NodeView, found: list[str]) -> tuple[Any, ...]:
    """The activations, with alpha and beta those that have them."""
    given = [list(n.attr(f"activation_{which}") or ()) for which in ("alpha", "beta")]
    made: list[Any] = []
    for name in found:
        if name not in _NUMBERS:
            n.refuse(
                f"{n.node.op_type} with the activation {one_line(name)} is not"
                " supported",
                f"supported are {', '.join(_NUMBERS)}",
            )
        numbers = [
            shortest(np.float32(left.pop(0) if left else usual))
            for left, usual in zip(given, _NUMBERS[name], strict=False)
        ]
        made.append((name, *numbers) if numbers else name)
    return tuple(made)


def _looped(t: Any, n: NodeView, x: Any, w: Any, r: Any, *rest: Any) -> Any:
    kind = n.node.op_type
    names = ["bias", "lengths", "h", "c", "peepholes"]
    if kind != "LSTM":
        names = names[:3]
    options = present(**dict(zip(names, rest, strict=False)))
    options |= options_of(n)
    if n.attr("linear_before_reset", 0):
        options["reset_after"] = True
    if n.attr("layout", 0):
        options["batch_first"] = True
    made = t.helper(getattr(helpers, f"run_{kind.lower()}"))(x, w, r, **options)
    return wanted(n, made, 3 if kind == "LSTM" else 2)


for _kind, _gates, _extra, _states in (
    ("LSTM", 4, 13, ("h_n", "c_n")),
    ("GRU", 3, 11, ("h_n",)),
    ("RNN", 1, 2, ("h_n",)),
):
    operator(
        _kind,
        since=14,
        fits=fitting_sizes.recurrent,
        mapping=MANY_TO_MANY,
        cut=cuts.recurrent,
        shape=sizes_windows.recurrent,
        flops=flop_counts.recurrent(gates=_gates, extra=_extra),
        traceable=False,
        requires={4: Between(1, 2)},
        results=_states,
        module=_module,
    )(_looped)
