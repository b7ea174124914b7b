"""Operators that draw random numbers: from torch's generator, or one of their own.

Without a seed the numbers come from the default generator, which `torch.manual_seed`
sets; with one, every call draws the same. They are never those of ONNX Runtime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..facts import sizes_elementwise
from ..helpers import random as helpers
from ..node_view import NodeView
from ..operands import converted
from ..registry import MANY_TO_MANY, ONE_TO_MANY, ONE_TO_ONE, operator


def generator(t: Any, n: NodeView) -> dict[str, Any]:
    """The keyword for a generator of the node's own, where it has a seed."""
    seed = n.attr("seed")
    if seed is None:
        return {}
    if isinstance(seed, int):
        number = seed
    else:
        number = int(seed) if seed == np.trunc(seed) else int(seed.view(np.int32))
    return {"generator": t.Generator(t.device).manual_seed(number)}


def _dtype(t: Any, dtype: ir.DataType) -> dict[str, Any]:
    return {} if dtype == ir.DataType.FLOAT else {"dtype": t.dtype(dtype)}


def _moved(y: Any, scale: float, shift: float) -> Any:
    y = y if scale == 1 else y * scale
    return y if shift == 0 else y + shift


def _parameters(n: NodeView) -> tuple[str, float, float]:
    """The function of torch, and what its numbers are multiplied by and added to."""
    if "Normal" in n.node.op_type:
        return "randn", _number(n, "scale", 1), _number(n, "mean", 0)
    low, high = _number(n, "low", 0), _number(n, "high", 1)
    return "rand", float(str(np.float32(high - low))), low


def _number(n: NodeView, name: str, default: float) -> float:
    value = np.float32(n.attr(name, default))
    return float(value) if n.out_dtype() == ir.DataType.DOUBLE else float(str(value))


def _random(t: Any, n: NodeView) -> Any:
    name, scale, shift = _parameters(n)
    options = generator(t, n) | _dtype(t, n.out_dtype())
    shape = tuple(n.attr("shape"))
    return _moved(getattr(t, name)(shape, **options, device=t.device), scale, shift)


def _random_like(t: Any, n: NodeView, x: Any) -> Any:
    name, scale, shift = _parameters(n)
    own, dtype = generator(t, n), n.out_dtype()
    if own:
        options = own | _dtype(t, dtype)
        y = getattr(t, name)(x.shape, **options, device=t.device)
    else:
        other = {} if dtype == n.dtype(0) else {"dtype": t.dtype(dtype)}
        y = getattr(t, f"{name}_like")(x, **other)
    return _moved(y, scale, shift)


for _name in ("RandomNormal", "RandomUniform"):
    operator(
        _name,
        since=22,
        mapping=ONE_TO_MANY,
        traceable=False,
        runs_until=21,
        result="noise",
    )(_random)
    operator(
        f"{_name}Like",
        since=22,
        mapping=ONE_TO_ONE,
        traceable=False,
        runs_until=21,
        result="noise",
    )(_random_like)


@operator("Bernoulli", since=22, mapping=ONE_TO_ONE, traceable=False, result="drawn")
def _bernoulli(t: Any, n: NodeView, x: Any) -> Any:
    y = t.bernoulli(x, **generator(t, n))
    return y if n.dtype(0) == n.out_dtype() else converted(t, y, n.out_dtype())


@operator(
    "Multinomial",
    since=7,
    mapping=MANY_TO_MANY,
    traceable=False,
    runs_until=21,
    result="drawn",
)
def _multinomial(t: Any, n: NodeView, x: Any) -> Any:
    count = n.attr("sample_size", 1)
    probs = x.softmax(dim=1)
    y = t.multinomial(probs, count, replacement=True, **generator(t, n))
    return y if n.out_dtype() == ir.DataType.INT64 else y.int()


@operator(
    "Dropout",
    since=22,
    mapping=ONE_TO_ONE,
    shape=sizes_elementwise.like_input_twice,
    flops=0,
    traceable=False,
)
def _dropout(
    t: Any, n: NodeView, x: Any, ratio: Any = None, training: Any = None
) -> Any:
    mode = n.const(2) if n.has(2) else np.False_
    if mode is not None and not np.any(mode):
        return (x, t.ones_like(x, dtype=t.bool)) if n.used(1) else x
    options: dict[str, Any] = {} if mode is not None else {"training": training}
    share = n.const(1) if n.has(1) else np.float32(0.5)
    known = ratio if share is None else float(str(share.reshape(-1)[0]))
    made = t.helper(helpers.dropout)(x, known, **options, **generator(t, n))
    return made if n.used(1) else made[0]
