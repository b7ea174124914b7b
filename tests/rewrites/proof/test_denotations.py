"""Every denotation against ONNX Runtime: what is proved is proved about ONNX."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from support import denotation_moves, denotation_networks, denotation_shapes
from support.denotation_cases import CASES, Case, Draw, ints
from support.run_on_arrays import (
    ConcreteContext,
    Evaluator,
    IllFormed,
    leaf,
)
from support.symbolic_law import gathered

from fairhand.rewrites.proof.kernel.scalars import Element
from fairhand.rewrites.proof.kernel.tensors import Tensor, shape
from fairhand.rewrites.proof.semantics import (
    attention,
    contraction,
    convolution,
    elementwise,
    movement,
    normalization,
    reduction,
    reshape,
)
from fairhand.rewrites.proof.semantics.index_maps import axis_range, per_axis
from fairhand.rewrites.proof.semantics.table import MEANINGS

# Importing them entered their cases in CASES.
assert denotation_moves and denotation_networks and denotation_shapes
INSTANCES = 40
RELATIVE, ABSOLUTE = 2e-4, 2e-5  # float32 against doubles


class Refused(Exception):
    """ONNX Runtime doesn't run the node."""


def reference(case: Case) -> list[np.ndarray]:
    """What ONNX Runtime computes."""
    names = ["" if x is None else f"x{j}" for j, x in enumerate(case.inputs)]
    given = {f: np.asarray(x) for f, x in zip(names, case.inputs, strict=True) if f}
    while not names[-1]:  # ONNX Runtime wants trailing inputs left out, not empty
        names.pop()
    results = [f"y{j}" for j in range(case.outputs)]
    graph = helper.make_graph(
        [
            helper.make_node(
                case.operator, names[: case.operands], results, **case.attributes
            )
        ],
        case.operator,
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape
            )
            for name, x in given.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in results],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])
    model.ir_version = 11
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = ort.InferenceSession(
            onnx.shape_inference.infer_shapes(model).SerializeToString(),
            options,
            ["CPUExecutionProvider"],
        )
        return list(session.run(None, given))
    except Exception as error:
        raise Refused(str(error)) from error


def denoted(case: Case) -> list[np.ndarray]:
    """What the denotation gives."""
    names = [f"x{j}" for j in range(len(case.inputs))]
    arrays = {
        name: np.asarray(x)
        for name, x in zip(names, case.inputs, strict=True)
        if x is not None
    }
    tensors = [leaf(f, arrays[f].shape) if f in arrays else None for f in names]
    result = case.denote(ConcreteContext(), *tensors)
    results = (result,) if isinstance(result, Tensor) else result
    evaluator = Evaluator(arrays)
    return [evaluator.array(t) for t in results]


def differences(case: Case) -> list[str]:
    """How the denotation and ONNX Runtime differ on one instance."""
    found = []
    for mine, theirs in zip(denoted(case), reference(case), strict=True):
        if mine.shape != theirs.shape:
            found.append(f"shape {mine.shape}, not {theirs.shape}")
            continue
        a, b = mine.astype(float), theirs.astype(float)
        if case.exact:
            real = ~np.isnan(b)
            same = np.array_equal(a, b, equal_nan=True)
            same = same and np.array_equal(np.signbit(a[real]), np.signbit(b[real]))
        else:
            same = np.allclose(a, b, RELATIVE, ABSOLUTE, equal_nan=True)
        if not same:
            found.append(f"{mine.tolist()}, not {theirs.tolist()}")
    return found


def instances(name: str, count: int = INSTANCES) -> Iterator[Case]:
    return (CASES[name](Draw(seed)) for seed in range(count))


@pytest.mark.parametrize("name", CASES)
def test_denotation_agrees_with_onnx_runtime(name: str) -> None:
    for seed, case in enumerate(instances(name)):
        assert not differences(case), f"instance {seed} of {name}: {case}"


# A wrong denotation for some of the cases: the comparison has to notice.
WRONG = {
    "Transpose": lambda c, t: t,
    "Abs": lambda c, t: elementwise.pointwise(c, "Relu", t),
    "Neg": lambda c, t: elementwise.sub(c, 0, t),
    "Sub": lambda c, a, b: elementwise.sub(c, b, a),
    "Round": lambda c, t: elementwise.pointwise(c, "Floor", t),
    "LeakyRelu": lambda c, t: elementwise.elu(c, t),
    "CumSum": lambda c, t, _: reduction.cumsum(c, t, 0),
    "Gelu": lambda c, t: elementwise.gelu(c, t),
    "Flatten": lambda c, t: MEANINGS["Flatten"](c, t, 1),
    "ReduceMax": lambda c, t, _: reduction.reduce(c, "max", t, 0),
    "Attention": lambda c, q, k, v, _: attention.attention(c, q, k, v),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_denotation_is_noticed(name: str) -> None:
    noticed = 0
    for case in instances(name, 20):
        try:
            noticed += bool(differences(replace(case, denote=WRONG[name])))
        except (IllFormed, IndexError):
            noticed += 1
    assert noticed


def ones(*sizes: int) -> np.ndarray:
    return np.ones(sizes, np.float32)


# What ONNX Runtime refuses breaks a condition of the denotation.
ILL_FORMED = {
    "broadcasting": Case("Add", [ones(2), ones(3)], elementwise.add),
    "the inner sizes": Case("MatMul", [ones(2, 3), ones(2, 3)], contraction.matmul),
    "the batch": Case("MatMul", [ones(2, 1, 1), ones(3, 1, 1)], contraction.matmul),
    "matrices": Case("Gemm", [ones(2), ones(2, 3)], contraction.gemm),
    "the shape of a bias": Case(
        "Gemm", [ones(1, 2), ones(2, 2), ones(3)], contraction.gemm
    ),
    "the channels of Conv": Case(
        "Conv", [ones(1, 2, 3), ones(1, 1, 1)], convolution.conv
    ),
    "the bias": Case("Conv", [ones(1, 1, 3), ones(2, 1, 1), ones(1)], convolution.conv),
    "the sizes of Concat": Case(
        "Concat",
        [ones(2, 3), ones(3, 3)],
        lambda c, a, b: movement.concat2(c, 1, a, b),
        {"axis": 1},
    ),
    "the batch of attention": Case(
        "Attention",
        [ones(1, 2, 1, 1), ones(2, 2, 1, 1), ones(2, 2, 1, 1)],
        attention.attention,
    ),
    "the mask": Case(
        "Attention",
        [ones(1, 1, 2, 1), ones(1, 1, 1, 1), ones(1, 1, 1, 1), ones(2, 2)],
        attention.attention,
    ),
    "scale and bias": Case(
        "LayerNormalization",
        [ones(2, 3), ones(2)],
        lambda c, x, s: normalization.layer_normalization(c, x, s, None, 1, 1e-3),
    ),
    "a squeezed axis": Case(
        "Squeeze", [ones(2), ints(0)], lambda c, t, _: movement.squeeze(c, t, 0)
    ),
    "the sizes of squeezed axes": Case(
        "Squeeze",
        [ones(1, 2), ints(0, 1)],
        lambda c, t, _: movement.squeeze_set(c, t, axis_range(0, 2)),
    ),
    "the sizes of Expand": Case(
        "Expand",
        [ones(2), ints(3)],
        lambda c, t, _: movement.expand(c, t, 1, shape(3)),
    ),
    "indices": Case(
        "Gather",
        [ones(2), ints(2)],
        lambda c, t, _: gathered(c, t, 0, per_axis([2]), 1),
    ),
    "the number of elements": Case(
        "Reshape",
        [ones(2), ints(3)],
        lambda c, t, _: reshape.reshape(c, t, 1, shape(3)),
    ),
    "a permutation": Case(
        "Transpose",
        [ones(2, 2)],
        lambda c, t: movement.transpose(c, t, per_axis([0, 0]), per_axis([0, 0])),
        {"perm": [0, 0]},
    ),
    "channels that are blocks": Case(
        "DepthToSpace",
        [ones(1, 3, 1, 1)],
        lambda c, t: reshape.depth_to_space(c, t, 2),
        {"blocksize": 2},
    ),
}


@pytest.mark.parametrize("what", ILL_FORMED)
def test_what_onnx_runtime_refuses_is_ill_formed(what: str) -> None:
    with pytest.raises(IllFormed, match=what):
        denoted(ILL_FORMED[what])
    with pytest.raises(Refused):
        reference(ILL_FORMED[what])


def test_reading_outside_is_an_error() -> None:
    beyond = Tensor(1, shape(1), lambda i: Element("x", 1, lambda k: i(k) - 1))
    with pytest.raises(IndexError, match=r"x\[-1\] of shape \[2\]"):
        Evaluator({"x": ones(2)}).array(beyond)
