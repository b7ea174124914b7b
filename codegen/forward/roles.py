"""What a value is, in a word, where neither the file nor its readers say one."""

from __future__ import annotations

import onnx_ir as ir

from ...analysis.spelling.expr import (
    Attribute,
    Binary,
    Call,
    Expr,
    Ref,
    Subscript,
    callee,
)
from ..ir.assignment import LayerRef
from ..ir.module_call import member
from ..ir.naming import VIEWS

# Functions of each element, behind which a value is still what its layer makes.
_ELEMENTWISE = frozenset(
    "F.celu F.elu F.gelu F.hardsigmoid F.hardswish F.hardtanh F.leaky_relu F.mish"
    " F.relu F.relu6 F.selu F.silu F.softplus torch.tanh .tanh .clamp".split()
)
_LAYERS = {
    "Norm": "normed",
    "Conv": "features",
    "Linear": "hidden",
    "Embedding": "embedded",
    "Pool": "pooled",
}
_BLOCKS = {"norm": "normed", "embed": "embedded", "att": "attended"}
_FUNCTIONS = {
    "torch.arange": "positions",
    "torch.cat": "joined",
    "torch.cumsum": "sums",
    "torch.einsum": "product",
    "torch.full": "filled",
    "torch.sigmoid": "gate",
    "torch.sqrt": "root",
    "torch.stack": "joined",
    "torch.where": "chosen",
    "F.avg_pool1d": "pooled",
    "F.avg_pool2d": "pooled",
    "F.conv1d": "features",
    "F.conv2d": "features",
    "F.linear": "hidden",
    "F.max_pool1d": "pooled",
    "F.max_pool2d": "pooled",
    "F.normalize": "normed",
    "F.scaled_dot_product_attention": "attended",
    ".amax": "largest",
    ".amin": "smallest",
    ".cumsum": "sums",
    ".mean": "mean",
    ".sigmoid": "gate",
    ".softmax": "probs",
    ".sum": "total",
}
_OPERATORS = {"@": "product", "-": "difference", "+": "total"}


# What a value's elements are put together by, and what parts of it are.
PUT_TOGETHER = frozenset(".amax .amin .cumsum .mean .softmax .sum torch.cumsum".split())
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


def viewed(expr: Expr) -> ir.Value | None:
    """The value of which an expression is a view, a part by steps, or a cast."""
    while callee(expr) in VIEWS | {".float"} or isinstance(expr, Subscript):
        inner = expr.operands[0]
        if isinstance(expr, Call):
            if not isinstance(inner, Attribute):
                return None
            inner = inner.operands[0]
        expr = inner
        if isinstance(expr, Ref):
            return expr.value
    return None


def role(expr: Expr) -> str:
    """A word for what an expression gives; "" if nothing tells."""
    called = callee(expr)
    found = member(expr.operands[0]) if isinstance(expr, Call) else None
    if isinstance(found, LayerRef):
        layer = found.form.layer
        return next((word for kind, word in _LAYERS.items() if kind in layer), "")
    if found is not None:
        path = found.text.removeprefix("self.").lower()
        return next((word for kind, word in _BLOCKS.items() if kind in path), "out")
    if called in _FUNCTIONS:
        return _FUNCTIONS[called]
    if called in VIEWS and isinstance(expr.operands[0], Attribute):
        return role(expr.operands[0].operands[0])
    if called in VIEWS or called in _ELEMENTWISE:
        return role((expr.operands[0].operands or expr.operands[1:])[0])
    if isinstance(expr, Subscript):
        return role(expr.operands[0])
    if isinstance(expr, Binary):
        words = [*filter(None, map(role, expr.operands))]
        word = words[0] if len(words) == 1 else _OPERATORS.get(expr.label, "")
        return "attended" if (expr.label, word) == ("@", "probs") else word
    return ""
