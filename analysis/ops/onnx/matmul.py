"""Matrix products: MatMul, Gemm, Einsum, MatMulInteger."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from ...graph.parameters import noted
from ..facts import cuts, fitting_sizes, flop_counts, sizes_windows, tiles
from ..helpers import quant as helpers
from ..module_form import ModuleForm, Weight
from ..node_view import NodeView
from ..operands import is_zero, number, through_signed
from ..quant_layers import bias as quantized_bias
from ..quant_layers import dynamic, int8_weight, integers
from ..registry import MANY_TO_MANY, operator


def _matrix(n: NodeView, i: int) -> tuple[int, int] | None:
    """The sizes of input i if a layer can own it: a constant matrix of floats."""
    tensor = n.value(i).const_value
    if tensor is None or not n.is_float(i):
        return None
    shape = tuple(tensor.shape.numpy())
    return (shape[0], shape[1]) if len(shape) == 2 and all(shape) else None


def _linear(
    n: NodeView,
    sizes: tuple[int, int],
    weights: dict[str, Weight],
    inputs: tuple[ir.Value, ...],
    call: Callable[..., Any] | None = None,
    add: ir.Node | None = None,
) -> ModuleForm:
    return ModuleForm(
        layer="nn.Linear",
        positional=sizes,
        keywords={"bias": ("bias" in weights, True)},
        weights=weights,
        inputs=inputs,
        outputs=((add or n.node).outputs[0],),
        call=call,
        absorbs=(add,) if add else (),
    )


# ---- MatMul


def _matmul_module(n: NodeView) -> ModuleForm | None:
    if not n.shapes.dims(n.value(0)):
        return None
    tied, stored = _transposed_constant(n), integers(n, 1, axis=1)
    sizes = _matrix(n, 1) if tied is None else tied[1]
    if stored is not None and len(stored.shape) == 2:
        sizes = (stored.shape[0], stored.shape[1])
    if sizes is None:
        return None
    weights = {"weight": Weight(n.value(1), np.transpose, "transposed")}
    if tied is not None:
        weights = {"weight": Weight(tied[0])}
    add = n.only_user()
    bias = _bias_of(n, add, sizes[1]) if add is not None else None
    if bias is not None:
        weights["bias"] = bias
    form = _linear(n, sizes, weights, (n.value(0),), add=add if bias else None)
    if stored is None:
        return form
    return stored.form(form, None, helpers.QuantizedLinear)


def _transposed_constant(n: NodeView) -> tuple[ir.Value, tuple[int, int]] | None:
    """The matrix whose transpose is input 1: a weight that is tied to another's."""
    node = n.value(1).producer()
    if (
        node is None
        or node.op_type != "Transpose"
        or node.domain not in ("", "ai.onnx")
    ):
        return None
    weight = node.inputs[0]
    if weight is None or weight.const_value is None or not n.is_float(1):
        return None
    shape = tuple(weight.const_value.shape.numpy())
    if len(shape) != 2 or not all(shape):
        return None
    perm = NodeView(node, n.shapes).attr("perm", [1, 0])
    return (weight, (shape[1], shape[0])) if perm == [1, 0] else None


def _bias_of(n: NodeView, add: ir.Node, width: int) -> Weight | None:
    """The constant that `add` adds to the product, if it is one row for all."""
    if add.op_type != "Add" or add.domain not in ("", "ai.onnx"):
        return None
    bias = next((v for v in add.inputs if v is not n.node.outputs[0]), None)
    if bias is None or bias.const_value is None or noted(bias) == "BUFFER":
        return None  # a buffer that is added doesn't train, as a bias would
    shape = bias.const_value.shape.numpy()
    if len(shape) > n.rank(0) or shape[-1:] != (width,) or math.prod(shape) != width:
        return None
    return Weight(bias) if len(shape) == 1 else Weight(bias, np.ravel, "flattened")


@operator(
    "MatMul",
    since=9,
    cut=cuts.matmul,
    fits=fitting_sizes.matmul(),
    mapping=MANY_TO_MANY,
    shape=sizes_windows.matmul,
    flops=flop_counts.matmul,
    tile=tiles.matmul,
    fresh=True,
    module=_matmul_module,
)
@through_signed()
def _matmul(t: Any, n: NodeView, x: Any, y: Any) -> Any:
    return x @ y


# ---- Gemm: alpha * A' @ B' + beta * C


def _factors(n: NodeView) -> tuple[Any, Any]:
    alpha, beta = number(n, "alpha", 1.0), number(n, "beta", 1.0)
    if n.is_float(0):
        return alpha, beta
    if not (alpha.is_integer() and beta.is_integer()):
        n.refuse("Gemm on integers with a fraction for alpha or beta is not supported")
    return int(alpha), int(beta)


@through_signed()
def _product_and_sum(t: Any, n: NodeView, a: Any, b: Any, *c: Any) -> Any:
    alpha, beta = _factors(n)
    a = a.T if n.attr("transA", 0) else a
    b = b.T if n.attr("transB", 0) else b
    y = a @ b if alpha == 1 else alpha * (a @ b)
    if c and beta != 0:
        y = y + (c[0] if beta == 1 else beta * c[0])
    return y


def _quantized_gemm(n: NodeView) -> ModuleForm | None:
    """nn.Linear of a weight in 8 bits."""
    flip = not n.attr("transB", 0)
    stored = integers(n, 1, axis=int(flip))
    added = quantized_bias(n, 2) if n.has(2) else None
    if stored is None or _factors(n) != (1, 1) or n.attr("transA", 0):
        return None
    sizes = stored.shape if flip else stored.shape[::-1]
    if n.has(2) and (added is None or n.dims(2) != sizes[1:]):
        return None
    weights = {"weight": _scaled(stored.weight, 1, flip)}
    plain = _linear(n, (sizes[0], sizes[1]), weights, (n.value(0),))
    return stored.form(plain, added, helpers.QuantizedLinear)


def _gemm_module(n: NodeView) -> ModuleForm | None:
    if n.value(1).const_value is None:
        return _quantized_gemm(n)
    if (shape := _matrix(n, 1)) is None:
        return None
    alpha, beta = _factors(n)
    if not _scales_exactly(alpha):
        return None
    flip = not n.attr("transB", 0)
    sizes = shape if flip else (shape[1], shape[0])
    weights = {"weight": _scaled(n.value(1), alpha, flip)}
    inputs = [n.value(0)]
    added = n.has(2) and beta != 0
    if added and (bias := _gemm_bias(n, beta, sizes[1])) is not None:
        weights["bias"] = bias
    elif added:
        inputs.append(n.value(2))

    def call(t: Any, layer: Any, a: Any, c: Any = None) -> Any:
        y = layer(a.T if n.attr("transA", 0) else a)
        return y if c is None else y + (c if beta == 1 else beta * c)

    plain = len(inputs) == 1 and not n.attr("transA", 0)
    return _linear(n, sizes, weights, tuple(inputs), None if plain else call)


def _scales_exactly(factor: float) -> bool:
    """Multiplying by a power of two changes no digit."""
    return factor > 0 and math.frexp(factor)[0] == 0.5


def _scaled(value: ir.Value, factor: float, flip: bool) -> Weight:
    if factor == 1:
        return Weight(value, np.transpose, "transposed") if flip else Weight(value)

    def convert(array: np.ndarray) -> np.ndarray:
        scaled: np.ndarray = array * array.dtype.type(factor)
        return np.transpose(scaled) if flip else scaled

    return Weight(value, convert, f"{'transposed ' if flip else ''}times {factor!r}")


def _gemm_bias(n: NodeView, beta: float, width: int) -> Weight | None:
    """C as one row for all, stored `width` long."""
    value = n.value(2)
    if value.const_value is None or not _scales_exactly(beta):
        return None
    shape = tuple(value.const_value.shape.numpy())
    if math.prod(shape) not in (1, width) or math.prod(shape[:-1]) != 1:
        return None
    if beta == 1 and shape == (width,):
        return Weight(value)

    def convert(array: np.ndarray) -> np.ndarray:
        row: np.ndarray = np.resize(array, width) * array.dtype.type(beta)
        return row

    return Weight(value, convert, f"a row of {width} times {beta!r}")


@operator(
    "Gemm",
    since=11,
    mapping=MANY_TO_MANY,
    tile=tiles.matmul,
    fresh=True,
    module=_gemm_module,
)
def _gemm(t: Any, n: NodeView, a: Any, b: Any, c: Any = None) -> Any:
    return _product_and_sum(t, n, a, b, *([] if c is None else [c]))


# ---- Einsum


def _implicit(inputs: str) -> str:
    """The output of an equation without an arrow: labels seen once, in order."""
    labels = inputs.replace("...", "").replace(",", "")
    once = sorted(x for x in set(labels) if labels.count(x) == 1)
    return ("..." if "..." in inputs else "") + "".join(once)


@operator("Einsum", since=12, mapping=MANY_TO_MANY, onnx_errs=True)
def _einsum(t: Any, n: NodeView, *operands: Any) -> Any:
    equation = "".join(n.attr("equation", "").split())
    inputs, arrow, output = equation.partition("->")
    if not arrow:
        output = _implicit(inputs)
    for text in (*inputs.split(","), output):
        if not re.fullmatch(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*", text):
            n.refuse(f"Einsum with the malformed equation {equation!r}")
    equation = f"{inputs.replace(',', ', ')} -> {output}".rstrip()
    if not n.dtype(0).is_integer() or n.dtype(0) == ir.DataType.INT64:
        return t.einsum(equation, *operands)
    # Sums of others would be of another type in PyTorch, or have no kernel.
    wide = (x.to(t.int64) for x in operands)
    return t.einsum(equation, *wide).to(t.dtype(n.dtype(0)))


# ---- MatMulInteger: (A - a_zero_point) @ (B - b_zero_point) in int32


def _zero_point(n: NodeView, i: int, rank: int, zero: Any) -> Any:
    """A zero point per row stands upright; one for all stays as it is."""
    per_row = n.rank(i) == 1 and n.dims(i)[0] != 1 and rank > 1
    return zero[:, None] if per_row else zero


def _matmul_integer_module(n: NodeView) -> ModuleForm | None:
    shape = int8_weight(n, 1)
    if shape is None or len(shape) != 2 or not n.rank(0):
        return None
    weights = {"weight": Weight(n.value(1), np.transpose, "transposed")}
    plain = _linear(n, (shape[0], shape[1]), weights, (n.value(0),))
    return dynamic(n, plain, helpers.DynamicQuantizedLinear)


@operator(
    "MatMulInteger",
    since=10,
    fits=fitting_sizes.matmul(),
    mapping=MANY_TO_MANY,
    shape=sizes_windows.matmul,
    flops=flop_counts.matmul,
    traceable=False,
    module=_matmul_integer_module,
)
def _matmul_integer(
    t: Any, n: NodeView, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None
) -> Any:
    # Exact up to 2**53. Products of integers are slow, and unknown on some devices.
    a, b = a.double(), b.double()
    if a_zero is not None and not is_zero(n, 2):
        a = a - _zero_point(n, 2, n.rank(0), a_zero)
    if b_zero is not None and not is_zero(n, 3):
        b = b - b_zero
    return (a @ b).to(t.int32)
