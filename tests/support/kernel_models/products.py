"""Products, and what stands before and behind them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from support.emitter_models import Graph

Build = Callable[[Graph], dict[str, str]]


def linear_gelu(g: Graph) -> dict[str, str]:
    weights = g.weight("fc.weight", 5, 7), g.weight("fc.bias", 7)
    y = g("Add", g("MatMul", "x", weights[0]), weights[1])
    return {"y": g("Gelu", y)}


def gemm_add(g: Graph) -> dict[str, str]:
    weights = g.weight("fc.weight", 7, 5), g.weight("fc.bias", 7)
    y = g("Gemm", "x", *weights, transB=1)
    return {"product": y, "y": g("Add", g("Relu", y), "r")}


def gated_linear(g: Graph) -> dict[str, str]:
    gate = g("Reciprocal", g("Mul", "x", "factor"))  # infinite past the end of a row
    y = g("MatMul", g("Mul", gate, "u"), g.weight("down.weight", 6, 6))
    return {"y": g("Add", "u", y)}


def scores(g: Graph) -> dict[str, str]:
    y = g("Mul", g("MatMul", "q", "k"), "scale")
    return {"y": g("Add", y, "mask")}


def one_table(g: Graph) -> dict[str, str]:
    return {"y": g("Tanh", g("MatMul", "x", "k"))}


def int8_linear(g: Graph) -> dict[str, str]:
    whole = np.arange(-17, 18).astype(np.int8).reshape(5, 7)
    scale = np.linspace(0.01, 0.3, 7, dtype=np.float32)
    stored = g.weight("fc.weight", value=whole), g.weight("fc.scale", value=scale)
    weight = g("DequantizeLinear", *stored, axis=1)
    return {"y": g("Relu", g("MatMul", "x", weight))}


def pixel_conv(g: Graph) -> dict[str, str]:
    """As at the start of EfficientNet's blocks."""
    y = g("Conv", "image", g.weight("pw.weight", 7, 5, 1, 1), g.weight("pw.bias", 7))
    return {"conv": y, "y": g("Mul", g("HardSwish", y), "each")}


def gated_pixels(g: Graph) -> dict[str, str]:
    """As at their end; infinite past the last channel."""
    gate = g("Mul", g("Reciprocal", "image"), "level")
    y = g("Conv", gate, g.weight("pw.weight", 7, 5, 1, 1))
    return {"y": g("Add", g("Add", y, "shortcut"), "per")}


def squeezed(g: Graph) -> dict[str, str]:
    """As in a squeeze-and-excitation: there is one pixel."""
    weights = g.weight("fc.weight", 3, 5, 1, 1), g.weight("fc.bias", 3)
    return {"y": g("Relu", g("Conv", "pixel", *weights))}


def conv_of_lines(g: Graph) -> dict[str, str]:
    y = g("Conv", "line", g.weight("pw.weight", 5, 5, 1), g.weight("pw.bias", 5))
    return {"y": g("Sub", y, "line")}


PACKED = {"K": 40, "N": 7, "block_size": 16}


def packed(bits: int, zeros: bool) -> Build:
    def build(g: Graph) -> dict[str, str]:
        random = np.random.default_rng(bits)
        count = 7, 3, 16 * bits // 8
        whole = random.integers(0, 256, count).astype(np.uint8)
        scales = random.uniform(0.01, 0.1, 21).astype(np.float32)
        spare = random.integers(0, 256, 7 * -(-3 * bits // 8)).astype(np.uint8)
        inputs = ["x", g.weight("fc.weight", value=whole)]
        inputs += [g.weight("fc.scales", value=scales)]
        inputs += [g.weight("fc.zeros", value=spare) if zeros else "", ""]
        inputs += [g.weight("fc.bias", 7)]
        domain = "com.microsoft"
        y = g("MatMulNBits", *inputs, bits=bits, domain=domain, **PACKED)
        return {"y": g("Add", g("Relu", y), "r")}

    build.__name__ = f"int{bits}_{'zeros' if zeros else 'middle'}"
    return build


FOUR, EIGHT, MIDDLE = packed(4, True), packed(8, True), packed(4, False)
WIDE = {"x": ["a", "b", 40], "r": ["a", "b", 7]}


GROUPS: dict[Build, dict[str, list[object]]] = {
    linear_gelu: {"x": ["a", "b", 5]},
    gemm_add: {"x": ["n", 5], "r": ["n", 7]},
    gated_linear: {"x": ["a", "n", 6], "u": ["a", "n", 6], "factor": [6]},
    scores: {
        "q": ["a", "b", "n", 5],
        "k": ["a", "b", 5, "n"],
        "scale": [1],
        "mask": ["n", "n"],
    },
    one_table: {"x": ["n", 5], "k": ["a", 5, "b"]},
    int8_linear: {"x": ["n", 5]},
    pixel_conv: {"image": ["a", 5, "b", "n"], "each": ["b", "n"]},
    gated_pixels: {
        "image": ["a", 5, "b", "n"],
        "level": ["a", 5, 1, 1],
        "shortcut": ["a", 7, "b", "n"],
        "per": [7, 1, 1],
    },
    squeezed: {"pixel": ["a", 5, 1, 1]},
    conv_of_lines: {"line": ["a", 5, "n"]},
    FOUR: WIDE,
    EIGHT: WIDE,
    MIDDLE: WIDE,
}


def model_of(build: Build) -> onnx.ModelProto:
    g = Graph(**GROUPS[build])  # type: ignore[arg-type]
    return g.model(**build(g))


def feed_for(build: Build, sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    numbers = dict(zip("abn", sizes, strict=True))
    random = np.random.default_rng(sum(sizes))
    return {
        name: random.uniform(0.5, 2, [numbers.get(d, d) for d in dims])  # type: ignore[call-overload]
        .astype(np.float32)
        for name, dims in GROUPS[build].items()
    }  # fmt: skip


def named(build: Build) -> str:
    return build.__name__
