"""Which float constants of a file a program would train, by what is done with them.

A weight of a product, norm or bias trains, and so does an addend or factor of what is
computed from the inputs. Frequencies, tables of positions, masks, bounds, the
statistics of a norm, what inputs are normalised by and what only chooses, as a router's
correction does of its best experts, don't.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain

import onnx_ir as ir

from ..graph.constants import is_choice, is_grid, is_mask, is_wave
from ..graph.element_types import is_float
from ..graph.parameters import (
    TRAINS,
    has_name,
    is_counted,
    is_derived,
    mark_counted,
    noted,
)
from ..graph.traversal import all_nodes, bodies, reached
from ..graph.weight_access import glance
from .facts.requirements import IndexOf, PlaceIn
from .registry import lookup

# Arguments of functions that exporters name numbers after.
_SETTING = re.compile(r"(^|\.)(alpha|beta|lambd|threshold|eps|pow)(_\d+)*$")
# What a norm counts of the batches it was trained on.
_STATISTIC = re.compile(r"(^|\.)running_(mean|var)$")
_SHAPES = ("Exp", "Softplus", "Sigmoid", "Tanh")
_DEPTH = 24  # nodes between a constant and what decides
# Operators whose first operand keeps its meaning, whatever its shape and type.
_SAME = frozenset(
    "Cast Expand Flatten Identity Reshape Slice Split Squeeze Tile Transpose Unsqueeze "
    "Abs Ceil Clip Erf Exp Floor Log Neg Reciprocal Relu Sigmoid Softmax Softplus Sqrt "
    "Tanh LpNormalization ReduceL1 ReduceL2 ReduceSum ReduceSumSquare ReduceMean "
    "Concat GatherElements GatherND Pad CastLike Resize".split()
)
_SUMS = frozenset({"Add", "Mul", "Sub", "Div", "Pow", "Max", "Min", "MatMul", "Einsum"})
_FORMS = frozenset({"Cast", "Reshape", "Unsqueeze"})
# By the place of the operand: what is a constant there, by what the operator says.
_FIXED = {
    "BatchNormalization": (3, 4),
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
    "Resize": (1, 2),
    "Clip": (1, 2),
    "Pad": (2,),
    "OneHot": (2,),
}


def mark_parameters(model: ir.Model) -> None:
    """Note on each named float constant whether it trains, where its uses say so."""
    roles = _Roles(model)
    graphs = {model.graph, *(node.graph for node in all_nodes(model.graph))}
    own = [g.initializers.values() for g in graphs if isinstance(g, ir.Graph)]
    values = [*chain.from_iterable(own)]
    mark_counted(values)
    for value in values:
        is_number = is_counted(value) and not value.shape  # it is no weight's name
        if is_float(value) and has_name(value) and not is_number:
            value.meta[TRAINS] = roles.trains(value)


def mark_scales(model: ir.Model) -> None:
    """Note that norms train what an exporter added up for them, as 1 + weight."""
    for node in all_nodes(model.graph):
        if node.op_type in ("LayerNormalization", "RMSNormalization"):
            scale = node.inputs[1]
            if (
                scale is not None
                and scale.const_value is not None
                and is_derived(scale)
            ):
                scale.meta[TRAINS] = is_float(scale)


class _Roles:
    def __init__(self, model: ir.Model) -> None:
        self._frozen, self._passed = _frozen(model), _with_gradients(model)
        weights = model.graph.initializers.values()
        nodes = [*all_nodes(model.graph)]
        notes = (key for n in nodes for key in n.metadata_props)
        # What a condition gives, by what its branches give.
        ifs = ((n, body) for n in nodes if n.op_type == "If" for body in bodies(n))
        pairs = (zip(b.outputs, n.outputs, strict=False) for n, b in ifs)
        self._given = dict(chain.from_iterable(pairs))
        newer = any(map(noted, weights)) or any("pkg.torch.onnx" in k for k in notes)
        traced = model.producer_name == "pytorch" and not newer
        self._words = {v for v in weights if traced and (v.name or "").isidentifier()}
        self._learned: dict[ir.Value, bool] = {}
        self._said: dict[tuple[ir.Value, int], bool | None] = {}

    def trains(self, value: ir.Value) -> bool | None:
        """None where no use of a constant says."""
        tensor = value.const_value
        if tensor is None:
            return None
        unknown = tensor.size == 1 and noted(value) != "PARAMETER"
        if unknown and (self._is_setting(value) or _scales_rows(value)):
            return False
        if _is_statistic(value) or self._is_frozen(value):
            return False
        is_layer_s = f".{value.name}".endswith((".weight", ".bias"))
        learned = is_layer_s and not is_choice(tensor)  # no mask that is called bias
        if self._passed and value not in self._passed and not learned:
            return False  # no result has a gradient by it
        if _is_turned(value):
            return bool((glance(tensor) < 0).any() and (glance(tensor) > 0).any())
        return self._used(value, _DEPTH) and not (
            is_mask(tensor)
            or (_is_factor(value) and not is_layer_s and is_choice(tensor))
            or (self._places(value) and is_wave(tensor))
            or (_is_fed(value) and is_grid(tensor))
        )

    def _is_setting(self, value: ir.Value) -> bool:
        """Whether a number is an argument of a program rather than what it learns.

        One without a path is, unless a function shapes it, as none shapes a setting,
        or TorchScript has a word for it, as for what the network itself holds.
        """
        name = value.name or ""
        shaped = any(node.op_type in _SHAPES for node, _ in value.uses())
        plain = "." not in name and not shaped and value not in self._words
        return bool(_SETTING.search(name)) or plain

    def _is_frozen(self, value: ir.Value) -> bool:
        """Whether a norm's statistics, one to each of its numbers, and no input meet
        a constant in all of its uses, as they do the weight and bias of a frozen norm.
        """
        assert value.const_value is not None
        size, todo, met = value.const_value.size, [*value.uses()], False
        for node, place in todo:
            if node.op_type in _FORMS and place == 0:
                todo += node.outputs[0].uses()
                continue
            others = [x for i, x in enumerate(node.inputs) if i != place]
            sums = node.op_type in _SUMS
            met = sums and any(x and self._frozen.get(x) == size for x in others)
            if not met:
                return False
        return met

    def _used(self, value: ir.Value, depth: int) -> bool | None:
        if (value, depth) not in self._said:
            said = {self._use(node, i, depth) for node, i in value.uses()}
            if value in self._given and depth:
                said.add(self._used(self._given[value], depth - 1))
            found = True if True in said else False if False in said else None
            self._said[value, depth] = found
        return self._said[value, depth]

    def _use(self, node: ir.Node, place: int, depth: int) -> bool | None:
        """Whether an operand that comes of constants alone trains."""
        if node.domain not in ("", "ai.onnx") or depth == 0:
            return None
        kind = node.op_type
        if place in _FIXED.get(kind, ()):
            return False
        others = [x for i, x in enumerate(node.inputs) if i != place and x is not None]
        if kind == "Gather":
            if place or others[0].const_value is not None:
                return None if place else self._used(node.outputs[0], depth - 1)
            return True
        if kind in ("Cos", "Sin"):
            return False
        if kind == "Concat":  # constants in a row are whatever the row is
            fed = (reached([x], _behind) for x in others)  # by more than its sizes
            pairs = zip(others, fed, strict=True)
            others = [x for x, of in pairs if any(v.is_graph_input() for v in of)]
        if kind in _SAME or kind in _SUMS or kind == "Where":
            if any(map(self._is_computed, others)):
                is_shift = kind in ("Sub", "Div") and place == 1
                return not (is_shift and self._is_input(others[0]))
            # Factors of counts, positions and masks; a bias may be added to a mask.
            if all(x.const_value is None for x in others) and kind in _SUMS - {"Add"}:
                return False
            return self._used(node.outputs[0], depth - 1)
        if place and (op := lookup(node)) is not None and op.module is not None:
            return any(map(self._is_computed, others)) or None  # as a layer's
        return None

    def _is_computed(self, value: ir.Value) -> bool:
        """Whether weights or float inputs went into what is no constant."""
        return value.const_value is None and self._comes_of_floats(value)

    def _comes_of_floats(self, value: ir.Value) -> bool:
        todo, seen = [value], set[ir.Value]()
        while todo:
            one = todo.pop()
            if one in seen:
                continue
            seen.add(one)
            if one in self._learned:
                if self._learned[one]:
                    break
                continue
            tensor = one.const_value
            given = one.is_graph_input() if tensor is None else tensor.size > 1
            if given and is_float(one):
                self._learned[one] = True
                break
            node = one.producer()
            if node is not None and node.op_type != "Shape":
                todo += [x for x in node.inputs if x is not None]
        else:
            self._learned.update(dict.fromkeys(seen, False))
            return False
        self._learned[value] = True
        return True

    def _is_input(self, value: ir.Value) -> bool:
        """Whether a value is an input of the model, or that normalised."""
        for _ in range(_DEPTH):
            node = value.producer()
            if node is None:
                return value.is_graph_input()
            if node.op_type not in ("Cast", "Sub", "Div", "Mul", "Identity"):
                return False
            operand = node.inputs[0]
            if operand is None:
                return False
            value = operand
        return False

    def _places(self, value: ir.Value) -> bool:
        """Whether a matrix is read at positions, which no input lists, or added."""
        for node, place in value.uses():
            if node.op_type == "Gather" and place == 0:
                index = node.inputs[1]
                if index is not None and index.is_graph_input():
                    return False
            elif node.op_type not in (*_SAME, "Add", "Mul"):
                return False
        return True


def _behind(value: ir.Value) -> Iterable[ir.Value]:
    """What a value is computed from, but for sizes."""
    node = value.producer()
    if node is None or node.op_type == "Shape":
        return ()
    return (x for x in node.inputs if x is not None)


def _is_turned(value: ir.Value) -> bool:
    """Whether a constant is angles: those of positions have one sign, unlike learned
    ones. (Frequencies are multiplied by positions first.)"""
    uses = [*value.uses()]
    for node, _ in uses:
        if node.op_type in (*_FORMS, "Concat") and len(uses) <= _DEPTH:
            uses += node.outputs[0].uses()
        elif node.op_type not in ("Cos", "Sin"):
            return False
    return bool(uses)


def _is_fed(value: ir.Value) -> bool:
    """Whether products take a constant for their input, and not for their weight."""
    return all(n.op_type in ("MatMul", "Gemm") and not i for n, i in value.uses())


def _is_factor(value: ir.Value) -> bool:
    """Whether a constant, or one less it, is a factor and nothing else."""
    uses = [*value.uses()]
    for node, place in uses:
        left = node.inputs[0] if node.op_type == "Sub" and place else None
        if node.op_type in _FORMS or (left is not None and left.const_value):
            uses += node.outputs[0].uses()
        elif node.op_type != "Mul":
            return False
    return bool(uses)


def _is_statistic(value: ir.Value) -> bool:
    """Whether a constant is a mean or variance that a norm counted: by PyTorch's name
    for it, or as the root is drawn of it and of a small number."""
    if _STATISTIC.search(value.name or ""):
        return True
    assert value.const_value is not None
    return value.const_value.size > 1 and any(
        _is_rooted(node, place) for node, place in value.uses()
    )


def _is_rooted(node: ir.Node, place: int) -> bool:
    if node.op_type in _FORMS and place == 0:
        return any(_is_rooted(*use) for use in node.outputs[0].uses())
    other = node.inputs[1 - place] if node.op_type == "Add" else None
    epsilon = other.const_value if other is not None else None
    if epsilon is None or epsilon.size != 1:
        return False
    return any(use.op_type == "Sqrt" for use, _ in node.outputs[0].uses())


def _with_gradients(model: ir.Model) -> set[ir.Value]:
    """What float results, or the bodies of a graph, are made of but by choice."""
    nodes = [*all_nodes(model.graph)]
    inner = [n for n in nodes if n.graph is not model.graph or bodies(n)]
    todo = [x for node in inner for x in node.inputs] + [*model.graph.outputs]
    found = set[ir.Value]()
    while todo:
        value = todo.pop()
        if (
            value is None
            or value in found
            or not (value.dtype is None or is_float(value))
        ):
            continue
        found.add(value)
        maker = value.producer()
        if maker is not None and maker.op_type != "Shape":
            op, given = lookup(maker), dict(enumerate(maker.inputs))
            asked = op.requires.items() if op is not None else ()
            chosen = {i for i, how in asked if isinstance(how, IndexOf | PlaceIn)}
            chosen |= {0} if maker.op_type == "Where" else set()
            todo += [given[i] for i in given.keys() - chosen]
    return found


def _frozen(model: ir.Model) -> dict[ir.Value, int]:
    """What is computed of constants alone, a norm's statistics among them: how many
    numbers these are."""
    found: dict[ir.Value, int] = {}
    for node in all_nodes(model.graph):
        sizes = [_statistics(x, found) for x in node.inputs if x is not None]
        if sizes and None not in sizes:
            size = max(size or 0 for size in sizes)
            found.update(dict.fromkeys(node.outputs, size))
    return {value: size for value, size in found.items() if size}


def _statistics(value: ir.Value, found: Mapping[ir.Value, int]) -> int | None:
    if value.const_value is None:
        return found.get(value)
    return value.const_value.size if _is_statistic(value) else 0


def _scales_rows(value: ir.Value) -> bool:
    """Whether a number is the root of the width of a table whose rows it scales."""
    assert value.const_value is not None
    square = float(glance(value.const_value).reshape(-1)[0]) ** 2
    for node, place in value.uses():
        other = node.inputs[1 - place] if node.op_type == "Mul" else None
        rows = other.producer() if other is not None else None
        table = (
            rows.inputs[0] if rows is not None and rows.op_type == "Gather" else None
        )
        if table is not None and table.const_value is not None:
            width = table.const_value.shape.numpy()[-1:]
            if width and abs(square - width[0]) < 1e-4 * square:
                return True
    return False
