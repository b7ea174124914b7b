"""Names that no value and no node of a model has yet."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from ...analysis.graph.traversal import all_graphs, is_used


class UniqueNames:
    """Hands out names; what it has handed out, or found in the model, is taken.

    ONNX wants a value's name to be unique in its graph and the graphs around it. Here
    it becomes unique in the whole model, and so does every node's: then a name says
    which one is meant without saying where.
    """

    def __init__(self, graphs: Iterable[ir.Graph]) -> None:
        self._values: set[str] = set()
        self._nodes: set[str] = set()
        self._next: dict[str, int] = {}
        # A name made up here must not be the one that somebody else brings along.
        self._brought: set[str] = set()
        for graph in graphs:
            found = [*graph.inputs, *graph.initializers.values()]
            found += [output for node in graph for output in node.outputs]
            self._brought |= {value.name or "" for value in found}
            self._brought |= {node.name or "" for node in graph}

    def value(self, wanted: str) -> str:
        """A name for a value like the wanted one, which no other has."""
        return self._fresh(wanted, self._values)

    def node(self, wanted: str) -> str:
        """A name for a node like the wanted one, which no other has."""
        return self._fresh(wanted, self._nodes)

    def _fresh(self, wanted: str, taken: set[str]) -> str:
        name = wanted
        while name in taken or (name != wanted and name in self._brought):
            self._next[wanted] = self._next.get(wanted, 0) + 1
            name = f"{wanted}_{self._next[wanted]}"
        taken.add(name)
        return name


def fix_names(model: ir.Model) -> UniqueNames:
    """Give every value and node a name of its own; return the names in use.

    What has a name keeps it, unless it is taken: inputs and outputs of the model come
    first, then inputs and initializers of its graphs, then what nodes compute. Outputs
    that a node leaves out keep their empty name. A node without a name is called after
    its operator, like "Conv_3", which is what exporters do.
    """
    graphs = all_graphs(model)
    names = UniqueNames(graphs)
    values = [*model.graph.inputs, *model.graph.outputs]
    for graph in graphs:
        values += [*graph.inputs, *graph.initializers.values()]
    for graph in graphs:
        for node in graph:
            values += [v for v in node.outputs if v.name != "" or is_used(v)]
    for value in dict.fromkeys(values):
        producer = value.producer()
        made = f"{producer.op_type}_output" if producer else "value"
        _rename(value, names.value(value.name or made))
    for graph in graphs:
        for node in graph:
            if node.name:
                node.name = names.node(node.name)
    for graph in graphs:
        for index, node in enumerate(graph):
            if not node.name:
                node.name = names.node(f"{node.op_type}_{index}")
    return names


def _rename(value: ir.Value, name: str) -> None:
    if value.name != name:
        value.name = name
