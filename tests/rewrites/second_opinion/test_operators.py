"""The arithmetic that checks applications computes what ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import onnx_ir as ir
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidGraph,
    NotImplemented,
)
from support.one_operator import arrays, one_node
from support.operator_cases import cases_of
from support.rule_samples import run

from fairhand.analysis.ops.registry import OPS, OpDef
from fairhand.rewrites.second_opinion.compare import OPERATORS, apply
from fairhand.rewrites.second_opinion.elementwise import BINARY, UNARY
from fairhand.rewrites.second_opinion.places import Kind, Undefined, Unknown, stored

NAMES = sorted({*UNARY, *BINARY, *OPERATORS})
NEVER = ["IsInf", "IsNaN", "Range"]  # of infinities, and of constants alone
UNTYPED = "types that NumPy hasn't"
LARGEST = 3000  # elements of a case
COMMON = {"FLOAT", "DOUBLE", "FLOAT16", "BOOL"}
COMMON |= {f"{u}INT{n}" for u in ("", "U") for n in (8, 16, 32, 64)}


def cases() -> Iterator[tuple[OpDef, int]]:
    for name in NAMES:
        for (domain, op_name), op in _defined(name):
            assert not domain or op_name
            yield from ((op, k) for k in range(len(cases_of(op))))


def _defined(name: str) -> list[tuple[tuple[str, str], OpDef]]:
    return [
        (("", name), op) for op in OPS.values() if op.name == name and not op.domain
    ]


CASES = list(cases())
REFUSALS = (Fail, InvalidGraph, NotImplemented)


@pytest.mark.parametrize(
    "place", range(len(CASES)), ids=[f"{op.name}-{k}" for op, k in CASES]
)
def test_an_operator_is_what_the_runtime_computes(place: int) -> None:
    reason = why_not_compared(place)
    if reason:
        pytest.skip(reason)


def test_most_cases_are_compared() -> None:
    compared = [case for k, case in enumerate(CASES) if not why_not_compared(k)]
    typed = [k for k in range(len(CASES)) if why_not_compared(k) != UNTYPED]
    assert len(compared) >= 0.92 * len(typed)  # 2,000 of 2,161
    assert sorted(set(NAMES) - {op.name for op, _ in compared}) == NEVER


@cache
def why_not_compared(place: int) -> str:
    """Why a case says nothing; '' if it does, and is right."""
    op, index = CASES[place]
    inputs = arrays(op, index)
    if any(
        x is not None and (isinstance(x, tuple) or x.size > LARGEST) for x in inputs
    ):
        return "too many elements, or no tensors"
    if {str(a) for a in _types(op, index)} - COMMON:
        return UNTYPED
    if any(_odd(x) for x in inputs):
        return "no numbers"
    model = one_node(op, cases_of(op)[index], inputs)
    node = ir.from_proto(model).graph[0]
    attributes = {name: a.value for name, a in node.attributes.items()}
    try:
        tensors = [
            None if x is None else stored(np.asarray(x), Kind.of(ir.tensor(x).dtype))
            for x in inputs
        ]
        found = apply(op.name, tensors, attributes, cases_of(op)[index].outputs)
        elements = [t.all() for t in found]
    except (Unknown, Undefined) as reason:
        return str(reason)
    feeds = {
        f"x{i}": np.asarray(x)
        for i, x in enumerate(inputs)
        if x is not None and i not in cases_of(op)[index].constants
    }
    try:
        outputs = run(model, feeds)
    except REFUSALS as reason:  # no kernel for a type, a form that it doesn't load
        return f"ONNX Runtime: {reason}"
    for tensor, numbers, expected in zip(found, elements, outputs, strict=False):
        assert tensor.shape == expected.shape
        if tensor.kind.name != "float":
            assert numbers == expected.reshape(-1).tolist()
            continue
        got = np.array(list(map(float, numbers)))
        wanted = expected.astype(np.float64).reshape(-1)
        finite = np.isfinite(wanted)
        scale = np.max(np.abs(wanted[finite]), initial=1.0)
        difference = np.abs(got[finite] - wanted[finite])
        assert np.all(difference <= 4e-3 * scale)
    return ""


def _odd(x: np.ndarray | None) -> bool:
    """Whether an input holds an infinity or NaN."""
    if x is None or np.asarray(x).dtype.kind not in "fV":
        return False
    return not np.all(np.isfinite(np.asarray(x).astype(np.float64)))


def _types(op: OpDef, index: int) -> list[ir.DataType]:
    found = [ir.tensor(np.asarray(x)).dtype for x in arrays(op, index) if x is not None]
    to = cases_of(op)[index].attrs.get("to")
    return found if to is None else [*found, ir.DataType(to)]
