"""Normalisations without parameters: by norms, neighbouring channels, moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..facts import flop_counts, sizes_elementwise, tiles
from ..operands import number
from ..registry import MANY_TO_MANY, NodeView, OpDef, case, define

# ---- LpNormalization


def _lp_normalization(t: Any, n: NodeView, x: Any) -> Any:
    from ..helpers import norms as helpers_norms

    # F.normalize bounds the norm from below, here only a norm of 0 is special.
    p = n.attr("p", 2)
    options = {"dim": n.attr("axis", -1)} | ({} if p == 2 else {"p": p})
    return t.helper(helpers_norms.lp_normalize)(x, **options)


define(
    OpDef(
        "LpNormalization",
        since=1,
        mapping=MANY_TO_MANY,
        shape=sizes_elementwise.like_input,
        flops=3,
        tile=tiles.normalise,
        torch=_lp_normalization,
        cases=[
            case([2, 3, 4]),
            case([2, 3, 4], axis=1, p=1),
            case([2, 3, 4], axis=0, p=2),
            case(np.array([[0, 0], [3, 4], [0, 1e-30]], np.float32)),
            case(np.array([[0, 0.0], [3, 4]])),
        ],
    )
)


# ---- LRN


def _lrn(t: Any, n: NodeView, x: Any) -> Any:
    from ..helpers import norms as helpers_norms

    size = n.attr("size")
    if n.rank(0) < 3:
        n.refuse("LRN without spatial axes is not supported")
    options = {
        "alpha": (number(n, "alpha", 1e-4), 1e-4),
        "beta": (number(n, "beta", 0.75), 0.75),
        "k": (number(n, "bias", 1.0), 1.0),
    }
    given = {name: v for name, (v, default) in options.items() if v != default}
    if size % 2:
        function = t.F.local_response_norm
    else:  # of an even number of channels, PyTorch takes one more before than behind
        function = t.helper(helpers_norms.local_response_norm)
    if n.dtype(0) in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        return function(x.float(), size, **given).to(t.dtype(n.dtype(0)))
    return function(x, size, **given)


define(
    OpDef(
        "LRN",
        since=1,
        mapping=MANY_TO_MANY,
        shape=sizes_elementwise.like_input,
        flops=flop_counts.local_response_norm,
        torch=_lrn,
        cases=[
            case([2, 5, 3, 3], size=3),
            case([2, 5, 3, 3], size=7, alpha=0.1, beta=0.5, bias=2.0),
            # onnx's evaluator runs over as many channels as the batch is large
            case([5, 5, 2, 2], size=4, alpha=0.5),
            case(np.ones((1, 3, 2, 2), np.float16), size=3),
        ],
    )
)


# ---- MeanVarianceNormalization


def _mean_variance(t: Any, n: NodeView, x: Any) -> Any:
    axes = n.attr("axes") or [0, 2, 3]
    dim = axes[0] if len(axes) == 1 else tuple(axes)
    spread = x.std(dim=dim, correction=0, keepdim=True)
    return (x - x.mean(dim=dim, keepdim=True)) / (spread + 1e-9)


define(
    OpDef(
        "MeanVarianceNormalization",
        since=9,
        mapping=MANY_TO_MANY,
        shape=sizes_elementwise.like_input,
        flops=5,
        torch=_mean_variance,
        cases=[
            case([2, 3, 4, 5]),
            case([2, 3, 4], axes=[1]),
            case([2, 3], axes=[0, 1]),
        ],
    )
)
