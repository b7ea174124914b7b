"""Models as ONNX Runtime's own tools quantise and convert them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime.quantization as q

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
