"""Elements of small integer tensors, followed through the graph.

Exporters compute shapes with Shape, Gather, Concat, Mul and their like. Each rule here
repeats one such operator on an array whose elements are sizes (`Dim`), truth values,
or None where unknown.
Arithmetic on them is in arithmetic.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph.dims import Dims, product, simplify, slice_range
from .node_facts import (
    MAX_CONTENT,
    Content,
    ContentResult,
    ShapeSite,
    Table,
    registering,
)

RULES: Table[Callable[..., ContentResult]] = {}
rule = registering(RULES)

FLOATS: dict[ir.DataType, type[np.floating[Any]]] = {
    ir.DataType.FLOAT: np.float32,
    ir.DataType.DOUBLE: np.float64,
    ir.DataType.FLOAT16: np.float16,
}


def pack(elements: Iterable[Any], shape: tuple[int, ...]) -> Content:
    """An object array; NumPy's own constructor would look inside the elements."""
    listed = list(elements)
    result = np.empty(len(listed), dtype=object)
    result[:] = listed
    return result.reshape(shape)


def constant(tensor: ir.TensorProtocol) -> Content | None:
    """Elements of a small stored tensor; None for text and exotic types."""
    if tensor.dtype.is_integer() or tensor.dtype in (ir.DataType.BOOL, *FLOATS):
        return np.asarray(tensor.numpy()).astype(object)
    return None


def output_shape(site: ShapeSite) -> tuple[int, ...] | None:
    """The shape of the first output, if it is all numbers."""
    dims = site.shapes.dims(site.node.outputs[0])
    if dims is None or not all(isinstance(d, int) for d in dims):
        return None
    return tuple(int(d) for d in dims)


@rule("Constant")
def constant_node(site: ShapeSite) -> ContentResult:
    """The attribute that carries the value."""
    for name, value in site.node.attributes.items():
        if name == "value":
            tensor = value.value
            return constant(tensor) if tensor.size <= MAX_CONTENT else None
        if name in ("value_int", "value_float"):
            return pack([value.value], ())
        if name in ("value_ints", "value_floats"):
            return pack(value.value, (len(value.value),))
    return None


@rule("Shape")
def shape(site: ShapeSite) -> ContentResult:
    """The sizes, from `start` to `end`."""
    dims = site.dims(0)
    if dims is None:
        return None
    chosen: Dims = dims[slice(site.attr("start", 0), site.attr("end"))]
    return pack(chosen, (len(chosen),))


@rule("Size")
def size(site: ShapeSite) -> ContentResult:
    """The product of the sizes."""
    dims = site.dims(0)
    if dims is None:
        return None
    return pack([product(dims)], ())


@rule("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten")
def same_elements(site: ShapeSite, x: Content) -> ContentResult:
    """The same elements in a new shape."""
    out = output_shape(site)
    return None if out is None else x.reshape(out)


@rule("Transpose")
def transpose(site: ShapeSite, x: Content) -> ContentResult:
    """Axes in the order of `perm`."""
    turned: Content = x.transpose(site.attr("perm"))
    return turned


@rule("Expand")
def expand(site: ShapeSite, x: Content) -> ContentResult:
    """Repeated along the axes of size 1."""
    out = output_shape(site)
    return None if out is None else np.broadcast_to(x, out)


@rule("Tile")
def tile(site: ShapeSite, x: Content, repeats: Content) -> ContentResult:
    """Repeated as often as given."""
    return np.tile(x, [int(r) for r in repeats]) if _all_ints(repeats) else None


@rule("ConstantOfShape")
def constant_of_shape(site: ShapeSite) -> ContentResult:
    """One element, everywhere."""
    out, value = output_shape(site), site.attr("value")
    element = 0.0 if value is None else np.asarray(value.numpy()).item()
    return None if out is None else pack([element] * math.prod(out), out)


@rule("Range")
def range_(
    site: ShapeSite, start: Content, limit: Content, delta: Content
) -> ContentResult:
    """Known steps from a start that may be symbolic."""
    out, first, step = output_shape(site), start.item(), delta.item()
    if out is None or first is None or step is None:
        return None
    return pack([simplify(first + step * i) for i in range(out[0])], out)


@rule("Concat")
def concat(site: ShapeSite) -> ContentResult:
    """Joined along the axis."""
    parts = [site.content(i) for i in range(len(site.node.inputs))]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return np.concatenate(known, axis=int(site.attr("axis", 0)))


@rule("Split")
def split(site: ShapeSite, x: Content) -> ContentResult:
    """The parts, whose sizes are known by now."""
    axis, parts, start = site.axis(x.ndim), [], 0
    for output in site.node.outputs:
        dims = site.shapes.dims(output)
        if dims is None or not isinstance(dims[axis], int):
            return None
        parts.append(np.take(x, range(start, start + dims[axis]), axis))
        start += dims[axis]
    return parts


@rule("Slice")
def slice_(
    site: ShapeSite, x: Content, starts: Content, ends: Content
) -> ContentResult:
    """The elements between known bounds."""
    axes = site.axes(3, x.ndim) if site.has(3) else list(range(starts.size))
    steps = site.content(4) if site.has(4) else pack([1] * starts.size, starts.shape)
    if axes is None or steps is None:
        return None
    for axis, *bounds in zip(axes, starts, ends, steps, strict=True):
        if not all(isinstance(bound, int) for bound in bounds):
            return None
        x = np.take(x, slice_range(x.shape[axis], *bounds), axis)
    return x


@rule("Gather")
def gather(site: ShapeSite, x: Content, indices: Content) -> ContentResult:
    """The elements at known places."""
    if not _all_ints(indices):
        return None
    return _array(np.take(x, indices.astype(np.int64), int(site.attr("axis", 0))))


@rule("GatherElements")
def gather_elements(site: ShapeSite, x: Content, indices: Content) -> ContentResult:
    """One element for each index."""
    if not _all_ints(indices):
        return None
    places: list[Any] = list(np.indices(indices.shape, sparse=True))
    places[site.axis(x.ndim)] = indices.astype(np.int64)
    return _array(x[tuple(places)])


@rule("ScatterND")
def scatter_nd(
    site: ShapeSite, x: Content, places: Content, new: Content
) -> ContentResult:
    """A copy with the elements at known places replaced."""
    if not _all_ints(places) or site.attr("reduction", "none") != "none":
        return None
    out: Content = x.copy()
    for place in np.ndindex(places.shape[:-1]):
        out[tuple(int(i) for i in places[place])] = new[place]
    return out


@rule("NonZero")
def non_zero(site: ShapeSite, x: Content) -> ContentResult:
    """Places of the true elements, if all are decided."""
    if not all(isinstance(element, bool | int) for element in x.flat):
        return None
    return np.asarray(np.nonzero(x.astype(bool)), dtype=np.int64).astype(object)


def _array(result: Any) -> Content:
    """NumPy turns an object array without axes into its element."""
    return result if isinstance(result, np.ndarray) else pack([result], ())


def _all_ints(content: Content) -> bool:
    return all(isinstance(element, int) for element in content.flat)
