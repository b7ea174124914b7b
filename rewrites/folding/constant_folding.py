"""Compute what does not depend on the inputs, once, now.

The constant part of a model is run by ONNX Runtime, so that no operator is implemented
a second time here. Weights are fed to it, never serialised. Two things are kept from
costing memory: a tensor that is one number throughout stays a view of that number
(analysis/graph/constants.py), and a node is left alone if its result would be out of
proportion.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from math import prod

import numpy as np
import onnx_ir as ir

from ...analysis.graph.constants import RANDOM, uniform, uniform_element
from ...analysis.graph.parameters import (
    ALTERED,
    COMPUTED,
    TRAINS,
    has_name,
    is_counted,
    is_parameter,
)
from ...analysis.graph.traversal import all_graphs, all_nodes
from ...analysis.graph.weight_access import note_read
from ..adapters.cleanup import remove_unused
from ..adapters.provenance import Origins, became_constants
from .island import (
    Island,
    Types,
    constant,
    infer,
    is_constant,
    is_feedable,
    run,
    size_of,
)
from .recomputable_weights import arguments, tensors_of

# Results up to here are computed whatever their inputs are; above, they may be four
# times as large as those. All together may be four times as large as all the weights.
_SMALL = 64 << 20
_GROWTH = 4

# A rearranged copy of a weight up to this many bytes is no matter.
_COPY = 64 << 10

# ONNX Runtime takes a time to load a graph that grows faster than its nodes.
_AT_ONCE = 1024

# For all computing that comes to nothing together.
_PATIENCE_S = 30.0

# Names of parameters that say nothing of what they are for.
_PLAIN = re.compile(r"[\d_]*|weight(_\d+)?")

_RECURRENT = ("LSTM", "GRU", "RNN")

# Quantised matrices, and vectors of more elements than this, stay quantised.
_QUANTISED = 1024


def fold_constants(model: ir.Model, level: int = 2) -> int:
    """Replace nodes that compute constants by those constants; return how many.

    `model` must be normalised. Values keep their names. A value that was computed from
    weights lists their names in `value.meta["folded_from"]`. Left in place are nodes
    that are random, contain graphs, belong to another domain than ai.onnx, fail on ONNX
    Runtime or give results of excessive size; large quantised weights, which would
    lose their small type; and rearranged copies of weights that are needed as they are.
    At `level` 0 nothing is computed from what is named as a parameter, below 2 nothing
    from a number that trains: what it gave would be a number in the source.
    """
    folder = _Folder(model, level)
    while folder.round():
        pass
    remove_unused(model)
    return folder.count


class _Folder:
    """Folds in rounds: a size that one round computes is known to the next."""

    def __init__(self, model: ir.Model, level: int) -> None:
        self.model, self.level = model, level
        self.count = 0
        self.refused: set[ir.Node] = set()
        weights = [v for g in all_graphs(model) for v in g.initializers.values()]
        stored = [v for v in weights if is_constant(v)]
        sizes = (_bytes_of(v) for v in stored if uniform_element(v.const_value) is None)
        self.budget = _GROWTH * max(_SMALL, sum(sizes))
        self.patience = _PATIENCE_S

    def round(self) -> bool:
        """Fold what can be folded with the sizes known by now; say if that was any."""
        before = self.count
        self._fold_uniform()
        nodes = self._candidates()
        if nodes:
            sizes = infer(self._island(nodes))
            affordable = self._affordable(nodes, sizes)
            for start in range(0, len(affordable), _AT_ONCE):
                self._fold(affordable[start : start + _AT_ONCE])
        return self.count > before

    def _island(self, nodes: list[ir.Node]) -> Island:
        return Island(nodes, self.model.graph.opset_imports)

    def _is_foldable(self, node: ir.Node) -> bool:
        """Whether a node has one result, apart from what its inputs are."""
        if node.domain != "" or node.op_type in RANDOM or node in self.refused:
            return False
        kinds = {attribute.type for attribute in node.attributes.values()}
        if kinds & {ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS}:
            return False
        if self.level == 0 and reads_learned(node):
            return _is_layout(node)
        if self.level == 1 and any(map(_is_trained_number, node.inputs)):
            return False
        # An operator that nothing is put into computes no constant but a sample.
        return any(value is not None for value in node.inputs)

    def _candidates(self) -> list[ir.Node]:
        """Nodes that depend on constants alone, directly or by each other."""
        nodes = _closed(all_nodes(self.model.graph), self._is_candidate)
        return self._without_copies(nodes)

    def _is_candidate(self, node: ir.Node) -> bool:
        return self._is_foldable(node) and not (is_fill(node) or _dequantises(node))

    def _without_copies(self, nodes: list[ir.Node]) -> list[ir.Node]:
        """Leave out nodes that merely rearrange a weight which stays in use as it is.

        Tied weights are the case in point: folding the transpose of an embedding for
        the output layer would store the largest weight of a language model twice.
        """
        kept = dict.fromkeys(nodes)
        for node in nodes:
            weight = node.inputs[0] if node.inputs else None
            if node.op_type not in MOVES or weight is None or not is_constant(weight):
                continue
            shared = any(user not in kept for user, _ in weight.uses())
            if shared and (_bytes_of(weight) > _COPY or _is_layer_s(weight)):
                del kept[node]
        if len(kept) == len(nodes):
            return nodes
        return self._without_copies(_closed(list(kept)))

    def _affordable(self, nodes: list[ir.Node], sizes: Types) -> list[ir.Node]:
        """The nodes whose results are known to be of a bearable size, in order."""
        bytes_of = {v: _bytes_of(v) for v in self._island(nodes).inputs}
        found: list[ir.Node] = []
        for node in nodes:
            inputs = [v for v in node.inputs if v is not None]
            if any(v not in bytes_of for v in inputs):
                continue
            results = self._result_sizes(node, sizes)
            limit = max(_SMALL, _GROWTH * sum(bytes_of[v] for v in inputs))
            if results is None or sum(results.values()) > min(limit, self.budget):
                continue
            self.budget -= sum(results.values())
            bytes_of.update(results)
            found.append(node)
        return found

    def _result_sizes(self, node: ir.Node, sizes: Types) -> dict[ir.Value, int] | None:
        outputs = [output for output in node.outputs if output.name]
        if all(output.name in sizes for output in outputs):
            return {v: size_of(*sizes[v.name or ""]) for v in outputs}
        if not all(v is None or is_constant(v) for v in node.inputs):
            return None  # the next round knows more
        first = constant(node.inputs[0]) if node.inputs[0] else None
        most = {"NonZero": 8 * 8, "Unique": 4 * 8, "Compress": 8}.get(node.op_type)
        if first is None or most is None or len(first.shape) > 8:
            return None
        return dict.fromkeys(outputs, first.size * most)

    def _fold(self, nodes: list[ir.Node]) -> None:
        """Run the nodes at once; where that fails, in halves, down to single nodes."""
        nodes = _closed(nodes)
        if not nodes:
            return
        island = self._island(nodes)
        start = time.monotonic()
        results = run(island, arguments(island)) if self.patience > 0 else None
        if results is not None:
            self._replace(island, results)
            return
        self.patience -= time.monotonic() - start
        if len(nodes) == 1 or self.patience <= 0:
            note_read(*map(constant, island.inputs))  # others might be computed
            self.refused.update(nodes)
        else:
            half = len(nodes) // 2
            self._fold(nodes[:half])
            self._fold(nodes[half:])

    def _replace(self, island: Island, results: dict[ir.Value, np.ndarray]) -> None:
        origins, trained = _origins(island), _trained(island)
        words, altered = _words(island), _altered(island)
        for value, new in tensors_of(island, results).items():
            made = _make_constant(value, new, origins[value], value in trained)
            made.meta[ALTERED] = value in altered
            if value in words:
                made.meta["called"] = words[value]
        became_constants(self.model, island.nodes)
        for node in reversed(island.nodes):
            assert node.graph is not None
            node.graph.remove(node, safe=True)
        self.count += len(island.nodes)

    def _fold_uniform(self) -> None:
        """Fold what is one number throughout without ever writing it out."""
        for node in list(all_nodes(self.model.graph)):
            given = all(value is None or is_constant(value) for value in node.inputs)
            if not given or not self._is_foldable(node) or len(node.outputs) != 1:
                continue
            island, output = self._island([node]), node.outputs[0]
            tensor = uniform_result(island)
            if tensor is not None and node.graph is not None:
                _make_constant(output, tensor, _origins(island)[output])
                became_constants(self.model, [node])
                node.graph.remove(node, safe=True)
                self.count += 1


def reads_learned(node: ir.Node) -> bool:
    """Whether a node reads a tensor that the original program has a name for.

    Of integers only an attribute path counts, since numbers of the graph have names
    too, and only the whole of them: counts up to the longest sequence, of which a part
    is taken, are what programs make anew and store nowhere. A shape is no element.
    """
    if node.op_type in ("Shape", "Size"):
        return False
    return any(v is not None and _is_learned(v, node) for v in node.inputs)


def _is_layer_s(weight: ir.Value) -> bool:
    """Whether a linear layer has the weight, which is one more call of that layer
    where it is transposed for a product."""
    users = (user for user, _ in weight.uses() if user.op_type == "Gemm")
    return any(user.attributes.get_int("transB", 0) for user in users)


def _is_trained_number(value: ir.Value | None) -> bool:
    return value is not None and not value.shape and bool(value.meta.get(TRAINS))


def _is_learned(value: ir.Value, reader: ir.Node) -> bool:
    shape = value.const_value.shape if value.const_value is not None else ()
    if not has_name(value):
        return False
    if not len(shape):  # a number of the program's own, unless it is known to train
        return _is_trained_number(value)
    if value.dtype is not None and value.dtype.is_floating_point():
        return True
    return "." in (value.name or "") and reader.op_type != "Slice"


def _is_layout(node: ir.Node) -> bool:
    """Whether a node only brings weights into the order of a recurrent operator."""
    users = [user for output in node.outputs for user, _ in output.uses()]
    return bool(users) and all(
        user.op_type in _RECURRENT
        or (user.op_type in (*MOVES, "Concat", "Slice") and _is_layout(user))
        for user in users
    )


def _closed(
    nodes: Iterable[ir.Node], fits: Callable[[ir.Node], bool] = lambda node: True
) -> list[ir.Node]:
    """Those that fit, in order, and depend on constants and each other alone."""
    known: set[ir.Value] = set()
    found: list[ir.Node] = []
    for node in nodes:
        fed = all(v is None or v in known or _is_fed(v) for v in node.inputs)
        if fed and fits(node):
            found.append(node)
            known.update(node.outputs)
    return found


def _is_fed(value: ir.Value) -> bool:
    """Whether a value is a constant that can be fed without being blown up first."""
    if not is_constant(value) or not is_feedable(value):
        return False
    tensor = constant(value)
    return uniform_element(tensor) is None or tensor.nbytes <= _SMALL


def _bytes_of(value: ir.Value) -> int:
    return size_of(constant(value).dtype, constant(value).shape.numpy())


def _dequantises(node: ir.Node) -> bool:
    """Whether a node turns a quantised weight into one of four times its size."""
    weight = node.inputs[0] if node.inputs else None
    if node.op_type != "DequantizeLinear" or weight is None or not is_constant(weight):
        return False
    return constant(weight).size > _QUANTISED or len(weight.shape or ()) > 1


_OF_SHAPES = ("Shape", "Size")  # nothing of a weight's numbers goes on


def _origins(island: Island) -> dict[ir.Value, Origins]:
    """The weights that each result was computed from: what it may be called after."""
    found: dict[ir.Value, Origins] = {}
    for value in island.inputs:
        tensor = constant(value)
        weight = tensor.size > 1 and tensor.dtype.is_floating_point()
        own = (value.name or "",) if weight else ()
        found[value] = Origins(value.meta.get("folded_from", own))
    for node in island.nodes:
        reads = () if node.op_type in _OF_SHAPES else node.inputs
        names = Origins(found[v] for v in reads if v is not None)
        found.update(dict.fromkeys(node.outputs, names))
    return found


def _words(island: Island) -> dict[ir.Value, str]:
    """What results are called that are parameters in other shapes: as those are, unless
    that says no more than that they are weights."""
    own = (v for v in island.inputs if is_parameter(v) and has_name(v))
    named = (value for value in own if not is_counted(value))
    found = {value: str(value.name).rpartition(".")[2] for value in named}
    found = {v: word for v, word in found.items() if not _PLAIN.fullmatch(word)}
    for node in island.nodes:
        if node.op_type in MOVES and node.inputs[0] in found:
            found[node.outputs[0]] = found[node.inputs[0]]
    return found


def _trained(island: Island) -> set[ir.Value]:
    """What is computed from parameters: a recurrent layer's in another order, a bias
    for each pair of positions from a table."""
    found = {value for value in island.inputs if is_parameter(value)}
    for node in island.nodes:
        if not found.isdisjoint(node.inputs) and node.op_type not in _OF_SHAPES:
            found.update(node.outputs)
    return found


def _altered(island: Island) -> set[ir.Value]:
    """What has other numbers than the weight that it was computed from."""
    found = {value for value in island.inputs if value.meta.get(ALTERED)}
    for node in island.nodes:
        if node.op_type not in _MOVING or not found.isdisjoint(node.inputs):
            found.update(node.outputs)
    return found


def _make_constant(
    value: ir.Value, tensor: ir.TensorProtocol, origins: Origins, trained: bool = False
) -> ir.Value:
    """Put an initializer of the same name in the place of a computed value."""
    node = value.producer()
    assert node is not None and node.graph is not None
    noted = {**node.metadata_props, **value.metadata_props}
    new = ir.val(value.name, const_value=tensor, metadata_props=noted)
    new.meta[COMPUTED] = True
    names = tuple(origins)
    if names:
        new.meta["folded_from"] = names
    if trained and tensor.dtype.is_floating_point() and tensor.size > 1:
        new.meta[TRAINS] = True
    value.replace_all_uses_with(new, replace_graph_outputs=True)
    node.graph.register_initializer(new)
    return new


# Nodes that give the elements of their first input, moved or repeated.
MOVES = frozenset("Expand Flatten Identity Reshape Squeeze Transpose Unsqueeze".split())

# Above this many elements, one number throughout is kept as a view of that number.
_LARGEST_FILL = 1024
_MOVING = MOVES | {"Cast", "Concat", "Gather", "Slice", "Split"}  # some, or several


def is_fill(node: ir.Node) -> bool:
    """Whether a node makes a tensor of one number."""
    return node.op_type == "ConstantOfShape" and node.domain == ""


def uniform_result(island: Island) -> ir.TensorProtocol | None:
    """The result of the one node of `island`, if it is known to be uniform.

    ConstantOfShape always is; so is what only moves, repeats or casts such a tensor.
    None for every other node, and when the shape is not known or not possible.
    """
    (node,) = island.nodes
    element = _element(node, island)
    if element is None:
        return None
    name = node.outputs[0].name
    found = infer(island).get(name or "")
    if found is None or any(dim < 0 for dim in found[1]):
        return None
    dtype, shape = found
    if prod(shape) > _LARGEST_FILL:
        try:
            return uniform(element, dtype, shape, name)
        except ValueError:
            return None  # more elements than any array can have
    if not is_fill(node):
        return None  # an ordinary constant: it is computed with the others
    return ir.Tensor(np.full(shape, element), dtype, name=name)


def _element(node: ir.Node, island: Island) -> np.ndarray | None:
    """The number that a node's result consists of, as an array of one element."""
    source = node.inputs[0]
    if source is None:
        return None
    if is_fill(node):
        return filled(node)
    given = constant(source)
    if node.op_type == "Expand" and given.size == 1 and is_feedable(source):
        return given.numpy().reshape(())
    if node.op_type in MOVES and node.domain == "":
        return uniform_element(given)
    element = uniform_element(given)
    if node.op_type != "Cast" or element is None or not is_feedable(source):
        return None
    results = run(island, {source.name or "": element.reshape(1)})
    return next(iter(results.values())) if results else None


def filled(node: ir.Node) -> np.ndarray | None:
    """The number that a ConstantOfShape fills with, of shape [], if it says one."""
    value = node.attributes.get("value")
    array = np.zeros(1, np.float32) if value is None else value.as_tensor().numpy()
    return array.reshape(()) if array.size == 1 else None
