"""Optimisers: one step of Adagrad, Adam or Momentum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...literals import shortest
from ..helpers import training as helpers
from ..node_view import NodeView
from ..operands import wanted
from ..registry import ONE_TO_ONE, operator

DOMAIN = "ai.onnx.preview.training"


def _spelling(
    function: str, lists: int, **attributes: tuple[str, float]
) -> Callable[..., Any]:
    """Call the helper; `attributes` are its keywords, with ONNX's name and default."""

    def spell(t: Any, n: NodeView, rate: Any, step: Any, *xs: Any) -> Any:
        count, rest = divmod(len(xs), lists)
        if rest:
            n.refuse(f"{n.node.op_type} with {len(xs)} tensors is not supported")
        groups = [list(xs[i * count : i * count + count]) for i in range(lists)]
        options: dict[str, Any] = {}
        for keyword, (name, default) in attributes.items():
            value = shortest(n.attr(name, np.float32(default)))
            if value != default or n.attr(name) is not None:
                options[keyword] = value
        if n.attr("mode", "standard") == "nesterov":
            options["nesterov"] = True
        made = t.helper(getattr(helpers, function))(rate, step, *groups, **options)
        return wanted(n, made, n.outputs)

    return spell


_NORM = ("norm_coefficient", 0.0)
_EPS = ("epsilon", 1e-6)

operator("Adagrad", since=1, mapping=ONE_TO_ONE, domain=DOMAIN)(
    _spelling("adagrad", 3, norm=_NORM, decay=("decay_factor", 0.0), eps=_EPS)
)
operator("Momentum", since=1, mapping=ONE_TO_ONE, domain=DOMAIN)(
    _spelling("momentum", 3, norm=_NORM, alpha=("alpha", 0.0), beta=("beta", 0.0))
)
operator("Adam", since=1, mapping=ONE_TO_ONE, domain=DOMAIN)(
    _spelling(
        "adam",
        4,
        norm=_NORM,
        norm_post=("norm_coefficient_post", 0.0),
        alpha=("alpha", 0.9),
        beta=("beta", 0.999),
        eps=_EPS,
    )
)
