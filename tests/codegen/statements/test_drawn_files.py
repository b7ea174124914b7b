"""Small files whose operators, types and sizes were drawn: each once went wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from support.emitter_models import Emitted
from support.parsed_models import check, floats

from fairhand.analysis.errors import Unsupported

Emit = Callable[[onnx.ModelProto], Emitted]
HEAD = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1, "ai.onnx.ml": 3]>\n'


def numbers(*values: Any, dtype: str = "int64") -> np.ndarray:
    return np.array(values, dtype)


MODELS: dict[str, tuple[str, list[Mapping[str, Any]]]] = {
    "a zero point is an input": (
        """g (float[n, 3] x, int8[1] z) => (float y)
        <int8[3, 2] w = {1, -2, 3, 4, 5, -6}, float[1] s = {0.04}> {
          y = com.microsoft.DynamicQuantizeMatMul(x, w, s, z)
        }""",
        [{"x": floats(2, 3), "z": numbers(6, dtype="int8")}],
    ),
    "sums of int32": (
        """g (int32[3] a, int32[2] b) => (int32 y, int32 z) {
          y = Einsum<equation = "a,a,c->">(a, a, b)
          z = Einsum<equation = "i,k->i">(a, b)
        }""",
        [{"a": numbers(1, -2, 3, dtype="int32"), "b": numbers(4, 5, dtype="int32")}],
    ),
    "a periodic window of one sample": (
        "g (int64 n) => (float y, float z) { y = HannWindow(n) z = HammingWindow(n) }",
        [{"n": np.array(n)} for n in (0, 1, 2, 7)],
    ),
    "bands of a number that an input has": (
        """g (int64 n, int64 length) => (float w, int64 y)
        <int64 rate = {8192}, float low = {0}, float high = {3000}> {
          w = MelWeightMatrix(n, length, rate, low, high) y = NonZero(w)
        }""",
        [{"n": np.array(4), "length": np.array(n)} for n in (31, 32)],
    ),
    "a region at twice its size": (
        """g (float[2, n] x) => (float y)
        <float[4] roi = {0, 0.2, 1, 1.3}, float[2] scales = {1, 2}> {
          y = Resize<mode = "linear",
            coordinate_transformation_mode = "tf_crop_and_resize">(x, roi, scales)
        }""",
        [{"x": floats(2, n)} for n in (3, 4)],
    ),
    "one query looks ahead": (
        """g (float[b, 1, 8] q, float[b, 3, 8] k) => (float y) {
          y = com.microsoft.MultiHeadAttention<num_heads = 2, unidirectional = 1>
            (q, k, k)
        }""",
        [{"q": floats(2, 1, 8), "k": floats(2, 3, 8, seed=1)}],
    ),
    "complex frames, one-sided": (
        "g (float[?, ?, ?] x) => (float y) <int64 step = {2}, int64 length = {5}>"
        " { y = STFT(x, step, , length) }",
        [{"x": floats(2, 9, 1)}, {"x": floats(2, 9, 2)}],
    ),
    "an output smaller than its input": (
        """g (float[2, 4, 3] x, float[4, 2, 2] w) => (float y) {
          y = ConvTranspose<auto_pad = "VALID", output_shape = [2]>(x, w)
        }""",
        [{"x": floats(2, 4, 3), "w": floats(4, 2, 2)}],
    ),
    "parts of sizes that an input has, the other way round": (
        """g (float[6] x, int64[2] s) => (float z)
        { a, b = Split<axis = 0>(x, s) z = Concat<axis = 0>(b, a) }""",
        [{"x": floats(6), "s": numbers(*s)} for s in ((1, 5), (4, 2))],
    ),
    "a row at a constant place": (
        "g (float[3, n] x) => (float y) <int64[1] i = {-1}>" " { y = GatherND(x, i) }",
        [{"x": floats(3, 2)}],
    ),
    "no strings, on three axes": (
        """g (bool[2] x) => (string[a, b, c] y, bool[2] z)
        <string[2, 1, 2] s = {"a", "b", "c", "d"}, bool[1] none = {0}>
        { y = Compress<axis = 1>(s, none) z = Not(x) }""",
        [{"x": numbers(1, 0, dtype="bool")}],
    ),
    "a part without its axis": (
        """g (float[3, n] x) => (float y) <int64 size = {1}, int64 i = {0}> {
          s = SplitToSequence<axis = 1, keepdims = 0>(x, size)
          y = SequenceAt(s, i)
        }""",
        [{"x": floats(3, n)} for n in (1, 2)],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_drawn_models_agree_with_onnx_runtime(name: str, emitted: Emit) -> None:
    graph, feeds = MODELS[name]
    model = onnx.parser.parse_model(HEAD + graph)
    check(model, emitted(model), *feeds)


REFUSED = {
    "ScatterElements with reduction add on type string": (
        "g (string[3] x, int64[1] i, string[1] u) => (string y)"
        ' { y = ScatterElements<axis = 0, reduction = "add">(x, i, u) }'
    ),
    "tf_crop_and_resize of n by 0.801 is not supported: the new size": (
        """g (float[2, n] x) => (float y)
        <float[4] roi = {0, 0, 1, 1}, float[2] scales = {1, 0.801}> {
          y = Resize<mode = "linear",
            coordinate_transformation_mode = "tf_crop_and_resize">(x, roi, scales)
        }"""
    ),
    "unidirectional with more keys than queries": (
        """g (float[b, 2, 8] q, float[b, 3, 8] k) => (float y) {
          y = com.microsoft.MultiHeadAttention<num_heads = 2, unidirectional = 1>
            (q, k, k)
        }"""
    ),
    "leaves without a vote": (
        """g (float[n, 1] x) => (string label, float y) {
          label, y = ai.onnx.ml.TreeEnsembleClassifier<
            nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2],
            nodes_featureids = [0, 0, 0], nodes_values = [0.5, 0.0, 0.0],
            nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],
            nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0],
            class_treeids = [0, 0, 0], class_nodeids = [1, 2, 2],
            class_ids = [1, 0, 1], class_weights = [0.7, -0.1, 0.4],
            classlabels_strings = ["a", "b"], base_values = [0.6],
            post_transform = "LOGISTIC">(x)
        }"""
    ),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_would_be_other_numbers_is_refused(said: str, emitted: Emit) -> None:
    with pytest.raises(Unsupported, match=said):
        emitted(onnx.parser.parse_model(HEAD + REFUSED[said]))
