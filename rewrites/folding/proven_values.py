"""What shape inference proves: integers become constants, decided masks go, and so do
places of all there is, and tensors of one number beside others of their sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ...analysis.graph.constants import uniform_number
from ...analysis.graph.dims import Dim, Dims, at_least, ones, product, same
from ...analysis.graph.parameters import TRAINS, is_filler, is_parameter
from ...analysis.graph.shape_facts import NodeFacts, ShapeFacts
from ...analysis.graph.traversal import all_nodes
from ...analysis.ops.facts.fitting_sizes import together
from ...analysis.ops.facts.index_functions import Count, Rows
from ...analysis.ops.facts.index_maps import WITHIN
from ...analysis.ops.node_view import constant
from ...analysis.ops.registry import lookup
from ...analysis.shapes.index_functions import Places
from ..adapters.provenance import became_constants
from ..adapters.unique_names import fix_names
from ..language.operators.read_write import WORDS, CannotWrite, NewConstant
from .constant_folding import filled, is_fill, reads_learned


def store_known_sizes(
    model: ir.Model, shapes: ShapeFacts, faithful: bool = False
) -> int:
    """Replace such values by initializers of their names; returns how many.

    Values that are computed from them may now fold. What a graph gives stays, and
    if `faithful`, what is computed from a named buffer.
    """
    found = 0
    for node in list(all_nodes(model.graph)):
        if faithful and reads_learned(node):
            continue
        for value in node.outputs:
            if value.is_graph_output() or not value.uses():
                continue
            array = constant(value, shapes)
            if array is None:
                continue
            became_constants(model, [node])
            name, value.name = value.name, f"{value.name}_computed"
            tensor = ir.tensor(array, value.dtype, name=name)
            value.replace_all_uses_with(_stored(model, tensor))
            found += 1
    return found


def store_kept_sizes(model: ir.Model, shapes: ShapeFacts) -> int:
    """Store the shapes of Reshapes whose open sizes are the operand's, or one that the
    others leave; returns how many. What was asked for them may be needed no more."""
    found, names = 0, None
    for node in list(all_nodes(model.graph)):
        if node.op_type != "Reshape" or node.domain or "allowzero" in node.attributes:
            continue
        x, shape = node.inputs[:2]
        content = None if shape is None else shapes.content(shape)
        if x is None or shape is None or content is None:
            continue
        told = [n for n in content.flat if isinstance(n, int)]
        if shape.const_value is not None or min(told, default=1) < 1:
            continue
        sizes = {"shape": (*content.flat,), "sizes": shapes.dims(x)}
        try:
            listed = WORDS["Reshape"].write([x], sizes).inputs[1]
        except CannotWrite:
            continue
        # Of no elements, -1 beside 0 could be any size.
        if isinstance(listed, NewConstant) and not {0, -1} <= {*listed.array.tolist()}:
            names = names or fix_names(model)
            name = names.value(f"{node.outputs[0].name}_sizes")
            array = listed.array.astype(np.int64)
            node.replace_input_with(1, _stored(model, ir.tensor(array, name=name)))
            found += 1
    return found


def settle_types(model: ir.Model) -> int:
    """Cast constants to a type where it is known, and not like another value; also
    what has that type. Values that are computed from them may now fold.

    Returns how many were.
    """
    found = 0
    for node in all_nodes(model.graph):
        if node.domain or node.op_type != "CastLike":
            continue
        number, like = node.inputs
        if number is None or like is None or like.dtype is None:
            continue
        if number.const_value is not None or number.dtype == like.dtype:
            node.op_type = "Cast"
            node.attributes.add(ir.AttrInt64("to", like.dtype.value))
            node.resize_inputs(1)
            found += 1
    return found


def take_decided(model: ir.Model, shapes: ShapeFacts) -> int:
    """Let the operand that decides stand for such a node; returns how many.

    It is made as large as the result. The graph's own outputs stay.
    """
    found, places = 0, Places(shapes)
    for node in list(all_nodes(model.graph)):
        if node.domain or node.op_type not in ("And", "Or", "Where"):
            continue
        out, taken = node.outputs[0], _taken(node, places)
        if taken is None or out.is_graph_output() or not out.uses():
            continue
        dims = shapes.dims
        others = [x for x in node.inputs if x is not taken and x is not None]
        wider = [x for x in others if not _is_within(dims(x), dims(taken))]
        widest = [x for x in wider if all(_is_within(dims(y), dims(x)) for y in wider)]
        if not wider:
            became_constants(model, [node])
            out.replace_all_uses_with(taken)
        elif widest:
            _become(node, "Expand", taken, _made(node, "Shape", widest[0]))
            node.resize_inputs(2)
        else:
            continue
        found += 1
    return found


def take_numbers(model: ir.Model, shapes: ShapeFacts) -> int:
    """Let a number stand for a tensor of it, where another operand has its sizes;
    returns how many did.

    So exporters write `torch.zeros_like(x)`. What has a name of the original's stays.
    """
    found, names = 0, None
    for node in list(all_nodes(model.graph)):
        op = lookup(node)
        if op is None or op.fits is not together:
            continue
        for k, x in enumerate(node.inputs):
            if x is None or (number := _number(x)) is None or not shapes.dims(x):
                continue
            others = [y for i, y in enumerate(node.inputs) if y and i != k]
            if any(shapes.dims(y) == shapes.dims(x) for y in others):
                became_constants(model, [node])
                names = names or fix_names(model)
                tensor = ir.tensor(number, name=names.value("number"))
                node.replace_input_with(k, _stored(model, tensor))
                found += 1
    return found


def drop_no_bias(model: ir.Model) -> None:
    """Take zeros that an exporter put in from where a convolution has its bias, which
    may be of any sizes."""
    for node in all_nodes(model.graph):
        bias = node.inputs[2] if node.inputs[2:] else None
        takes_one = not node.domain and node.op_type in ("Conv", "ConvTranspose")
        if takes_one and bias is not None and is_filler(bias, 0):
            node.resize_inputs(2)


def _stored(model: ir.Model, tensor: ir.TensorProtocol) -> ir.Value:
    """A new initializer."""
    value = ir.val(tensor.name, const_value=tensor)
    model.graph.register_initializer(value)
    return value


def _number(x: ir.Value) -> np.ndarray | None:
    """The number that a value is throughout, of shape [], if it is no parameter."""
    made = x.producer()
    repeats = made is not None and (made.op_type, made.domain) == ("Expand", "")
    if made is not None and (repeats or is_fill(made)):
        if made.inputs[-1] is None or made.inputs[-1].const_value is not None:
            return None  # it folds
        if is_fill(made):
            return filled(made)
        x = made.inputs[0] or x
    number = None if x.is_graph_input() else uniform_number(x.const_value)
    if number is None or x.meta.get(TRAINS) or not is_filler(x, number):
        return None
    assert x.const_value is not None
    return x.const_value.numpy().reshape(-1)[:1].reshape(())


def _is_within(dims: Dims | None, wide: Dims | None) -> bool:
    """Whether broadcasting leaves `wide`: two names of sizes may be taken for equal
    where one of them is 1."""
    if dims is None or wide is None or len(dims) > len(wide):
        return False
    pairs = zip(reversed(dims), reversed(wide), strict=False)
    return all(n == 1 or same(n, m) is True for n, m in pairs)


def _taken(node: ir.Node, places: Places) -> ir.Value | None:
    if node.op_type == "Where":
        condition, yes, no = node.inputs
        decided = places.of(condition)
        return (yes if decided else no) if isinstance(decided, bool) else None
    neutral = node.op_type == "And"
    for x, other in (node.inputs, node.inputs[::-1]):
        if places.of(x) is neutral:
            return other
    return None


def read_in_order(model: ir.Model, shapes: ShapeFacts) -> int:
    """Let what gathers elements in their order be a Reshape, of a Slice where they are
    the first along an axis; returns how many did.

    So exporters write masks of rows, at places of a column or at pairs of places, and
    PyTorch's writes as_strided, which pools to one place are made of.
    """
    found, places = 0, Places(shapes)
    for node in list(all_nodes(model.graph)):
        if node.domain or node.op_type not in ("Gather", "GatherND"):
            continue
        x, at = node.inputs
        assert x is not None and at is not None
        out = node.outputs[0]
        if out.is_graph_output() or not out.uses() or is_parameter(x):
            continue  # a table of one column is an Embedding still
        columns = _columns(node, places) if shapes.dims(x) else []
        inner = (shapes.dims(x) or ())[len(columns) :]
        x, columns = _unflattened(x, columns, shapes)
        whole = shapes.dims(x) or ()
        dims = (shapes.dims(at) or ())[: len(columns[0].steps) if columns else 0]
        if not dims or len(columns) > len(whole):
            continue
        axes = {i: _axis(count) for i, count in enumerate(columns)}
        cut = {
            i: axis
            for i, axis in axes.items()
            if axis is not None and same(dims[axis], whole[i]) is not True
        }
        sizes = [dims[cut[i]] if i in cut else whole[i] for i in axes]
        flat = Count(0, (0,) * len(dims))
        for i, count in enumerate(columns):
            flat = flat.plus(count, product(sizes[i + 1 :]))
        is_all = same(product(sizes), product(dims)) is True
        added = ones((*dims, *inner), (*sizes, *whole[len(columns) :]))
        unlike = added is None and any(n != 1 for n in inner)
        if not is_all or flat != _in_order(dims) or unlike:
            continue
        read = [_is_read(k, dims, whole[i], shapes) for i, k in cut.items()]
        if not all(read) or (x is not node.inputs[0] and len(cut) > 1):
            continue  # what is behind a row's end may be another one's
        if cut:
            x = _first(node, x, at, cut)
        if added:
            _become(node, "Unsqueeze", x, _made(node, "Constant", value_ints=added))
        elif added is not None:
            became_constants(model, [node])
            out.replace_all_uses_with(x)
        else:
            shape = _made(node, "Shape", at, end=len(dims))
            if inner:
                single = _made(node, "Constant", value_ints=[1] * len(inner))
                shape = _made(node, "Concat", shape, single, axis=0)
            _become(node, "Reshape", x, shape, allowzero=1)
        found += 1
    return found


def _columns(node: ir.Node, places: Places) -> list[Count]:
    """The place along each of the first axes that a node reads at; none if unknown."""
    site = NodeFacts(node, places.shapes)
    found, dims = places.of(node.inputs[1]), site.dims(1) or (None,)
    if node.op_type == "Gather":
        is_first = site.axis(len(site.dims(0) or ())) == 0
        return [found] if isinstance(found, Count) and is_first else []
    if isinstance(found, Count) and dims[-1] == 1:
        found = Rows((found,))
    if not isinstance(found, Rows) or site.attr("batch_dims", 0):
        return []
    return [Count(count.first, count.steps[:-1]) for count in found.counts]


def _unflattened(
    x: ir.Value, columns: list[Count], shapes: ShapeFacts
) -> tuple[ir.Value, list[Count]]:
    """What was made one axis, and the place along each of its own, as TorchScript reads
    a mask at row * width + column; else these."""
    made = x.producer()
    if made is None or made.op_type not in ("Reshape", "Flatten") or len(columns) != 1:
        return x, columns
    (rest,), whole, found = columns, made.inputs[0], []
    assert whole is not None
    dims = shapes.dims(whole) or ()
    for k in range(len(dims)):
        width = product(dims[k + 1 :])
        steps = (int(same(step, width) is True) for step in columns[0].steps)
        found.append(Count(0, tuple(steps)))
        rest = rest.plus(found[-1], -width)
    split = all(any(count.steps) for count in found)
    return (
        (whole, found)
        if split and rest.is_constant and not rest.first
        else (x, columns)
    )


def _first(node: ir.Node, x: ir.Value, at: ir.Value, cut: dict[int, int]) -> ir.Value:
    """The first of x along axes of its own, as many as `at` has along one of its."""
    first = _made(node, "Constant", value_ints=[0] * len(cut))
    ends = [_made(node, "Shape", at, start=k, end=k + 1) for k in cut.values()]
    end = _made(node, "Concat", *ends, axis=0)
    axes = _made(node, "Constant", value_ints=[*cut])
    found = _made(node, "Slice", x, first, end, axes)
    producer = found.producer()
    assert producer is not None
    producer.meta[WITHIN] = True
    return found


def _axis(count: Count) -> int | None:
    """The axis along which a place is 0, 1, 2 ...; None if there isn't one alone."""
    steps = [(step, axis) for axis, step in enumerate(count.steps) if step]
    ((step, axis),) = steps if len(steps) == 1 else ((0, None),)
    return axis if (count.first, step) == (0, 1) else None


def _is_read(axis: int, dims: Dims, whole: Dim, shapes: ShapeFacts) -> bool:
    """Whether places along an axis are within the whole, or are looked for there: where
    nothing is read, any are allowed."""
    others = (*dims[:axis], *dims[axis + 1 :])
    within = at_least(whole, dims[axis]) is True
    return within or all(shapes.never_negative(n - 1) for n in others)


def _in_order(dims: Dims) -> Count:
    """0, 1, 2 ... in the order of memory."""
    steps = [product(dims[k + 1 :]) if n != 1 else 0 for k, n in enumerate(dims)]
    return Count(0, tuple(steps))


def _made(node: ir.Node, op: str, *inputs: ir.Value, **attributes: Any) -> ir.Value:
    """The result of a new node before one, in whose place it is."""
    assert node.graph is not None
    made = ir.node(op, inputs, attributes, metadata_props=dict(node.metadata_props))
    # Not the graph's to name, which doesn't know what is outside of it.
    made.outputs[0].name = f"{node.outputs[0].name}_{len(node.graph)}"
    node.graph.insert_before(node, made)
    return made.outputs[0]


def _become(
    node: ir.Node, op: str, x: ir.Value, sizes: ir.Value, **attributes: int
) -> None:
    node.op_type = op
    node.attributes.clear()
    for name, number in attributes.items():
        node.attributes.add(ir.AttrInt64(name, number))
    node.replace_input_with(0, x)
    node.replace_input_with(1, sizes)
