"""What both branches of an If compute stands once, around smaller Ifs of what differs.

f(a) if c else f(b) is f(a if c else b), and nothing is computed that wasn't before. A
decoder in two graphs, one for the first call and one for those with caches, comes to
read as the network that both were traced from.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass

import onnx_ir as ir

from ..analysis.graph.constants import RANDOM
from ..analysis.graph.shape_facts import ShapeFacts
from ..analysis.graph.traversal import all_nodes, bodies, reached, reads_of
from ..analysis.graph.weight_access import is_weight
from ..analysis.lazy import lazy
from ..analysis.ops import lookup
from .adapters.cleanup import remove_unused
from .adapters.unique_names import fix_names
from .engine.graph_editor import attributes_key
from .folding.constant_branches import BRANCHES, replace_results

nx = lazy("networkx")

_COST_OF_CHOICE = 3.5  # in operators that stand once
_MOST = 20_000  # nodes of an If
_COMPARED = 1 << 16  # elements of a constant

Pair = tuple[ir.Node, ir.Node]
Values = tuple[ir.Value, ir.Value]


def share_branches(model: ir.Model, shapes: ShapeFacts, level: int) -> int:
    """Take out of each If what both of its branches compute; returns how many nodes.

    None at `level` 0, where the graph stays as the file has it.
    """
    if level == 0:
        return 0
    ifs = [n for n in all_nodes(model.graph) if n.op_type == "If" and not n.domain]
    # Inner ones first: with an If, those inside of it go.
    shared = sum(_Branches(node, shapes).share() for node in reversed(ifs))
    if shared:
        remove_unused(model)
        fix_names(model)
    return shared


@dataclass(eq=False)
class _Choice:
    """One value of two, the branches' own, for the shared node at `until` to read."""

    values: Values
    until: int
    needs: set[ir.Node]  # nodes of either branch that compute it


class _Branches:
    """The branches of an If, and which nodes of theirs are the same."""

    def __init__(self, node: ir.Node, shapes: ShapeFacts) -> None:
        self.node, self.shapes = node, shapes
        self.graphs = [node.attributes[name].as_graph() for name in BRANCHES]
        nodes = [node for graph in self.graphs for node in graph]
        self.place: dict[ir.Node, int] = {node: i for i, node in enumerate(nodes)}
        then, other = (map(self._source, graph.outputs) for graph in self.graphs)
        self.results = _both(then, other)
        self.pairs: dict[Pair, int] = {}  # what is shared, in order
        self.paired: dict[ir.Node, Pair] = {}  # by both of its nodes
        self.elements: dict[ir.Value, Hashable] = {}
        self.of_sizes: set[ir.Node] = set()
        for node in nodes:
            if self._says_sizes(node):
                self.of_sizes.add(node)

    def share(self) -> int:
        """Take out what is worth it; returns how many nodes that are."""
        if not 1 < len(self.place) <= _MOST:
            return 0
        self._pair_all()
        pairs = sorted({*self.paired.values()}, key=lambda pair: self.place[pair[0]])
        late, order = set(pairs), self._order(self.graphs[1], self._place_of_pair)
        while late:
            self._keep(_in_one_order(pairs, order))
            self._keep(self._worth_it())
            choices = self._choices()
            late = {pair for c in choices for pair in self._late(c, c.until)}
            pairs = [pair for pair in pairs if pair not in late]
        if self.pairs:
            self._take_out(choices)
        return len(self.pairs)

    def _order(
        self, side: ir.Graph, first: Callable[[ir.Node], int]
    ) -> dict[ir.Node, int]:
        """Places of a branch's nodes, in that order as far as what they read allows."""
        flow = nx.DiGraph()
        for node in side:
            flow.add_node(node)
            made = (value.producer() for value in reads_of(node))
            flow.add_edges_from((n, node) for n in made if n in self.place)
        ordered = nx.lexicographical_topological_sort(flow, first)
        return {node: i for i, node in enumerate(ordered)}

    def _place_of_pair(self, node: ir.Node) -> int:
        return self.place[self.paired[node][0]] if node in self.paired else -1

    def _sizes_first(self, node: ir.Node) -> int:
        """So that it stands where it does for each choice that it is computed for."""
        return self.place[node] - len(self.place) * (node in self.of_sizes)

    def _keep(self, pairs: Iterable[Pair]) -> None:
        self.pairs = {pair: i for i, pair in enumerate(pairs)}
        self.paired = {node: pair for pair in self.pairs for node in pair}

    # ---- which nodes are the same

    def _pair_all(self) -> None:
        """Nodes that alone read a weight on their side, and what is alike around."""
        by_weight: dict[Hashable, list[ir.Node]] = defaultdict(list)
        for node in self.place:
            read = [x for x in node.inputs if x and x.producer() not in self.place]
            if key := tuple(self._known(x) for x in read if x.graph not in self.graphs):
                by_weight[self._signature(node), key].append(node)
        waiting: list[Pair] = []
        for nodes in by_weight.values():
            waiting += self._pair(*nodes) if len(nodes) == 2 else []
        for x, y in self.results:
            waiting += self._pair(x.producer(), y.producer())
        for a, b in waiting:  # which grows
            for x, y in _both(a.inputs, b.inputs):
                waiting += self._pair(x.producer(), y.producer())
            for x, y in _both(a.outputs, b.outputs):
                for pair in self._readers(x, y):
                    waiting += self._pair(*pair)

    def _pair(self, a: ir.Node | None, b: ir.Node | None) -> list[Pair]:
        """The pair of them, if they are alike and neither is in one."""
        if a is None or b is None or not self.place.keys() >= {a, b}:
            return []
        if self.paired.keys() & {a, b}:
            return []
        signature = self._signature(a)
        if signature is None or signature != self._signature(b) or a.graph is b.graph:
            return []
        self.paired |= {a: (a, b), b: (a, b)}
        return [(a, b)]

    def _readers(self, a: ir.Value, b: ir.Value) -> Iterator[Pair]:
        """What reads them as the same operand, if that is one node each."""
        keyed = [{(self._signature(n), i): n for n, i in v.uses()} for v in (a, b)]
        yield from ((keyed[0][k], keyed[1][k]) for k in keyed[0] if k in keyed[1])

    def _signature(self, node: ir.Node) -> Hashable:
        """What a node computes of its operands; None if it can't be shared."""
        key = attributes_key(node)
        if lookup(node) is None or bodies(node) or key is None:
            return None
        if node.op_type == "Identity":
            return None
        there = tuple(x is not None for x in node.inputs)
        gives = tuple((v.dtype, self.shapes.rank(v)) for v in node.outputs)
        return node.op_type, node.domain, key, there, gives

    def _source(self, value: ir.Value) -> ir.Value:
        """What a branch returns, for which an Identity may stand."""
        node = value.producer()
        if node is None or node.op_type != "Identity" or node not in self.place:
            return value
        return self._source(node.inputs[0]) if node.inputs[0] else value

    def _known(self, value: ir.Value) -> Hashable:
        """What tells it from others: its elements, if it is no weight of a file."""
        tensor = value.const_value
        if value in self.elements or tensor is None or tensor.size > _COMPARED:
            return self.elements.get(value, value)
        if tensor.dtype == ir.DataType.STRING or (
            is_weight(tensor) and not tensor.sources
        ):
            return value
        known = tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes()
        return self.elements.setdefault(value, known)

    def _maker(self, value: ir.Value) -> Pair | None:
        node = value.producer()
        return self.paired.get(node) if node is not None else None

    def _one(self, values: Values) -> ir.Value | None:
        """The value that both are, or will be: what shared nodes give."""
        a, b = values
        shared = self._maker(a) is self._maker(b) is not None
        same = shared and a.producer() is not b.producer() and a.index() == b.index()
        return a if same or self._known(a) == self._known(b) else None

    # ---- which of them are worth it

    def _worth_it(self) -> list[Pair]:
        """By the smallest cut: what isn't shared costs one, what is chosen more."""
        flow = nx.DiGraph([("shared", "results")])
        flow.add_node("apart")
        rows: dict[object, list[Values]] = {"results": self.results}
        for pair in self.pairs:
            flow.add_edge("shared", pair, capacity=1.0)
            rows[pair] = _both(pair[0].inputs, pair[1].inputs)
        for reader, row in rows.items():
            for values in row:
                maker: object = self._maker(values[0])
                if self._one(values) is None:
                    maker = "apart"
                elif maker is None:
                    continue
                flow.add_edge(reader, values)
                cost = _COST_OF_CHOICE if all(v.producer() for v in values) else 1.0
                flow.add_edge(values, maker, capacity=cost)
                if reader != "results" and not self._may_be_chosen(values):
                    flow.add_edge(reader, maker)
        shared = nx.minimum_cut(flow, "shared", "apart")[1][0]
        return [pair for pair in self.pairs if pair in shared]

    def _may_be_chosen(self, values: Values) -> bool:
        """Whether another node may read either: no weight, and no size of a tensor."""
        (a, b), ranks = values, {self.shapes.rank(value) for value in values}
        constant = any(value.const_value is not None for value in values)
        known = any(self.shapes.content(value) is not None for value in values)
        alike = a.dtype == b.dtype and len(ranks) == 1 and None not in ranks
        return alike and not constant and not known

    # ---- what is left of the branches

    def _choices(self) -> list[_Choice]:
        """The values that Ifs have to give, and before which shared node."""
        pairs = list(self.pairs)
        rows = [_both(a.inputs, b.inputs) for a, b in pairs]
        found: dict[Values, _Choice] = {}
        together = nx.Graph()
        for i, row in enumerate([*rows, self.results]):
            for values in row:
                if values not in found and self._one(values) is None:
                    choice = _Choice(values, i, self._needs(values))
                    found[values] = choice
                    together.add_node(choice)
        first: dict[str, _Choice] = {}
        for choice in found.values():
            # What is of more than sizes is computed once, for the first that needs it.
            several = (n for n in choice.needs if n not in self.of_sizes)
            together.add_edges_from((choice, node) for node in several)
            # What one module reads is chosen at once.
            reader = pairs[choice.until][0] if choice.until < len(pairs) else self.node
            scope = (reader.name or "").rpartition("/")[0]
            early = first.setdefault(scope, choice)
            if scope and not self._late(choice, early.until):
                together.add_edge(choice, early)
        for part in nx.connected_components(together):
            choices = [each for each in part if isinstance(each, _Choice)]
            until = min(choice.until for choice in choices)
            for choice in choices:
                choice.until = until
        return list(found.values())

    def _needs(self, values: Values) -> set[ir.Node]:
        def makers(values: Iterable[ir.Value]) -> list[ir.Node]:
            found = (value.producer() for value in values)
            return [n for n in found if n in self.place and n not in self.paired]

        return {*reached(makers(values), lambda node: makers(reads_of(node)))}

    def _says_sizes(self, node: ir.Node) -> bool:
        """Whether it says nothing but sizes, as a mask does that counts places."""
        if all(self.shapes.content(value) is not None for value in node.outputs):
            return True
        read = [x for x in node.inputs if x is not None]
        if not read or bodies(node) or node.op_type in RANDOM:
            return False
        return all(map(self._is_size, read))

    def _is_size(self, value: ir.Value) -> bool:
        known = value.const_value is not None or self.shapes.content(value) is not None
        return known or value.producer() in self.of_sizes

    def _late(self, choice: _Choice, until: int) -> set[Pair]:
        """The shared nodes that it reads and that aren't before the one at `until`."""
        read = [*choice.values, *(v for n in choice.needs for v in reads_of(n))]
        pairs = {pair for value in read if (pair := self._maker(value))}
        return {pair for pair in pairs if self.pairs[pair] >= until}

    def _take_out(self, choices: list[_Choice]) -> None:
        """Put what is shared in front of the If, each choice before what reads it."""
        graph = self.node.graph
        assert graph is not None
        pairs = list(self.pairs)
        chosen: dict[Values, ir.Value] = {}
        for side in self.graphs:
            ordered = [*self._order(side, self._sizes_first)]
            side.remove(ordered)
            side.extend(ordered)
            side.outputs.clear()
            for name, value in list(side.initializers.items()):
                del side.initializers[name]
                graph.register_initializer(value)
        rows = [list(zip(*(n.inputs for n in pair), strict=True)) for pair in pairs]
        for i, (node, other) in enumerate(pairs):
            chosen |= self._choose([c for c in choices if c.until == i], node)
            self.graphs[0].remove(node)
            graph.insert_before(self.node, node)
            for place, (a, b) in enumerate(rows[i]):
                if a is not None and b is not None:
                    operand = self._one((a, b)) or chosen[a, b]
                    node.replace_input_with(place, operand)
            for out, same in zip(node.outputs, other.outputs, strict=True):
                out.shape = None  # it was that of one branch
                same.replace_all_uses_with(out)
        chosen |= self._choose([c for c in choices if c.until == len(pairs)], self.node)
        results = [self._one(values) or chosen[values] for values in self.results]
        replace_results(self.node, results)
        graph.remove(self.node, safe=True)
        for side in self.graphs:  # else they still count as readers
            side.outputs.clear()
            for node in all_nodes(side):
                node.resize_inputs(0)

    def _choose(
        self, choices: list[_Choice], reader: ir.Node
    ) -> dict[Values, ir.Value]:
        """The values that an If gives, in the scope of what reads them."""
        if not choices:
            return {}
        scope = (reader.name or "").rpartition("/")[0]
        made = ir.Node("", "If", self.node.inputs, num_outputs=len(choices))
        made.name = f"{scope}/If" if scope else None
        made.metadata_props.update(reader.metadata_props)
        for i, side in enumerate(self.graphs):
            side.outputs.clear()
            for choice in choices:
                value = choice.values[i]
                if pair := self._maker(value):
                    value = pair[0].outputs[value.index() or 0]
                tensor = value.const_value
                if tensor is not None and tensor.size == 0:
                    # No weight: each branch has its own.
                    value = ir.val(value.name, const_value=tensor)
                    side.register_initializer(value)
                elif value.producer() not in choice.needs or value in side.outputs:
                    side.append(ir.node("Identity", [value]))
                    (same,) = side[-1].outputs
                    same.name, same.type = value.name, value.type
                    same.shape = value.shape
                    value = same
                side.outputs.append(value)
            # What only others need goes with all that is unused.
            body = side.clone(allow_outer_scope_values=True)
            made.attributes.add(ir.AttrGraph(BRANCHES[i], body))
        for out, choice in zip(made.outputs, choices, strict=True):
            computed = [value for value in choice.values if value.producer()]
            out.name = (computed or choice.values)[0].name
            out.type = choice.values[0].type
        assert self.node.graph is not None
        self.node.graph.insert_before(self.node, made)
        return {c.values: out for c, out in zip(choices, made.outputs, strict=True)}


def _both(
    first: Iterable[ir.Value | None], second: Iterable[ir.Value | None]
) -> list[Values]:
    """The values in the same place on both sides, where there are any."""
    pairs = zip(first, second, strict=True)
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def _in_one_order(pairs: list[Pair], place: dict[ir.Node, int]) -> list[Pair]:
    """The most pairs that stand in one order in both: a longest increasing sequence."""
    ends: list[int] = []  # the lowest end of a sequence of each length, and its pair
    last: list[int] = []
    before: list[int] = []
    for i, (_, other) in enumerate(pairs):
        length = bisect_left(ends, place[other])
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place[other]]
        last[length : length + 1] = [i]
    kept, i = [], last[-1] if last else -1
    while i >= 0:
        kept.append(pairs[i])
        i = before[i]
    return kept[::-1]
