"""Losses of classification: SoftmaxCrossEntropyLoss, NegativeLogLikelihoodLoss."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..case_arrays import f16, f32, f64, i32, i64
from ..facts import sizes_windows
from ..facts.requirements import IndexOf
from ..node_view import NodeView
from ..registry import MANY_TO_MANY, Case, OpDef, case, define


def _options(n: NodeView, weight: Any) -> dict[str, Any]:
    """The keywords that PyTorch's losses share; ONNX's defaults are PyTorch's."""
    options: dict[str, Any] = {} if weight is None else {"weight": weight}
    ignored = n.attr("ignore_index")
    if ignored is not None and ignored != -100:
        options["ignore_index"] = ignored
    reduction = n.attr("reduction", "mean")
    return options if reduction == "mean" else {**options, "reduction": reduction}


def _labels(n: NodeView, labels: Any) -> Any:
    return labels if n.dtype(1) == ir.DataType.INT64 else labels.long()


def _nll(t: Any, n: NodeView, x: Any, labels: Any, weight: Any = None) -> Any:
    return t.F.nll_loss(x, _labels(n, labels), **_options(n, weight))


def _cross_entropy(t: Any, n: NodeView, x: Any, labels: Any, weight: Any = None) -> Any:
    loss = t.F.cross_entropy(x, _labels(n, labels), **_options(n, weight))
    return (loss, x.log_softmax(dim=1)) if n.used(1) else loss


def _cases(outputs: int) -> list[Case]:
    labels, places = i64([2, 0, 4]), i64([[[0, 4], [2, 1]], [[3, 3], [1, 0]]])
    ignoring = i64([2, -1, 4])
    weight = f32([0.9, 0.7, 0.8, 0.9, 0.2])
    scores = np.linspace(-2, 2, 15).reshape(3, 5)
    return [
        *[case([3, 5], labels, reduction=r) for r in ("none", "sum", "mean")],
        case([3, 5], labels, weight, outputs=outputs),
        case([3, 5], i32([2, 0, 4]), outputs=outputs),
        case([3, 5], ignoring, ignore_index=-1),
        case([3, 5], ignoring, weight, ignore_index=-1, reduction="none"),
        case([3, 5], i64([2, 7, 4]), ignore_index=7, reduction="sum"),
        case([2, 5, 2, 2], places, outputs=outputs),
        case([2, 5, 2, 2], places, weight, ignore_index=0, reduction="none"),
        case([2, 5, 2, 2], places, weight, constants=(2,), reduction="sum"),
        case(f64(scores), labels),
        case(f16(scores), labels),
    ]


define(
    OpDef(
        "NegativeLogLikelihoodLoss",
        since=22,
        mapping=MANY_TO_MANY,
        shape=sizes_windows.loss,
        requires={1: IndexOf(0, 1)},
        torch=_nll,
        result="loss",
        cases=_cases(1),
    )
)
define(
    OpDef(
        "SoftmaxCrossEntropyLoss",
        since=13,
        mapping=MANY_TO_MANY,
        shape=sizes_windows.loss,
        requires={1: IndexOf(0, 1)},
        torch=_cross_entropy,
        result="loss",
        cases=_cases(2),
    )
)
