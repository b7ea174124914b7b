"""Bring every ai.onnx node to the newest spelling of its operator.

An operator changes over the years: attributes become inputs, defaults move, modes get
new names. Everything after this stage knows one spelling only. What changed in which
operator is in the adapters (opset_inputs.py, opset_nn.py); here is what they work with.

Most versions differ in element types alone, or add an attribute whose default is the
old behaviour. Those need no adapter: a test compares every version of every operator
in onnx.defs with the next, and fails for a change that nobody has looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ...analysis.errors import MALFORMED, Unsupported, malformed
from ...analysis.graph.traversal import is_used, trimmed
from ...analysis.ops.node_view import sizes_option
from ...analysis.ops.registry import DOMAIN
from .provenance import take_over
from .unique_names import UniqueNames

# The newest opset that ONNX Runtime can run, so that every stage can be run.
TARGET_OPSET = 26


@dataclass(frozen=True)
class Adapter:
    """Rewrites the nodes of one operator whose version is `until` or older."""

    op: str
    until: int
    apply: Callable[[AdapterSite], None]
    needs_types: bool


ADAPTERS: list[Adapter] = []
_BY_OPERATOR: dict[str, list[Adapter]] = {}
# Operators outside of ONNX that have a spelling in it: (domain, name) -> how. Those
# whose spelling hangs on types behind one another come later (run.py says why).
EXTENSIONS: dict[tuple[str, str], Adapter] = {}


def adapter(
    *ops: str, until: int, types: bool = False
) -> Callable[[Callable[[AdapterSite], None]], Callable[[AdapterSite], None]]:
    """Register a function for operators up to and including version `until`.

    Of several adapters for an operator, the one with the lowest `until` that covers
    the node applies, alone: each leads to the newest spelling. With `types`, the
    element types and shapes of values are inferred before it runs, as far as possible.
    """

    def register(apply: Callable[[AdapterSite], None]) -> Callable[[AdapterSite], None]:
        for op in ops:
            ADAPTERS.append(Adapter(op, until, apply, types))
            _BY_OPERATOR.setdefault(op, []).append(ADAPTERS[-1])
        return apply

    return register


def extension(
    *ops: str, attrs: str | None = "", domain: str = DOMAIN, types: bool = True
) -> Callable[[Callable[[AdapterSite], None]], Callable[[AdapterSite], None]]:
    """Register a function that spells operators of ONNX Runtime's own in ONNX.

    `attrs` are the attributes that it knows; a node with another one is refused, unless
    it knows them all (None). Without `types`, it runs before these are inferred.
    """

    def register(apply: Callable[[AdapterSite], None]) -> Callable[[AdapterSite], None]:
        def checked(site: AdapterSite) -> None:
            known = site.node.attributes if attrs is None else attrs.split()
            unknown = set(site.node.attributes) - set(known)
            if unknown:
                raise site.unsupported(f"its attribute {min(unknown)!r} is not known")
            try:
                apply(site)
            except MALFORMED as error:  # where no schema has checked it
                raise site.unsupported(malformed(error)) from None

        for op in ops:
            assert (domain, op) not in EXTENSIONS, op
            EXTENSIONS[domain, op] = Adapter(op, 0, checked, types)
        return apply

    return register


def adapter_of(node: ir.Node, version: int) -> Adapter | None:
    """The adapter that a node needs, if its spelling is not the newest."""
    if (node.domain, node.op_type) in EXTENSIONS:
        return EXTENSIONS[node.domain, node.op_type]
    if node.domain != "":
        return None
    fitting = [a for a in _BY_OPERATOR.get(node.op_type, ()) if version <= a.until]
    return min(fitting, key=lambda a: a.until, default=None)


class AdapterSite:
    """A node to be adapted, in its graph, with what it takes to change it.

    The node itself stays and keeps its name and metadata; nodes added before or after
    it take over the metadata and a name derived from its own.
    """

    def __init__(
        self, node: ir.Node, version: int, main: ir.Graph, names: UniqueNames
    ) -> None:
        assert node.graph is not None
        self.node, self.version = node, version
        self.graph: ir.Graph = node.graph
        self._main, self._names = main, names

    @property
    def inputs(self) -> list[ir.Value | None]:
        """The operands, None for each that is left out."""
        return list(self.node.inputs)

    def input(self, index: int) -> ir.Value | None:
        """An input, or None if it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    @property
    def data(self) -> ir.Value:
        """The first input, which every adapted operator requires."""
        value = self.input(0)
        if value is None:
            raise self.unsupported("the first input is missing")
        return value

    def need(self, index: int) -> ir.Value:
        """An input that has to be there."""
        value = self.input(index)
        if value is None:
            raise self.unsupported(f"input {index} is missing")
        return value

    def rank(self, value: ir.Value) -> int:
        """The number of axes, which has to be known."""
        if value.shape is None:
            option = sizes_option(self.graph.inputs) or "NAME=1,3"
            raise self.unsupported(
                f"the rank of {value.name!r} is unknown",
                f"fix sizes with --shape {option}",
            )
        return len(value.shape)

    def take(self, name: str) -> ir.Attr | None:
        """Remove an attribute from the node and return it."""
        return self.node.attributes.pop(name, None)

    def take_int(self, name: str, default: int) -> int:
        """Remove an attribute; returns its value, else the default."""
        found = self.take(name)
        return default if found is None else found.as_int()

    def take_ints(self, name: str) -> list[int] | None:
        """Remove an attribute; returns its numbers, None where it is absent."""
        found = self.take(name)
        return None if found is None else list(found.as_ints())

    def take_float(self, name: str, default: float) -> float:
        """Remove an attribute; returns its value, else the default."""
        found = self.take(name)
        return default if found is None else found.as_float()

    def take_string(self, name: str, default: str) -> str:
        """Remove an attribute; returns its text, else the default."""
        found = self.take(name)
        return default if found is None else found.as_string()

    def set(self, name: str, value: int | float | str | Sequence[int]) -> None:
        """Give the node an attribute."""
        self.node.attributes[name] = ir.convenience.convert_attribute(name, value)

    def set_inputs(self, values: Sequence[ir.Value | None]) -> None:
        """Replace all inputs; trailing ones that are left out are dropped."""
        kept = trimmed(values)
        self.node.resize_inputs(len(kept))
        for index, value in enumerate(kept):
            self.node.replace_input_with(index, value)

    def become(
        self, op: str, inputs: Sequence[ir.Value | None], **attrs: object
    ) -> None:
        """Make another operator, of ai.onnx, of the node."""
        self.node.domain, self.node.op_type = "", op
        self.node.attributes.clear()
        for attribute in ir.convenience.convert_attributes(attrs):  # type: ignore[arg-type]
            self.node.attributes.add(attribute)
        self.set_inputs(inputs)

    def wants(self, index: int) -> bool:
        """Whether output `index` is read by a node or returned by a graph."""
        return any(map(is_used, self.node.outputs[index : index + 1]))

    def give(self, index: int, value: ir.Value) -> None:
        """Let `value`, computed before this node, take the place of an output."""
        if not self.wants(index):
            return
        old = self.node.outputs[index]
        if old.is_graph_output():
            if value.producer() is None or value.is_graph_output():
                value = self.before("Identity", [value], f"output_{index}")
            value.name, old.name = old.name, self._names.value(f"{old.name}_moved")
        value.type, value.shape = value.type or old.type, value.shape or old.shape
        old.replace_all_uses_with(value, replace_graph_outputs=True)

    def inside(self, node: ir.Node) -> AdapterSite:
        """The site of a node in a body."""
        return AdapterSite(node, TARGET_OPSET, self._main, self._names)

    def name(self, suffix: str) -> str:
        """An unused name of a value, after the node's."""
        return self._names.value(f"{self.node.name}_{suffix}")

    def word(self, wanted: str) -> str:
        """An unused name that tells a reader what a value is."""
        return self._names.value(wanted)

    def constant(self, suffix: str, array: np.ndarray) -> ir.Value:
        """A new initializer, named after the node."""
        name = self.name(suffix)
        value = ir.val(name, const_value=ir.Tensor(array, name=name))
        # In the outermost graph it can be seen from everywhere.
        self._main.register_initializer(value)
        return value

    def ints(self, suffix: str, values: Sequence[int] | int) -> ir.Value:
        """A new initializer of int64."""
        return self.constant(suffix, np.array(values, np.int64))

    def before(
        self, op: str, inputs: Sequence[ir.Value | None], suffix: str, **attrs: object
    ) -> ir.Value:
        """Add a node of one output before this one."""
        return self.parts(op, inputs, (suffix,), **attrs)[0]

    def parts(
        self,
        op: str,
        inputs: Sequence[ir.Value | None],
        suffixes: Sequence[str],
        **attrs: object,
    ) -> list[ir.Value]:
        """Add a node of several outputs before this one, each named by a suffix."""
        node = self._new(op, inputs, suffixes, attrs)
        self.graph.insert_before(self.node, node)
        return list(node.outputs)

    def move(self, value: ir.Value, path: str) -> None:
        """Name the node that computes `value` after the module at `path`, if given."""
        node = value.producer()
        if path and node is not None:
            node.name = self._names.node(f"{path}/{node.op_type}")

    def after(
        self,
        op: str,
        inputs: Callable[[ir.Value], Sequence[ir.Value | None]],
        suffix: str,
        **attrs: object,
    ) -> None:
        """Add a node that computes this one's output, which moves a step back.

        `inputs` makes its inputs from the value that the node itself computes now.
        """
        old = self.node.outputs[0]
        uses = old.uses()
        added = self._new(op, inputs(old), (suffix,), attrs)
        self.graph.insert_after(self.node, added)
        new = added.outputs[0]
        new.type, new.shape, name = old.type, old.shape, old.name
        new.metadata_props.update(old.metadata_props)
        for user, index in uses:
            user.replace_input_with(index, new)
        for i, output in enumerate(self.graph.outputs):
            if output is old:
                self.graph.outputs[i] = new
        old.name = self._names.value(f"{name}_{suffix}")
        old.shape = None
        new.name = name

    def unsupported(self, what: str, hint: str = "") -> Unsupported:
        """The error to raise for a node that has no newest spelling."""
        node = self.node
        kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        where = f"node {node.name!r} ({kind}, opset {self.version})"
        return Unsupported(f"{node.op_type}: {what}", where, hint)

    def _new(
        self,
        op: str,
        inputs: Sequence[ir.Value | None],
        suffixes: Sequence[str],
        attrs: dict[str, object],
    ) -> ir.Node:
        node = ir.node(
            op,
            inputs,
            attrs,  # type: ignore[arg-type]
            num_outputs=len(suffixes),
            name=self._names.node(f"{self.node.name}_{suffixes[0]}"),
            metadata_props=dict(self.node.metadata_props),
        )
        take_over([node], [self.node])
        stem = self.node.outputs[0].name
        for output, suffix in zip(node.outputs, suffixes, strict=True):
            output.name = self._names.value(f"{stem}_{suffix}")
        return node


def constant_array(value: ir.Value | None) -> np.ndarray | None:
    """The elements of an initializer; None for any other value."""
    if value is None or not value.is_initializer() or value.const_value is None:
        return None
    return value.const_value.numpy()
