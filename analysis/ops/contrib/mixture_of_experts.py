"""ONNX Runtime's mixtures of experts."""

from __future__ import annotations

import math
from typing import Any

from ...graph.quantization import quantises
from ..facts.sizes_elementwise import like_input
from ..helpers import experts as helpers
from ..helpers import packed as blocks
from ..node_view import NodeView
from ..operands import number, present
from ..registry import DOMAIN, MANY_TO_MANY, operator
from .attributes import check_attributes


def _check(
    n: NodeView, needs: tuple[int, ...], more: str = "", strings: str = ""
) -> None:
    routing = "k normalize_routing_weights swiglu_fusion use_sparse_mixer"
    floats = "activation_alpha activation_beta swiglu_limit"
    check_attributes(
        n, f"{routing} {more}", floats, f"activation_type {strings}", needs
    )
    if n.attr("use_sparse_mixer", 0):
        n.refuse(f"{n.node.op_type} with a sparse mixer is not supported")
    if n.attr("k", 1) < 1:
        n.refuse(f"{n.node.op_type} needs a positive k")


def _options(t: Any, n: NodeView) -> dict[str, Any]:
    """What both kinds say of routing and activation."""
    kind, count = n.attr("activation_type", "relu"), n.attr("k", 1)
    options: dict[str, Any] = {} if count == 1 else {"count": count}
    if kind == "swiglu":
        if n.attr("swiglu_fusion", 0) != 1:
            n.refuse(f"{n.node.op_type} with swiglu other than interleaved")
        alpha, beta = (number(n, f"activation_{x}", d) for x, d in _SLOPES)
        limit = number(n, "swiglu_limit", math.inf)
        options["swiglu"] = (alpha, beta, limit)
    elif kind in ("relu", "silu"):
        options["activation"] = getattr(t.F, kind)
    elif kind == "gelu":
        options["activation"] = t.helper(helpers.gelu_by_tanh)
    elif kind != "identity":
        n.refuse(f"{n.node.op_type} with an unknown activation")
    if n.attr("normalize_routing_weights", 0):
        options["normalise"] = True
    return options


_SLOPES = (("alpha", 1.0), ("beta", 0.0))


@operator("MoE", since=1, domain=DOMAIN, mapping=MANY_TO_MANY, shape=like_input)
def _moe(
    t: Any,
    n: NodeView,
    x: Any,
    router: Any,
    up: Any,
    up_bias: Any,
    down: Any,
    down_bias: Any = None,
    *gate: Any,
) -> Any:
    _check(n, (0, 1, 2, 4))
    if any(g is not None for g in gate):
        n.refuse("MoE with a third weight is not supported")
    biases = present(up_bias=up_bias, down_bias=down_bias)
    helper = t.helper(helpers.mixture_of_experts)
    return helper(x, router, up, down, **biases, **_options(t, n))


@operator("QMoE", since=1, domain=DOMAIN, mapping=MANY_TO_MANY, shape=like_input)
def _qmoe(t: Any, n: NodeView, x: Any, router: Any, *inputs: Any) -> Any:
    _check(n, (0, 1, 2, 3, 5, 6), "block_size expert_weight_bits", "quant_type")
    bits = n.attr("expert_weight_bits", 4)
    if n.attr("quant_type", "int") != "int" or bits not in (2, 4, 8):
        n.refuse("QMoE of other numbers than integers is not supported")
    up, up_scales, up_bias, down, down_scales, down_bias = (
        inputs[i] if i < len(inputs) else None for i in range(6)
    )
    rest = inputs[6:]
    up_zeros, down_zeros = (rest[i] if i < len(rest) else None for i in (3, 4))
    if any(x is not None for i, x in enumerate(rest) if i not in (3, 4)):
        n.refuse("QMoE with a third weight, or weights of its own for routing")
    weights = t.helper(blocks.expert_weights)
    few = {} if bits == 4 else {"bits": bits}
    full = [
        weights(packed, scales, **present(zero_points=zeros), **few)
        for packed, scales, zeros in (
            (up, up_scales, up_zeros),
            (down, down_scales, down_zeros),
        )
    ]
    biases = present(up_bias=up_bias, down_bias=down_bias)
    helper = t.helper(helpers.mixture_of_experts)
    # The shares are those among the chosen experts, whatever the attribute says.
    options = _options(t, n) | {"normalise": True}
    if quantises(n.node):
        options["rounded"] = t.helper(blocks.rounded_to_int8)
        options["block"] = n.attr("block_size", 0)
    return helper(x, router, *full, **biases, **options)
