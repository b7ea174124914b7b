"""ONNX Runtime's operators of speech models: windows, paths, complex numbers."""

from __future__ import annotations

from typing import Any

from ..helpers import contrib as helpers
from ..node_view import NodeView
from ..operands import shown
from ..registry import DOMAIN, MANY_TO_MANY, ONE_TO_ONE, SHUFFLE, operator
from .attributes import check_attributes


@operator("UnfoldTensor", since=1, domain=DOMAIN, mapping=SHUFFLE)
def _unfold(t: Any, n: NodeView, x: Any) -> Any:
    check_attributes(n, "dim size step")
    rank, size, step = n.rank(0), n.attr("size"), n.attr("step", 1)
    axis = n.attr("dim", -1)
    if not isinstance(size, int) or size < 1 or step < 1 or not -rank <= axis < rank:
        n.refuse("UnfoldTensor needs an axis, and a positive size and step")
    return x.unfold(shown(axis, rank), size, step)


@operator("DynamicTimeWarping", since=1, domain=DOMAIN, mapping=MANY_TO_MANY)
def _path(t: Any, n: NodeView, cost: Any) -> Any:
    check_attributes(n)
    return t.helper(helpers.cheapest_path)(cost)


# ---- products of complex numbers, whose parts are the last axis: no kernel for a CPU


def _complex_product(t: Any, n: NodeView, a: Any, b: Any) -> Any:
    check_attributes(n, needs=(0, 1))
    a, b = (t.view_as_complex(x.contiguous()) for x in (a, b))
    if n.node.op_type == "ComplexMulConj":
        b = b.conj()
    return t.view_as_real(a * b)


for _name in ("ComplexMul", "ComplexMulConj"):
    operator(_name, since=1, domain=DOMAIN, mapping=ONE_TO_ONE)(_complex_product)
