"""Random instances of operators that reduce, contract, normalise and attend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support.denotation_cases import Case, Draw, case, ints

from fairhand.rewrites.proof.kernel.scalars import Const
from fairhand.rewrites.proof.kernel.tensors import Context, Tensor
from fairhand.rewrites.proof.semantics import attention as t
from fairhand.rewrites.proof.semantics import contraction as p
from fairhand.rewrites.proof.semantics import convolution as v
from fairhand.rewrites.proof.semantics import normalization as n
from fairhand.rewrites.proof.semantics import reduction as d
from fairhand.rewrites.proof.semantics.index_maps import axes_of, per_axis

EPSILON = float(np.float32(1e-3))

# ---- reductions

REDUCTIONS = (
    "ReduceSum ReduceProd ReduceMax ReduceMin ReduceMean ReduceL1 ReduceL2 "
    "ReduceSumSquare ReduceLogSum ReduceLogSumExp"
).split()


def _reduction(name: str) -> None:
    def make(draw: Draw) -> Case:
        sizes = draw.sizes(1)
        axes = draw.subset(len(sizes)) or [0]
        if draw.flag():
            axes = axes[:1]
        keep = draw.flag()
        kind = name.removeprefix("Reduce").lower()

        def denote(c: Context, x: Tensor, _: Tensor) -> Tensor:
            if len(axes) == 1 and kind in ("sum", "prod", "max", "min"):
                return d.reduce(c, kind, x, axes[0], keep)
            if len(axes) == 1 and kind == "mean":
                return d.reduce_mean(c, x, axes[0], keep)
            return d.reduce_by(c, name, x, axes_of(axes, len(sizes)), keep)

        # ONNX Runtime drops a NaN from a maximum or not, by its place; the shifted form
        # of LogSumExp takes infinities off themselves.
        x = draw.array(sizes, special=kind != "logsumexp")
        if kind in ("max", "min"):
            x = np.nan_to_num(x, nan=0.5, posinf=np.inf, neginf=-np.inf)
        if kind == "mean":  # a mean over nothing is 0 in ONNX Runtime
            x = np.resize(
                x, [n if k not in axes else max(n, 1) for k, n in enumerate(x.shape)]
            )
        inputs = [x, ints(*axes)]
        return Case(name, inputs, denote, {"keepdims": int(keep)})

    case(name)(make)


for _name in REDUCTIONS:
    _reduction(_name)


def _along(name: str, denote: Callable[..., Tensor]) -> None:
    def make(draw: Draw) -> Case:
        sizes = draw.sizes(1)
        axis = draw.integer(0, len(sizes) - 1)
        x = draw.array(sizes)
        return Case(name, [x], lambda c, x: denote(c, x, axis), {"axis": axis})

    case(name)(make)


_along("Softmax", d.softmax)
_along("LogSoftmax", d.log_softmax)


@case("Softmax, unshifted")
def _softmax(draw: Draw) -> Case:
    sizes = draw.sizes(1)
    axis = draw.integer(0, len(sizes) - 1)
    act = draw.choice([("Softmax", d.softmax), ("LogSoftmax", d.log_softmax)])
    return Case(
        act[0],
        [draw.array(sizes, special=False)],
        lambda c, x: act[1](c, x, axis, stable=False),
        {"axis": axis},
    )


@case("CumSum")
def _cumsum(draw: Draw) -> Case:
    sizes = draw.sizes(1)
    axis = draw.integer(0, len(sizes) - 1)
    flags = {"exclusive": int(draw.flag()), "reverse": int(draw.flag())}
    return Case(
        "CumSum",
        [draw.array(sizes), np.int64(axis)],
        lambda c, x, _: d.cumsum(c, x, axis, **flags),
        flags,
    )


@case("ArgMax")
def _argmax(draw: Draw) -> Case:
    sizes = draw.sizes(1, low=1)
    axis = draw.integer(0, len(sizes) - 1)
    which, keep, last = draw.choice(["Max", "Min"]), draw.flag(), draw.flag()
    name = f"arg{which.lower()}" + ("_last" if last else "")
    x = np.round(draw.array(sizes, special=False))
    attributes = {"axis": axis, "keepdims": int(keep), "select_last_index": int(last)}
    return Case(
        f"Arg{which}",
        [x],
        lambda c, x: d.argmax(c, x, axis, keep, name),
        attributes,
        exact=True,
    )


# ---- contractions


@case("MatMul")
def _matmul(draw: Draw) -> Case:
    # ONNX Runtime leaves sums over nothing unset, and refuses an empty batch that only
    # one operand has.
    batch = draw.sizes(0, 3, low=1)
    rows, inner, columns = draw.integer(0, 3), draw.integer(1, 3), draw.integer(0, 3)
    shapes = [
        [*draw.broadcastable(batch), rows, inner],
        [*draw.broadcastable(batch), inner, columns],
    ]
    return Case("MatMul", [draw.array(s) for s in shapes], p.matmul)


@case("Gemm")
def _gemm(draw: Draw) -> Case:
    rows, inner, columns = (draw.integer(1, 3) for _ in range(3))
    flip_a, flip_b = draw.flag(), draw.flag()
    a = draw.array([inner, rows] if flip_a else [rows, inner], special=False)
    b = draw.array([columns, inner] if flip_b else [inner, columns], special=False)
    c = draw.array(draw.broadcastable([rows, columns]), special=False)
    alpha, beta = draw.choice([1, 0.5]), draw.choice([1, 2.0])
    inputs = [a, b, c if draw.random.random() < 0.8 else None]
    attributes = {
        "transA": int(flip_a),
        "transB": int(flip_b),
        "alpha": float(alpha),
        "beta": float(beta),
    }

    def denote(context: Context, *x: Tensor) -> Tensor:
        return p.gemm(context, *x, Const(alpha), beta, flip_a, flip_b)

    return Case("Gemm", inputs, denote, attributes)


@case("Einsum")
def _einsum(draw: Draw) -> Case:
    sizes = {letter: draw.integer(1, 3) for letter in "abcd"}
    axes = [draw.random.sample("abcd", draw.integer(1, 3)) for _ in range(2)]
    letters = sorted({*axes[0], *axes[1]})
    out = draw.random.sample(letters, draw.integer(0, min(3, len(letters))))
    inputs = [draw.array([sizes[a] for a in own], special=False) for own in axes]
    spelling = f"{''.join(axes[0])},{''.join(axes[1])}->{''.join(out)}"
    return Case(
        "Einsum",
        inputs,
        lambda c, a, b: p.einsum(c, a, b, *axes, out),
        {"equation": spelling},
    )


# ---- convolutions and pooling


def _window(draw: Draw, axes: int, most: int = 2) -> tuple[v.Window, dict[str, Any]]:
    rows = [
        [draw.integer(1, 2) for _ in range(axes)],
        [draw.integer(1, 2) for _ in range(axes)],
        [draw.integer(0, most) for _ in range(axes)],
        [draw.integer(0, most) for _ in range(axes)],
    ]
    functions = [per_axis([0, 0, *row], 0) for row in rows]
    attributes = {"strides": rows[0], "dilations": rows[1], "pads": rows[2] + rows[3]}
    return v.Window(*functions), attributes


@case("Conv")
def _conv(draw: Draw) -> Case:
    axes, group = draw.integer(1, 2), draw.integer(1, 2)
    depth, outputs = draw.integer(1, 2), draw.integer(1, 2) * group
    window, attributes = _window(draw, axes)
    kernel = [draw.integer(1, 2) for _ in range(axes)]
    sizes = [draw.integer(3, 4) for _ in range(axes)]
    x = draw.array([draw.integer(0, 2), depth * group, *sizes], special=False)
    w = draw.array([outputs, depth, *kernel], special=False)
    bias = draw.array([outputs], special=False) if draw.flag() else None
    attributes |= {"kernel_shape": kernel, "group": group}

    def denote(c: Context, *t: Tensor) -> Tensor:
        return v.conv(c, *t, window, group)

    return Case("Conv", [x, w, bias], denote, attributes)


@case("ConvTranspose")
def _conv_transpose(draw: Draw) -> Case:
    axes, group = draw.integer(1, 2), draw.integer(1, 2)
    depth, outputs = draw.integer(1, 2), draw.integer(1, 2)
    window, attributes = _window(draw, axes, most=1)
    kernel = [draw.integer(2, 3) for _ in range(axes)]
    sizes = [draw.integer(2, 3) for _ in range(axes)]
    extra = [draw.integer(0, stride - 1) for stride in attributes["strides"]]
    x = draw.array([draw.integer(1, 2), depth * group, *sizes], special=False)
    w = draw.array([depth * group, outputs, *kernel], special=False)
    bias = draw.array([outputs * group], special=False) if draw.flag() else None
    attributes |= {"kernel_shape": kernel, "group": group, "output_padding": extra}

    def denote(c: Context, *t: Tensor) -> Tensor:
        return v.conv_transpose(c, *t, window, per_axis([0, 0, *extra]), group)

    return Case("ConvTranspose", [x, w, bias], denote, attributes)


def _pool(name: str) -> None:
    def make(draw: Draw) -> Case:
        axes = draw.integer(1, 3)
        window, attributes = _window(draw, axes, most=1)
        kernel = [draw.integer(2, 3) for _ in range(axes)]
        # ONNX Runtime makes up one place for a kernel that is larger than the image.
        reach = zip(attributes["dilations"], kernel, strict=True)
        sizes = [d * (n - 1) + 1 + draw.integer(0, 1) for d, n in reach]
        x = draw.array([draw.integer(1, 2), draw.integer(1, 2), *sizes], special=False)
        attributes["kernel_shape"] = kernel
        places = per_axis([0, 0, *kernel])
        if name == "MaxPool":
            return Case(
                name, [x], lambda c, x: v.max_pool(c, x, places, window), attributes
            )
        counted = draw.flag()
        attributes["count_include_pad"] = int(counted)

        def denote(c: Context, x: Tensor) -> Tensor:
            return v.average_pool(c, x, places, window, counted)

        return Case(name, [x], denote, attributes)

    case(name)(make)


_pool("MaxPool")
_pool("AveragePool")


def _global_pool(name: str, denote: Callable[..., Tensor]) -> None:
    def make(draw: Draw) -> Case:
        sizes = [draw.integer(1, 3) for _ in range(draw.integer(3, 4))]
        return Case(name, [draw.array(sizes, special=False)], denote)

    case(name)(make)


_global_pool("GlobalAveragePool", v.global_average_pool)
_global_pool("GlobalMaxPool", v.global_max_pool)


# ---- normalisations


def _images(draw: Draw, channels: int) -> np.ndarray:
    spatial = [draw.integer(1, 3) for _ in range(draw.integer(1, 2))]
    return draw.array([draw.integer(1, 2), channels, *spatial], special=False)


@case("BatchNormalization")
def _batch_normalization(draw: Draw) -> Case:
    channels = draw.integer(1, 3)
    vectors = [draw.array([channels], special=False) for _ in range(3)]
    variance = np.abs(draw.array([channels], special=False)) + np.float32(0.5)

    def denote(c: Context, *t: Tensor) -> Tensor:
        return n.batch_normalization(c, *t, EPSILON)

    inputs = [_images(draw, channels), *vectors, variance]
    return Case("BatchNormalization", inputs, denote, {"epsilon": EPSILON})


def _trailing(name: str, denote: Callable[..., Tensor], biased: bool) -> None:
    def make(draw: Draw) -> Case:
        sizes = draw.sizes(1, low=1)
        axis = draw.integer(0, len(sizes) - 1)
        inputs = [draw.array(sizes, special=False)]
        inputs += [draw.array(sizes[axis:], special=False) for _ in range(1 + biased)]
        if biased and draw.flag():
            inputs[2] = None
        attributes = {"axis": axis, "epsilon": EPSILON}
        return Case(
            name, inputs, lambda c, *x: denote(c, *x, axis, EPSILON), attributes
        )

    case(name)(make)


_trailing("LayerNormalization", n.layer_normalization, biased=True)
_trailing("RMSNormalization", n.rms_normalization, biased=False)


@case("InstanceNormalization")
def _instance_normalization(draw: Draw) -> Case:
    channels = draw.integer(1, 3)
    vectors = [draw.array([channels], special=False) for _ in range(2)]
    return Case(
        "InstanceNormalization",
        [_images(draw, channels), *vectors],
        lambda c, *x: n.instance_normalization(c, *x, EPSILON),
        {"epsilon": EPSILON},
    )


@case("GroupNormalization")
def _group_normalization(draw: Draw) -> Case:
    groups, each = draw.integer(1, 2), draw.integer(1, 2)
    vectors = [draw.array([groups * each], special=False) for _ in range(2)]
    return Case(
        "GroupNormalization",
        [_images(draw, groups * each), *vectors],
        lambda c, *x: n.group_normalization(c, *x, groups, EPSILON),
        {"epsilon": EPSILON, "num_groups": groups},
    )


# ---- attention


@case("Attention")
def _attention(draw: Draw) -> Case:
    batch, heads, group = draw.integer(1, 2), draw.integer(1, 2), draw.integer(1, 2)
    rows, columns = draw.integer(1, 3), draw.integer(1, 3)
    depth, width = draw.integer(1, 2), draw.integer(1, 2)
    q = draw.array([batch, heads * group, rows, depth], special=False)
    k = draw.array([batch, heads, columns, depth], special=False)
    values = draw.array([batch, heads, columns, width], special=False)
    mask = None
    if draw.flag():
        mask = draw.array([rows, columns], special=False)
        mask[draw.booleans(mask.shape)] = -np.inf
        mask[:, 0] = 1  # a row of minus infinities has no softmax
    scale = draw.choice([None, 0.5])
    causal = draw.flag()

    def denote(c: Context, *x: Tensor) -> Tensor:
        given = None if scale is None else Const(scale)
        return t.attention(c, *x, given, group, causal)

    attributes = {"is_causal": int(causal)}
    if scale is not None:
        attributes["scale"] = scale
    return Case("Attention", [q, k, values, mask], denote, attributes)
