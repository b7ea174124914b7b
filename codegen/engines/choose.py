"""Which engines may run a network, and whether its Session measures them.

An engine that traces is sound where neither what is done nor a size depends on a value:
then one run for given sizes stands for all.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Set
from importlib.util import find_spec
from textwrap import indent

import onnx_ir as ir

from ...analysis.cost.graph_cost import GraphCost
from ...analysis.errors import FairhandError
from ...analysis.graph.constants import is_constant
from ...analysis.graph.dims import is_invented
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.literals import one_line
from ...analysis.ops import lookup
from ..emit.engines_file import EXACT, PACKED
from ..emit.session_file import kind_of
from ..ir.copied_source import definition
from ..ir.engine_plan import TRACING, EnginePlan
from ..ir.package_plan import PackagePlan
from ..plan.make_plan import CompiledModel
from ..request.choices import AUTO

# Below this, a call is over in the time that PyTorch takes to start its operators, and
# preparing a size (0.2 s and more) is never earned back.
WORTH_PREPARING = 2e7  # operations of one run

# Bytes of weights that take longer to convert or lay out than operators to start.
MANY_BYTES = 2**18

# Products of these are what oneDNN Graph lays weights out for.
_HEAVY = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_INTEGERS = ("FakeQuantize", "QuantizedConv2d", "QuantizedLinear")
_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16})
_PLAIN = ("float32", "int64", "int32", "bool")
CACHES = "it takes lists of caches"
_MAYBE = "may not stand for another run"
_NOT_TENSORS = "not all it takes and gives are tensors of NumPy's types"
_READS = {".item", ".tolist", ".numpy"}  # a trace would keep what is read as it was
_SIZES = {"torch.Size", ".numel"}  # the same of a size, without PyTorch's warning


def engine_plan(
    compiled: CompiledModel, sizes: Mapping[str, int], wanted: str, precision: str
) -> EnginePlan:
    """The engine `wanted`; AUTO only where there is more than the network itself,
    and a run takes long enough for that to matter.

    `sizes` are those of a typical run, for dimensions that are free. Raises
    FairhandError where the network can't run on what is wanted.
    """
    graph, plan, cost = compiled.graph, compiled.plan, compiled.rewriting.after
    shapes = compiled.rewriting.shapes
    calls = frozenset(_calls(plan))
    found = list(_obstacles(graph, shapes, plan, calls))
    refused = found[0] if found else ""
    plain = () if any(map(_is_by_channels, graph.graph)) else ("nn.Conv2d",)
    layers = tuple(layer for layer in PACKED if layer in calls.difference(plain))
    if precision in ("bf16", "fp16"):
        _check_half(precision, refused, plan)
    if precision == "int8":
        _check_int8(wanted, graph, layers)
    _check_tracing(wanted, refused)
    rows = _single_rows(graph, shapes)
    heavy = [node for node in graph.graph if node.op_type in _HEAVY | {"LSTM"}]
    types = {node.outputs[0].dtype for node in heavy}
    halves = types == {ir.DataType.FLOAT16}
    convolves = any("Conv" in node.op_type for node in heavy)
    integers = () if precision == "int8" else _integer_layers(plan)
    tensors = precision == "float32" and _NOT_TENSORS not in found
    exact = tuple(name for name in EXACT if name in calls) if tensors else ()
    name = wanted
    if wanted == AUTO:
        lstm = "nn.LSTM" in layers and types == {ir.DataType.FLOAT}
        stored = [value.const_value for value in graph.graph.initializers.values()]
        takes_long = sum(a.nbytes for a in stored if a is not None) >= MANY_BYTES
        many = bool(exact or integers or lstm) and takes_long  # to convert
        typed = types <= _FLOATS and bool(types or layers)
        known = typed and _is_worth_preparing(cost, sizes)
        others = not refused or many or (layers and precision != "int8")
        worth = (known or many or precision != "float32") and others
        name = AUTO if worth and _NOT_TENSORS not in found else "eager"
    if name == "eager" and precision == "float32" and not refused:
        refused = "compile with --engine onednn to have more"
    shared = precision != "int8" and not halves and len(set(rows)) < len(rows)
    whole = precision != "int8" and not (integers or halves)
    return EnginePlan(
        name,
        refused,
        takes_images(graph, shapes),
        precision=precision,
        lists=bool(plan.interface.nested),
        layers=layers,
        halves=halves,
        rows=halves and (bool(plan.interface.nested) or not convolves),
        joins=shared and "nn.Linear" in layers,
        caches=whole and found == [CACHES] and calls.isdisjoint(_SIZES),
        makes=not (plan.lanes or plan.kernels) and makes_results(graph),
        integers=integers,
        exact=exact,
    )


def _is_by_channels(node: ir.Node) -> bool:
    """Whether it is a convolution for which `packed` has other words."""
    if node.op_type != "Conv" or node.inputs[1] is None:
        return False
    shape = node.inputs[1].shape
    if shape is None or not shape.is_static() or shape.rank() != 4:
        return False
    results, channels, *kernel = shape.numpy()
    groups = node.attributes.get_int("group", 1)
    return channels == 1 < groups and (results > groups or set(kernel) == {1})


def _integer_layers(plan: PackagePlan) -> tuple[str, ...]:
    """FakeQuantize, and those that multiply what it rounded by integers."""
    helpers = {definition(text).name for text in plan.helpers}
    found = tuple(name for name in _INTEGERS if name in helpers)
    return found if found[:1] == _INTEGERS[:1] and found[1:] else ()


def _calls(plan: PackagePlan) -> Iterator[str]:
    """What the network calls: functions as they are spelled, methods as `.item`."""
    bodies = ((*c.constructor.body, *c.forward.body) for c in plan.classes)
    texts = (f"def f():\n{indent(chr(10).join(body), '    ')}" for body in bodies)
    for text in (*texts, *plan.helpers):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call):
                yield ast.unparse(node.func)
                if isinstance(node.func, ast.Attribute):
                    yield f".{node.func.attr}"


def _check_half(precision: str, refused: str, plan: PackagePlan) -> None:
    """Kernels are for a GPU, where no network is traced."""
    if plan.kernels:
        refused = ""
    elif precision == "fp16":
        refused = "it has no kernels, and a CPU is slow in float16"
    if not refused and any(t.dtype not in _PLAIN for t in plan.interface.tensors):
        refused = "it takes or gives other types than float32, integers and booleans"
    if refused:
        _refuse_precision(precision, refused)


def _check_tracing(wanted: str, refused: str) -> None:
    if wanted == "openvino" and find_spec(wanted) is None:
        hint = 'pip install "fairhand[openvino]"'
        raise FairhandError(
            "OpenVINO isn't installed, and runs what is made", hint=hint
        )
    if refused and wanted in TRACING:
        raise FairhandError(
            f"engine {wanted} traces the network, which can't be done here: {refused}",
            hint="leave out --engine, or give --engine eager",
        )


def _check_int8(wanted: str, graph: ir.Model, layers: Collection[str]) -> None:
    products = (node for node in graph.graph if node.op_type in ("Gemm", "MatMul"))
    if "nn.Linear" not in layers or not any(
        node.outputs[0].dtype == ir.DataType.FLOAT for node in products
    ):
        _refuse_precision("int8", "it has no linear layers of float32")
    if wanted == "packed":
        raise FairhandError(
            "precision int8 packs linear layers in another way than engine packed",
            hint="leave out --engine",
        )


def _refuse_precision(precision: str, reason: str) -> None:
    raise FairhandError(
        f"precision {precision} isn't offered for this network: {reason}",
        hint="leave out --precision",
    )


def _obstacles(
    graph: ir.Model, shapes: ShapeFacts, plan: PackagePlan, calls: Set[str]
) -> Iterator[str]:
    """Why a trace of one run wouldn't do for another of the same sizes."""
    network = next(c for c in plan.classes if c.name == plan.network)
    if len(network.forward.arguments) < len(plan.interface.inputs):
        yield CACHES
    if plan.lanes:
        yield "a trace is of one thread, and it has lanes"
    if plan.kernels:
        yield "a trace does not launch kernels"
    if any(kind_of(t.dtype) for t in plan.interface.tensors):
        yield _NOT_TENSORS
    for node in graph.graph:
        name = one_line(node.op_type, 30)
        op = lookup(node)
        if op is None or not op.traceable:
            yield f"a trace of {name} {_MAYBE}"
        for out in node.outputs:
            dims = shapes.dims(out)
            if dims is None or any(map(is_invented, dims)):
                yield f"the size of what {name} gives depends on values"
            elif 0 in dims:
                yield f"what {name} gives is empty"
    if not calls.isdisjoint(_READS):
        yield "it takes a number out of a tensor"


def _is_worth_preparing(cost: GraphCost | None, sizes: Mapping[str, int]) -> bool:
    """Products that take longer than it takes to start them."""
    if cost is None:
        return False
    count = cost.at(sizes).flops
    if not isinstance(count, int):  # sizes without a name
        count = count.subs(dict.fromkeys(count.free_symbols, 1))
    return float(count) >= WORTH_PREPARING


def takes_images(graph: ir.Model, shapes: ShapeFacts) -> bool:
    """Whether a Session lays all inputs out with the channels innermost."""
    return any(node.op_type == "Conv" for node in graph.graph) and all(
        value.dtype == ir.DataType.FLOAT and shapes.rank(value) == 4
        for value in graph.graph.inputs
    )


def makes_results(graph: ir.Model) -> bool:
    """Whether no result can be a parameter, a constant, what was fed or a view of it.

    One that no input's values reach might be made once, by who traces the network.
    """
    fed = {value for value in graph.graph.inputs}
    for node in graph.graph:
        if node.op_type not in ("Shape", "Size") and not fed.isdisjoint(node.inputs):
            fed.update(node.outputs)
    return all(_is_made(value, fed) for value in graph.graph.outputs)


def _is_made(value: ir.Value, fed: set[ir.Value]) -> bool:
    node = value.producer()
    op = None if node is None else lookup(node)
    if node is None or op is None:
        return False
    if op.views and node.inputs[0] is not None:
        return _is_made(node.inputs[0], fed)
    return op.fresh and value in fed


def _single_rows(graph: ir.Model, shapes: ShapeFacts) -> list[ir.Value]:
    """What products with weights take, if it is one row."""
    single = []
    for node in graph.graph:
        if node.op_type not in _HEAVY:
            continue
        rows, weight = node.inputs[:2]
        if rows is not None and weight is not None and is_constant(weight):
            dims = (shapes.dims(rows) or ())[:-1]
            if "Conv" not in node.op_type and all(d == 1 for d in dims):
                single.append(rows)
    return single
