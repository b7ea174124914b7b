"""Every case of every operator: what prints, what runs and ONNX Runtime must agree.

A case becomes a model of one node. Its spelling is printed and evaluated, and run: the
two must give the same bits, and the expected result within a tolerance. A layer form is
built with the weights it names and checked in the same way.
"""

from __future__ import annotations

import ast
import inspect
import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
import torch.nn.functional as F
from onnx.reference import ReferenceEvaluator
from support.contrib_formulas import FORMULAS
from support.one_operator import OPSET, arrays, one_node
from support.operator_cases import Case, cases_of
from support.running import Running
from torch import Tensor, nn

from fairhand.analysis import ops  # noqa: F401  # fills the table
from fairhand.analysis.ops.facts import (
    cuts,
    index_functions,
    sizes_elementwise,
    small_values,
)
from fairhand.analysis.ops.helpers import elementwise
from fairhand.analysis.ops.module_form import unusual
from fairhand.analysis.ops.node_view import NodeView, of_strings
from fairhand.analysis.ops.registry import OPS, OpDef
from fairhand.analysis.oracle.int8_overflow import without_overflow
from fairhand.analysis.shapes.infer import infer
from fairhand.analysis.spelling.expr import (
    DeviceOf,
    Expr,
    HelperRef,
    Leaf,
    Printing,
    Ref,
    leaves,
    render,
)
from fairhand.codegen.statements.spell_nodes import Spelling
from fairhand.codegen.verify.tolerances import compare
from fairhand.rewrites.lowering import load_all

load_all()
HAS_NO_KERNEL = (
    ort.capi.onnxruntime_pybind11_state.NotImplemented,
    ort.capi.onnxruntime_pybind11_state.InvalidGraph,
    ort.capi.onnxruntime_pybind11_state.Fail,
    ort.capi.onnxruntime_pybind11_state.RuntimeException,
)
CASES = [
    pytest.param(op, i, id=f"{op.name}-{i}")
    for op in OPS.values()
    for i in range(len(cases_of(op)))
]
ORACLES: Counter[str] = Counter()
MODULES = {"torch": torch, "F": F, "math": math, "np": np, "json": json, "re": re}
torch.set_num_threads(1)


# ---- a model of one node


# ---- what is expected


def expected(
    op: OpDef, case: Case, inputs: list[np.ndarray | None]
) -> tuple[list[Any], str]:
    """The outputs, and who computed them: ONNX Runtime, else onnx's own evaluator.

    The newest version of an operator may still lack a kernel that an older one has.
    """
    feed = {
        f"x{i}": list(x) if isinstance(x, tuple) else np.asarray(x)
        for i, x in enumerate(inputs)
        if x is not None and i not in case.constants
    }
    newest = one_node(op, case, inputs)
    for proto in (newest, one_node(op, case, inputs, OPSET if op.domain else op.since)):
        if not all(map(_is_numpy_type, (*proto.graph.input, *proto.graph.output))):
            continue  # it takes and gives no others
        try:
            return _session(proto).run(None, feed), "onnxruntime"
        except HAS_NO_KERNEL:
            continue
    if (formula := FORMULAS.get((op.domain, op.name))) is not None:
        return list(formula(case.attrs, inputs)), "formula"
    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(newest).run(None, feed)), "onnx reference"


def _session(proto: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    exact = without_overflow(ir.from_proto(proto)) or proto.SerializeToString()
    return ort.InferenceSession(exact, options, providers=["CPUExecutionProvider"])


def _is_numpy_type(info: onnx.ValueInfoProto) -> bool:
    if not info.type.HasField("tensor_type"):
        return True
    code = info.type.tensor_type.elem_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(code) if code else np.dtype(object)
    return dtype.isbuiltin == 1


# ---- between NumPy and torch


# How types of less than 8 bits are held.
HELD = {
    np.dtype(name): np.dtype(held)
    for names, held in (
        (("int4", "int2"), np.int8),
        (("uint4", "uint2"), np.uint8),
        (
            ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
            ml_dtypes.float8_e4m3fn,
        ),
    )
    for name in names
}


def to_torch(x: np.ndarray | tuple[np.ndarray, ...]) -> Any:
    if isinstance(x, tuple):
        return list(map(to_torch, x))
    if np.asarray(x).dtype == object:  # strings
        return np.asarray(x)
    x = np.asarray(x, HELD.get(np.asarray(x).dtype))
    if x.dtype.kind != "V" and "float8" not in x.dtype.name:
        return torch.from_numpy(np.array(x))
    bits = torch.from_numpy(np.array(x).view(f"uint{8 * x.dtype.itemsize}"))
    return bits.view(getattr(torch, x.dtype.name))


def to_numpy(x: Tensor) -> np.ndarray:
    name = str(x.dtype).removeprefix("torch.")
    if not hasattr(ml_dtypes, name):
        return x.detach().numpy()
    width = getattr(torch, f"uint{8 * x.dtype.itemsize}")
    return x.detach().view(width).numpy().view(getattr(ml_dtypes, name))


def flat(result: Any) -> Iterator[np.ndarray | None]:
    """The arrays of a result: a tensor, or nested tuples and lists of them."""
    if isinstance(result, tuple | list):
        for item in result:
            yield from flat(item)
    else:
        yield to_numpy(result) if isinstance(result, Tensor) else result


def assert_close(result: Any, wanted: list[Any], text: str) -> None:
    made, hoped = list(flat(result)), list(flat(wanted))  # a list is one output
    assert len(made) <= len(hoped), text
    for actual, right in zip(made, hoped, strict=False):
        if actual is not None:
            right = np.asarray(right)
            right = right.astype(HELD.get(right.dtype, right.dtype))
            right = right.astype(object) if right.dtype.kind == "U" else right
            found = compare(actual, right, whole_model=False)
            assert found, f"{found.reason}: {text}"


def assert_same_bits(result: Any, other: Any, text: str) -> None:
    for a, b in zip(flat(result), flat(other), strict=True):
        if a is None or b is None:
            assert a is b, text
        else:
            assert (a.dtype, a.shape) == (b.dtype, b.shape), text
            assert (
                a.tolist() == b.tolist()
                if a.dtype == object
                else (a.tobytes() == b.tobytes())
            ), text


# ---- the two readings


def plain(operand: Any) -> Any:
    """A number of the graph as the Python number that the emitted code holds."""
    if isinstance(operand, Expr):  # a constant of strings
        return eval(render(operand, name_of), dict(MODULES))
    return operand.item() if isinstance(operand, np.generic) else operand


def name_of(leaf: Leaf) -> str:
    if isinstance(leaf, DeviceOf):
        return '"cpu"'
    assert isinstance(leaf, Ref), f"a case has fixed sizes, but {leaf} is not"
    return str(leaf.value.name)


def parsed(function: Callable[..., Any]) -> ast.AST:
    return ast.parse(inspect.getsource(function))


@cache
def copied(function: Callable[..., Any]) -> Any:
    """A helper as it arrives in an emitted module: its source, and no other imports."""
    function = inspect.unwrap(function)  # of what stands for one until it is called
    found, module = [function], inspect.getmodule(function)
    for each in found:
        words = {
            node.id for node in ast.walk(parsed(each)) if isinstance(node, ast.Name)
        }
        found += [
            other
            for other in (getattr(module, name, None) for name in sorted(words))
            if (inspect.isfunction(other) or inspect.isclass(other))
            and inspect.getmodule(other) is module
            and other not in found
        ]
    header = "from __future__ import annotations\n"
    space = {**MODULES, "Tensor": Tensor, "nn": nn}
    exec(header + "\n".join(map(inspect.getsource, reversed(found))), space)
    return space[function.__name__]


def evaluate(made: Any, values: dict[str, Tensor]) -> tuple[str, Any]:
    """The printed source, and what it evaluates to."""
    if isinstance(made, tuple):
        parts = [("None", None) if e is None else evaluate(e, values) for e in made]
        return ", ".join(text for text, _ in parts), tuple(x for _, x in parts)
    assert isinstance(made, Expr)
    text = render(made, name_of)
    space = {**MODULES, **values}
    for leaf in leaves(made):
        if isinstance(leaf, HelperRef):
            space[leaf.function.__name__] = copied(leaf.function)
        elif isinstance(leaf, Ref) and leaf.value.const_value is not None:
            space[str(leaf.value.name)] = to_torch(leaf.value.const_value.numpy())
    return text, eval(text, space)


@pytest.mark.parametrize(("op", "index"), CASES)
def test_operator(op: OpDef, index: int) -> None:
    case, inputs = cases_of(op)[index], arrays(op, index)
    wanted, oracle = expected(op, case, inputs)
    ORACLES[oracle] += 1

    model = ir.from_proto(one_node(op, case, inputs))
    shapes = infer(model)
    view = NodeView(model.graph.node(0), shapes)
    values = {f"x{i}": to_torch(x) for i, x in enumerate(inputs) if x is not None}
    spelling = (of_strings(view.node) and op.strings) or op.torch
    if spelling is not None:
        operands = Spelling(model, shapes).operands(view, op)
        text, printed = evaluate(spelling(Printing(), view, *operands), values)
        tensors = [
            values[str(x.value.name)] if isinstance(x, Ref) else plain(x)
            for x in operands
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ran = spelling(Running(), view, *tensors)
        assert_same_bits(printed, ran, text)
        assert_close(printed, wanted, text)
    form = op.module(view) if op.module is not None else None
    if form is not None:
        keywords = unusual(form.keywords)
        own = {"nn": nn, form.layer: form.source and copied(form.source)}
        layer = eval(form.layer, own)(*form.positional, **keywords)
        state = {name: to_torch(w.array()) for name, w in form.weights.items()}
        layer.load_state_dict(state, assign=True)
        layer.eval()
        arguments = [values[str(value.name)] for value in form.inputs]
        ran = (form.call or (lambda t, layer, *xs: layer(*xs)))(
            Running(), layer, *arguments
        )
        assert_close(ran, wanted, f"{form.layer}{form.positional}, {keywords}")


_REAL = (torch.float16, torch.float32, torch.float64)
TRACEABLE = [
    pytest.param(op, id=op.name)
    for op in OPS.values()
    if op.traceable and op.torch is not None and cases_of(op)
]


@pytest.mark.parametrize("op", TRACEABLE)
def test_a_trace_of_one_run_stands_for_another(op: OpDef) -> None:
    """What an operator does on other numbers of the same sizes was recorded too."""
    assert op.torch is not None
    for index, case in enumerate(cases_of(op)[:2]):
        inputs = arrays(op, index)
        model = ir.from_proto(one_node(op, case, inputs))
        shapes = infer(model)
        view = NodeView(model.graph.node(0), shapes)
        operands = Spelling(model, shapes).operands(view, op)
        values = {f"x{i}": to_torch(x) for i, x in enumerate(inputs) if x is not None}
        names = [str(x.value.name) for x in operands if isinstance(x, Ref)]
        if of_strings(view.node):
            continue
        fed = [n for n in dict.fromkeys(names) if values[n].dtype in _REAL]

        def run(*given: Tensor) -> tuple[Tensor, ...]:
            known = {**values, **dict(zip(fed, given, strict=True))}  # noqa: B023
            xs = [
                known[str(x.value.name)] if isinstance(x, Ref) else plain(x)
                for x in operands  # noqa: B023
            ]
            found = op.torch(Running(), view, *xs)  # noqa: B023
            found = found if isinstance(found, tuple) else (found,)
            return tuple(x for x in found if isinstance(x, Tensor))

        if not fed:
            continue
        others = [values[n].flip(tuple(range(values[n].dim()))) for n in fed]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(
                run, tuple(values[n] for n in fed), check_trace=False
            )
            for got, right in zip(traced(*others), run(*others), strict=True):
                assert_same_bits(got, right, f"{op.name}, case {index}")


# Operators of maps, which no case can hold, and of our own, which ONNX Runtime lacks:
# see test_ml.py and, for the words of searches, test_search.py.
ELSEWHERE = {"CastMap", "ZipMap", "DictVectorizer", "PairwiseCoupling"} | {
    *("AllowedScores", "BeamEnd", "BeamStart", "BeamStep", "SampleStep"),
    *("GreedyStep", "JoinScores", "PadScores", "PadWords", "RepeatRows"),
}


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_operator_has_cases_and_a_true_version(op: OpDef) -> None:
    assert cases_of(op) or op.name in ELSEWHERE, "an operator comes with its tests"
    if op.domain == "":
        history = onnx.defs.get_all_schemas_with_history()
        versions = {
            s.since_version for s in history if (s.domain, s.name) == ("", op.name)
        }
        assert op.since in versions


def test_facts_are_found_by_the_name_of_their_operator() -> None:
    gather = OPS["", "GatherND"]
    assert gather.cut is cuts.gather_nd
    assert gather.shape is sizes_elementwise.gather_nd
    assert gather.by_index is index_functions.gather_nd
    assert OPS["", "Range"].values is small_values.range_
    # Not what a module of facts only imports, as it does a floor of sizes.
    assert OPS["", "Floor"].values is small_values.floor_
    # Of another domain's operator nothing is said by a name that it shares.
    other = OpDef("GatherND", 1, gather.mapping, domain="my.company")
    assert other.cut is None and other.shape is None
    own = OpDef("GatherND", 13, gather.mapping, cut=cuts.together())
    assert own.cut is not gather.cut and own.shape is gather.shape


def test_uint64_helpers_agree_with_python() -> None:
    edges = [0, 1, 2, 3, 7, 2**32, 2**63 - 1, 2**63, 2**63 + 5, 2**64 - 2, 2**64 - 1]
    pairs = list(product(edges, edges))
    x, y = (
        to_torch(np.array(column, np.uint64)) for column in zip(*pairs, strict=True)
    )
    shifted = elementwise.uint64_shift_right(x, y).tolist()
    assert shifted == [a >> min(b, 64) for a, b in pairs]
    key = elementwise.uint64_key
    assert (key(x) < key(y)).tolist() == [a < b for a, b in pairs]
    assert torch.equal(elementwise.uint64_from_key(key(x)), x)
    quotients = elementwise.uint64_divide(x, y).tolist()
    rests = elementwise.uint64_remainder(x, y).tolist()
    for (a, b), quotient, rest in zip(pairs, quotients, rests, strict=True):
        assert b == 0 or (quotient, rest) == divmod(a, b)


def test_onnx_runtime_judges_most_cases(record_property: Any) -> None:
    """The others have types that it has no kernels for, bfloat16 above all."""
    for oracle, count in ORACLES.items():
        record_property(oracle, count)
    assert ORACLES["onnxruntime"] >= 0.6 * ORACLES.total()
