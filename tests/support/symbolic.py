"""Small models in onnx's text form, and symbolic sizes held against ONNX Runtime."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

from fairhand.analysis.graph.dims import Dim, spell
from fairhand.analysis.graph.shape_facts import ShapeFacts
from fairhand.analysis.shapes.infer import infer


def build(inputs: str, body: str, output: str = "float[] y") -> onnx.ModelProto:
    """A model in onnx's own text form."""
    constants: list[str] = []

    def constant(match: re.Match[str]) -> str:
        constants.append(f"const{len(constants)} = Constant<value_ints={match[1]}>()")
        return f"const{len(constants) - 1}"

    body = re.sub(r"(?<![=\w])(\[-?\d[-\d, ]*\])", constant, body)
    statements = "\n".join([*constants, *body.split(";")])
    header = '<ir_version: 10, opset_import: ["": 23, "custom": 1]>'
    return onnx.parser.parse_model(
        f"{header} g ({inputs}) => ({output}) {{ {statements} }}"
    )


def analyse(proto: onnx.ModelProto) -> tuple[dict[str, ir.Value], ShapeFacts]:
    """Every value of the main graph by name, and what is known of them."""
    model = ir.from_proto(proto)
    shapes = infer(model)
    values = {v.name: v for v in model.graph.inputs}
    values |= {v.name: v for node in model.graph for v in node.outputs if v.name}
    return {name or "": value for name, value in values.items()}, shapes


def run(proto: onnx.ModelProto, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Inputs and all computed values, by ONNX Runtime."""
    exposed = onnx.ModelProto()
    exposed.CopyFrom(proto)
    names = [name for node in proto.graph.node for name in node.output if name]
    del exposed.graph.output[:]
    exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    options.log_severity_level = 4  # it warns of every output without a type
    session = onnxruntime.InferenceSession(exposed.SerializeToString(), options)
    feed = {}
    for given in proto.graph.input:
        tensor = given.type.tensor_type
        shape = [sizes.get(d.dim_param, d.dim_value) for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        # A 0 is in range as an index; ones are at no special place elsewhere.
        feed[given.name] = np.full(shape, dtype.kind != "i", dtype)
    return feed | dict(zip(names, session.run(names, feed), strict=True))


def hold_against(
    actual: Mapping[str, np.ndarray], values: Mapping[str, ir.Value], shapes: ShapeFacts
) -> Iterator[str]:
    """What is wrong with the symbolic answer.

    Each symbol is read off its anchor; where that is not among the `actual` arrays, any
    number will do.
    """

    def number(size: Dim) -> int | None:
        if isinstance(size, int):
            return size
        sizes = {}
        for symbol in size.free_symbols:
            anchor = shapes.anchor(symbol)
            assert anchor is not None, f"{symbol} is anchored nowhere"
            if anchor[0].name not in actual:
                return None
            sizes[symbol] = actual[anchor[0].name].shape[anchor[1]]
        return int(size.subs(sizes))

    for name, array in actual.items():
        dims, content = shapes.dims(values[name]), shapes.content(values[name])
        numbers = None if dims is None else list(map(number, dims))
        if not _fits(numbers, array.shape):
            yield f"{name} {spell(dims)} is not {array.shape}"
        if values[name].dtype != ir.DataType.from_numpy(array.dtype):
            yield f"{name} {values[name].dtype} is not {array.dtype}"
        if content is not None and not _fits(map(number, content.flat), array.flat):
            yield f"{name} {content} is not {array}"


def _fits(numbers: Iterable[int | None] | None, actual: Iterable[int]) -> bool:
    pairs = zip_longest(numbers or (), actual, fillvalue=-1)
    return numbers is not None and all(a is None or a == b for a, b in pairs)
