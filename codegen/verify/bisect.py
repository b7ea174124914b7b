"""Which node is at fault when an emitted package and ONNX Runtime disagree.

ONNX Runtime runs the graph node by node. The expression that was emitted for a node
runs on the very values that ONNX Runtime gave that node, so an error shows where it is
made and nowhere after. Only what is still to be read is held.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import sympy
from onnx_ir.tensor_adapters import TorchTensor

from ...analysis.graph.dims import Dim
from ...analysis.graph.quantization import quantises
from ...analysis.graph.traversal import reads_of
from ...analysis.lazy import lazy
from ...analysis.literals import message_line, one_line
from ...analysis.ops.module_form import ModuleForm
from ...analysis.ops.node_view import describe
from ...analysis.oracle.child import to_array, to_value
from ...analysis.shapes.infer import infer
from ...analysis.spelling.expr import DeviceOf, DimOf, Expr, Leaf, Ref, helpers, render
from ..ir.assignment import Assignment, LayerRef
from ..ir.control_flow import Block
from ..ir.identifiers import unused, variable
from ..statements.from_graph import make_steps
from .tolerances import compare

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

# Constants of up to so many elements may be shapes or scales, which kernels of ONNX
# Runtime want as part of the model; larger ones are lent to it uncopied, as inputs.
_SMALL = 1024

Values = dict[ir.Value, ort.OrtValue]


def first_difference(
    graph: ir.Model, feed: Mapping[str, np.ndarray], expected: Sequence[np.ndarray] = ()
) -> str:
    """Where the package goes wrong that was written from `graph`, for a message.

    `graph` is the model as it was emitted, `feed` inputs on which the package fails,
    and `expected` the outputs of the file as it was. Names the first node that goes
    wrong on its own, else says that none does. Returns "" if the graph can't be run
    node by node; never raises.
    """
    try:
        with torch.inference_mode():
            return _Bisection(graph, feed).search(expected)
    except Exception:  # the mismatch itself is what the user must hear of
        return ""


class _Bisection:
    def __init__(self, model: ir.Model, feed: Mapping[str, np.ndarray]) -> None:
        self.model = model
        self.shapes = infer(model)
        self.place = {node: i for i, node in enumerate(model.graph)}
        self.steps: dict[ir.Node, list[Assignment]] = {}
        for step in make_steps(model, self.shapes):
            if isinstance(step, Block):
                continue  # has no expression that could be evaluated by itself
            producers = [p for v in step.outputs if v and (p := v.producer())]
            last = max(producers, key=self.place.__getitem__)
            self.steps.setdefault(last, []).append(step)
        self.values: Values = {}
        self.sizes: dict[Dim, int] = {}
        for value in model.graph.inputs:
            array = feed.get(value.name or "")
            if array is not None:
                self.values[value] = to_value(array)
                dims = self.shapes.dims(value) or ()
                self.sizes.update(zip(dims, array.shape, strict=False))
        self.ends = self.last_readers()
        self.worst, self.worst_node = 0.0, ""

    def last_readers(self) -> dict[ir.Node, list[ir.Value]]:
        """The values that nothing reads after a node and its steps have run."""
        last: dict[ir.Value, ir.Node] = {}
        for node in self.model.graph:
            steps = self.steps.get(node, ())
            reads = (v for step in steps for v in step.reads())
            last.update((v, node) for v in (*reads_of(node), *node.outputs, *reads))
        ends: dict[ir.Node, list[ir.Value]] = {}
        for value, node in last.items():
            if not value.is_graph_output():
                ends.setdefault(node, []).append(value)
        return ends

    def search(self, expected: Sequence[np.ndarray]) -> str:
        for node in self.model.graph:
            self.values.update(_run_alone(self.model, node, self.values))
            for step in self.steps.get(node, ()):
                name = describe(step.node or node, self.shapes)
                found = self.difference(step, name)
                if found:
                    return f"{name}: {found}"
            for value in self.ends.get(node, ()):
                self.values.pop(value, None)
        return self.elsewhere(expected)

    def elsewhere(self, expected: Sequence[np.ndarray]) -> str:
        """What to say when no node is at fault by itself."""
        for value, wanted in zip(self.model.graph.outputs, expected, strict=False):
            if value not in self.values:
                continue
            found = compare(to_array(self.values[value]), np.asarray(wanted), True)
            if not found:
                return (
                    "no node by itself: in ONNX Runtime too, what normalising and "
                    f"folding left gives another {_quoted(value)}: {found.reason}"
                )
        closest = f" (largest error {self.worst:.1g}, at {self.worst_node})"
        return (
            "no node by itself: each agrees with ONNX Runtime on the same inputs"
            f"{closest if self.worst else ''}, so the fault is in names, in order or "
            "in rounding that adds up"
        )

    def difference(self, step: Assignment, node: str) -> str:
        """How what was emitted for a step differs from its node; "" if it doesn't."""
        wanted = [None if v is None else self.values.get(v) for v in step.outputs]
        read = [self.values.get(v) for v in step.reads()]
        if not all(v is None or _is_plain(v) for v in (*wanted, *read)):
            return ""
        shown = "its layer"
        try:
            text, names = self.source(step)
            shown = one_line(text, 200)
            made = eval(text, names)  # our own text, from identifiers that we made
            results = tuple(made) if len(step.outputs) > 1 else (made,)
        except Exception as error:
            reason = message_line(f"{type(error).__name__}: {error}", 300)
            return f"{shown} fails: {reason}"
        if len(results) != len(step.outputs):
            return f"{shown} gives {len(results)} results, not {len(step.outputs)}"
        for value, result, want in zip(step.outputs, results, wanted, strict=True):
            if value is None or want is None:
                continue
            if not isinstance(result, torch.Tensor):
                return f"{shown} gives {type(result).__name__}, not a tensor"
            # As lenient as with whole models, so as not to blame mere rounding.
            found = compare(
                TorchTensor(result).numpy(), to_array(want), whole_model=True
            )
            if not found:
                return f"{_quoted(value)}, emitted as {shown}, differs: {found.reason}"
            if found.error > self.worst:
                self.worst, self.worst_node = found.error, node
        return ""

    def source(self, step: Assignment) -> tuple[str, dict[str, Any]]:
        """The expression of a step as text, and what the names in it stand for."""
        names = Names(self.size, lambda value: to_torch(self.operand(value)))
        return names.text(step.expr), names.known

    def operand(self, value: ir.Value) -> np.ndarray:
        """The array ONNX Runtime has for a value; good as long as `values` holds it."""
        if value in self.values:
            return to_array(self.values[value])
        assert value.const_value is not None, f"{value.name} is not there yet"
        return value.const_value.numpy()

    def size(self, dim: Dim) -> int:
        if isinstance(dim, int):
            return dim
        known = {d: n for d, n in self.sizes.items() if isinstance(d, sympy.Symbol)}
        return self.sizes[dim] if dim in self.sizes else int(dim.subs(known))


def _quoted(value: ir.Value) -> str:
    return f"output {one_line(value.name or '?', 60)}"


class Names:
    """What the names in the text of expressions stand for: modules, helpers, layers,
    and what `tensor` gives for a value; `size` gives numbers for sizes."""

    def __init__(
        self, size: Callable[[Dim], int], tensor: Callable[[ir.Value], Any]
    ) -> None:
        # Not what stands for it here: that takes time, and some of this is timed.
        whole = import_module("torch")
        functional = whole.nn.functional
        self.known = {"torch": whole, "F": functional, "math": math, "np": np}
        self.labels: dict[object, str] = {}
        self.size, self.tensor = size, tensor

    def text(self, expr: Expr) -> str:
        """An expression as Python, each name of which is known then."""
        self.known |= {name: f for f, name in helpers([expr]).items()}
        return render(expr, self._name)

    def bind(self, key: object, hint: str, thing: Callable[[], Any]) -> str:
        """The name of `key`, which stands for the thing that is made when it's new."""
        if key not in self.labels:
            self.labels[key] = unused(hint, self.known)
            self.known[self.labels[key]] = thing()
        return self.labels[key]

    def _name(self, leaf: Leaf) -> str:
        if isinstance(leaf, DimOf):
            return str(self.size(leaf.dim))
        if isinstance(leaf, DeviceOf):
            return '"cpu"'
        if isinstance(leaf, LayerRef):
            form = leaf.form
            return self.bind(form, "layer", lambda: build_layer(form))
        assert isinstance(leaf, Ref)
        value = leaf.value
        return self.bind(value, variable(value.name or "x"), lambda: self.tensor(value))


def build_layer(form: ModuleForm) -> torch.nn.Module:
    """The layer as the emitted module makes it, with its weights."""
    text = render(form.constructed())
    with torch.device("meta"):
        names = {"nn": torch.nn, "torch": torch, form.layer: form.source}
        layer = eval(text, names)  # as in `difference`
    arrays = {name: weight.array() for name, weight in form.weights.items()}
    arrays.update(getattr(form, "buffers", {}))
    state = {name: to_torch(np.asarray(array)) for name, array in arrays.items()}
    layer.load_state_dict(state, assign=True)
    return layer.eval()


# ------------------------------------------------------------- one node in ONNX Runtime


def _run_alone(model: ir.Model, node: ir.Node, values: Values) -> Values:
    """The outputs of one node in ONNX Runtime, optimisation off."""
    proto = onnx.ModelProto(ir_version=model.ir_version)
    for domain, version in model.graph.opset_imports.items():
        proto.opset_import.add(domain=domain, version=version)
    proto.graph.name = "node"
    proto.graph.node.append(ir.to_proto(node))
    feed = {}
    for value in reads_of(node):
        constant = value.const_value
        if (
            value not in values
            and constant is not None
            and (
                constant.size <= _SMALL
                or quantises(node)  # packs what is constant alone
            )
        ):
            stored = ir.serde.serialize_tensor(constant)
            stored.name = value.name or ""
            proto.graph.initializer.append(stored)
            continue
        if value not in values:
            assert constant is not None, f"{value.name} is not there yet"
            feed[value.name] = to_value(constant.numpy())
        else:
            feed[value.name] = values[value]
        info = proto.graph.input.add(name=value.name)
        if value.type is not None:
            ir.serde.serialize_type_into(info.type, value.type)
    outputs = [value for value in node.outputs if value.name]
    proto.graph.output.extend(onnx.ValueInfoProto(name=v.name) for v in outputs)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    session = ort.InferenceSession(proto.SerializeToString(), options, providers)
    results = session.run_with_ort_values([v.name for v in outputs], feed)
    return dict(zip(outputs, results, strict=True))


# ------------------------------------------- between NumPy, ONNX Runtime and PyTorch
# NumPy has no bfloat16 or float8 of its own: their bits travel.


def _is_plain(value: ort.OrtValue) -> bool:
    """Whether ONNX Runtime hands the value out as numbers: no sequence, no float8."""
    if not value.is_tensor():
        return False
    dtype = ir.DataType(value.element_type())
    return dtype == ir.DataType.BFLOAT16 or dtype.numpy().kind in "biufc"


def to_torch(array: np.ndarray) -> torch.Tensor:
    """A tensor of the same type and elements, also of types that NumPy lacks."""
    name = array.dtype.name
    bits = array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # read-only arrays; nothing here writes
        tensor = torch.from_numpy(np.asarray(bits))
    return tensor.view(getattr(torch, name)) if bits is not array else tensor
