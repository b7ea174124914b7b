"""Gradient: what comes out is what autograd finds, or a refusal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from support.emitted import imported

import fairhand
from fairhand.analysis.errors import FairhandError

PREVIEW = "ai.onnx.preview.training"


def gradient_of(
    *nodes: tuple[str, str, str],
    a: list[int],
    b: list[int],
    inputs: str = "a b",
    **names: object,
) -> onnx.ModelProto:
    """Nodes as (operator, operands, result), and the gradient of y by a and b."""
    made = [helper.make_node(op, x.split(), [out]) for op, x, out in nodes]
    attributes = {"xs": ["a", "b"], "y": "y"} | names
    outputs = [f"d{i}" for i in range(len(inputs.split()))]
    made.append(
        helper.make_node(
            "Gradient", inputs.split(), outputs, domain=PREVIEW, **attributes
        )
    )
    graph = helper.make_graph(
        made,
        "g",
        [
            helper.make_tensor_value_info("a", 1, a),
            helper.make_tensor_value_info("b", 1, b),
        ],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(PREVIEW, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


CASES = {
    "products": [("Mul", "a b", "c"), ("Mul", "c a", "y")],
    "one value twice": [("Mul", "a a", "c"), ("Add", "c b", "y")],
    "quotient": [("Exp", "b", "c"), ("Div", "a c", "y")],
    "difference": [("Sub", "b a", "c"), ("Relu", "c", "d"), ("Mul", "d c", "y")],
    "logarithm": [
        ("Mul", "a a", "c"),
        ("Exp", "c", "d"),
        ("Add", "d b", "e"),
        ("Mul", "e e", "f"),
        ("Log", "f", "g"),
        ("Neg", "g", "h"),
        ("Identity", "h", "y"),
    ],
}
FUNCTIONS = {
    "products": lambda a, b: a * b * a,
    "one value twice": lambda a, b: a * a + b,
    "quotient": lambda a, b: a / b.exp(),
    "difference": lambda a, b: (b - a).relu() * (b - a),
    "logarithm": lambda a, b: -((a * a).exp() + b).square().log(),
}


@pytest.mark.parametrize(
    "shapes", [([2, 3], [2, 3]), ([2, 3], [3]), ([2, 1], [4, 1, 3])]
)
@pytest.mark.parametrize("case", CASES)
def test_as_autograd(
    case: str, shapes: tuple[list[int], list[int]], tmp_path: Path
) -> None:
    a, b = shapes
    model = gradient_of(*CASES[case], a=a, b=b)
    fairhand.compile(model, tmp_path / "net", verify=False)
    random = np.random.default_rng(0)
    feeds = [random.standard_normal(s).astype(np.float32) for s in shapes]
    session = imported(tmp_path / "net").Session()
    found = session.run(None, dict(zip("ab", feeds, strict=True)))
    given = [torch.from_numpy(x).requires_grad_() for x in feeds]
    FUNCTIONS[case](*given).sum().backward()
    for got, x in zip(found, given, strict=True):
        np.testing.assert_allclose(got, x.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("nodes", "names", "said"),
    [
        ([("Mul", "a b", "c"), ("Erf", "c", "y")], {}, "the derivative of Erf"),
        ([("Exp", "a", "y")], {}, "y does not depend on 'b'"),
        ([("Mul", "a b", "y")], {"y": "z"}, "it names 'z'"),
        ([("Mul", "a b", "y")], {"inputs": "b a"}, "at other values"),
    ],
)
def test_what_is_refused(
    nodes: list[tuple[str, str, str]],
    names: dict[str, str],
    said: str,
    tmp_path: Path,
) -> None:
    model = gradient_of(*nodes, a=[2], b=[2], **names)
    with pytest.raises(FairhandError, match=said):
        fairhand.compile(model, tmp_path / "net", verify=False)
    assert not (tmp_path / "net").exists()


def test_a_size_that_may_be_one_is_refused(tmp_path: Path) -> None:
    """Whether there is something to add up is known only at run time."""
    model = gradient_of(("Mul", "a b", "y"), a=[2], b=["n"])  # type: ignore[list-item]
    with pytest.raises(FairhandError, match="sizes of 'b'"):
        fairhand.compile(model, tmp_path / "net", verify=False)
