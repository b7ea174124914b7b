"""Losses of classification: SoftmaxCrossEntropyLoss, NegativeLogLikelihoodLoss."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..facts import sizes_windows
from ..facts.requirements import IndexOf
from ..node_view import NodeView
from ..registry import MANY_TO_MANY, operator


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


_LOSSES: dict[str, Any] = dict(
    mapping=MANY_TO_MANY,
    shape=sizes_windows.loss,
    requires={1: IndexOf(0, 1)},
    result="loss",
)


@operator("NegativeLogLikelihoodLoss", since=22, **_LOSSES)
def _nll(t: Any, n: NodeView, x: Any, labels: Any, weight: Any = None) -> Any:
    return t.F.nll_loss(x, _labels(n, labels), **_options(n, weight))


@operator("SoftmaxCrossEntropyLoss", since=13, **_LOSSES)
def _cross_entropy(t: Any, n: NodeView, x: Any, labels: Any, weight: Any = None) -> Any:
    loss = t.F.cross_entropy(x, _labels(n, labels), **_options(n, weight))
    return (loss, x.log_softmax(dim=1)) if n.used(1) else loss
