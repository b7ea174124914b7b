"""Attention by what it computes: softmax(c q k + masks) v, wherever c and masks stand.

Scores are affine in the product of queries and keys: numbers multiply it, queries and
keys (also before their heads are moved about), other tensors are added to it, and a
condition chooses between it and "minus infinity", which is a sum too. So c is read off,
with the masks and a number for each. Batches and heads may be one axis, or heads of
queries two, as long as what comes out is seen as heads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from ...analysis.graph.dims import Dim, Dims, agrees, product, same
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
from .recognition import Recognition
from .regions import Neighbourhoods

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


@dataclass
class _Scores:
    """factor * product + masks; a mask is a draft, or a value with its number, and
    the sizes that the scores have where it is added.

    `keeps` has, for each mask that may have minus infinity, whether each of its rows is
    known to have a number besides.
    """

    product: ir.Node | None = None
    factor: float = 1.0
    masks: list[tuple[ir.Value, float, Dims]] = field(default_factory=list)
    chosen: list[tuple[Draft, Dims, Dims]] = field(default_factory=list)
    finite: bool = False  # whether a choice has a number for minus infinity
    nodes: list[ir.Node] = field(default_factory=list)
    keeps: list[bool] = field(default_factory=list)


def attention(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """The attention that ends at a product, weights times values, or where this is seen
    as heads. It is open if a row may be masked throughout, and is 0 then."""
    facts = around.facts
    last = _product(node, facts)
    if last is None:
        return
    weights, v = last.inputs
    softmax, nodes = _softmax(weights, last)
    if softmax is None or softmax.inputs[0] is None or v is None or weights is None:
        return
    known = (facts.dims(x) for x in (softmax.inputs[0], weights, node.outputs[0]))
    found, whole, heads = known
    axis = softmax.attributes.get_int("axis", -1)
    if found is None or whole is None or heads is None:
        return
    if axis not in (-1, len(found) - 1) or not _equal(found[-2:], whole[-2:]):
        return
    sizes = (*heads[:2], *found[-2:])
    scores = _Affine(facts, last, sizes).read(softmax.inputs[0])
    if scores is None or scores.product is None:
        return
    try:
        made = _Writer(facts, last, scores, sizes).attention(v)
    except CannotWrite:
        return
    inner = dict.fromkeys([node, *nodes, softmax, *scores.nodes])
    scale = made[-1].attributes["scale"]
    evidence = f"{len(inner)} nodes are softmax({scale} q k^T + masks) v"
    guarded = any(n.op_type == "Where" for n in nodes)
    is_open = not guarded and scores.keeps not in ([], [True])
    name = OPEN if is_open else "attention"
    yield Recognition(name, tuple(inner), tuple(made), evidence)


def _product(node: ir.Node, facts: Facts) -> ir.Node | None:
    """The product that a node is, or that it sees as heads: batches are told apart from
    these, or heads put together that share their keys."""
    last = node
    if node.op_type == "Reshape" and node.inputs[0] is not None and not node.domain:
        last = node.inputs[0].producer() or node
    given, made = (facts.dims(n.outputs[0]) for n in (last, node))
    if last.op_type != "MatMul" or last.domain or last.graph is not node.graph:
        return None
    if given is None or made is None or len(made) != 4:
        return None
    same_axes = last is node if len(given) == 4 else _equal(given[-2:], made[-2:])
    return last if same_axes and _heads_of(given, made[:2]) else None


def _heads_of(dims: Dims, heads: Dims) -> bool:
    """Whether all axes but two are batches and heads, in the order that these have."""
    return len(dims) > 2 and _equal((product(dims[:-2]),), (product(heads),))


def _softmax(
    weights: ir.Value | None, root: ir.Node
) -> tuple[ir.Node | None, list[ir.Node]]:
    """What computes weights, and the nodes behind it; it may be guarded against NaN."""
    nodes = [root]
    seen = _producer(weights, root, "Reshape")
    if seen is not None:
        nodes.append(seen)
        weights = seen.inputs[0]
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
        """Whether a value has the sizes of the scores, or is seen so."""
        dims, sizes = self._facts.dims(value), self._sizes
        return (
            dims is not None
            and _heads_of(dims, sizes[:2])
            and _fit(dims[-2:], sizes[2:], exactly=True)
        )

    def _step(self, node: ir.Node, found: _Scores) -> ir.Value | None:
        a, b = (*node.inputs, None)[:2]
        if node.op_type == "Reshape":
            sizes, made = (self._facts.dims(x) for x in (a, node.outputs[0]) if x)
            return a if sizes and made and _equal(sizes[-2:], made[-2:]) else None
        if node.op_type == "Neg":
            found.factor = -found.factor
            return a
        if node.op_type in ("Mul", "Div"):
            for inner, number in ((a, _number(b)), (b, _number(a))):
                if not number or not math.isfinite(number):
                    continue
                if inner is b and _divides(node):
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
        stage = self._facts.dims(found.nodes[-1].outputs[0])
        assert stage is not None
        found.masks.append((mask, factor, stage))
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
        stage = self._facts.dims(node.outputs[0])
        if dims is None or stage is None or found.factor < 0:
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
            found.chosen.append((chosen, dims, stage))
            return inner
        return None

    def _leads(self, value: ir.Value | None) -> bool:
        """Whether a product of the sizes of the scores is among what a value is of."""
        seen, waiting = 0, [value]
        while waiting and seen < _STEPS:
            inner, seen = waiting.pop(0), seen + 1
            if inner is None or not self._whole(inner):
                continue
            ops = ("MatMul", "Mul", "Div", "Add", "Sub", "Where", "Neg", "Reshape")
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
        (a == b if isinstance(a, int) and isinstance(b, int) else agrees(a, b))
        or (not exactly and a == 1)
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
        self._shared: list[Dim] = []  # how many heads keys and values have, if fewer

    def attention(self, v: ir.Value) -> list[Draft]:
        """Drafts, Attention last. Raises CannotWrite where its operands don't fit."""
        assert self._scores.product is not None
        q, k = self._scores.product.inputs
        sizes = [None if x is None else self._facts.dims(x) for x in (q, v)]
        if q is None or k is None or not all(sizes):
            raise CannotWrite("operands of unknown sizes")
        _, _, s, t = self._sizes
        d, e = (dims[-1] for dims in sizes if dims)
        queries, fewer = self._heads(q, (s, d)), [*self._shared]
        keys, values = self._turned(k, (t, d)), self._heads(v, (t, e), scaled=False)
        if fewer or self._shared not in ([], self._shared[:1] * 2):
            raise CannotWrite("heads that share keys without values, or these alone")
        scale = self.scale(d)
        inputs = [queries, keys, values, *self._mask()]
        self.drafts.append(Draft("Attention", inputs, {"scale": scale}))
        return self.drafts

    def scale(self, d: object) -> float:
        """The factor; what is 1 / sqrt(d) but for its rounding is just that.

        Raises CannotWrite where an attribute can't have it.
        """
        scale = self._scores.factor
        if not _fits_attribute(scale, self._root.outputs[0]):
            raise CannotWrite("a scale that no attribute has")
        if isinstance(d, int) and d > 0:
            usual = 1 / math.sqrt(d)
            scale = usual if abs(scale / usual - 1) < 1e-6 else scale
        return scale

    def _turned(self, value: ir.Value, sizes: Dims) -> Input:
        """Keys from [b, h, d, t]; torch's exporter turns them as [b h, t, d]."""
        bare = self._bare(value)
        last = _producer(bare, self._root, "Reshape")
        inner = bare if last is None else last.inputs[0]
        turn = _producer(inner, self._root, "Transpose")
        flat = None if turn is None else turn.inputs[0]
        dims = None if flat is None else self._facts.dims(flat)
        if turn is not None and flat is not None and dims and len(dims) in (3, 5):
            order = [*range(len(dims) - 2), len(dims) - 1, len(dims) - 2]
            of_heads = len(dims) == 3 or last is None
            swaps = list(turn.attributes.get_ints("perm") or ()) == order
            if swaps and of_heads and _equal(dims[-2:], sizes):
                self._scores.nodes += [turn] if last is None else [last, turn]
                return self._heads(flat, sizes)
        turned = {"perm": [0, 1, 3, 2]}
        return self._add(Draft("Transpose", [self._heads(bare, sizes[::-1])], turned))

    def _heads(self, value: ir.Value, tail: Dims, scaled: bool = True) -> Input:
        """Queries, keys or values by heads; those whose numbers the factor takes in
        without these. Raises CannotWrite where they are others."""
        bare = self.unscaled if scaled else lambda x: x
        dims, heads = self._facts.dims(value), self._sizes[:2]
        if dims is None or not _fit(dims[-2:], tail, exactly=True):
            raise CannotWrite("sizes that don't meet")
        if len(dims) == 5 and dims[2] == 1 and heads[1] != dims[1]:
            heads = (heads[0], dims[1])
            self._shared.append(dims[1])
        if not _heads_of(dims, heads):
            raise CannotWrite("other heads")
        if _equal(dims[:-2], heads):
            return bare(value)
        value, sizes = self._bare(value) if scaled else value, (*heads, *tail)
        node = _producer(value, self._root, "Reshape", "Unsqueeze")
        inner = None if node is None else node.inputs[0]
        given = None if inner is None else self._facts.dims(inner)
        if node is None or inner is None or given is None or not _equal(given, sizes):
            return self._reshaped(bare(value), sizes)
        self._scores.nodes.append(node)
        return bare(inner)

    def _reshaped(self, x: Input, sizes: Dims) -> Output:
        return self._add(WORDS["Reshape"].write([x], {"shape": sizes}))

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

    def _mask(self) -> list[Input]:
        """The sum of the masks, if any. Raises CannotWrite if it doesn't fit."""
        terms: list[tuple[Input, Dims]] = []
        for value, number, stage in self._scores.masks:
            dims = self._facts.dims(value)
            if dims is None or value.dtype is not self._root.outputs[0].dtype:
                raise CannotWrite("a mask of another type")
            terms.append(self._by_heads(self._times(value, number), dims, stage))
        for draft, dims, stage in self._scores.chosen:
            terms.append(self._by_heads(self._add(draft), dims, stage))
        if not terms:
            return []
        full = [(1,) * (4 - len(dims)) + tuple(dims) for _, dims in terms]
        fits = all(_fit(dims, self._sizes) for dims in full)
        # One entry for all keys is added to each of them, which changes nothing.
        if not fits or not any(agrees(dims[3], self._sizes[3]) for dims in full):
            raise CannotWrite("a mask of other sizes")
        total = terms[0][0]
        for other, _ in terms[1:]:
            total = self._add(Draft("Add", [total, other]))
        missing = 4 - max(len(dims) for _, dims in terms)
        if missing:
            total = self._of_more_axes(total, ints(range(missing)))
        return [total]

    def _by_heads(self, mask: Input, dims: Dims, stage: Dims) -> tuple[Input, Dims]:
        """A mask with its sizes, as it is beside scores of four axes."""
        if len(dims) < 3 or _equal(stage[:-2], self._sizes[:2]):
            return mask, dims
        lead = ((1,) * (len(stage) - len(dims)) + dims)[:-2]
        for cut in range(len(lead) + 1):
            parts = [(x[:cut], x[cut:]) for x in (lead, stage[:-2])]
            if _equal(tuple(map(product, parts[1])), self._sizes[:2]):
                break
        else:  # batches and heads are one axis
            parts = [((), x) for x in (lead, stage[:-2])]
        if _equal(lead, stage[:-2]):
            heads = self._sizes[:2]
        elif all(_equal(a, b) or {*a} <= {1} for a, b in zip(*parts, strict=True)):
            heads = tuple(map(product, parts[0]))
        else:
            raise CannotWrite("a mask of some of the heads")
        sizes = (*heads, *dims[-2:])
        return self._reshaped(mask, sizes), sizes

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


def rescaled(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """Attention with numbers that queries or keys are multiplied by in its scale."""
    facts = around.facts
    given = {name: a.value for name, a in node.attributes.items()}
    if node.op_type != "Attention" or node.domain or "scale" not in given:
        return
    q, k, *others = node.inputs
    if q is None or k is None:
        return
    scores = _Scores(factor=float(given["scale"]), nodes=[node])
    writer = _Writer(facts, node, scores, ())
    inputs: list[Input] = [writer.unscaled(q), writer.unscaled(k), *others]
    if len(scores.nodes) == 1:
        return
    try:
        scale = writer.scale(_head_size(node, facts))
    except CannotWrite:
        return
    writer.drafts.append(Draft("Attention", inputs, {**given, "scale": scale}))
    evidence = f"queries and keys times numbers: the scale is {scale}"
    nodes, drafts = tuple(scores.nodes), tuple(writer.drafts)
    yield Recognition("attention_rescaled", nodes, drafts, evidence)


def _head_size(node: ir.Node, facts: Facts) -> object:
    """How many features a head of the queries has, if it is known."""
    sizes = None if node.inputs[0] is None else facts.dims(node.inputs[0])
    if sizes is None or len(sizes) == 4:
        return sizes and sizes[3]
    heads = node.attributes.get_int("q_num_heads", 0)
    return sizes[-1] // heads if heads and isinstance(sizes[-1], int) else None


def shared_heads(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """Attention whose keys and values are copied for several heads of queries each."""
    facts = around.facts
    if node.op_type != "Attention" or node.domain or len(node.inputs) < 3:
        return
    k, v = (_repeated(x, node, facts) for x in node.inputs[1:3])
    if k is None or v is None:
        return
    heads = [facts.dims(x[0]) for x in (k, v)]
    if heads[0] is None or heads[1] is None or heads[0][1] != heads[1][1]:
        return
    inputs: list[Input] = [node.inputs[0], k[0], v[0], *node.inputs[3:]]
    given = {name: a.value for name, a in node.attributes.items()}
    drafts = (Draft("Attention", inputs, given),)
    evidence = "keys and values are copied, head by head"
    yield Recognition("attention_grouped", (node, *k[1], *v[1]), drafts, evidence)


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
