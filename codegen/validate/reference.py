"""The rewritten graph as the operator table spells it: one call after another.

No modules, no classes, no loops but the graph's own, no names: a function of one line
per node, as text, and what its constants and layers hold, by digest. This is what a
validated model.py is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import sympy

from ...analysis.graph.dims import Dim
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.graph.weight_access import glance
from ...analysis.ops.module_form import ModuleForm
from ...analysis.ops.node_view import describe
from ...analysis.spelling.expr import (
    TORCH_DTYPES,
    DeviceOf,
    DimOf,
    Expr,
    Leaf,
    Name,
    Ref,
    helpers,
    render,
)
from ..emit.weights import parts
from ..ir.assignment import Assignment, LayerRef
from ..ir.control_flow import Action, Block
from ..ir.size_expr import dim_expr
from ..statements.from_graph import spelled_steps
from .digests import content_digest

# Constants of so many whole numbers come with them: indices, sizes, counts.
_SMALL = 2**12
_KINDS = {**TORCH_DTYPES, ir.DataType.STRING: "object"}


@dataclass
class Reference:
    """What another process needs to run the graph call by call, but for its weights.

    `text` defines `run`, which takes the inputs and returns a list of the outputs.
    `nodes` names what stands in each line of it. `imports` are the functions and
    classes that it calls, as module and name. `layers` are the texts of layers with
    what they hold; what is held is a digest, a type and a shape, or the numbers.
    `sizes` are the names of open sizes, and what `inputs` call them; `places` says of
    which input and axis each is, and `tries` give them numbers.
    """

    text: str = ""
    nodes: dict[str, str] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    constants: dict[str, dict[str, Any]] = field(default_factory=dict)
    layers: dict[str, dict[str, Any]] = field(default_factory=dict)
    inputs: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    sizes: dict[str, str] = field(default_factory=dict)
    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    tries: list[dict[str, int]] = field(default_factory=list)
    images: bool = False  # its inputs are, which a Session lays out channels innermost

    def with_feed(self, feed: Mapping[str, Any]) -> Reference:
        """The same, where sizes of what is fed, and like those, are tried first."""
        known = {
            (name, axis): size
            for name, value in feed.items()
            for axis, size in enumerate(getattr(value, "shape", ()))
        }
        if not all(place in known for place in self.places.values()):
            return self
        fed = {name: known[place] for name, place in self.places.items()}
        # PyTorch takes a size of 1 for a number: others may do as well.
        more = {name: size if size != 1 else 3 for name, size in fed.items()}
        return replace(self, tries=[more, fed, *self.tries])


def reference(
    graph: ir.Model,
    shapes: ShapeFacts,
    sizes: Sequence[Mapping[tuple[str, int], int]] = ({},),
    faithful: bool = False,
) -> Reference:
    """The reference of a rewritten graph, `faithful` as for `spelled_steps`.

    `sizes` are tries of numbers for open sizes, by the names of inputs and axes. Raises
    Unsupported as spelling the graph does.
    """
    made = _Writer(graph, shapes, faithful).write()
    places = {
        str(dim): (value.name or "", axis)
        for value in graph.graph.inputs
        for axis, dim in enumerate(shapes.dims(value) or ())
    }
    made.places = {name: places[name] for name in made.sizes}
    for given in sizes:
        tried = {name: given.get(place, 1) for name, place in made.places.items()}
        made.tries.append(tried)
    return made


class _Writer:
    def __init__(self, graph: ir.Model, shapes: ShapeFacts, faithful: bool) -> None:
        self.graph, self.shapes = graph.graph, shapes
        self.made = Reference()
        self.lines: list[str] = []
        self.names: dict[object, str] = {}
        self.sources: dict[Dim, tuple[ir.Value, int]] = {}
        for value in self.graph.inputs:
            for axis, dim in enumerate(shapes.dims(value) or ()):
                if not isinstance(dim, int):
                    self.sources.setdefault(dim, (value, axis))
        self.steps = spelled_steps(graph, shapes, faithful)

    def write(self) -> Reference:
        inputs = list(self.graph.inputs)
        self.made.inputs = [self.given(value) for value in inputs]
        self.made.outputs = [value.name or "" for value in self.graph.outputs]
        self.lines.append(f"def run({', '.join(map(self.value, inputs))}):")
        self.block(self.steps, 1)
        outputs = ", ".join(map(self.value, self.graph.outputs))
        self.lines.append(f"    return [{outputs}]")
        self.made.text = "\n".join(self.lines) + "\n"
        return self.made

    def given(self, value: ir.Value) -> dict[str, Any]:
        """An input: its type, and its sizes as numbers or in Python, of SIZES."""
        kind, wraps = value.type, []
        while isinstance(kind, ir.OptionalType | ir.SequenceType):
            wraps.append("optional" if isinstance(kind, ir.OptionalType) else "list")
            kind = kind.elem_type
        dtype = kind.dtype if isinstance(kind, ir.TensorType) else None
        dims = self.shapes.dims(value)
        return {
            "name": value.name or "",
            "wraps": wraps,
            "dtype": _KINDS.get(dtype, "") if dtype is not None else "",
            "dims": None if dims is None else list(map(self.dim, dims)),
        }

    def dim(self, dim: Dim) -> int | str:
        if isinstance(dim, int):
            return dim
        return render(dim_expr(dim, self.symbol))

    def symbol(self, dim: sympy.Expr) -> Expr | None:
        if not isinstance(dim, sympy.Symbol):
            return None
        return Name(self.made.sizes.setdefault(str(dim), f"n{len(self.made.sizes)}"))

    # ------------------------------------------------------------------------- lines

    def block(self, steps: Iterable[Any], depth: int) -> None:
        begun = len(self.lines)
        for step in steps:
            if not isinstance(step, Block):
                self.line(step, depth)
                continue
            self.block(step.entry, depth) if step.entry else None
            self.add(self.head(step.head), step, depth)
            for i, body in enumerate(step.bodies):
                if i:
                    self.add("else:", step, depth)
                self.block(body, depth + 1)
            self.block(step.exit, depth) if step.exit else None
        if len(self.lines) == begun:
            self.lines.append("    " * depth + "pass")

    def line(self, step: Assignment, depth: int) -> None:
        text = self.text(step.expr)
        kind = step.kind if isinstance(step, Action) else "set"
        if kind == "break":
            self.add(f"if {text}: break", step, depth)
        elif kind == "call":
            self.add(text, step, depth)
        else:
            self.add(f"{self.targets(step.outputs)} = {text}", step, depth)

    def head(self, head: Action) -> str:
        text = self.text(head.expr)
        if head.kind == "for":
            return f"for {self.targets(head.outputs)} in {text}:"
        return f"{head.kind} {text}:"

    def targets(self, values: Sequence[ir.Value | None]) -> str:
        return ", ".join("_" if v is None else self.value(v) for v in values) or "_"

    def add(self, text: str, step: Assignment, depth: int) -> None:
        self.lines.append("    " * depth + text)
        if step.node is not None:
            self.made.nodes[str(len(self.lines))] = describe(step.node, self.shapes)

    # ------------------------------------------------------------------------- names

    def text(self, expr: Expr) -> str:
        for function in helpers([expr]):
            self.take(function)
        return render(expr, self.leaf)

    def leaf(self, leaf: Leaf) -> str:
        if isinstance(leaf, DimOf):
            return f"({render(dim_expr(leaf.dim, self.size), self.leaf)})"
        if isinstance(leaf, DeviceOf):
            return '"cpu"'
        if isinstance(leaf, LayerRef):
            return self.bind(
                leaf.form, "layer", lambda name: self.layer(leaf.form, name)
            )
        assert isinstance(leaf, Ref)
        return self.value(leaf.value)

    def size(self, dim: sympy.Expr) -> Expr | None:
        if dim not in self.sources:
            return None
        value, axis = self.sources[dim]
        return Name(self.value(value)).shape[axis]

    def value(self, value: ir.Value) -> str:
        return self.bind(value, "v", lambda name: self.constant(value, name))

    def bind(self, key: object, hint: str, enter: Callable[[str], None]) -> str:
        if key not in self.names:
            self.names[key] = f"{hint}{len(self.names)}"
            enter(self.names[key])
        return self.names[key]

    def take(self, thing: Any) -> None:
        self.made.imports[thing.__name__] = thing.__module__, thing.__qualname__

    def constant(self, value: ir.Value, name: str) -> None:
        # What is stored is named by its content; all else is what a line makes.
        if value.const_value is not None:
            self.made.constants[name] = _held(glance(value.const_value))

    def layer(self, form: ModuleForm, name: str) -> None:
        arrays = {key: weight.glance() for key, weight in form.weights.items()}
        arrays |= {k: np.asarray(a) for k, a in getattr(form, "buffers", {}).items()}
        if form.source is not None:
            self.take(form.source)
        text = render(form.constructed())
        holds = {key: _held(array) for key, array in arrays.items()}
        self.made.layers[name] = {"text": text, "holds": holds}


def _held(array: np.ndarray) -> dict[str, Any]:
    """What stands for a constant: its digest, and its elements where they are few."""
    kind = ir.DataType.from_numpy(array.dtype) if array.dtype.kind != "O" else None
    if kind is None or kind not in TORCH_DTYPES:
        return {"array": array}
    dtype = TORCH_DTYPES[kind]
    if kind.bitwidth < 8:
        array = array.astype(getattr(ml_dtypes, dtype, dtype))
    found: dict[str, Any] = {"dtype": dtype, "shape": list(array.shape)}
    if array.size <= _SMALL and array.dtype.kind in "iub":
        found["numbers"] = np.array(array)
    return found | {"digest": content_digest(dtype, array.shape, _rows(array))}


def _rows(array: np.ndarray) -> Iterator[Any]:
    """The bytes of an array, some rows at a time: a transposed one is copied."""
    for part in parts(array):
        yield np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
