"""ONNX Runtime's layers that carry a state: as ONNX has them, and an LSTM in 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..helpers import recurrent as helpers
from ..node_view import NodeView
from ..onnx.recurrent import options_of
from ..operands import wanted
from ..registry import DOMAIN, MANY_TO_MANY, OpDef, case, define
from .attributes import check_attributes
from .linear_attention import CONV_CASES, LINEAR_CASES, causal_conv, linear_attention


def _linear_attention(t: Any, n: NodeView, *operands: Any) -> Any:
    ints = "chunk_size kv_num_heads q_num_heads state_window"
    check_attributes(n, ints, "scale", "update_rule", needs=range(3))
    if n.attr("state_window", 0):
        n.refuse("LinearAttention with states of several times is not supported")
    if n.attr("q_num_heads", 0) % n.attr("kv_num_heads", 1):
        n.refuse("LinearAttention with more heads of keys than of queries")
    return linear_attention(t, n, *operands)


def _causal_conv(t: Any, n: NodeView, *operands: Any) -> Any:
    ints = "channels_last dilation ndim state_window"
    check_attributes(n, ints, strings="activation", needs=range(2))
    if n.attr("ndim", 1) != 1 or n.attr("channels_last", 0):
        n.refuse("CausalConvWithState over other than the last axis of 3")
    if n.attr("dilation", 1) != 1 or n.attr("state_window", 0):
        n.refuse("CausalConvWithState with gaps, or states of several times")
    return causal_conv(t, n, *operands)


for _name, _spelling, _cases in (
    ("LinearAttention", _linear_attention, LINEAR_CASES),
    ("CausalConvWithState", _causal_conv, CONV_CASES),
):
    define(
        OpDef(
            _name,
            since=1,
            domain=DOMAIN,
            mapping=MANY_TO_MANY,
            torch=_spelling,
            cases=_cases,
        )
    )


# ---- the LSTM that ONNX Runtime's dynamic quantisation writes


def _quantized_lstm(t: Any, n: NodeView, x: Any, w: Any, r: Any, *more: Any) -> Any:
    bias, lengths, h, c, peepholes, *numbers = more
    given = {"bias": bias, "lengths": lengths, "h": h, "c": c, "peepholes": peepholes}
    options = {name: value for name, value in given.items() if value is not None}
    options |= options_of(n)
    w_numbers, r_numbers = tuple(numbers[:2]), tuple(numbers[2:])
    made = t.helper(helpers.run_dynamic_quantized_lstm)(
        x, w, r, w_numbers, r_numbers, **options
    )
    return wanted(n, made, 3)


def _numbers(directions: int, channels: int | None, signed: bool) -> tuple[Any, ...]:
    """Scales and zero points of both weights."""
    shape = (directions,) if channels is None else (directions, channels)
    scale = np.linspace(0.01, 0.03, int(np.prod(shape)), dtype=np.float32)
    zero = np.zeros(shape, np.int8) if signed else np.full(shape, 130, np.uint8)
    return (scale.reshape(shape), zero) * 2


def _quantized_case(
    directions: int = 1,
    channels: int | None = None,
    signed: bool = True,
    more: tuple[Any, ...] = (None, None, None, None),
    bias: bool = True,
    outputs: int = 3,
    **attrs: Any,
) -> Any:
    random = np.random.default_rng(5)
    low, dtype = (-128, np.int8) if signed else (0, np.uint8)
    w, r = (
        random.integers(low, low + 256, (directions, rows, 16)).astype(dtype)
        for rows in (3, 4)
    )
    b = [directions, 32] if bias else None
    numbers = _numbers(directions, channels, signed)
    known = (1, 2, 8, 9, 10, 11)
    return case(
        [5, 2, 3],
        *(w, r, b, *more),
        *numbers,
        constants=known,
        outputs=outputs,
        hidden_size=4,
        **attrs,
    )


_LENGTHS, _SHORT = np.array([3, 5], np.int32), np.array([4, 2], np.int32)

define(
    OpDef(
        "DynamicQuantizeLSTM",
        since=1,
        domain=DOMAIN,
        mapping=MANY_TO_MANY,
        torch=_quantized_lstm,
        cases=[
            _quantized_case(),
            _quantized_case(outputs=1, bias=False),
            _quantized_case(channels=16),
            _quantized_case(channels=16, signed=False),
            _quantized_case(signed=False),
            _quantized_case(direction="reverse", more=(_LENGTHS, None, None, None)),
            _quantized_case(more=(_SHORT, None, None, None)),
            _quantized_case(2, 16, direction="bidirectional"),
            _quantized_case(
                2, direction="bidirectional", more=(_SHORT, None, None, None)
            ),
            _quantized_case(more=(None, [1, 2, 4], [1, 2, 4], [1, 12])),
            _quantized_case(clip=0.3, input_forget=1),
            _quantized_case(
                activations=["HardSigmoid", "LeakyRelu", "Tanh"],
                activation_alpha=[0.3, 0.1],
                activation_beta=[0.4],
            ),
        ],
    )
)
