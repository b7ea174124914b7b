"""Carry out an application: plan, weigh, replace, and share equal nodes.

Equal nodes are one (hash-consing), at once and everywhere: what the graph looks like
after an application depends on the graph before and the match alone, so that a list of
applications can be replayed (validate_graph.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import onnx_ir as ir

from ...analysis.graph.element_types import is_float
from ...analysis.graph.parameters import is_parameter
from ...analysis.graph.quantization import quantises
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.graph.traversal import all_nodes, sort
from ...analysis.literals import strings_in
from ..adapters.provenance import SCOPES, take_over
from ..folding.lost_numbers import ConstantNumbers
from ..language.exactness import Exactness
from ..language.operators.read_write import (
    CannotWrite,
    Draft,
    Input,
    NewConstant,
    Output,
)
from ..recognition.attention import OPEN
from ..recognition.movement_chains import with_rows_behind
from ..recognition.recognition import Recognition
from ..recognition.regions import Neighbourhoods
from .build import Builder
from .graph_editor import GraphEditor
from .graph_facts import GraphFacts
from .history import LAYOUT, Application, describe, describe_recognised
from .match import Match
from .termination import draft_weight, dying, weight


@dataclass(frozen=True)
class Change:
    """Nodes that are to give way to drafts."""

    roots: Sequence[ir.Value]
    matched: list[ir.Node]
    drafts: Sequence[Draft]
    results: Sequence[Input]
    measure: str = "weight"  # "" of one of several that are weighed together
    sums: bool = False  # whether a sum of floats is reordered


class Rewriter:
    """A graph that rules are applied to; `touched` lists nodes to look at again."""

    def __init__(
        self,
        model: ir.Model,
        shapes: ShapeFacts,
        classes: Mapping[str, Exactness],
        level: int = 2,
        sweep: int = 0,
    ) -> None:
        self.model, self.shapes, self.classes = model, shapes, classes
        # 0: stored weights stay what they are; 1: they stay those of their own layers,
        # but for a norm's, which go with its statistics into the layer before it.
        self.level = level
        self.sweep = sweep  # of how many through the catalogue, for the certificate
        self.facts = GraphFacts(shapes)
        self.around = Neighbourhoods(self.facts)
        self.numbers = ConstantNumbers(self.facts.is_constant)
        self.graft = GraphEditor(model, self.facts)
        self.rounds = any(map(quantises, all_nodes(model.graph)))
        self.merged = 0  # equal nodes that became one
        self.touched: list[ir.Node] = []
        self._share(list(all_nodes(model.graph)))

    def finish(self) -> None:
        """Put the nodes in an order in which they can be computed."""
        for graph in self.graft.graphs:
            sort(graph)

    def apply(self, match: Match, phase: str = "") -> Application | str:
        """Replace a match; the reason instead, if the law holds but it may not be."""
        change = self.planned(match, alone=phase != LAYOUT)
        if isinstance(change, str):
            return change
        record = partial(describe, match, self.classes[match.rule.name])
        return self._carried_out(change, record, phase)

    def planned(self, match: Match, alone: bool = True) -> Change | str:
        """What a match would become; or the reason. What isn't applied alone is
        weighed with what comes with it."""
        builder = Builder(match)
        try:
            results = builder.results()
        except CannotWrite as reason:
            return str(reason)
        rule = match.rule
        change = Change(
            roots=match.roots,
            matched=match.nodes(),
            drafts=builder.drafts,
            results=results,
            measure=rule.measure if alone else "",
            sums=self.classes[rule.name] is Exactness.RING
            or match.binding.reassociated,
        )
        return self._refusal(change) or change

    def apply_recognised(
        self, found: Recognition, phase: str = ""
    ) -> Application | str:
        """Put an operator in the place of what computes the same; or the reason."""
        if self.level == 0 and found.name == OPEN:
            return "rows that are masked throughout would have a result"
        change = Change(
            roots=(found.root,),
            matched=list(found.nodes),
            drafts=found.drafts,
            results=[found.result],
            measure=found.measure,
        )
        refusal = self._refusal(change)
        if refusal:
            return refusal
        return self._carried_out(change, partial(describe_recognised, found), phase)

    def _carried_out(
        self, change: Change, record: Callable[..., Application], phase: str
    ) -> Application:
        matched = change.matched
        made = self.graft.add(change.drafts, [_producer(change.roots[0]), *matched])
        values = [self.graft.value(x, made) for x in change.results]
        new = list(made.values())
        origins = take_over(new, matched)
        done = record((matched, new), origins, (self.sweep, phase))
        users: list[ir.Node] = []
        for root, value in zip(change.roots, values, strict=True):
            assert value is not None
            if value is root:
                continue
            users += [user for user, _ in root.uses()]
            self._replace(root, value)
        self._remove(matched)
        self.touched += [*new, *with_rows_behind(users)]
        for node in new:
            producers = (x.producer() for x in node.inputs if x is not None)
            self.touched += [p for p in producers if p is not None]
        self._share(users)
        return done

    def _refusal(self, change: Change) -> str:
        """Why a change isn't made although both sides are equal; '' if it may be."""
        if len({_producer(root).graph for root in change.roots}) > 1:
            return "no node can be read in both of the graphs"
        there = self.graft.existing_of(change.drafts, _producer(change.roots[0]))
        unchanged = 0
        for root, result in zip(change.roots, change.results, strict=True):
            if isinstance(result, Output):
                known = there[id(result.draft)]
                result = known.outputs[result.index] if known is not None else result
            if isinstance(result, ir.Value):
                if result is root:
                    unchanged += 1
                    continue
                if root.is_graph_output() and not _may_be_output(result, root):
                    return "the result is an output of the graph"
            if _producer(root) in there.values():
                return "the result would be computed from itself"
        if unchanged == len(change.results):
            return "nothing would change"
        new = [draft for draft in change.drafts if there[id(draft)] is None]
        if any(map(self._stays, new)):
            return "folding computes no constant of this type"
        if self.level == 0 and any(map(self._alters_parameter, new)):
            return "a stored weight would change"
        if self.level < 2 and any(map(self._joins, new)):
            return "a stored weight would take in another constant"
        read = (x for draft in change.drafts for x in draft.inputs)
        if self.level == 0 and _parameters(change).difference(change.results, read):
            return "a parameter would not be needed any more, for its numbers"
        # What the right side uses stays, even if it is part of the left side.
        replaced = [n for n in change.matched if n not in there.values()]
        dead = dying(replaced, change.roots)
        is_constant = self.facts.is_constant
        before, after = weight(dead, is_constant), draft_weight(new, is_constant)
        if change.measure == "weight" and after >= before:
            return f"the graph would not get lighter ({before} to {after})"
        if change.measure and after > before:
            return f"the graph would get heavier ({before} to {after})"
        if self.level < 2 and _joins_modules(change):
            return "a module would do what another one has done"
        return self.numbers.lost(new) or self._unsettling(change)

    def _unsettling(self, change: Change) -> str:
        """Whether floats, of which integers are made, would be summed otherwise."""
        dtype = change.roots[0].dtype
        if self.rounds and change.sums and dtype and dtype.is_floating_point():
            return "another last bit may be another integer where it is rounded"
        return ""

    def _stays(self, draft: Draft) -> bool:
        """Whether a planned node computes a constant of what NumPy has no type for."""
        given = [x for x in draft.inputs if x is not None]
        types = (x.dtype for x in _leaves(draft) if all(map(self._is_constant, given)))
        return any(dtype and dtype.numpy().kind == "V" for dtype in types)

    def _alters_parameter(self, draft: Draft) -> bool:
        """Whether a planned node computes with constants alone, parameters among them.

        Folding would store its result in the place of a weight.
        """
        inputs = [x for x in draft.inputs if x is not None]
        return all(map(self._is_constant, inputs)) and any(
            (
                self._alters_parameter(x.draft)
                if isinstance(x, Output)
                else isinstance(x, ir.Value) and self.facts.holds_parameter(x)
            )
            for x in inputs
        )

    def _joins(self, draft: Draft) -> bool:
        """Whether a planned node makes one constant of what two layers train, with no
        statistics between them as a norm's are, or of that and of a larger one."""
        if not all(self._is_constant(x) for x in draft.inputs if x is not None):
            return False
        leaves = {x for x in _leaves(draft) if is_float(x)}
        trains = set(filter(self.facts.holds_parameter, leaves))
        others = {x for x in leaves - trains if self._size(x) != 1}
        if not trains or len(trains) + len(others) < 2:
            return False
        return not others or max(map(self._size, others)) > max(map(self._size, trains))

    def _size(self, value: ir.Value) -> int:
        return prod(n for n in self.facts.dims(value) or () if isinstance(n, int))

    def _is_constant(self, x: Input) -> bool:
        if isinstance(x, Output):
            return all(self._is_constant(y) for y in x.draft.inputs if y is not None)
        return isinstance(x, NewConstant) or (
            x is not None and self.facts.is_constant(x)
        )

    def _replace(self, old: ir.Value, new: ir.Value) -> None:
        """Let `new` be what `old` was: name, declared type, sizes where unknown."""
        if self.facts.dims(new) is None:
            dims = self.facts.dims(old)
            if dims is not None:
                self.shapes.learn_dims(new, dims)
        if new.type is None:
            new.type = old.type
        if old.is_graph_output() or _is_made(new):
            name = old.name
            old.name = f"{name}_replaced"
            new.name = name
            if new.shape is None:
                new.shape = old.shape
            new.metadata_props.update(old.metadata_props)
        self.facts.replaced(old, new)
        old.replace_all_uses_with(new, replace_graph_outputs=True)

    def _share(self, nodes: Iterable[ir.Node]) -> None:
        """Let equal nodes be one, and then their users where those are equal too."""
        stack = list(reversed(list(nodes)))
        while stack:
            node = stack.pop()
            if node.graph is None:
                continue
            if self.level == 0 and self._prepares_parameter(node):
                continue  # or the calls of one module would share a part of it
            twin = self.graft.twin(node)
            if twin is None or any(y.is_graph_output() for y in node.outputs):
                continue
            take_over([twin], [node])
            users = [user for y in node.outputs for user, _ in y.uses()]
            for old, new in zip(node.outputs, twin.outputs, strict=True):
                self.facts.replaced(old, new)
                old.replace_all_uses_with(new)
            self._remove([node])
            self.merged += 1
            self.touched += users
            stack += users

    def _prepares_parameter(self, node: ir.Node) -> bool:
        """Whether a node computes something of a parameter alone, as its transpose."""
        inputs = [x for x in node.inputs if x is not None]
        return any(map(is_parameter, inputs)) and all(
            map(self.facts.is_constant, inputs)
        )

    def _remove(self, nodes: Sequence[ir.Node]) -> None:
        """Remove those of the nodes that are unused, and what only they used."""
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if node.graph is None or any(
                y.uses() or y.is_graph_output() for y in node.outputs
            ):
                continue
            inputs = [x for x in node.inputs if x is not None]
            node.resize_inputs(0)  # what `safe=True` does, without looking again
            node.graph.remove(node)
            for x in inputs:
                producer = x.producer()
                if producer is not None:
                    stack.append(producer)
                    # Another user may be the only one now, which rules may ask for.
                    self.touched += [user for user, _ in x.uses()][:2]


def _leaves(draft: Draft) -> Iterator[ir.Value]:
    """The values of the graph that a planned node is computed from."""
    for x in draft.inputs:
        if isinstance(x, Output):
            yield from _leaves(x.draft)
        elif isinstance(x, ir.Value):
            yield x


def _joins_modules(change: Change) -> bool:
    """Whether two modules would be less alike others of their classes.

    Lists that two of them join would be one: their calls would differ in how many they
    are given. So would the shapes that a block ends with and the next one begins with.
    """
    nodes = change.matched
    kinds = {n.op_type for n in nodes}
    scopes = {(*strings_in(n.metadata_props.get(SCOPES))[:-1],) for n in nodes}
    if kinds == {"Concat"} and is_float(nodes[0].outputs[0]):
        return len(scopes) > 1
    shared = tuple(x for x, *ys in zip(*scopes, strict=False) if {*ys} <= {x})
    apart = shared not in scopes and bool(change.drafts)
    return kinds <= {"Reshape", "Flatten"} and apart


def _parameters(change: Change) -> set[ir.Value]:
    """What trains of what the matched nodes read."""
    read = {value for node in change.matched for value in node.inputs}
    return {value for value in read if value is not None and is_parameter(value)}


def _producer(value: ir.Value) -> ir.Node:
    node = value.producer()
    assert node is not None
    return node


def _may_be_output(value: ir.Value, root: ir.Value) -> bool:
    """Whether a value can be the output of its graph that `root` is now."""
    node = value.producer()
    if node is None or value.is_graph_output():
        return False
    return node.graph is _producer(root).graph


def _is_made(value: ir.Value) -> bool:
    """Whether a value is named after its operator, having no better name yet."""
    node = value.producer()
    return node is not None and (value.name or "").startswith(f"{node.name}_output")
