"""What exporters write as several operators, in torch's one: unbind, roll, normalize.

Rotary position embeddings are calls of a helper. F.pixel_unshuffle is written here too,
as ONNX Runtime has no operator that it is. And what attention takes stands in the order
in which it takes it: q, k, v.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import onnx_ir as ir

from ...analysis.graph.dims import Dim, is_invented
from ...analysis.graph.parameters import is_parameter
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.ops.operands import dim_keyword, equal, shown
from ...analysis.spelling.expr import Expr, Name, Ref, callee, callees, joined, renamed
from ..ir.assignment import Assignment, readers_of
from .combine import (
    FLOATS,
    Flow,
    Gone,
    axis_of,
    does,
    is_binary,
    normalized,
    repeated,
    size_of,
    spelled,
    stacked,
    without,
)
from .rotary import Rotations, moves
from .subscripts import (
    picked_along,
    picked_by_column,
    picked_by_mask,
    read_from_front,
    spell_picks,
)
from .variances import deviated, varied

# More parts than this are a list that somebody picks from, and no tuple.
MOST_PARTS = 4


def spell_idioms(
    steps: list[Assignment],
    shapes: ShapeFacts,
    results: set[ir.Value],
    kernels: bool = False,
) -> list[Assignment]:
    """The same computation in fewer steps; `results` are what the graph returns.

    `kernels` are going to be made of steps: what has one of its own is left to that.
    """
    steps = _split_at_once(steps, shapes, results)
    steps = Rotations(steps, shapes, results).run(named_alone=kernels)
    if not kernels:
        steps = spell_picks(steps, shapes, results)
        joins = repeated, stacked, _rejoined, _gated
        for idiom in (_unshuffled, normalized, varied, deviated, *joins):
            steps = spelled(idiom, steps, shapes, results)
    steps = spelled(_split_singly, _unbound(steps, shapes), shapes, results)
    steps = spelled(partial(_rolled, {}), steps, shapes, results)
    for idiom in (picked_by_column, picked_along, picked_by_mask, read_from_front):
        steps = spelled(idiom, steps, shapes, results)
    steps = _single_heads(steps, shapes, results)
    _note_masks(steps, shapes)
    _note_caches(steps)
    return _queries_first(steps, results)


# ---- a, b, c = x.chunk(3)


def _split_at_once(
    steps: list[Assignment], shapes: ShapeFacts, results: set[ir.Value]
) -> list[Assignment]:
    """One step in the place of a split and the split of one of its parts.

    So come three matrices out of a product that was merged pair by pair.
    """
    uses = Flow(steps, results).uses
    whole: dict[ir.Value | None, tuple[Assignment, int]] = {}  # and axis, by the parts
    gone: dict[Assignment, Assignment] = {}
    for step in steps:
        reads = step.reads() if does(step, "Split") and step.outputs[1:] else []
        rank = shapes.rank(reads[0]) if len(reads) == 1 else None
        if not rank:
            continue
        part, axis = reads[0], axis_of(step, rank)
        outer, same = whole.get(part, (step, axis))
        if outer is not step and same == axis and uses[part] == 1:
            at = outer.outputs.index(part)
            parts = (*outer.outputs[:at], *step.outputs, *outer.outputs[at + 1 :])
            dims = [shapes.dims(out) if out is not None else None for out in parts]
            sizes = [size_of(d, axis) if d is not None else 0 for d in dims]
            if all(sizes):
                gone[step] = outer
                outer.outputs = parts
                (source,), dim = outer.reads(), dim_keyword(axis, rank)
                outer.expr = Ref(source).split(sizes, **dim)
                if len(set(sizes)) == 1:
                    outer.expr = Ref(source).chunk(len(sizes), **dim)
                step = outer
        whole.update(dict.fromkeys(step.outputs, (step, axis)))
    return without(steps, gone)


# ---- F.pixel_unshuffle(x, 2)


def _unshuffled(step: Assignment, flow: Flow, shapes: ShapeFacts) -> Gone:
    """Blocks of pixels to channels, the place in the block innermost."""
    moved = flow.before(step, "Transpose") if does(step, "Reshape") else None
    blocks = flow.before(moved, "Reshape")
    if moved is None or blocks is None or len(blocks.reads()) != 1:
        return ()
    (x,), dims = blocks.reads(), _dims(blocks, shapes) or ()
    block = size_of(dims, 3) if len(dims) == 6 else 0
    if block and x.dtype in FLOATS and _unshuffles(x, dims, moved, step, shapes):
        step.expr = Name("F.pixel_unshuffle")(Ref(x), block)
        return moved, blocks
    return ()


def _dims(step: Assignment, shapes: ShapeFacts) -> Sequence[Dim] | None:
    (value,) = step.outputs
    return shapes.dims(value) if value is not None else None


def _unshuffles(
    x: ir.Value,
    dims: Sequence[Dim],
    moved: Assignment,
    last: Assignment,
    shapes: ShapeFacts,
) -> bool:
    """Whether x becomes [n, c, h, b, w, b], [n, c, b, b, h, w] and [n, c b b, h, w]."""
    n, c, h, block, w, other = dims
    assert moved.node is not None
    before, after = shapes.dims(x), _dims(last, shapes)
    order = list(moved.node.attributes.get_ints("perm", ()))
    return (
        order == [0, 1, 3, 5, 2, 4]
        and block == other
        and before is not None
        and equal(before, (n, c, h * block, w * block))
        and after is not None
        and equal(after, (n, c * block * block, h, w))
    )


# ---- q, k, v = x.unbind(0)


def _unbound(steps: list[Assignment], shapes: ShapeFacts) -> list[Assignment]:
    """All of x[0], x[1], ... are taken at once."""
    picks: dict[tuple[ir.Value, int], dict[int, Assignment]] = {}
    for step in steps:
        found = _pick(step, shapes)
        if found is not None:
            source, axis, place = found
            picks.setdefault((source, axis), {}).setdefault(place, step)
    gone: dict[Assignment, Assignment] = {}
    for (source, axis), parts in picks.items():
        dims = shapes.dims(source) or ()
        if len(parts) < 2 or len(parts) != size_of(dims, axis):
            continue
        first, *others = parts.values()  # in the order of the steps
        first.outputs = tuple(parts[i].outputs[0] for i in range(len(parts)))
        first.expr = Ref(source).unbind(shown(axis, len(dims)))
        gone.update(dict.fromkeys(others, first))
    return without(steps, gone)


def _split_singly(step: Assignment, flow: Flow, shapes: ShapeFacts) -> Gone:
    """A split into slices of one, each of which then loses the axis."""
    if not does(step, "Split") or not 1 < len(step.outputs) <= MOST_PARTS:
        return ()
    source, *sizes = step.reads()
    rank = shapes.rank(source) or 0
    if sizes or source.dtype == ir.DataType.STRING or not rank:
        return ()
    axis = axis_of(step, rank)
    squeezes = [r for x in step.outputs if (r := flow.reader(x))]
    loses = [s for s in squeezes if _loses(s, axis, rank, shapes)]
    if len(loses) < len(step.outputs):
        return ()
    step.outputs = tuple(s.outputs[0] for s in squeezes)
    step.expr = Ref(source).unbind(shown(axis, rank))
    return squeezes


def _loses(step: Assignment, axis: int, rank: int, shapes: ShapeFacts) -> bool:
    """Whether a step takes one axis of size 1 away, and does no more."""
    if not does(step, "Squeeze", "Reshape") or step.form is not None:
        return False
    before, after = shapes.dims(step.reads()[0]), _dims(step, shapes)
    if before is None or after is None or size_of(before, axis) != 1:
        return False
    return len(step.reads()) == 1 and equal(
        after, (*before[:axis], *before[axis + 1 :])
    )


def _pick(step: Assignment, shapes: ShapeFacts) -> tuple[ir.Value, int, int] | None:
    """The value, the axis and the place of what `x[place]` takes."""
    node = step.node
    if node is None or not does(step, "Gather") or step.form is not None:
        return None
    source, index = node.inputs[:2]
    rank = shapes.rank(source) if source is not None else None
    stored = index.const_value if index is not None else None
    if source is None or not rank or stored is None or len(stored.shape):
        return None
    axis = node.attributes.get_int("axis", 0) % rank
    size = size_of(shapes.dims(source) or (), axis)
    if not 1 < size <= MOST_PARTS or step.reads() != [source]:
        return None
    return source, axis, int(stored.numpy()) % size


# ---- torch.cat(x.chunk(4, dim=-1))


def _rejoined(step: Assignment, flow: Flow, shapes: ShapeFacts) -> Gone:
    """All parts of a value one after another, along another axis."""
    parts = [x.value for x in joined(step.expr) if isinstance(x, Ref)]
    split = flow.only(parts[0], "Split") if does(step, "Concat") and parts else None
    rank = shapes.rank(parts[0]) if split is not None else None
    once = all(flow.uses[x] == 1 for x in parts)
    if split is None or not rank or split.outputs != (*parts,) or not once:
        return ()
    step.expr = Name("torch.cat")(split.expr, **dim_keyword(axis_of(step, rank), rank))
    return (split,)


# ---- F.glu(x, dim=1)


def _gated(step: Assignment, flow: Flow, shapes: ShapeFacts) -> Gone:
    """Half of a value times the sigmoid of the other half."""
    pair = step.reads() if is_binary(step, "*") else []
    for hidden, gate in (pair, pair[::-1]) if len(pair) == 2 else ():
        sigmoid, split = flow.only(gate), flow.only(hidden, "Split")
        if not sigmoid or callee(sigmoid.expr) != "torch.sigmoid":
            continue
        if not split or flow.before(sigmoid, "Split") is not split:
            continue
        x, *sizes = split.reads()
        rank = shapes.rank(x) or 0
        half, other = (shapes.dims(value) or () for value in (hidden, gate))
        whole = split.outputs == (hidden, *sigmoid.reads())  # and no third
        if rank and not sizes and whole and equal(half, other):
            dim = shown(axis_of(split, rank), rank)
            step.expr = Name("F.glu")(Ref(x), **({} if dim == -1 else {"dim": dim}))
            return sigmoid, split
    return ()


# ---- x.roll((-3, -3), dims=(1, 2))


# What is rolled, by how much, along which axes.
_Roll = tuple[ir.Value, tuple[int, ...], tuple[int, ...]]


def _rolled(
    found: dict[ir.Value | None, _Roll],
    step: Assignment,
    flow: Flow,
    shapes: ShapeFacts,
) -> Gone:
    """Two parts of a value joined in the other order; `found` are those before, which
    may go on along other axes."""
    parts = step.reads()
    split = flow.only(parts[0], "Split") if len(parts) == 2 else None
    if not does(step, "Concat") or split is None:
        return ()
    source, *sizes = split.reads()
    if sizes or split.outputs != (parts[1], parts[0]) or flow.uses[parts[1]] > 1:
        return ()
    dims, front = shapes.dims(source), shapes.dims(parts[1])
    if not dims or not front:
        return ()
    axis, other = (axis_of(s, len(dims)) for s in (step, split))
    begin, size = size_of(front, axis), size_of(dims, axis)
    if axis != other or not begin or not size:
        return ()
    gone = [split]
    before: _Roll = source, (), ()
    if source in found and flow.uses[source] == 1:
        gone, before = [split, flow.makers[source]], found[source]
    shift = -begin if begin <= size - begin else size - begin
    x, shifts, axes = before[0], (*before[1], shift), (*before[2], axis)
    found[step.outputs[0]] = x, shifts, axes
    along = tuple(shown(axis, len(dims)) for axis in axes)
    one = len(along) == 1
    step.expr = Ref(x).roll(
        shifts[0] if one else shifts, dims=along[0] if one else along
    )
    return gone


# ---- q.unflatten(2, (1, 16)).transpose(1, 2)


def _single_heads(
    steps: list[Assignment], shapes: ShapeFacts, results: set[ir.Value]
) -> list[Assignment]:
    """What attends with one head, as others of the network do with several: they may be
    one class. The first stages of hierarchical transformers have one."""
    attends = {s for s in steps if callee(s.expr) == "F.scaled_dot_product_attention"}
    ranks = {s: _dims(s, shapes) or () for s in attends}
    heads = {dims[1] for dims in ranks.values() if len(dims) == 4}
    if len(heads) < 2:
        return steps
    flow, users = Flow(steps, results), readers_of(steps)
    changed: dict[Assignment, list[Assignment]] = {}
    for step in (s for s in attends if len(ranks[s]) == 4 and ranks[s][1] == 1):
        for value in step.reads()[:3]:
            parts = flow.only(value, "Split")
            whole = parts.reads()[0] if parts and axis_of(parts, 4) == 3 else value
            made, wide = flow.only(whole, "Reshape", "Unsqueeze"), shapes.dims(whole)
            if made is None or wide is None or len(made.reads()) != 1:
                continue
            (x,), (function, *sizes) = made.reads(), made.expr.operands
            if shapes.dims(x) == (wide[0], *wide[2:]) and isinstance(wide[3], int):
                apart = Ref(x).unflatten(2, (1, wide[3]))
            elif callee(made.expr) == ".reshape" and len(sizes) == 4:
                apart = function(sizes[0], sizes[2], sizes[1], sizes[3])
            else:
                continue
            changed[made] = _in_two(made, apart, Ref(x).transpose(1, 2), x)
        out, (last, *more) = step.outputs[0], users.get(step.outputs[0], [None])
        if last and not more and out:
            loses = _loses(last, 1, 4, shapes)
            if loses or callee(last.expr) == ".reshape":
                merged = Ref(out).flatten(2) if loses else last.expr
                changed[last] = _in_two(last, Ref(out).transpose(1, 2), merged, out)
    return [new for step in steps for new in changed.get(step, [step])]


def _in_two(
    step: Assignment, first: Expr, second: Expr, given: ir.Value
) -> list[Assignment]:
    """A step as two, the second on what the first gives in the place of a value."""
    (out,) = step.outputs
    assert out is not None
    between = ir.Value(name=f"{out.name}_heads", type=out.type)
    begun = replace(step, outputs=(between,), expr=first, node=None, absorbed=())
    return [begun, replace(step, expr=renamed(second, {given: between}))]


# ---- mask = ...


def _note_masks(steps: list[Assignment], shapes: ShapeFacts) -> None:
    """What attention adds to its scores is a mask, where nothing else says what it is;
    so is what that comes from, moved about. To an encoder's states it is a cross_mask.
    """
    makers = Flow(steps).makers
    for step in steps:
        attends = "F.scaled_dot_product_attention" in callees(step.expr)
        inputs = step.node.inputs if attends and step.node is not None else ()
        value = inputs[3] if len(inputs) > 3 else None
        word = "cross_mask" if value and _crosses(inputs, shapes) else "mask"
        while value is not None and not is_parameter(value):
            stored = value.is_initializer()
            if not (stored and value is inputs[3]):  # that is an attention_bias
                value.meta.setdefault("word" if stored else "role", word)
            made = makers.get(value)
            sources = made.reads() if made is not None and moves(made) else []
            value = sources[0] if sources else None


def _crosses(inputs: Sequence[ir.Value | None], shapes: ShapeFacts) -> bool:
    """Whether there are as many keys as sizes say that queries have no part in."""
    sizes = [shapes.dims(x) or () for x in inputs[:2] if x is not None]
    lengths = [n for dims in sizes for n in dims[-2:-1] if not isinstance(n, int)]
    if len(lengths) < 2 or any(map(is_invented, lengths)):
        return False
    return lengths[0].free_symbols.isdisjoint(lengths[1].free_symbols)


def _note_caches(steps: list[Assignment]) -> None:
    """Keys and values that a caller kept, and those that attention leaves to keep."""
    makers = Flow(steps).makers
    for step in steps:
        attends = "F.scaled_dot_product_attention" in callees(step.expr)
        inputs = step.node.inputs if attends and step.node is not None else ()
        for value, word in zip(inputs[1:3], ("key", "value"), strict=False):
            named: dict[ir.Value | None, str] = {}
            while value is not None and not value.is_graph_input():
                made = makers.get(value)
                joins = made is not None and does(made, "Concat")
                if made is None or not (joins or moves(made)):
                    break
                named |= {value: "present"} if joins else {}
                value = made.reads()[0]
            else:
                for part, when in {**named, value: "past"}.items():
                    if part is not None:
                        part.meta.setdefault("role", f"{when}_{word}")


# ---- q = ..., k = ..., v = ...


def _queries_first(steps: list[Assignment], results: set[ir.Value]) -> list[Assignment]:
    """What only an attention's queries need, then its keys, then its values."""
    makers = {out: step for step in steps for out in step.outputs}
    users = readers_of(steps)

    def needed_by(user: Assignment, value: ir.Value) -> list[Assignment]:
        """The steps behind an operand that nothing else reads."""
        found, todo = dict.fromkeys([user]), [value]
        while todo:
            step = makers.get(todo.pop())
            if step is None or step in found or not results.isdisjoint(step.outputs):
                continue
            readers = [u for out in step.outputs if out for u in users.get(out, ())]
            if all(reader in found for reader in readers):
                found[step] = None
                todo += step.reads()
        return [step for step in found if step is not user]

    order = {step: i for i, step in enumerate(steps)}
    ordered = list(steps)
    for step in steps:
        if "F.scaled_dot_product_attention" not in callees(step.expr):
            continue
        operands = step.reads()[:3]
        parts = [
            sorted(needed_by(step, value), key=order.__getitem__) for value in operands
        ]
        wanted = list(dict.fromkeys(s for part in parts for s in part))
        places = sorted(map(order.__getitem__, wanted))
        moved = dict(zip(places, wanted, strict=True))
        span = range(min(places, default=0), max(places, default=-1) + 1)
        if _can_run([moved.get(i, ordered[i]) for i in span]):
            for place, other in moved.items():
                ordered[place] = other
        else:  # what others share is made in between: it comes first
            others = [ordered[i] for i in span if ordered[i] not in wanted]
            ordered[span.start : span.stop] = [*others, *wanted]
        order = {step: i for i, step in enumerate(ordered)}
    return ordered


def _can_run(steps: list[Assignment]) -> bool:
    """Whether everything is made before it is read."""
    made: set[ir.Value | None] = set()
    own = {out for step in steps for out in step.outputs}
    for step in steps:
        if any(value in own and value not in made for value in step.reads()):
            return False
        made.update(step.outputs)
    return True
