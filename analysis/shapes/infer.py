"""Sizes of every value in a model, and the elements of those that compute sizes.

Two sources are joined, node by node in graph order: the rules here, which keep
dimensions symbolic, and onnx.shape_inference, which knows all operators and element
types. A size that neither can tell becomes a symbol of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from enum import Enum, auto
from itertools import chain, combinations

import numpy as np
import onnx
import onnx_ir as ir
import sympy

from ..errors import MALFORMED, FairhandError
from ..graph.dims import (
    Dim,
    Dims,
    invented,
    is_bulky,
    parse,
    plain,
    same,
    spell,
    symbol,
    text,
)
from ..graph.map_types import is_map, map_type, set_map_type
from ..graph.shape_facts import Content, NodeFacts, PartialDims, ShapeFacts
from ..graph.traversal import bodies
from ..ops import lookup
from ..ops.facts.fitting_sizes import Fit, Relation
from ..ops.facts.small_values import constant_node
from .control_flow import BODIES
from .onnx_types import infer_types, type_by_schema
from .requirements import required, required_by

__all__ = ["ShapeFacts", "infer"]

logger = logging.getLogger(__name__)

_UNNAMED = {"", "?", "-1", "None"}  # ways to write "any size" that name nothing


class _Trust(Enum):
    """How far the sizes that onnx gives for one node are believed.

    It reads a symbolic size as 0 in some places (in Attention, say) and computes with
    that. So a 0 counts for nothing where an input is symbolic, a number never overrules
    a symbol, and what follows from a number found wrong is not believed either.
    """

    ALL = auto()
    NOT_ZERO = auto()
    RANK = auto()
    NONE = auto()


def dims_by_rule(site: NodeFacts) -> Sequence[PartialDims | None]:
    """Sizes of the outputs, as far as the operator's rule tells them."""
    op = lookup(site.node)
    if op is None or op.shape is None:
        return ()
    return site.ask(op.shape) or ()


def elements_by_rule(site: NodeFacts) -> Sequence[Content]:
    """Elements of the outputs, as far as the operator's rule tells them."""
    op = lookup(site.node)
    rule = None if op is None else op.values
    if site.node.op_type == "Constant" and not site.node.domain:
        rule = constant_node
    if rule is None:
        return ()
    operands = site.contents(rule.__code__.co_argcount - 1)
    if operands is None:
        return ()
    result = rule(site, *operands)
    if result is None:
        return ()
    return [result] if isinstance(result, np.ndarray) else result


def infer(model: ir.Model, before: ShapeFacts | None = None) -> ShapeFacts:
    """Find the sizes of every value; types and shapes that `model` lacks are set.

    `before` is what was found when the graph was another one: nodes that are as they
    were, on inputs of the same sizes, all numbers, aren't gone through again.
    Raises FairhandError for a node whose inputs can't fit each other, and where these
    rules and onnx give different numbers.
    """
    if before is not None:
        with suppress(_Changed):
            return _inferred(model, before)
    return _inferred(model, ShapeFacts())


def _inferred(model: ir.Model, before: ShapeFacts) -> ShapeFacts:
    shapes = _walked(model, before, frozenset())
    if shapes.unsure and shapes.filled:  # by nodes behind those that ask
        shapes = _walked(model, before, shapes.filled)
    return shapes


def _walked(model: ir.Model, before: ShapeFacts, filled: Set[sympy.Expr]) -> ShapeFacts:
    walk = _Walk(before, _unchanged(model.graph, before))
    walk.shapes.filled |= filled
    walk.enter(model.graph)
    walk.types = infer_types(model, walk.shapes, walk.kept)
    walk.through(model.graph)
    return walk.shapes


class _Changed(Exception):
    """A node that is as it was has inputs of other sizes."""


def _unchanged(graph: ir.Graph, before: ShapeFacts) -> dict[ir.Node, None]:
    """The nodes that are what they were; none where a node has graphs, whose nodes may
    read the results of any."""
    found: dict[ir.Node, None] = {}
    for node in graph if before.visited else ():
        known = before.visited.get(node)
        if known is not None and _told_from(node) == known:
            found[node] = None
        elif bodies(node):
            return {}
    return found


def _told_from(node: ir.Node) -> tuple[object, ...]:
    """What the sizes of a node's outputs are found from, beside those of its inputs.

    An initializer never gets other numbers: a pass that has some makes another one.
    """
    return node.inputs, *node.attributes.data.values()


class _Walk:
    """Fills a `ShapeFacts` in graph order."""

    def __init__(self, before: ShapeFacts, kept: Collection[ir.Node]) -> None:
        self.shapes, self.kept = ShapeFacts(), kept
        self._before = before
        self._changed: set[ir.Value | None] = set()  # since then
        for node in kept:
            self.shapes.take(before, node)
        self.types: Mapping[ir.Value, onnx.TypeProto] = {}
        self._sizes: dict[str, Dim] = {}  # by the name that onnx hands on
        self._names: set[str] = set()  # taken by symbols
        self._chosen: dict[tuple[ir.Value | None, Dims], Dim] = {}  # by condition
        self._doubtful: set[ir.Value] = set()  # onnx has a wrong number for these
        self._root: ir.Graph | None = None
        self.state_sizes: dict[ir.Graph, list[PartialDims | None]] = (
            {}
        )  # of bodies, see control_flow.py

    def enter(self, graph: ir.Graph) -> None:
        """Name the dimensions of the model's inputs."""
        self._root = graph
        anew = (node for node in graph.all_nodes() if node not in self.kept)
        for value in chain.from_iterable(node.outputs for node in anew):
            if value.shape is not None and not value.shape:
                value.shape = None  # tools that know no shape write one of no axes
        inputs = [v for v in graph.inputs if v.const_value is None]
        self.shapes.inputs = inputs
        declared = {v: _declared(v) for v in inputs if v.shape is not None}
        names = {n for row in declared.values() for n in row if isinstance(n, str)}
        self._sizes = {name: symbol(name) for name in names}
        self._names = set(names)
        plain = {name: self._sizes[name] for name in names if name.isidentifier()}
        for name in names - set(plain):
            # "past + 1" is no size of its own if another input has "past".
            derived = parse(name, plain)
            if isinstance(derived, sympy.Expr):
                self._sizes[name] = self._sizes[text(derived)] = derived
        for value, row in declared.items():
            for axis, size in enumerate(row):
                if size is None:
                    row[axis] = unnamed = self._unused(value, axis)
                    self._sizes[unnamed] = symbol(unnamed)
            sizes = (d if isinstance(d, int) else self._sizes[d or ""] for d in row)
            self.shapes.learn_dims(value, tuple(sizes))

    def _unused(self, value: ir.Value, axis: int) -> str:
        stem = name = f"{value.name}_dim{axis}"
        count = 1
        while name in self._names:
            count += 1
            name = f"{stem}_{count}"
        self._names.add(name)
        return name

    def through(self, graph: ir.Graph) -> None:
        """Visit the nodes of a graph, whose inputs are known by now."""
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and value.shape is None:
                value.shape = ir.Shape(tensor.shape.numpy())
            if tensor is not None and value.type is None:
                value.type = ir.TensorType(tensor.dtype)
        for node in graph:
            if node not in self.kept:
                self._visit(node)
                if self.kept:
                    self._compare(node)
            elif not self._changed.isdisjoint(node.inputs):
                raise _Changed

    def _compare(self, node: ir.Node) -> None:
        for value in node.outputs:
            if not self.shapes.agrees(self._before, value):
                self._changed.add(value)

    def _visit(self, node: ir.Node) -> None:
        inside = bodies(node)
        outside = self.shapes.anchored() if inside else frozenset()
        filled = frozenset(self.shapes.filled) if inside else frozenset()
        site = NodeFacts(node, self.shapes)
        enter = BODIES.get(node.op_type) if inside and not node.domain else None
        try:
            if enter is not None:
                proposed: Sequence[PartialDims | None] = enter(self, site, inside[0])
            else:
                for body in inside:
                    for value in body.inputs:
                        self._settle(value, None, _Trust.NOT_ZERO)
                    self.attempt(body)
                proposed = dims_by_rule(site) or self._squeezed(site)
                sizes = [*proposed[0]] if proposed and proposed[0] is not None else []
                if node.op_type == "Reshape" and sizes.count(None) == 1:
                    proposed = [self._as_read(site, sizes)]
            if node.op_type == "If" and not node.domain:
                taken = self._taken(site, inside)
                columns = range(len(node.outputs))
                proposed = [self._either(site, i, taken, outside) for i in columns]
            trust = self._trust(node)
            for i, value in enumerate(node.outputs):
                if value.name != "":
                    given = proposed[i] if i < len(proposed) else None
                    self._settle(value, given, trust)
            self._elements(site)
            if inside:  # which may not run
                self.shapes.filled &= filled
            static = trust is _Trust.ALL and not inside
            if static and all(map(self._is_certain, node.outputs)):
                self.shapes.visited[node] = _told_from(node)
        except FairhandError as error:
            raise FairhandError(error.what, self._where(node), error.hint) from error
        except MALFORMED as error:
            what = f"the output of {node.op_type} has no possible shape: {error}"
            hint = "check the node's attributes and constant inputs"
            raise FairhandError(what, self._where(node), hint) from error

    def _squeezed(self, site: NodeFacts) -> Sequence[PartialDims | None]:
        if site.node.op_type != "Squeeze" or self._root is None:
            return ()
        found = squeezed(site, required(self._root, self.shapes), dims_by_rule)
        self.shapes.settled |= {*site.node.outputs} if found else set()
        return found

    def _as_read(self, site: NodeFacts, sizes: list[Dim | None]) -> PartialDims:
        """The sizes of a Reshape whose -1 follows from none of what it is given, but
        is the number that a reader needs, as a product with a matrix does."""
        out, axis, size = site.node.outputs[0], sizes.index(None), sympy.Dummy()
        self.shapes.learn_dims(out, tuple(size if d is None else d for d in sizes))
        for node in {use.node: 0 for use in out.uses() if use.node.graph is self._root}:
            for relation, a, b in () if node.domain else required_by(node, self.shapes):
                if relation is Relation.EQUAL and a == size and isinstance(b, int):
                    sizes[axis] = b
        self.shapes.forget(out)
        return sizes

    def _is_certain(self, value: ir.Value) -> bool:
        """Whether a result's sizes are numbers, and onnx has no other ones."""
        dims = self.shapes.dims(value)
        if dims is None or value in self._doubtful:
            return value.name == ""
        return all(isinstance(size, int) for size in dims)

    def _trust(self, node: ir.Node) -> _Trust:
        given = [value for value in node.inputs if value is not None]
        op = lookup(node)
        errs = op is not None and op.onnx_errs
        if errs or not self._doubtful.isdisjoint(given):
            return _Trust.RANK
        dims = [self.shapes.dims(value) for value in given]
        static = all(d is not None and all(isinstance(s, int) for s in d) for d in dims)
        return _Trust.ALL if static else _Trust.NOT_ZERO

    def begin(self, value: ir.Value, dims: PartialDims | None) -> None:
        """Settle an input of a body; what the file declares of it is a claim."""
        type_ = self.types.get(value)
        if type_ is not None and type_.WhichOneof("value") is not None:
            _set_type(value, type_)
        value.shape = None
        self._doubtful.add(value)
        if dims is not None:
            self._settle(value, dims, _Trust.NONE)

    def attempt(self, body: ir.Graph) -> bool:
        """Go through a body; False if its nodes can't fit.

        A body that is never run need not fit; what it gives stays unknown.
        """
        try:
            self.through(body)
        except FairhandError as error:
            logger.info("in a subgraph: %s", error)
            self.shapes.unfit.add(body)
            return False
        self.shapes.unfit.discard(body)
        return True

    def declared_sizes(self, value: ir.Value) -> list[int]:
        found = self._from_onnx(self.types.get(value)) or ()
        declared = list(value.shape or ())
        if len(found) != len(declared):
            return [d if isinstance(d, int) else 0 for d in declared or found]
        pairs = zip(found, declared, strict=True)
        return [next((d for d in pair if isinstance(d, int)), 0) for pair in pairs]

    def forget(self, body: ir.Graph) -> Callable[[], None]:
        graphs = [body, *body.subgraphs()]
        values = [v for graph in graphs for v in graph.inputs]
        values += [v for graph in graphs for node in graph for v in node.outputs]
        shapes = [(value, value.shape) for value in values]
        doubtful = set(self._doubtful)

        def undo() -> None:
            for value, shape in shapes:
                value.shape = shape
                self.shapes.forget(value)
            self._doubtful = set(doubtful)

        return undo

    def _taken(self, site: NodeFacts, bodies: list[ir.Graph]) -> list[ir.Graph]:
        """The branches of an If that can be taken."""
        decided = site.numbers(0)
        if not decided or not isinstance(decided[0], int):
            return bodies
        branch = "then_branch" if decided[0] else "else_branch"
        return [site.node.attributes[branch].as_graph()]

    def _either(
        self,
        site: NodeFacts,
        index: int,
        bodies: list[ir.Graph],
        outside: frozenset[sympy.Symbol],
    ) -> PartialDims | None:
        """What the branches of an If agree on, in symbols that are known outside.

        Where they don't, the size is one for all that choose between the same two.
        """
        rows = [self.shapes.dims(body.outputs[index]) for body in bodies]
        if len({row and len(row) for row in rows}) > 1 or rows[0] is None:
            return None
        found: list[Dim] = []
        for axis, sizes in enumerate(zip(*(row or () for row in rows), strict=True)):
            size, agree = sizes[0], all(same(d, sizes[0]) for d in sizes)
            if not agree or not (isinstance(size, int) or size.free_symbols <= outside):
                key = site.node.inputs[0], sizes
                if key not in self._chosen:
                    out = site.node.outputs[index]
                    self._chosen[key] = invented(self._unused(out, axis))
                size = self._chosen[key]
            found.append(size)
        return found

    def _elements(self, site: NodeFacts) -> None:
        outputs = site.node.outputs
        if self.shapes.small(outputs[0]) is None:
            return
        for value, part in zip(outputs, elements_by_rule(site), strict=False):
            if part.shape != self.shapes.dims(value):
                raise ValueError(f"{part.shape} elements in {self.shapes.dims(value)}")
            self.shapes.learn_elements(value, part)

    def _settle(
        self, value: ir.Value, proposed: PartialDims | None, trust: _Trust
    ) -> None:
        """Join what the rule, onnx and the file say about one value.

        Raises ValueError for a size below 0.
        """
        if any(isinstance(size, int) and size < 0 for size in proposed or ()):
            raise ValueError(f"{spell(tuple(proposed or ()))} has a size below 0")
        type_ = self.types.get(value)
        if type_ is not None and type_.WhichOneof("value") is not None:
            _set_type(value, type_)
        elif value.type is None:
            value.type = type_by_schema(value)
        if not isinstance(value.type, ir.TensorType | None):
            return
        if trust is _Trust.RANK and proposed is not None:
            trust = _Trust.NONE  # the rule knows the rank, too
        found = self._from_onnx(type_)
        if found and proposed is not None and found == list(proposed):
            sizes = tuple(d for d in found if isinstance(d, int) and d)
            if len(sizes) == len(found):  # as at most nodes
                self.shapes.learn_dims(value, sizes)
                _set_shape(value, sizes)
                return
        dims = _joined(proposed, _trusted(found, trust))
        if dims is None and value.shape is not None:
            dims = [d if isinstance(d, int) else None for d in value.shape]
        if dims is None:
            return
        known = [
            invented(self._unused(value, axis)) if d is None or is_bulky(d) else d
            for axis, d in enumerate(dims)
        ]
        if any(
            isinstance(b, int) and a != b
            for a, b in zip(known, found or known, strict=trust is not _Trust.NONE)
        ):
            self._doubtful.add(value)
        self.shapes.learn_dims(value, tuple(known))
        _set_shape(value, known)

    def _from_onnx(self, type_: onnx.TypeProto | None) -> list[Dim | None] | None:
        if type_ is None or not type_.tensor_type.HasField("shape"):
            return None
        return [
            d.dim_value if d.HasField("dim_value") else self._sizes.get(d.dim_param)
            for d in type_.tensor_type.shape.dim
        ]

    def _where(self, node: ir.Node) -> str:
        """The node and its inputs, for a message."""
        inputs = ", ".join(
            f"{value.name} {spell(self.shapes.dims(value))}"
            for value in node.inputs
            if value is not None
        )
        return f"node {node.name!r} ({node.op_type}), inputs {inputs}"


def _declared(value: ir.Value) -> list[int | str | None]:
    """Sizes of an input: a number, a name, or None for any size."""
    row: list[int | str | None] = []
    for size in value.shape or ():
        if isinstance(size, int):
            row.append(size if size >= 0 else None)
        else:
            row.append(None if size.value in _UNNAMED else size.value)
    return row


def _set_type(value: ir.Value, type_: onnx.TypeProto) -> None:
    if type_.HasField("tensor_type"):  # nearly all; the general way takes ten times it
        number = type_.tensor_type.elem_type
        known = isinstance(value.type, ir.TensorType) and value.dtype == number
        if number and not known:
            value.type = ir.TensorType(ir.DataType(number))
        return
    if is_map(type_):
        if map_type(value) is None:
            set_map_type(value, type_)
        return
    try:
        found = ir.serde.deserialize_type_proto_for_type(type_)
    except ir.serde.SerdeError:  # a sequence of what onnx could not tell
        return
    if found is not None and value.type != found:
        value.type = found


def _trusted(found: PartialDims | None, trust: _Trust) -> PartialDims | None:
    if found is None or trust is _Trust.ALL:
        return found
    if trust is _Trust.NONE:
        return None
    if trust is _Trust.RANK:
        return [None] * len(found)
    return [None if isinstance(d, int) and d == 0 else d for d in found]


def _joined(
    proposed: PartialDims | None, found: PartialDims | None
) -> list[Dim | None] | None:
    """The rule's sizes, and onnx's where the rule has none."""
    if proposed is None or found is None:
        dims = found if proposed is None else proposed
        return None if dims is None else list(dims)
    if len(proposed) != len(found) or any(map(_clash, proposed, found)):
        raise FairhandError(
            f"the output has shape {spell(proposed)} by fairhand's rules and"
            f" {spell(found)} by onnx.shape_inference",
            hint="if the model runs in ONNX Runtime, please report it",
        )
    pairs = zip(proposed, found, strict=True)
    return [b if a is None else a for a, b in pairs]


def _clash(a: Dim | None, b: Dim | None) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a != b


def _set_shape(value: ir.Value, dims: Sequence[Dim | None]) -> None:
    """Keep what the file declares of an output: it is what its users were told."""
    if value.is_graph_output() and value.shape is not None:
        if len(value.shape) != len(dims) or all(map(_is_named, value.shape)):
            return
        pairs = zip(value.shape, dims, strict=True)
        dims = [a if _is_named(a) else b for a, b in pairs]
    written = [*map(_written, dims)]
    if value.shape is None or list(value.shape) != written:
        value.shape = ir.Shape(written)


def _written(size: Dim | ir.SymbolicDim | None) -> int | str | ir.SymbolicDim | None:
    """What two sizes broadcast to has no name: one of theirs would be a claim."""
    if size is None or isinstance(size, int | ir.SymbolicDim):
        return size
    return text(size) if plain(size) == size else None


def _is_named(size: int | ir.SymbolicDim) -> bool:
    return isinstance(size, int) or size.value is not None


_OPEN, _READERS = 5, 40  # sizes that are tried, readers that are asked

ShapeRule = Callable[[NodeFacts], Sequence[PartialDims | None]]


def squeezed(
    site: NodeFacts, fits: Iterable[Fit], rule: ShapeRule
) -> list[PartialDims | None]:
    """The sizes, if there is one rank alone with which the model runs: what is required
    before says which sizes are 1, or each other rank is one that a reader can't take.
    """
    x = site.dims(0) or ()
    maybe = list(dict.fromkeys(d for d in x if same(d, 1) is None))
    if not maybe or len(maybe) > _OPEN:
        return []
    pairs = [{f.a, f.b} for f in fits if f.relation is Relation.EQUAL]
    ones = {d for pair in pairs if 1 in pair for d in pair}
    other = [p for p in pairs if any(isinstance(d, int) and d != 1 for d in p)]
    more = {d for pair in other for d in pair}
    found: list[Dims] = []
    for gone in chain(*(combinations(maybe, n) for n in range(len(maybe) + 1))):
        if ones.isdisjoint({*maybe} - {*gone}) and more.isdisjoint(gone):
            left = tuple(d for d in x if d != 1 and d not in gone)
            if _is_taken(site, left, rule):
                found.append(left)
    if len({len(left) for left in found}) != 1:
        return []
    columns = zip(*found, strict=True)
    return [[sizes[0] if len(set(sizes)) == 1 else None for sizes in columns]]


def _is_taken(site: NodeFacts, left: Dims, rule: ShapeRule) -> bool:
    """Whether no reader is known that can't run on these sizes, near or far."""
    shapes = site.shapes
    learnt = {site.node.outputs[0]: left}
    ask = list(learnt)
    try:
        while ask and len(learnt) < _READERS:
            value = ask.pop(0)
            shapes.learn_dims(value, learnt[value])
            for node in {use.node: 0 for use in value.uses()}:
                if node.graph is not site.node.graph:
                    continue  # it may not run
                dims = rule(NodeFacts(node, shapes))
                for out, sizes in zip(node.outputs, dims, strict=False):
                    plain = tuple(d for d in sizes or () if d is not None)
                    known = sizes is not None and len(plain) == len(sizes)
                    if known and out not in learnt and shapes.dims(out) is None:
                        learnt[out] = plain
                        ask.append(out)
    except (FairhandError, *MALFORMED):
        return False
    finally:
        for value in learnt:
            shapes.forget(value)
    return True
