"""An encoder of sounds and a decoder, with the inputs and outputs of Whisper's."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from support.search_encoded import Drawing, cache, words
from support.search_models import VOCABULARY, WIDTH

SOUNDS, LONGEST = 4, 32


def listener(layers: int = 2) -> onnx.GraphProto:
    """Sounds and a prompt; its scores, the hidden states and the caches."""
    g = Drawing("encoder", 1)
    weight = g.weight("conv.weight", WIDTH, SOUNDS, 3)
    x = g.node("Conv", ["encoder_input_ids", weight], "encoder.conv", pads=[1, 1])
    x = g.node("Transpose", [x], "encoder_hidden_states", perm=[0, 2, 1])
    for i in range(layers):
        for name in ("key", "value"):
            g.heads(g.linear(x, f"cross.{name}.{i}"), f"present_{name}_cross_{i}")
    length = g.node("Shape", ["decoder_input_ids"], "length", start=1, end=2)
    square = g.node("Concat", [length, length], "square", axis=0)
    low = g.constant("low", np.array([-1e9], np.float32))
    full = g.node("Expand", [low, square], "full")
    one = g.constant("one", np.array(1))
    mask = g.node("Trilu", [full, one], "causal")
    places = g.weight("places", LONGEST, WIDTH)
    zero = g.constant("zero", np.array([0]))
    place = g.node("Slice", [places, zero, length, zero], "place")
    _decode(g, layers, "decoder_input_ids", place, mask, first=True)
    caches = [
        cache(f"present_{name}_{kind}_{i}", length)
        for kind, length in (("self", "total"), ("cross", "length"))
        for i in range(layers)
        for name in ("key", "value")
    ]
    floats = TensorProto.FLOAT
    info = helper.make_tensor_value_info
    hidden = info("encoder_hidden_states", floats, ["batch", "length", WIDTH])
    sounds = info("encoder_input_ids", floats, ["batch", SOUNDS, "length"])
    logits = info("logits", floats, ["batch", "words", VOCABULARY])
    inputs = [sounds, words("decoder_input_ids", "words")]
    return g.made(inputs, [logits, hidden, *caches])


def speaker(layers: int = 2, hidden: bool = False) -> onnx.GraphProto:
    """One word, and all caches; scores and its own longer cache."""
    g = Drawing("decoder", 2)
    shape = g.node("Shape", ["past_key_self_0"], "past", start=2, end=3)
    one = g.constant("one", np.array([1]))
    end = g.node("Add", [shape, one], "end")
    zero = g.constant("zero", np.array([0]))
    places = g.weight("places", LONGEST, WIDTH)
    place = g.node("Slice", [places, shape, end, zero], "place")
    _decode(g, layers, "input_ids", place, "", first=False)
    own, cross = (
        [f"{n}_{kind}_{i}" for i in range(layers) for n in ("key", "value")]
        for kind in ("self", "cross")
    )
    inputs = [words("input_ids", 1)]
    if hidden:
        shape_ = ["batch", "length", WIDTH]
        info = helper.make_tensor_value_info
        inputs.append(info("encoder_hidden_states", TensorProto.FLOAT, shape_))
    inputs += [cache(f"past_{name}", "past") for name in own]
    inputs += [cache(f"past_{name}", "length") for name in cross]
    shape_ = ["batch", 1, VOCABULARY]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape_)]
    return g.made(inputs, [*outputs, *(cache(f"present_{x}", "total") for x in own)])


def _decode(g: Any, layers: int, ids: str, place: str, mask: str, first: bool) -> None:
    """Words to scores; the caches are made here the first time."""
    table = g.weight("embed.weight", VOCABULARY, WIDTH)
    x = g.node("Gather", [table, ids], f"{g.name}.embed")
    x = g.node("Add", [x, place], f"{g.name}.placed")
    for i in range(layers):
        path = f"layers.{i}"
        q, k, v = (
            g.heads(g.linear(x, f"{path}.self.{n}"), f"{g.name}.{path}.{n}")
            for n in "qkv"
        )
        for name, new in (("key", k), ("value", v)):
            made = f"present_{name}_self_{i}"
            if first:
                g.node("Identity", [new], made)
            else:
                g.node("Concat", [f"past_{name}_self_{i}", new], made, axis=2)
        keys = [f"present_{n}_self_{i}" for n in ("key", "value")]
        y = g.attend(q, *keys, f"{path}.self", mask)
        x = g.node("Add", [x, y], f"{g.name}.{path}.first")
        q = g.heads(g.linear(x, f"{path}.cross.q"), f"{g.name}.{path}.cross_q")
        end = "present" if first else "past"
        keys = [f"{end}_{n}_cross_{i}" for n in ("key", "value")]
        y = g.attend(q, *keys, f"{path}.cross")
        x = g.node("Add", [x, y], f"{g.name}.{path}.second")
    g.node("MatMul", [x, g.weight("lm_head.weight", WIDTH, VOCABULARY)], "logits")
