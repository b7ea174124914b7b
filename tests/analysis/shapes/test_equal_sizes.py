"""Sizes of inputs that operators require to be equal are one size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.emitted import imported
from support.emitter_models import Emitted
from support.parsed_models import check, floats, parse

import fairhand

Emit = Callable[[onnx.ModelProto], Emitted]

# As torch's exporter writes a decoder's step: each axis of a cache has a name.
STEP = """g (float[b, 2, new, 4] q, float[b, 2, s15, 4] keys,
    float[c, 2, s90, 4] values, float[b, 2, new, 4] k,
    float[b, 2, new, 4] v) => (float y, float nk, float nv)
    <float root = {0.70710678}> {
  nk = Concat <axis = 2> (keys, k)
  nv = Concat <axis = 2> (values, v)
  turned = Transpose <perm = [0, 1, 3, 2]> (nk)
  q2 = Mul(q, root)
  k2 = Mul(turned, root)
  scores = MatMul(q2, k2)
  probs = Softmax <axis = -1> (scores)
  y = MatMul(probs, nv)
}"""


def step(past: int) -> dict[str, np.ndarray]:
    sizes = {"q": 3, "keys": past, "values": past, "k": 3, "v": 3}
    return {name: floats(2, 2, size, 4) for name, size in sizes.items()}


def test_attention_over_a_cache_of_other_names(tmp_path: Path) -> None:
    model, out = parse(STEP), tmp_path / "net"
    report = fairhand.compile(model, out, verify=False).report
    found = Emitted(out, (out / "model.py").read_text("utf-8"), imported(out), report)
    assert "F.scaled_dot_product_attention(q, nk, nv)" in found.text
    assert "values float32 [b, 2, s15, 4]" in " ".join(found.text.split())
    # What a user was told of the file stays, letter by letter.
    assert found.module.Session().get_inputs()[2].shape == ["c", 2, "s90", 4]
    check(model, found, step(5), step(1))


@pytest.mark.parametrize(
    "nodes,told",
    [
        # The number that a weight says.
        ("y = Gemm(x, w)", "[n, 3]"),
        # In a body, which may not run, and by an operator that broadcasts.
        (
            """y = If(c) <then_branch = g1 () => (float a) { a = MatMul(x, w) },
            else_branch = g2 () => (float b) { b = Identity(x) }>""",
            "[n, m]",
        ),
        ("y = Add(x, z)", "[n, m]"),
    ],
)
def test_what_makes_sizes_known(nodes: str, told: str, emitted: Emit) -> None:
    z = ", float[k, 3] z" if "z)" in nodes else ""
    c = ", bool c" if "If" in nodes else ""
    model = parse(
        f"g (float[n, m] x{z}{c}) => (float y) <float[3, 2] w = "
        f"{{1, 2, 3, 4, 5, 6}}> {{ {nodes} }}"
    )
    found = emitted(model)
    assert f"x float32 {told}" in " ".join(found.text.split())
    feed = {"x": floats(2, 3)}
    feed |= {"z": floats(1, 3)} if z else {}
    feed |= {"c": np.array(False)} if c else {}
    check(model, found, feed)


def test_minus_one_is_the_number_that_a_product_reads(emitted: Emit) -> None:
    """As of OPT, whose places of positions follow from the mask's: without tokens, and
    by allowzero, PyTorch can't tell what -1 is."""
    model = parse("""g (float[b, s, 4] x, float[c, t, 4] p) => (float[b, s, 2] y)
        <int64[1] rest = {-1}, float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8},
         int64[4] apart = {0, 0, 2, 2}> {
        z = Add(x, p)
        parts = Reshape(z, apart)
        lead = Shape <start = 0, end = 2>(x)
        sizes = Concat <axis = 0>(lead, rest)
        flat = Reshape <allowzero = 1>(parts, sizes)
        y = MatMul(flat, w) }""")
    found = emitted(model)
    assert ", 4)" in found.text and "-1)" not in found.text
    for new in 3, 0:
        check(model, found, {"x": floats(2, new, 4), "p": floats(1, 1, 4)})


def test_what_computes_with_a_name_is_one_to_onnx_runtime(emitted: Emit) -> None:
    """The k of another input is 3; nothing says that this one's has to be."""
    model = parse("""g (float[n, k] x, float["2*k"] y) => (float[n, 2] z, float o)
        <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
        z = MatMul(x, w) s = Shape(y) o = ConstantOfShape(s) }""")
    check(model, emitted(model), {"x": floats(2, 3), "y": floats(7)})


def test_a_reshape_to_no_elements_copies_a_size(emitted: Emit) -> None:
    model = parse("""g (float[n] x, float[m] y) => (float z, float o) {
        s = Shape(y) z = Reshape(x, s) o = ConstantOfShape(s) }""")
    check(model, emitted(model), {"x": floats(3), "y": floats(0)})
