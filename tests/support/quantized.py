"""Models as ONNX Runtime's own tools quantise and convert them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime.quantization as q
from onnxruntime.transformers.float16 import convert_float_to_float16

from fairhand.analysis.graph.quantization import quantises

HOW = ("qdq", "qoperator", "dynamic")


class Samples(q.CalibrationDataReader):
    """The inputs that a static quantiser measures ranges on."""

    def __init__(self, feeds: Sequence[Mapping[str, np.ndarray]]) -> None:
        self.feeds: Iterator[Mapping[str, np.ndarray]] = iter(feeds)

    def get_next(self) -> Any:
        return next(self.feeds, None)


def quantized(
    model: onnx.ModelProto, how: str, feeds: Sequence[Mapping[str, np.ndarray]] = ()
) -> onnx.ModelProto:
    """The model in 8 bits: QDQ per channel, QOperator per tensor, or dynamic."""
    given = onnx.ModelProto()
    given.CopyFrom(model)
    del given.graph.value_info[:]  # the tools transpose weights and leave these
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source.onnx", Path(folder) / "target.onnx"
        onnx.save(given, source)
        if how == "dynamic":
            q.quantize_dynamic(source, target)
        else:
            is_pairs = how == "qdq"
            q.quantize_static(
                source,
                target,
                Samples(feeds),
                quant_format=q.QuantFormat.QDQ if is_pairs else q.QuantFormat.QOperator,
                per_channel=is_pairs,
            )
        return onnx.load(target)


def converted(model: onnx.ModelProto, dtype: str) -> onnx.ModelProto:
    """The model in half precision: weights, values, inputs and outputs."""
    given = onnx.ModelProto()
    given.CopyFrom(model)
    if dtype == "float16":
        del given.graph.value_info[:]  # float32 is what it says of them
        return convert_float_to_float16(given, disable_shape_infer=True)
    return _to_bfloat16(given)


def _to_bfloat16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Every float32 becomes bfloat16: weights, values, Casts, inputs and outputs."""
    float32, bfloat16 = onnx.TensorProto.FLOAT, onnx.TensorProto.BFLOAT16
    graph = model.graph
    del graph.value_info[:]
    for tensor in graph.initializer:
        _narrow(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                _narrow(attribute.t)
            if attribute.name in ("to", "dtype") and attribute.i == float32:
                attribute.i = bfloat16
    for info in (*graph.input, *graph.output):
        if info.type.tensor_type.elem_type == float32:
            info.type.tensor_type.elem_type = bfloat16
    return model


def _narrow(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == onnx.TensorProto.FLOAT:
        array = onnx.numpy_helper.to_array(tensor).astype(ml_dtypes.bfloat16)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


# ---- the network in pieces


def roundings(model: onnx.ModelProto) -> list[str]:
    """What is rounded to integers at run time; with its scale, if that is computed."""
    constant = {tensor.name for tensor in model.graph.initializer}
    found: list[str] = []
    for node in model.graph.node:
        if quantises(node) and not constant.issuperset(node.input):
            found += [name for name in node.output if name]
    return found


def in_pieces(model: onnx.ModelProto) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """A model that gives every rounded value as well; one that is given them, too.

    The second one computes each of them from those before it as given, so that an
    error shows where it is made and nowhere after.
    """
    whole, pieces = onnx.ModelProto(), onnx.ModelProto()
    whole.CopyFrom(model)
    cut = roundings(model)
    known = onnx.shape_inference.infer_shapes(model).graph.value_info
    infos = {info.name: info for info in (*known, *model.graph.output)}
    made = {info.name for info in model.graph.output}
    whole.graph.output.extend(
        infos.get(n, onnx.ValueInfoProto(name=n)) for n in cut if n not in made
    )
    pieces.CopyFrom(whole)
    for node in pieces.graph.node:
        node.input[:] = [f"{n}_given" if n in cut else n for n in node.input]
    return whole, pieces
