"""Operators as Triton spells them: inside a kernel, on values that are on chip.

`pointwise` spellings take and give elements; those of whole rows are in triton_rows.
Like `torch=` of the operator table they have two readings: with `Language("tl.")` they
print a kernel's source, with `Language("")` the formula of its docstring. Floats are
float32 by then, whatever type the tensors have. What is not here stays a PyTorch call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from ...spelling.expr import ATOM, UNARY, Expr, HelperRef, Name, spell
from ..helpers import triton as helpers_triton
from ..node_view import NodeView

FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
WHOLE = frozenset({ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL})
TYPES = FLOATS | WHOLE


class Language:
    """Triton's functions under a prefix: Language("tl.").exp(x) prints tl.exp(x)."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Expr:
        return Name(f"{self._prefix}{name}")

    def helper(self, function: Callable[..., Any]) -> Expr:
        """A function of helpers/triton.py, to be called."""
        return HelperRef(function)

    def known(self, name: str, made: Expr, *operands: Any) -> Expr:
        """`made`, or the name that a formula has for it."""
        return made if self._prefix else Name(name)(*operands)


def number(value: Any) -> Expr:
    """A scalar constant, as the shortest literal of its own type; no name for any."""
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return spell(value)
    wide = float(value)
    if np.isnan(wide) or np.isinf(wide):
        return spell(wide)
    text = repr(float(str(value)) if isinstance(value, np.float32) else wide)
    return Name(text, UNARY if text.startswith("-") else ATOM)


Spelling = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class KernelOp:
    """What an operator, and its result, are called in kernels; "" is its own name.

    `dtype` is that of the result, where it is none of an operand's.
    """

    result: str = ""
    word: str = ""
    dtype: ir.DataType | None = None


@dataclass(frozen=True)
class Pointwise(KernelOp):
    """`spell(tl, n, *operands)` gives one element of the result.

    `names` are what operands are called by what is done to them, "" for the main one;
    of two, `beside` has what one is to the other: of the same size, and broadcast.
    """

    spell: Spelling
    names: tuple[str, ...] = ()
    beside: tuple[str, str] | None = None
    gates: bool = False  # its operand opens another tensor that it is multiplied by
    whole: bool = False  # works on whole numbers and truth values too
    zero: bool = False  # gives 0 of zeros alone
    repeats: bool = False  # the formula names its operand more than once


_TRUTH: dict[str, Any] = {"whole": True, "dtype": ir.DataType.BOOL}
POINTWISE: dict[str, Pointwise] = {}


def pointwise(node: ir.Node) -> Pointwise | None:
    """How one element of the result is computed; None if Triton can't, or not well."""
    found = POINTWISE.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if found is None or found.whole:
        return found
    types = {v.dtype for v in node.inputs if v is not None}
    return found if types <= FLOATS else None


# ---- functions of one number


def _gelu(tl: Any, n: NodeView, x: Any) -> Any:
    if n.attr("approximate", "none") == "none":
        return 0.5 * x * (1 + tl.erf(x * number(math.sqrt(0.5))))
    return tl.helper(helpers_triton.gelu_tanh)(x)


def _swish(tl: Any, n: NodeView, x: Any) -> Any:
    alpha = n.attr("alpha", 1.0)
    return x * tl.sigmoid(x if alpha == 1 else number(alpha) * x)


def _hard_sigmoid(tl: Any, n: NodeView, x: Any) -> Any:
    alpha, beta = n.attr("alpha", np.float32(0.2)), n.attr("beta", np.float32(0.5))
    return _clamp(tl, number(alpha) * x + number(beta), 0.0, 1.0)


def _leaky_relu(tl: Any, n: NodeView, x: Any) -> Any:
    return tl.where(x < 0, number(n.attr("alpha", np.float32(0.01))) * x, x)


def _elu(tl: Any, n: NodeView, x: Any) -> Any:
    alpha = number(n.attr("alpha", np.float32(1)))
    return tl.where(x < 0, alpha * (tl.exp(x) - 1), x)


def _thresholded_relu(tl: Any, n: NodeView, x: Any) -> Any:
    return tl.where(x > number(n.attr("alpha", np.float32(1))), x, 0.0)


POINTWISE |= {
    "Abs": Pointwise(lambda tl, n, x: tl.abs(x), zero=True),
    "Ceil": Pointwise(lambda tl, n, x: tl.ceil(x), zero=True),
    "Cos": Pointwise(lambda tl, n, x: tl.cos(x)),
    "Elu": Pointwise(_elu),
    "Erf": Pointwise(lambda tl, n, x: tl.erf(x), zero=True),
    "Exp": Pointwise(lambda tl, n, x: tl.exp(x)),
    "Floor": Pointwise(lambda tl, n, x: tl.floor(x), zero=True),
    "Gelu": Pointwise(_gelu, zero=True, repeats=True),
    "HardSigmoid": Pointwise(_hard_sigmoid, word="hard_sigmoid", gates=True),
    "HardSwish": Pointwise(
        lambda tl, n, x: x * _clamp(tl, x / 6 + 0.5, 0.0, 1.0),
        word="hard_swish",
        zero=True,
        repeats=True,
    ),
    "Identity": Pointwise(lambda tl, n, x: x, whole=True, zero=True),
    "LeakyRelu": Pointwise(_leaky_relu, word="leaky_relu", zero=True, repeats=True),
    "Log": Pointwise(lambda tl, n, x: tl.log(x)),
    "Mish": Pointwise(
        lambda tl, n, x: (
            x * tl.helper(helpers_triton.tanh)(tl.helper(helpers_triton.softplus)(x))
        ),
        zero=True,
        repeats=True,
    ),
    "Neg": Pointwise(lambda tl, n, x: -x, whole=True, zero=True),
    "Not": Pointwise(lambda tl, n, x: ~x, result="negated", **_TRUTH),
    "Reciprocal": Pointwise(lambda tl, n, x: 1 / x),
    "Relu": Pointwise(
        lambda tl, n, x: tl.known("relu", tl.where(x < 0, 0.0, x), x), zero=True
    ),  # NaN stays
    "Sigmoid": Pointwise(lambda tl, n, x: tl.sigmoid(x), gates=True),
    "Sin": Pointwise(lambda tl, n, x: tl.sin(x), zero=True),
    "Softplus": Pointwise(lambda tl, n, x: tl.helper(helpers_triton.softplus)(x)),
    "Softsign": Pointwise(lambda tl, n, x: x / (1 + tl.abs(x)), zero=True),
    "Sqrt": Pointwise(lambda tl, n, x: tl.sqrt(x), zero=True),
    "Swish": Pointwise(_swish, word="silu", gates=True, zero=True, repeats=True),
    "Tanh": Pointwise(
        lambda tl, n, x: tl.helper(helpers_triton.tanh)(x), result="squashed", zero=True
    ),
    "ThresholdedRelu": Pointwise(_thresholded_relu, word="thresholded_relu", zero=True),
}


# ---- of several operands


def _clamp(tl: Any, x: Any, low: Any, high: Any) -> Any:
    """Comparisons leave NaN as it is, which tl.clamp doesn't promise."""
    if low is not None and high is not None:
        return tl.helper(helpers_triton.clip)(x, low, high)
    if low is not None:
        return tl.known("maximum", tl.where(x < low, low, x), x, low)
    if high is not None:
        return tl.known("minimum", tl.where(x > high, high, x), x, high)
    return x


def _clip(tl: Any, n: NodeView, x: Any, low: Any = None, high: Any = None) -> Any:
    """Bounds that are numbers can be compared with; other ones may be NaN."""
    known = [n.const(i) for i, bound in ((1, low), (2, high)) if bound is not None]
    if all(k is not None and not np.isnan(k).any() for k in known):
        return _clamp(tl, x, low, high)
    x = x if low is None else _extreme("maximum")(tl, n, x, low)
    return x if high is None else _extreme("minimum")(tl, n, x, high)


def _pow(tl: Any, n: NodeView, x: Any, power: Any) -> Any:
    """Powers that are products or roots; the others stay PyTorch's."""
    known = n.const(1)
    exponent = float(known.reshape(-1)[0]) if known is not None else None
    if exponent in (1.0, 2.0, 3.0):
        return reduce(lambda a, b: a * b, [x] * int(exponent))
    if exponent == 0.5:
        return tl.sqrt(x)
    n.refuse("Pow with another exponent than 1, 2, 3 and 0.5 in a kernel")


def _extreme(function: str) -> Spelling:
    def spelling(tl: Any, n: NodeView, *xs: Any) -> Any:
        call = getattr(tl, function)
        every = tl.PropagateNan.ALL
        return reduce(lambda a, b: call(a, b, propagate_nan=every), xs)

    return spelling


def _cast(tl: Any, n: NodeView, x: Any) -> Any:
    """Floats are float32 on chip, rounded first where the graph has a smaller type."""
    to = n.out_dtype()
    if to == ir.DataType.BOOL:
        return x != 0
    if to not in FLOATS:
        return x.to(tl.int32 if to == ir.DataType.INT32 else tl.int64)
    if not n.is_float(0):
        x = x.to(tl.float32)
    if to == ir.DataType.FLOAT:
        return x
    small = tl.float16 if to == ir.DataType.FLOAT16 else tl.bfloat16
    return x.to(small).to(tl.float32)


POINTWISE |= {
    "Add": Pointwise(
        lambda tl, n, a, b: a + b,
        result="total",
        beside=("residual", "bias"),
        whole=True,
        zero=True,
    ),
    "And": Pointwise(lambda tl, n, a, b: a & b, result="both", **_TRUTH),
    "Cast": Pointwise(_cast, result="converted", whole=True, zero=True),
    "Clip": Pointwise(_clip, result="clipped"),
    "Div": Pointwise(
        lambda tl, n, a, b: a / b, result="quotient", beside=("divisor", "scale")
    ),
    "Equal": Pointwise(lambda tl, n, a, b: a == b, **_TRUTH),
    "Greater": Pointwise(lambda tl, n, a, b: a > b, **_TRUTH),
    "GreaterOrEqual": Pointwise(lambda tl, n, a, b: a >= b, word="at_least", **_TRUTH),
    "Less": Pointwise(lambda tl, n, a, b: a < b, **_TRUTH),
    "LessOrEqual": Pointwise(lambda tl, n, a, b: a <= b, word="at_most", **_TRUTH),
    "Max": Pointwise(_extreme("maximum")),
    "Min": Pointwise(_extreme("minimum")),
    "Mul": Pointwise(
        lambda tl, n, a, b: a * b,
        result="product",
        beside=("factor", "scale"),
        whole=True,
        zero=True,
    ),
    "Or": Pointwise(lambda tl, n, a, b: a | b, result="either", **_TRUTH),
    "PRelu": Pointwise(
        lambda tl, n, x, slope: tl.where(x < 0, slope * x, x), names=("", "slope")
    ),
    "Pow": Pointwise(_pow),
    "Sub": Pointwise(
        lambda tl, n, a, b: a - b,
        result="difference",
        word="subtract",
        beside=("other", "bias"),
        whole=True,
        zero=True,
    ),
    "Sum": Pointwise(
        lambda tl, n, *xs: reduce(lambda a, b: a + b, xs), result="total", zero=True
    ),
    "SwiGLU": Pointwise(lambda tl, n, gate, x: _swish(tl, n, gate) * x, gates=True),
    "Where": Pointwise(
        lambda tl, n, condition, a, b: tl.where(condition, a, b),
        result="chosen",
        names=("condition",),
        whole=True,
    ),
    "Xor": Pointwise(lambda tl, n, a, b: a ^ b, **_TRUTH),
}
