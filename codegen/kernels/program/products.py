"""Matrix products in kernels: what they multiply, and in which order it lies.

A product's kernel has three parts: operators on the left factor before it is
multiplied, the product, and operators on the result before it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from ....analysis.graph.dims import Dims, same
from ....analysis.ops.helpers import packed as helpers
from ....analysis.ops.module_form import ModuleForm
from ....analysis.ops.node_view import NodeView
from ....analysis.spelling.expr import Expr, HelperRef, Names, Ref
from ...ir.assignment import Assignment, LayerRef

# What is multiplied has these types; packed weights and their parts are integers.
_FACTORS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


@dataclass(frozen=True)
class _Factor:
    """A tensor that a product reads: its role, what the module passes, its sizes."""

    role: str
    value: ir.Value
    expr: Expr
    dims: Dims


@dataclass(frozen=True)
class Product:
    """x @ weight, or x @ weight.T where the weight is `flipped`: [N, K].

    A weight in `bits` bits is integers: `per_block` of them have a scale in `scales`;
    with 0, a row has one in `scale`, or all have. `passes` are those over a weight that
    PyTorch makes to get floats of it. With `pixels` it is a convolution of windows of
    one pixel: weight @ x, for each sample.
    """

    flipped: bool
    bits: int = 0
    per_block: int = 0
    passes: int = 0
    pixels: bool = False

    @property
    def per_byte(self) -> int:
        """How many numbers of a packed weight stand in a byte."""
        return 8 // self.bits


Found = tuple[Product, ir.Value, tuple[_Factor, ...], Callable[..., Expr]]


def product_of(step: Assignment, view: NodeView) -> Found | None:
    """The product of a statement, its left factor, the others, and its twin."""
    if step.form is not None:
        return _layer(step.form, view)
    node = view.node
    if node.op_type != "MatMul" or node.domain or step.optional:
        return None
    left, right = view.value(0), view.value(1)
    dims = view.shapes.dims(left), view.shapes.dims(right)
    if dims[0] is None or dims[1] is None or min(map(len, dims)) < 2:  # type: ignore[arg-type]
        return None
    if left.dtype not in _FACTORS or left.dtype != right.dtype:
        return None
    factor = _Factor("weight", right, Ref(right), dims[1])
    return Product(flipped=False), left, (factor,), lambda x, weight: x @ weight


def _layer(form: ModuleForm, view: NodeView) -> Found | None:
    """Of nn.Linear, and of those whose weight is integers."""
    x = form.inputs[0]
    if form.layer not in _LAYERS or form.call is not None:
        return None
    if _LAYERS[form.layer] is _pixels and not _is_pixelwise(form):
        return None
    if x.dtype not in _FACTORS or view.shapes.rank(x) == 1:
        return None
    product, shapes, twin = _LAYERS[form.layer](form)
    layer = LayerRef(form)
    factors = tuple(
        _Factor(name, w.value, getattr(layer, name), shapes[name])
        for name, w in form.weights.items()
    )
    if not product.bits and any(f.value.dtype != x.dtype for f in factors):
        return None
    return product, x, factors, twin


_Layer = tuple[Product, Mapping[str, tuple[int, ...]], Callable[..., Expr]]


def _linear(form: ModuleForm) -> _Layer:
    depth, width = form.positional
    shapes = {"weight": (width, depth), "bias": (width,)}
    return Product(flipped=True), shapes, Names("F").linear


def _packed(form: ModuleForm) -> _Layer:
    depth, width, block = form.positional
    bits, order = form.keywords["bits"][0], tuple(form.weights)
    blocks = -(-depth // block)
    shapes = {
        "weight": (width, blocks, block * bits // 8),
        "scales": (width, blocks),
        "zero_points": (width, -(-blocks * bits // 8)),
        "bias": (width,),
    }

    def twin(x: Any, *factors: Any) -> Expr:
        given = dict(zip(order, factors, strict=True))
        options = {k: v for k, v in given.items() if k in ("zero_points", "bias")}
        if bits != 4:
            options["bits"] = bits
        call = HelperRef(helpers.packed_linear)
        return call(x, given["weight"], given["scales"], **options)

    return Product(True, bits, block, passes=3), shapes, twin


def _scaled(form: ModuleForm) -> _Layer:
    depth, width = form.positional
    order, each = tuple(form.weights), form.keywords["per_channel"][0]
    shapes = {"weight": (width, depth), "scale": (width if each else 1,)}

    def twin(x: Any, *factors: Any) -> Expr:
        given = dict(zip(order, factors, strict=True))
        whole = given["weight"] * given["scale"][:, None]
        rest = [given["bias"]] if "bias" in given else []
        return Names("F").linear(x, whole, *rest)

    return Product(True, 8, passes=1), {**shapes, "bias": (width,)}, twin


def _pixels(form: ModuleForm) -> _Layer:
    """Of nn.Conv2d(channels, width, 1), and those over one or three axes."""
    depth, width, _ = form.positional
    axes = int(form.layer[-2])
    shapes = {"weight": (width, depth, *[1] * axes), "bias": (width,)}
    twin = getattr(Names("F"), f"conv{axes}d")
    return Product(flipped=False, pixels=True), shapes, twin


def _is_pixelwise(form: ModuleForm) -> bool:
    """Whether a convolution's windows have one pixel, and there is one for each."""
    if form.layer not in ("nn.Conv1d", "nn.Conv2d", "nn.Conv3d") or form.call:
        return False
    plain = {"stride": 1, "padding": 0, "groups": 1}
    return form.positional[2] == 1 and all(
        form.keywords[name][0] == number for name, number in plain.items()
    )


_LAYERS: Mapping[str, Callable[[ModuleForm], _Layer]] = {
    "nn.Conv1d": _pixels,
    "nn.Conv2d": _pixels,
    "nn.Conv3d": _pixels,
    "nn.Linear": _linear,
    "PackedLinear": _packed,
    "QuantizedLinear": _scaled,
}


@dataclass(frozen=True)
class Extent:
    """The sizes of a product: the axes of its result that are batches, rows, columns.

    `batches` tells of x and of the weight whether they have those of the result.
    """

    result: Dims
    depth: Any
    batch_axes: int
    batches: tuple[bool, bool]


def extent(product: Product, x: Dims, weight: Dims, result: Dims) -> Extent | str:
    """The sizes, or why a kernel can't have them."""
    if product.pixels:
        return Extent(result, x[1], 1, (True, False))
    depth = x[-1]
    if len(weight) == 2 or product.bits:
        return Extent(result, depth, 0, (False, False))
    own = x[:-2], weight[:-2]
    lead = max(own, key=len)
    for dims in own:
        whole = len(dims) == len(lead) and all(map(same, dims, lead))
        if dims and not whole:
            return "a product whose batches are broadcast in part"
    return Extent(result, depth, len(lead), (bool(own[0]), bool(own[1])))
