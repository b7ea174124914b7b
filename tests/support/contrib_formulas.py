"""Operators that ONNX Runtime has no CPU kernel for, or none that `run` can call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

Formula = Callable[[Mapping[str, Any], list[Any]], list[np.ndarray]]


def rfft(attrs: Mapping[str, Any], inputs: list[Any]) -> list[np.ndarray]:
    """A real transform of the last axes; its two parts in a new last axis."""
    axes = tuple(range(-attrs.get("signal_ndim", 1), 0))
    y = np.fft.rfftn(inputs[0].astype(np.float64), axes=axes)
    return [np.stack([y.real, y.imag], axis=-1).astype(np.float32)]


def irfft(attrs: Mapping[str, Any], inputs: list[Any]) -> list[np.ndarray]:
    """Its inverse, to an even length."""
    axes = tuple(range(-attrs["signal_ndim"], 0))
    x = inputs[0].astype(np.float64)
    return [np.fft.irfftn(x[..., 0] + 1j * x[..., 1], axes=axes).astype(np.float32)]


def sparse_attention(attrs: Mapping[str, Any], inputs: list[Any]) -> list[np.ndarray]:
    """ONNX Runtime's own kernel, which must be given its cache to write into."""
    feed = {f"x{i}": x for i, x in enumerate(inputs)}
    names = ["y", "keys", "values"]
    node = onnx.helper.make_node(
        "SparseAttention", list(feed), names, domain="com.microsoft", **attrs
    )
    kinds = {
        name: onnx.helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in feed.items()
    }
    infos = [
        onnx.helper.make_tensor_value_info(name, kinds[name], x.shape)
        for name, x in feed.items()
    ]
    ends = [
        onnx.helper.make_tensor_value_info(name, kinds["x0"], None) for name in names
    ]
    graph = onnx.helper.make_graph([node], "g", infos, ends)
    opsets = [onnx.helper.make_opsetid("", 20)]
    opsets.append(onnx.helper.make_opsetid("com.microsoft", 1))
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    session = ort.InferenceSession(model.SerializeToString())
    values = {n: ort.OrtValue.ortvalue_from_numpy(x.copy()) for n, x in feed.items()}
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y")
    binding.bind_ortvalue_output("keys", values["x3"])
    binding.bind_ortvalue_output("values", values["x4"])
    session.run_with_iobinding(binding)
    return [value.numpy().copy() for value in binding.get_outputs()]


def complex_product(attrs: Mapping[str, Any], inputs: list[Any]) -> list[np.ndarray]:
    """Their parts stand in the last axis."""
    a, b = (x[..., 0] + 1j * x[..., 1] for x in inputs)
    return [np.stack([(a * b).real, (a * b).imag], axis=-1)]


def conjugate_product(attrs: Mapping[str, Any], inputs: list[Any]) -> list[np.ndarray]:
    a, b = inputs
    return complex_product(attrs, [a, b * np.array([1, -1], np.float32)])


FORMULAS: dict[tuple[str, str], Formula] = {
    ("com.microsoft", "Rfft"): rfft,
    ("com.microsoft", "Irfft"): irfft,
    ("com.microsoft", "ComplexMul"): complex_product,
    ("com.microsoft", "ComplexMulConj"): conjugate_product,
    ("com.microsoft", "SparseAttention"): sparse_attention,
}
