"""Attention by what it computes: softmax(c q k + masks) v, wherever c and masks stand.

Scores are affine in the product of queries and keys: numbers multiply it, queries and
keys (also before their heads are moved about), other tensors are added to it, and a
condition chooses between it and "minus infinity", which is a sum too. So c is read off,
with the masks and a number for each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from ...analysis.graph.dims import Dims, agrees, same
from ...analysis.graph.parameters import is_parameter
from ...analysis.ops.facts.index_functions import Count, Natural, opposite
from ..language.facts import Facts
from ..language.operators.read_write import (
    WORDS,
    CannotWrite,
    Draft,
    Input,
    NewConstant,
    Output,
    ints,
)

# What is false where softmax has no result; -O0 does without.
OPEN = "attention_open"
STATEMENTS = {
    "attention": "softmax(c q k^T + masks) v, guarded against NaN, or where no row of"
    " the masks is minus infinity throughout",
    OPEN: "softmax(c q k^T + masks) v but for rows in which the masks are minus"
    " infinity throughout: Attention is 0 there, and the softmax NaN",
    "attention_rescaled": "Attention(q a, k b, v, scale=s) = Attention(q, k, v, "
    "scale=a b s), a and b numbers",
    "attention_grouped": "Attention(q, repeat(k, g), repeat(v, g)) with g heads of "
    "queries per head of keys = Attention(q, k, v)",
}
_STEPS = 24  # from the weights to the product at most, and from there to a factor
_MOVEMENTS = frozenset("Reshape Transpose Squeeze Unsqueeze Expand Identity".split())
# Numbers of numbers; and what is one whatever it is given, infinities and NaN apart.
_FINITE = _MOVEMENTS.union(
    "Add Sub Mul Neg Where Cast Slice Gather Concat Trilu Tile".split()
)
_SUMS = frozenset("MatMul Gemm Einsum Conv LayerNormalization Sigmoid Tanh".split())
# Scores added to a number below it are that number: it stands for minus infinity.
_LOW = {"FLOAT": -1e30, "DOUBLE": -1e30, "BFLOAT16": -1e30, "FLOAT16": -6e4}


@dataclass(frozen=True)
class Attention:
    """The nodes that compute attention, the root first, and drafts of one operator."""

    nodes: tuple[ir.Node, ...]
    drafts: tuple[Draft, ...]
    evidence: str
    is_open: bool = False  # whether a row may be masked throughout, and is 0 then


@dataclass
class _Scores:
    """factor * product + masks; a mask is a draft, or a value with its number.

    `keeps` has, for each mask that may have minus infinity, whether each of its rows is
    known to have a number besides.
    """

    product: ir.Node | None = None
    factor: float = 1.0
    masks: list[tuple[ir.Value, float]] = field(default_factory=list)
    chosen: list[tuple[Draft, Dims]] = field(default_factory=list)
    finite: bool = False  # whether a choice has a number for minus infinity
    nodes: list[ir.Node] = field(default_factory=list)
    keeps: list[bool] = field(default_factory=list)


def attention(node: ir.Node, facts: Facts) -> Attention | None:
    """The attention that ends at a product, weights times values; None if none does."""
    if node.op_type != "MatMul" or node.domain:
        return None
    weights, v = node.inputs
    softmax, nodes = _softmax(weights, node)
    if softmax is None or softmax.inputs[0] is None or v is None:
        return None
    sizes = facts.dims(softmax.inputs[0])
    axis = softmax.attributes.get_int("axis", -1)
    if sizes is None or len(sizes) != 4 or axis not in (-1, 3):
        return None
    scores = _Affine(facts, node, sizes).read(softmax.inputs[0])
    if scores is None or scores.product is None:
        return None
    try:
        made = _Writer(facts, node, scores, sizes).attention(v)
    except CannotWrite:
        return None
    if made is None:
        return None
    inner = dict.fromkeys([*nodes, softmax, *scores.nodes])
    scale = made[-1].attributes["scale"]
    evidence = f"{len(inner)} nodes are softmax({scale} q k^T + masks) v"
    is_open = len(nodes) == 1 and scores.keeps not in ([], [True])
    return Attention(tuple(inner), tuple(made), evidence, is_open)


def _softmax(
    weights: ir.Value | None, root: ir.Node
) -> tuple[ir.Node | None, list[ir.Node]]:
    """What computes weights, and the nodes behind it; it may be guarded against NaN."""
    nodes = [root]
    node = _producer(weights, root, "Where")
    if node is not None:
        asked = _producer(node.inputs[0], root, "IsNaN")
        if asked is None or asked.inputs[0] is not node.inputs[2]:
            return None, nodes
        if _number(node.inputs[1]) != 0.0:
            return None, nodes
        nodes += [node, asked]
        weights = node.inputs[2]
    return _producer(weights, root, "Softmax"), nodes


def _producer(value: ir.Value | None, root: ir.Node, *ops: str) -> ir.Node | None:
    """The node of one of these operators that computes a value, in the root's graph."""
    node = None if value is None else value.producer()
    if node is None or node.graph is not root.graph or node.domain:
        return None
    return node if node.op_type in ops else None


def _number(value: ir.Value | None) -> float | None:
    """The element of a stored constant that has one."""
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    if math.prod(value.const_value.shape.numpy()) != 1:
        return None
    return float(value.const_value.numpy().reshape(()))


class _Affine:
    """Reads scores of some sizes from the weights up to the product."""

    def __init__(self, facts: Facts, root: ir.Node, sizes: Dims) -> None:
        self._facts, self._root, self._sizes = facts, root, sizes

    def read(self, value: ir.Value) -> _Scores | None:
        """The scores; None if they are no such sum."""
        found = _Scores()
        inner: ir.Value | None = value
        for _ in range(_STEPS):
            if inner is None or not self._whole(inner):
                return None
            node = inner.producer()
            if node is None or node.domain or node.graph is not self._root.graph:
                return None
            found.nodes.append(node)
            if node.op_type == "MatMul":
                found.product = node
                several = len(found.masks) + len(found.chosen) > 1
                return None if found.finite and several else found
            inner = self._step(node, found)
        return None

    def _whole(self, value: ir.Value) -> bool:
        """Whether a value has the sizes of the scores."""
        dims = self._facts.dims(value)
        return dims is not None and _fit(dims, self._sizes, exactly=True)

    def _step(self, node: ir.Node, found: _Scores) -> ir.Value | None:
        a, b = (*node.inputs, None)[:2]
        if node.op_type in ("Mul", "Div"):
            for inner, number in ((a, _number(b)), (b, _number(a))):
                if number is None or not number > 0 or (inner is b and _divides(node)):
                    continue
                found.factor *= 1 / number if _divides(node) else number
                return inner
        if node.op_type == "Add":
            for inner, mask in ((a, b), (b, a)):
                if mask is not None and self._leads(inner):
                    self._add(found, mask, found.factor)
                    return inner
        if node.op_type == "Sub" and b is not None and self._leads(a):
            self._add(found, b, -found.factor)
            return a
        return self._choice(node, found) if node.op_type == "Where" else None

    def _add(self, found: _Scores, mask: ir.Value, factor: float) -> None:
        found.masks.append((mask, factor))
        if _is_finite(mask):
            return
        array, node = self._facts.array(mask), _producer(mask, self._root, "Where")
        kept = False
        if array is not None:
            kept = bool((factor * array > -math.inf).any(axis=-1).all())
        if node is not None and factor > 0:
            condition, *branches = node.inputs
            for when, one in ((True, branches[0]), (False, branches[1])):
                kept = kept or (
                    one is not None and _is_finite(one) and self._keeps(condition, when)
                )
        found.keeps.append(kept)

    def _keeps(self, condition: ir.Value | None, when: bool) -> bool:
        """Whether each row of a condition is known to be so somewhere."""
        if condition is None:
            return False
        array, found = self._facts.array(condition), self._facts.places.of(condition)
        if array is not None:
            return bool((array == when).any(axis=-1).all())
        if not isinstance(found, Natural) or not found.count.steps:
            return False
        *steps, _ = found.count.steps  # at the first key
        first = Count(found.count.first, (*steps, 0))
        return (first if when else opposite(first)).is_natural

    def _choice(self, node: ir.Node, found: _Scores) -> ir.Value | None:
        """A condition keeps scores or puts minus infinity: so it adds 0 or that."""
        condition, *branches = node.inputs
        dims = None if condition is None else self._facts.dims(condition)
        if dims is None:
            return None
        for kept, inner in enumerate(branches):
            low = _number(branches[1 - kept])
            dtype = None if inner is None else inner.dtype
            if low is None or dtype is None or not self._leads(inner):
                continue
            if not low <= _LOW.get(dtype.name, -math.inf):
                continue
            found.finite = found.finite or low != -math.inf
            if low == -math.inf:
                found.keeps.append(self._keeps(condition, kept == 0))
            added = [NewConstant(np.array(x, dtype.numpy())) for x in (0.0, low)]
            chosen = Draft("Where", [condition, added[kept], added[1 - kept]])
            found.chosen.append((chosen, dims))
            return inner
        return None

    def _leads(self, value: ir.Value | None) -> bool:
        """Whether a product of the sizes of the scores is among what a value is of."""
        seen, waiting = 0, [value]
        while waiting and seen < _STEPS:
            inner, seen = waiting.pop(0), seen + 1
            if inner is None or not self._whole(inner):
                continue
            ops = ("MatMul", "Mul", "Div", "Add", "Sub", "Where")
            node = _producer(inner, self._root, *ops)
            if node is None:
                continue
            if node.op_type == "MatMul":
                return not any(
                    x is None or self._facts.is_constant(x) for x in node.inputs
                )
            waiting += node.inputs
        return False


def _is_finite(value: ir.Value) -> bool:
    """Whether all elements are numbers, as far as operators tell; what trains is."""
    seen: set[ir.Value | None] = {None}
    waiting: list[ir.Value | None] = [value]
    while waiting:
        inner = waiting.pop()
        if inner in seen or inner is None or is_parameter(inner):
            continue
        seen.add(inner)
        if inner.dtype is None or not inner.dtype.is_floating_point():
            continue
        node = inner.producer()
        if inner.const_value is not None:
            array = inner.const_value.numpy()
            if inner.is_graph_input() or not np.isfinite(array).all():
                return False
        elif node is None or node.domain or len(seen) > _STEPS:
            return False
        elif node.op_type in _FINITE:
            waiting += node.inputs
        elif node.op_type not in _SUMS:
            return False
    return True


def _divides(node: ir.Node) -> bool:
    return node.op_type == "Div"


def _fit(dims: Sequence[object], sizes: Dims, exactly: bool = False) -> bool:
    """Whether a tensor has these sizes, or 1 in the place of one; they meet here."""
    return len(dims) == len(sizes) and all(
        agrees(a, b) or (not exactly and a == 1)
        for a, b in zip(dims, sizes, strict=True)
    )


def _equal(dims: Sequence[object], sizes: Dims) -> bool:
    """Whether a tensor has these sizes, which a Reshape alone brings together."""
    return len(dims) == len(sizes) and all(
        same(a, b) is True for a, b in zip(dims, sizes, strict=True)
    )


class _Writer:
    """The operator, and what its operands need."""

    def __init__(
        self, facts: Facts, root: ir.Node, scores: _Scores, sizes: Dims
    ) -> None:
        self._facts, self._root = facts, root
        self._scores, self._sizes = scores, sizes
        self.drafts: list[Draft] = []

    def attention(self, v: ir.Value) -> list[Draft] | None:
        """Drafts, Attention last; None where its operands don't fit."""
        assert self._scores.product is not None
        q, k = self._scores.product.inputs
        operands = [None if x is None else self._facts.dims(x) for x in (q, k, v)]
        if q is None or k is None or any(d is None or len(d) != 4 for d in operands):
            return None
        of_q, of_k, of_v = (d for d in operands if d is not None)
        b, h, s, t = self._sizes
        d, e = of_q[3], of_v[3]
        expected = ((of_q, (b, h, s, d)), (of_k, (b, h, d, t)), (of_v, (b, h, t, e)))
        if not all(_fit(found, wanted, exactly=True) for found, wanted in expected):
            return None
        queries, keys = self.unscaled(q), self._turned(k)
        scale = self.scale(d)
        mask = self._mask()
        if scale is None or mask is False:
            return None
        inputs = [queries, keys, v, *([] if mask is None else [mask])]
        self.drafts.append(Draft("Attention", inputs, {"scale": scale}))  # type: ignore[arg-type]
        return self.drafts

    def scale(self, d: object) -> float | None:
        """The factor; what is 1 / sqrt(d) but for its rounding is just that.

        None where an attribute can't have it.
        """
        scale = self._scores.factor
        if not _fits_attribute(scale, self._root.outputs[0]):
            return None
        if isinstance(d, int) and d > 0:
            usual = 1 / math.sqrt(d)
            scale = usual if abs(scale / usual - 1) < 1e-6 else scale
        return scale

    def _turned(self, value: ir.Value) -> Input:
        """Keys from [b, h, d, t]; torch's exporter turns them as [b h, t, d]."""
        value = self._bare(value)
        last = _producer(value, self._root, "Reshape")
        inner = None if last is None else last.inputs[0]
        turn = _producer(inner, self._root, "Transpose")
        flat = None if turn is None else turn.inputs[0]
        if last is not None and turn is not None and flat is not None:
            sizes, dims = self._facts.dims(value), self._facts.dims(flat)
            swaps = list(turn.attributes.get_ints("perm") or ()) == [0, 2, 1]
            if swaps and sizes is not None and dims is not None:
                b, h, d, t = sizes
                if _equal(dims[1:], (t, d)):
                    self._scores.nodes += [last, turn]
                    whole = self._whole_again(flat, (b, h, t, d))
                    if whole is not None:
                        return self.unscaled(whole)
                    parameters = {"shape": (b, h, t, d)}
                    return self._add(WORDS["Reshape"].write([flat], parameters))
        turned = {"perm": [0, 1, 3, 2]}
        return self._add(Draft("Transpose", [self.unscaled(value)], turned))

    def _whole_again(self, flat: ir.Value, sizes: Dims) -> ir.Value | None:
        """What was brought from these sizes to [b h, t, d], if anything was."""
        node = _producer(flat, self._root, "Reshape")
        value = None if node is None else node.inputs[0]
        dims = None if value is None else self._facts.dims(value)
        if node is None or dims is None or not _equal(dims, sizes):
            return None
        self._scores.nodes.append(node)
        return value

    def _add(self, draft: Draft) -> Output:
        self.drafts.append(draft)
        return Output(draft)

    def unscaled(self, value: ir.Value) -> Input:
        """Queries or keys without the numbers that they are multiplied by."""
        moved: list[ir.Node] = []
        scaled: list[ir.Node] = []
        inner = base = value
        for _ in range(_STEPS):
            node = _producer(inner, self._root, "Mul", "Div", *_MOVEMENTS)
            if node is None or len(inner.uses()) != 1:
                break
            moves = node.op_type in _MOVEMENTS
            found = node.inputs[0] if moves else self._base(node)
            if found is None:
                break
            (moved if moves else scaled).append(node)
            inner = found
            if not moves:
                base, above = found, len(moved)
        if not scaled:
            return value
        self._scores.nodes += [*moved[:above], *scaled]
        result: Input = base
        for step in reversed(moved[:above]):
            given = {name: a.value for name, a in step.attributes.items()}
            result = self._add(Draft(step.op_type, [result, *step.inputs[1:]], given))
        return result

    def _bare(self, value: ir.Value) -> ir.Value:
        """A value without the numbers that it is multiplied by at last."""
        for _ in range(_STEPS):
            node = _producer(value, self._root, "Mul", "Div")
            base = None if node is None or len(value.uses()) != 1 else self._base(node)
            if node is None or base is None:
                break
            self._scores.nodes.append(node)
            value = base
        return value

    def _base(self, node: ir.Node) -> ir.Value | None:
        """What a node multiplies by a number, which the factor takes in."""
        for place in (0, 1) if node.op_type == "Mul" else (0,):
            inner, number = node.inputs[place], _number(node.inputs[1 - place])
            dims = None if inner is None else self._facts.dims(inner)
            if inner is None or dims is None or number is None or not number > 0:
                continue
            if dims == self._facts.dims(node.outputs[0]):
                self._scores.factor *= 1 / number if _divides(node) else number
                return inner
        return None

    def _mask(self) -> Input | bool:
        """The sum of the masks, None if there is none, False if it doesn't fit."""
        terms: list[tuple[Input, Dims]] = []
        for value, number in self._scores.masks:
            dims = self._facts.dims(value)
            if dims is None or value.dtype is not self._root.outputs[0].dtype:
                return False
            terms.append((self._times(value, number), dims))
        for draft, dims in self._scores.chosen:
            terms.append((self._add(draft), dims))
        if not terms:
            return None
        full = [(1,) * (4 - len(dims)) + tuple(dims) for _, dims in terms]
        fits = all(_fit(dims, self._sizes) for dims in full)
        # One entry for all keys is added to each of them, which changes nothing.
        if not fits or not any(agrees(dims[3], self._sizes[3]) for dims in full):
            return False
        total = terms[0][0]
        for other, _ in terms[1:]:
            total = self._add(Draft("Add", [total, other]))
        missing = 4 - max(len(dims) for _, dims in terms)
        if missing:
            total = self._of_more_axes(total, ints(range(missing)))
        return total

    def _of_more_axes(self, mask: Input, axes: Input) -> Input:
        """A mask with axes more; what chooses between numbers by place has them before
        it does, where laws see it."""
        value = mask if isinstance(mask, ir.Value) else None
        node = _producer(value, self._root, "Where")
        condition, *numbers = node.inputs if node is not None else [None]
        told = isinstance(self._facts.places.of(condition), Natural)
        if not told or any(x is None or self._facts.dims(x) != () for x in numbers):
            return self._add(Draft("Unsqueeze", [mask, axes]))
        wide = self._add(Draft("Unsqueeze", [condition, axes]))
        return self._add(Draft("Where", [wide, *numbers]))

    def _times(self, value: ir.Value, number: float) -> Input:
        if number == 1.0:
            return value
        if number == -1.0:
            return self._add(Draft("Neg", [value]))
        assert value.dtype is not None
        factor = NewConstant(np.array(number, value.dtype.numpy()))
        return self._add(Draft("Mul", [value, factor]))


def _fits_attribute(scale: float, value: ir.Value) -> bool:
    """Whether a scale of such a tensor may be an attribute, which is a float32."""
    double = value.dtype is ir.DataType.DOUBLE
    return 0 < scale < math.inf and (not double or float(np.float32(scale)) == scale)


def rescaled(node: ir.Node, facts: Facts) -> Attention | None:
    """Attention with numbers that queries or keys are multiplied by in its scale."""
    given = {name: a.value for name, a in node.attributes.items()}
    if node.op_type != "Attention" or node.domain or "scale" not in given:
        return None
    q, k, *others = node.inputs
    if q is None or k is None:
        return None
    scores = _Scores(factor=float(given["scale"]), nodes=[node])
    writer = _Writer(facts, node, scores, ())
    inputs: list[Input] = [writer.unscaled(q), writer.unscaled(k), *others]
    if len(scores.nodes) == 1:
        return None
    scale = writer.scale(_head_size(node, facts))
    if scale is None:
        return None
    writer.drafts.append(Draft("Attention", inputs, {**given, "scale": scale}))
    evidence = f"queries and keys times numbers: the scale is {scale}"
    return Attention(tuple(scores.nodes), tuple(writer.drafts), evidence)


def _head_size(node: ir.Node, facts: Facts) -> object:
    """How many features a head of the queries has, if it is known."""
    sizes = None if node.inputs[0] is None else facts.dims(node.inputs[0])
    if sizes is None or len(sizes) == 4:
        return sizes and sizes[3]
    heads = node.attributes.get_int("q_num_heads", 0)
    return sizes[-1] // heads if heads and isinstance(sizes[-1], int) else None


def shared_heads(
    node: ir.Node, facts: Facts
) -> tuple[tuple[ir.Node, ...], Draft] | None:
    """Attention whose keys and values are copied for several heads of queries each."""
    if node.op_type != "Attention" or node.domain or len(node.inputs) < 3:
        return None
    k, v = (_repeated(x, node, facts) for x in node.inputs[1:3])
    if k is None or v is None:
        return None
    heads = [facts.dims(x[0]) for x in (k, v)]
    if heads[0] is None or heads[1] is None or heads[0][1] != heads[1][1]:
        return None
    inputs: list[Input] = [node.inputs[0], k[0], v[0], *node.inputs[3:]]
    given = {name: a.value for name, a in node.attributes.items()}
    return (node, *k[1], *v[1]), Draft("Attention", inputs, given)


def _repeated(
    value: ir.Value | None, root: ir.Node, facts: Facts
) -> tuple[ir.Value, tuple[ir.Node, ...]] | None:
    """What is copied [b, h, t, d] -> [b, h, g, t, d] -> [b, h g, t, d], and by what."""
    last = _producer(value, root, "Reshape")
    copies = None if last is None else _producer(last.inputs[0], root, "Expand", "Tile")
    apart = None if copies is None else copies.inputs[0]
    first = _producer(apart, root, "Unsqueeze", "Reshape")
    base = None if first is None else first.inputs[0]
    if last is None or copies is None or first is None or base is None:
        return None
    sizes = [facts.dims(x) for x in (base, apart, copies.outputs[0], value) if x]
    if any(dims is None for dims in sizes):
        return None
    of, one, wide, whole = (dims for dims in sizes if dims is not None)
    if len(of) != 4 or len(wide) != 5 or len(whole) != 4:
        return None
    b, h, t, d = of
    together = (b, h * wide[2], t, d)
    if one != (b, h, 1, t, d) or wide != (b, h, wide[2], t, d) or whole != together:
        return None
    return base, (last, copies, first)
