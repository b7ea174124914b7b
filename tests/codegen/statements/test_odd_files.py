"""Odd files that ONNX Runtime runs: the package does the same, or says why not."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
from support.emitter_models import Emitted
from support.parsed_models import _reference, check, floats

from fairhand.analysis.errors import Unsupported

Emit = Callable[..., Emitted]
HEAD = '<ir_version: 11, opset_import: ["": 23]>\n'


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + text)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 3), (0, 1)])
def test_the_shape_of_any_number_of_axes(emitted: Emit, shape: tuple[int, int]) -> None:
    """Of none, too, where PyTorch makes an empty tensor of floats."""
    model = parsed("g (float[n, m] x) => (int64[r] y) { z = Squeeze(x) y = Shape(z) }")
    check(model, emitted(model), {"x": floats(*shape)})


def test_a_shape_of_no_axes_is_no_claim(emitted: Emit) -> None:
    """It is what tools write that know no shape; an output of the file has it here."""
    text = (
        "g (float[n, 1, 3] x) => (float z, int64[r] y) { z = Squeeze(x) y = Shape(z) }"
    )
    model = parsed(text)
    check(model, emitted(model), {"x": floats(2, 1, 3)}, {"x": floats(1, 1, 3)})


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Relu(x) z = Concat<axis = 1>(x, x)",
        "y = Flatten(x) z = GlobalAveragePool(x)",
        "y = MatMul(x, w) z = Transpose(y)",
    ],
)
def test_sizes_of_outputs_are_called_as_onnx_runtime_calls_them(
    emitted: Emit, nodes: str
) -> None:
    """Also those that an exporter made names up for, and those left open."""
    w = ", float[4, 2] w" if "w)" in nodes else ""
    for sizes in ("a, b, c", "?, ?, ?"):
        few = sizes[: sizes.rindex(",")] if "Flatten" in nodes else sizes
        outputs = f"float[{few}] y, float[{sizes}] z"
        model = parsed(f"g (float[n, t, 4] x{w}) => ({outputs}) {{ {nodes} }}")
        session, reference = emitted(model).module.Session(), _reference(model)
        assert [x.shape for x in session.get_outputs()] == [
            x.shape for x in reference.get_outputs()
        ]


def test_sizes_that_operators_need_to_be_equal_are_looked_at(emitted: Emit) -> None:
    """PyTorch's attention reads past the end of values that are fewer than keys."""
    text = "g (float[1, 2, q, 4] x, float[1, 2, k, 4] y, float[1, 2, v, 4] w)"
    model = parsed(text + " => (float[a, b, c, d] z) { z = Attention(x, y, w) }")
    found = emitted(model)
    fed = {"x": floats(1, 2, 3, 4), "y": floats(1, 2, 5, 4)}
    check(model, found, {**fed, "w": floats(1, 2, 5, 4)})
    for values in (3, 7):
        feed = {**fed, "w": floats(1, 2, values, 4)}
        with pytest.raises(Exception, match="Attention"):
            _reference(model).run(None, feed)
        wrong = rf"must be equal: {{\('y', 2\): 5, \('w', 2\): {values}}}"
        with pytest.raises(ValueError, match=wrong):
            found.module.Session().run(None, feed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "g (float[n, 0, 5] x, float[4, 0, 3] w) => (float[a, b, c] y)"
            " { y = Conv(x, w) }",
            "Conv of no channels is not supported",
        ),
        (
            "g (float[n, 2, 5] x, float[2, 0, 3] w) => (float[a, b, c] y)"
            " { y = ConvTranspose(x, w) }",
            "ConvTranspose of no channels is not supported",
        ),
        (
            "g (float[n, 4, 5] x, float[2] s) => (float[a, b, c] y)"
            " { y = GroupNormalization<num_groups = 2>(x, s, s) }",
            "GroupNormalization of 4 channels by 2 scales",
        ),
        (
            "g (float[n, 2, t, 7] x, float[n, t, 3] c) => (float[a, b, e, f] y)"
            " { y = RotaryEmbedding(x, c, c) }",
            "RotaryEmbedding of 7 numbers, which are no pairs",
        ),
        (
            "g (float[n, 2, t, 8] x, float[n, t, 1] c) => (float[a, b, e, f] y)"
            " { y = RotaryEmbedding<rotary_embedding_dim = 3>(x, c, c) }",
            "RotaryEmbedding of 3 numbers, which are no pairs",
        ),
    ],
)
def test_what_onnx_gives_no_meaning_is_refused(
    emitted: Emit, text: str, said: str
) -> None:
    with pytest.raises(Unsupported, match=said):
        emitted(parsed(text))
