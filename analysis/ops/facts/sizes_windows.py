"""Sizes of the outputs of convolution, pooling, products, norms and recurrence."""

from __future__ import annotations

from collections.abc import Callable

import sympy

from ...errors import FairhandError
from ...graph.dims import (
    Dim,
    Dims,
    broadcast,
    ceildiv,
    floordiv,
    minimum,
    product,
    quotient,
    simplify,
)
from ...graph.shape_facts import DimsResult, NodeFacts


def matmul(site: NodeFacts, a: Dims, b: Dims) -> DimsResult:
    """As numpy.matmul: vectors lose their axis, leading axes broadcast."""
    _check_inner(a[-1], b[-2] if len(b) > 1 else b[0])
    batch = broadcast(a[:-2], b[:-2])
    return [(*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))]


def _check_inner(a: Dim, b: Dim) -> None:
    if isinstance(a, int) and isinstance(b, int) and a != b:
        raise FairhandError(f"inner sizes {a} and {b} of a matrix product do not match")


def gemm(site: NodeFacts, a: Dims, b: Dims) -> DimsResult:
    """Two matrices, either one transposed."""
    m, k = a[::-1] if site.attr("transA", 0) else a
    k2, n = b[::-1] if site.attr("transB", 0) else b
    _check_inner(k, k2)
    return [(m, n)]


def einsum(site: NodeFacts) -> DimsResult:
    """The sizes of the labels on the right of the arrow."""
    equation = str(site.attr("equation", "")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    sizes: dict[str, Dim] = {}
    batch: Dims = ()
    for i, term in enumerate(left.split(",")):
        dims = site.dims(i)
        if dims is None:
            return None
        before, dots, after = term.partition("...")
        stop = len(dims) - len(after)
        if stop < len(before) or (not dots and stop != len(before)):
            raise ValueError(f"the term {term} does not fit {len(dims)} axes")
        batch = broadcast(batch, dims[len(before) : stop])
        labels = zip(before + after, dims[: len(before)] + dims[stop:], strict=True)
        for label, size in labels:
            (sizes[label],) = broadcast((sizes.get(label, 1),), (size,))
    if not arrow:
        once = sorted(x for x in sizes if left.count(x) == 1)
        return [(*batch, *(sizes[x] for x in once))]
    before, dots, after = right.partition("...")
    middle = batch if dots else ()
    return [(*(sizes[x] for x in before), *middle, *(sizes[x] for x in after))]


def conv(site: NodeFacts, x: Dims, w: Dims) -> DimsResult:
    """Batch, filters, and one size per window axis, with room for a window at least."""
    windows = _windows(site, x[2:], w[2:])
    site.shapes.filled.update(n for n in windows if isinstance(n, sympy.Expr))
    return [(x[0], w[0], *windows)]


def with_scales(
    rule: Callable[[NodeFacts, Dims, Dims], DimsResult],
) -> Callable[[NodeFacts], DimsResult]:
    """The same, with the scales between the operands."""

    def sizes(site: NodeFacts) -> DimsResult:
        a, b = site.dims(0), site.dims(3)
        return None if a is None or b is None else rule(site, a, b)

    return sizes


def pool(site: NodeFacts, x: Dims) -> DimsResult:
    """One window per output; MaxPool's indices have the same shape."""
    out = (*x[:2], *_windows(site, x[2:], site.attr("kernel_shape")))
    return [out, out]


def _windows(site: NodeFacts, sizes: Dims, kernel: Dims) -> list[Dim | None]:
    count = len(sizes)
    kernel = tuple(site.attr("kernel_shape") or kernel)
    strides = site.attr("strides") or [1] * count
    dilations = site.attr("dilations") or [1] * count
    pads = site.attr("pads") or [0] * 2 * count
    auto, up = site.attr("auto_pad", "NOTSET"), bool(site.attr("ceil_mode", 0))
    if not len(kernel) == len(strides) == len(dilations) == len(pads) // 2 == count:
        raise ValueError("attributes do not fit the number of window axes")
    out: list[Dim | None] = []
    for i, size in enumerate(sizes):
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            out.append(ceildiv(size, strides[i]))
            continue
        if not isinstance(kernel[i], int):
            out.append(None)
            continue
        reach = (kernel[i] - 1) * dilations[i] + 1
        ends = (0, 0) if auto == "VALID" else (pads[i], pads[i + count])
        out.append(_window(size, reach, strides[i], ends, up))
    return out


def _window(size: Dim, reach: int, stride: int, pads: tuple[int, int], up: bool) -> Dim:
    """How many windows fit; rounded up, a last one may hang over the end."""
    room = simplify(size + sum(pads) - reach)
    if isinstance(room, int) and -stride < room < 0:
        return 1  # as onnx and ONNX Runtime divide
    if not up:
        return simplify(floordiv(room, stride) + 1)
    fitting = simplify(ceildiv(room, stride) + 1)
    if stride + pads[1] <= reach:
        return fitting
    # A window that would start in the padding behind the data does not count.
    return minimum(fitting, ceildiv(simplify(size + pads[0]), stride))


def conv_transpose(site: NodeFacts, x: Dims, w: Dims) -> DimsResult:
    """The size whose convolution gives the input."""
    sizes, count = x[2:], len(x) - 2
    kernel = site.attr("kernel_shape") or w[2:]
    strides = site.attr("strides") or [1] * count
    dilations = site.attr("dilations") or [1] * count
    pads = site.attr("pads") or [0] * 2 * count
    extra = site.attr("output_padding") or [0] * count
    same_size = str(site.attr("auto_pad", "NOTSET")).startswith("SAME")
    channels = simplify(w[1] * int(site.attr("group", 1)))
    out = list(site.attr("output_shape") or ())[-count:]
    if not out:
        for i, size in enumerate(sizes):
            reach = (kernel[i] - 1) * dilations[i] + 1 + extra[i]
            if same_size:
                out.append(simplify(strides[i] * size + min(reach - strides[i], 0)))
                continue
            grown = strides[i] * (size - 1) + reach
            out.append(simplify(grown - pads[i] - pads[i + count]))
    return [(x[0], channels, *out)]


def global_pool(site: NodeFacts, x: Dims) -> DimsResult:
    """Window axes become 1."""
    return [(*x[:2], *[1] * (len(x) - 2))]


def grid_sample(site: NodeFacts, x: Dims, grid: Dims) -> DimsResult:
    """The grid says where to look, once per output place."""
    return [(*x[:2], *grid[1:-1])]


def roi_align(site: NodeFacts, x: Dims, rois: Dims) -> DimsResult:
    """One small picture per region."""
    size = (site.attr("output_height", 1), site.attr("output_width", 1))
    return [(rois[0], x[1], *size)]


def crop_and_resize(site: NodeFacts, x: Dims, boxes: Dims) -> DimsResult:
    """One picture of the size given per box."""
    size = site.numbers(3) or [None, None]
    return [(boxes[0], x[1], *size)] if len(size) == 2 else None


def non_max_suppression(site: NodeFacts) -> DimsResult:
    """As many boxes as survive, each as (batch, class, box)."""
    return [(None, 3)]


def depth_to_space(site: NodeFacts, x: Dims) -> DimsResult:
    """Channels become picture blocks."""
    block = int(site.attr("blocksize"))
    n, c, h, w = x
    channels = quotient([c], [block * block])
    return [(n, channels, simplify(h * block), simplify(w * block))]


def space_to_depth(site: NodeFacts, x: Dims) -> DimsResult:
    """Picture blocks become channels."""
    block = int(site.attr("blocksize"))
    n, c, h, w = x
    area = simplify(c * block * block)
    return [(n, area, quotient([h], [block]), quotient([w], [block]))]


def layer_normalization(site: NodeFacts, x: Dims) -> DimsResult:
    """Mean and deviation keep the axes before `axis`."""
    axis = site.axis(len(x), default=-1)
    moments = (*x[:axis], *[1] * (len(x) - axis))
    return [x, moments, moments]


def recurrent(site: NodeFacts, x: Dims, w: Dims, r: Dims) -> DimsResult:
    """Every step, then the last step, with an axis for the directions."""
    if not len(x) == len(w) == len(r) == 3:
        raise ValueError("input and weights have three axes each")
    directions = 2 if site.attr("direction", "forward") == "bidirectional" else 1
    hidden: Dim = site.attr("hidden_size") or r[-1]
    if site.attr("layout", 0):
        last = (x[0], directions, hidden)
        return [(x[0], x[1], directions, hidden), last, last]
    last = (directions, x[1], hidden)
    return [(x[0], directions, x[1], hidden), last, last]


def attention(site: NodeFacts, q: Dims, k: Dims, v: Dims) -> DimsResult:
    """Y, the keys and values with those of the past, and the scores."""
    if len(q) == 4:
        heads, kv_heads, length, new = q[1], k[1], q[2], k[2]
        key_size, value_size = k[3], v[3]
        y: Dims = (q[0], heads, length, value_size)
    else:
        heads, kv_heads = site.attr("q_num_heads"), site.attr("kv_num_heads")
        length, new = q[1], k[1]
        key_size = floordiv(k[2], kv_heads)
        value_size = floordiv(v[2], kv_heads)
        y = (q[0], length, simplify(heads * value_size))
    total = new
    if site.has(4):
        past = site.dims(4)
        if past is None:
            return [y]
        total = simplify(past[2] + new)
    keys = (q[0], kv_heads, total, key_size)
    values = (q[0], kv_heads, total, value_size)
    return [y, keys, values, (q[0], heads, length, total)]


def grouped_query_attention(site: NodeFacts, q: Dims) -> DimsResult:
    """Y, and a cache that has room for the longest sample; q may hold k and v too."""
    heads, kv_heads = site.attr("num_heads", 0), site.attr("kv_num_heads", 0)
    k, past = site.dims(1), site.dims(3)
    if k is None and not site.has(1):
        size = floordiv(q[2], heads + 2 * kv_heads)
        y: Dims = (*q[:2], simplify(heads * size))
    else:
        y = q
    if past is None:
        return [y]
    window = site.attr("sliding_window_cache", 0)
    cache = [*past[:2], past[2] if window else None, past[3]]
    return [y, cache, cache]


def linear_attention(site: NodeFacts, q: Dims, k: Dims, v: Dims) -> DimsResult:
    """Y, with the heads of q or of v, and a state as wide as a query and a value."""
    heads, kept = site.attr("q_num_heads", 1), site.attr("kv_num_heads") or 1
    width = floordiv(v[2], kept)
    y = (*q[:2], simplify(max(heads, kept) * width))
    return [y, (q[0], kept, floordiv(q[2], heads), width)]


def causal_conv(site: NodeFacts, x: Dims, w: Dims) -> DimsResult:
    """As long as x, and what a kernel sees before the next step."""
    return [x, (*x[:2], simplify(w[2] - 1))]


def packed_matmul(site: NodeFacts, x: Dims) -> DimsResult:
    """A product with a matrix of N columns, whatever it is packed in."""
    return [(*x[:-1], site.attr("N"))]


def stft(site: NodeFacts, signal: Dims) -> DimsResult:
    """One spectrum per frame, half of it if one-sided, as real and imaginary part."""
    step, length = site.numbers(1), site.numbers(3)
    window = site.dims(2)
    size = length[0] if length else window[0] if window else None
    if not step or step[0] is None or size is None:
        return [(signal[0], None, None, 2)]
    frames = simplify(floordiv(simplify(signal[1] - size), step[0]) + 1)
    bins = simplify(floordiv(size, 2) + 1) if site.attr("onesided", 1) else size
    return [(signal[0], frames, bins, 2)]


def rfft(site: NodeFacts, signal: Dims) -> DimsResult:
    """Half of the spectrum, as real and imaginary part."""
    return [(*signal[:-1], simplify(floordiv(signal[-1], 2) + 1), 2)]


def irfft(site: NodeFacts, spectrum: Dims) -> DimsResult:
    """The signal of even length with that half."""
    return [(*spectrum[:-2], simplify(2 * (spectrum[-2] - 1)))]


def window_function(site: NodeFacts) -> DimsResult:
    """As long as the number given."""
    return [site.numbers(0) or [None]]


def mel_weight_matrix(site: NodeFacts) -> DimsResult:
    """Half of a spectrum, by the bands that it is gathered into."""
    (bands,), (length,) = site.numbers(0) or [None], site.numbers(1) or [None]
    return [(None if length is None else floordiv(length, 2) + 1, bands)]


def loss(site: NodeFacts, scores: Dims, target: Dims) -> DimsResult:
    """One number, or one per target; the logarithms are like the scores."""
    kept = site.attr("reduction", "mean") == "none"
    return [target if kept else (), scores]


def center_crop_pad(site: NodeFacts, x: Dims) -> DimsResult:
    """The sizes given, on the axes given."""
    axes = [axis % len(x) for axis in site.attr("axes") or range(len(x))]
    sizes = site.numbers(1) or [None] * len(axes)
    out: list[Dim | None] = list(x)
    for axis, size in zip(axes, sizes, strict=True):
        out[axis] = size
    return [out]


def col2im(site: NodeFacts, x: Dims) -> DimsResult:
    """Columns laid back onto a picture of the shape given."""
    shape, block = site.numbers(1), site.numbers(2)
    if shape is None or block is None or None in block:
        return None
    channels = quotient([x[1]], [product(d for d in block if d is not None)])
    return [(x[0], channels, *shape)]


def affine_grid(site: NodeFacts) -> DimsResult:
    """A place in the source for each place of the target."""
    size = site.numbers(1)
    return None if size is None else [(size[0], *size[2:], len(size) - 2)]
