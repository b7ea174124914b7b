"""Element by element: functions of one number, arithmetic, the larger of several."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from ..facts import flop_counts
from ..facts.requirements import EVERY, Between
from ..helpers import elementwise as helpers
from ..node_view import NodeView
from ..operands import SIGNED, converted, exact, is_number, through_signed, whole
from ..registry import ONE_TO_ONE, operator

_UINT64 = ir.DataType.UINT64


# ---- functions of one number


def _method(name: str) -> Callable[..., Any]:
    return lambda t, n, x: getattr(x, name)()


_FUNCTIONS = {  # by the opset since which they are as they are
    6: "Ceil Exp Floor Log Sqrt",
    7: "Acos Asin Atan Cos Sin Tan",
    9: "Acosh Asinh Atanh Cosh Sinh",
    11: "Round",
}
for _since, _name in ((n, x) for n, all_ in _FUNCTIONS.items() for x in all_.split()):
    operator(
        _name,
        since=_since,
        mapping=ONE_TO_ONE,
        result=_name.lower() if _name in ("Cos", "Sin") else "",  # of rotations
    )(_method(_name.lower()))


@operator("Erf", since=9, mapping=ONE_TO_ONE)
def _erf(t: Any, n: NodeView, x: Any) -> Any:
    return t.erf(x) if n.is_float(0) else t.erf(x).to(t.dtype(n.out_dtype()))


operator("Reciprocal", since=6, mapping=ONE_TO_ONE)(lambda t, n, x: 1 / x)
operator("Neg", since=6, mapping=ONE_TO_ONE)(lambda t, n, x: -x)


def _is_unsigned(dtype: ir.DataType) -> bool:
    return dtype == ir.DataType.UINT8 or dtype in SIGNED


@operator("Abs", since=6, mapping=ONE_TO_ONE, carries=(0,))
def _abs(t: Any, n: NodeView, x: Any) -> Any:
    return x if _is_unsigned(n.dtype(0)) else x.abs()


@operator("Sign", since=9, mapping=ONE_TO_ONE)
def _sign(t: Any, n: NodeView, x: Any) -> Any:
    dtype = n.dtype(0)
    return converted(t, x != 0, dtype) if dtype in SIGNED else x.sign()


# ---- arithmetic


def _is_negative(x: Any) -> bool:
    """Of a number in the text: x - 0.5 is x + -0.5 to the last bit."""
    return isinstance(x, np.floating) and bool(x < 0)


@through_signed()
def _add(t: Any, n: NodeView, a: Any, b: Any) -> Any:
    return a - -b if _is_negative(b) else a + b


@through_signed()
def _sub(t: Any, n: NodeView, a: Any, b: Any) -> Any:
    return a + -b if _is_negative(b) else a - b


@through_signed()
def _mul(t: Any, n: NodeView, a: Any, b: Any) -> Any:
    return a * b


for _name, _spelling in (("Add", _add), ("Sub", _sub), ("Mul", _mul)):
    operator(_name, since=7, mapping=ONE_TO_ONE, fresh=True, scalars=(0, 1))(_spelling)


def _as_uint64(t: Any, x: Any) -> Any:
    if not is_number(x):
        return x
    return t.tensor(int(x), dtype=t.dtype(_UINT64), device=t.device)


@through_signed()
def _div_int(t: Any, n: NodeView, a: Any, b: Any) -> Any:
    if _is_unsigned(n.dtype(0)):
        return a // b
    return t.div(a, b, rounding_mode="trunc")


@operator(
    "Div", since=7, mapping=ONE_TO_ONE, requires={1: Between(1, 10)}, scalars=(1,)
)
def _div(t: Any, n: NodeView, a: Any, b: Any) -> Any:
    if n.is_float(0):
        return exact(a) / exact(b)
    if n.dtype(0) == _UINT64:
        return t.helper(helpers.uint64_divide)(_as_uint64(t, a), _as_uint64(t, b))
    return _div_int(t, n, a, b)


@through_signed()
def _mod_number(t: Any, n: NodeView, a: Any, b: Any) -> Any:
    return t.fmod(a, b) if n.attr("fmod", 0) else a % b


@operator(
    "Mod", since=10, mapping=ONE_TO_ONE, requires={1: Between(1, 10)}, scalars=(1,)
)
def _mod(t: Any, n: NodeView, a: Any, b: Any) -> Any:
    if n.dtype(0) == _UINT64:
        return t.helper(helpers.uint64_remainder)(_as_uint64(t, a), _as_uint64(t, b))
    return _mod_number(t, n, a, b)


@operator(
    "Pow", since=12, mapping=ONE_TO_ONE, requires={1: Between(0, 4)}, scalars=(1,)
)
def _pow(t: Any, n: NodeView, x: Any, y: Any) -> Any:
    """The result has the type of `x`; PyTorch would take the larger type of the two."""
    base, power = n.dtype(0), n.dtype(1)
    if power in SIGNED and not is_number(y):
        y = converted(t, y, base if base.is_floating_point() else SIGNED[power])
    if base.is_floating_point():
        if is_number(y):
            return x ** whole(y)
        if power.is_floating_point() and power != base:
            return converted(t, x**y, base)
        return x**y
    if power.is_floating_point():
        # The exact value may need more digits than float32 has.
        power_64 = whole(float(y)) if is_number(y) else y
        return converted(t, x.double() ** power_64, base)
    if isinstance(y, (int, np.integer)) and y < 0:
        return converted(t, x.double() ** y, base)
    return x ** y if is_number(y) or base == power else converted(t, x**y, base)


# ---- several operands


def _sum(t: Any, n: NodeView, *xs: Any) -> Any:
    return reduce(lambda a, b: a + b, xs)


def _mean(t: Any, n: NodeView, *xs: Any) -> Any:
    return _sum(t, n, *xs) / len(xs) if len(xs) > 1 else xs[0]


for _name, _joined, _less in (("Sum", _sum, 1), ("Mean", _mean, 0)):
    operator(_name, since=8, mapping=ONE_TO_ONE, flops=flop_counts.joined(_less))(
        _joined
    )


def _extreme(function: str, bound: str) -> Callable[..., Any]:
    """Max and Min: of a tensor and a number `x.clamp(min=0)`, else torch.maximum."""

    @through_signed(ordered=True)
    def spelling(t: Any, n: NodeView, *xs: Any) -> Any:
        tensors = [x for x in xs if not is_number(x)]
        result = reduce(lambda a, b: getattr(t, function)(a, b), tensors)
        for x in xs:
            if is_number(x):
                result = result.clamp(**{bound: whole(x)})
        return result

    return spelling


for _name, _function, _bound in (("Max", "maximum", "min"), ("Min", "minimum", "max")):
    operator(
        _name,
        since=8,
        mapping=ONE_TO_ONE,
        flops=flop_counts.joined(1),
        carries=EVERY,
        scalars=tuple(range(8)),
    )(_extreme(_function, _bound))
