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
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import ml_dtypes
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
from .movement_chains import permutation
from .products import Factor, Product, order, product_of
from .recognition import Recognition
from .regions import Neighbourhoods

# What is false where softmax has no result; -O0 does without.
OPEN = "attention_open"
STATEMENTS = {
    "attention": "softmax(c q k^T + masks) v, guarded against NaN, or where no row of"
    " the masks is minus infinity throughout",
    OPEN: "softmax(c q k^T + masks) v but for rows in which the masks are minus"
    " infinity throughout: Attention is 0 there, and the softmax NaN; or a float16's"
    " number for it: Attention is that of the scores there, and the softmax even",
    "attention_rescaled": "Attention(q a, k b, v, scale=s) = Attention(q, k, v, "
    "scale=a b s), a and b numbers",
}
_ROOT = 256.0  # of the largest size that a scale is told by
_STEPS = 24  # from the weights to the product at most, and from there to a factor
_MOVEMENTS = frozenset("Reshape Transpose Squeeze Unsqueeze Expand Identity".split())
# Numbers of numbers; and what is one whatever it is given, infinities and NaN apart.
_FINITE = _MOVEMENTS.union(
    "Add Sub Mul Neg Where Cast Slice Gather Concat Trilu Tile".split()
)
_SCORES = "MatMul Einsum ReduceSum Transpose Mul Div Add Sub Where Neg Reshape".split()
_SUMS = frozenset("MatMul Gemm Einsum Conv LayerNormalization Sigmoid Tanh".split())
# Scores added to a number below it are that number: it stands for minus infinity.
_FAR = -1e6  # from where there is nothing left beside a score that is kept
_LOW = {"FLOAT": -1e30, "DOUBLE": -1e30, "BFLOAT16": -1e30, "FLOAT16": -6e4}


@dataclass
class _Scores:
    """factor * product + masks; a mask is a draft, or a value with its number, and
    the sizes that the scores have where it is added.

    `keeps` has, for each mask that may have minus infinity, or in float16 what stands
    for it, whether each of its rows is known to have a number besides.
    """

    product: Product | None = None
    factor: float = 1.0
    masks: list[tuple[ir.Value, float, Dims]] = field(default_factory=list)
    chosen: list[tuple[Draft, Dims, Dims]] = field(default_factory=list)
    finite: bool = False  # whether a choice has a number for minus infinity
    nodes: list[ir.Node] = field(default_factory=list)
    keeps: list[bool] = field(default_factory=list)


def attention(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """The attention that ends at a product, weights times values, or where this is seen
    as heads. It is open if a row may be masked throughout, and is 0 then."""
    last = _product(node, around.facts)
    for place in (0, 1):
        found = None if last is None else _attention(node, last, place, around.facts)
        if found is not None:
            yield found


def _attention(
    node: ir.Node, last: Product, place: int, facts: Facts
) -> Recognition | None:
    """With the weights as one of the factors of the last product."""
    weights, values = last.factors[place], last.factors[1 - place]
    softmax, nodes, letters = _softmax(weights, last.node, facts)
    if softmax is None or softmax.inputs[0] is None:
        return None
    found, made = (facts.dims(x) for x in (softmax.inputs[0], node.outputs[0]))
    if letters[-1:] == last.over and letters[-2] not in values.letters:
        weights = replace(weights, own=letters[-2])  # heads may share values, too
    pair = (weights.own, last.over)
    lead = "".join(x for x in letters if x not in pair)
    whole = f"{lead}{weights.own}{values.own}"
    if found is None or made is None:
        return None
    if any(n.op_type == "Reshape" for n in nodes[1:]):  # of other axes before the two
        letters = "." * (len(found) - 2) + letters[-2:]
    if len(letters) != len(found) or not {*pair} <= {*letters}:
        return None
    perm = [k for k, x in enumerate(letters) if x not in pair] + order(letters, pair)
    if softmax.attributes.get_int("axis", -1) % len(found) != perm[-1]:
        return None
    if node is last.node:
        heads = tuple(made[k] for k in order(last.result, lead))
    elif last.result == whole:
        heads = made[:2]
    else:
        return None
    sizes = (*heads, *(found[k] for k in perm[-2:]))
    scores = _Affine(facts, last.node, sizes, perm).read(softmax.inputs[0])
    if scores is None or scores.product is None or not heads:
        return None
    try:
        writer = _Writer(facts, last.node, scores, sizes)
        scale = writer.attention((values, lead, last.over))
        if node is last.node:
            writer.put_back(order(whole, last.result))
    except CannotWrite:
        return None
    inner = dict.fromkeys([node, *nodes, *last.within, softmax, *scores.nodes])
    evidence = f"{len(inner)} nodes are softmax({scale} q k^T + masks) v"
    guarded = any(n.op_type == "Where" for n in nodes)
    is_open = not guarded and scores.keeps not in ([], [True])
    name = OPEN if is_open else "attention"
    return Recognition(name, tuple(inner), tuple(writer.drafts), evidence)


def _product(node: ir.Node, facts: Facts) -> Product | None:
    """The product that a node is, or that it sees as heads: batches are told apart from
    these, or heads put together that share their keys."""
    last = node
    if node.op_type == "Reshape" and node.inputs[0] is not None and not node.domain:
        last = node.inputs[0].producer() or node
    found = None if last.graph is not node.graph else product_of(last, facts)
    given, made = (facts.dims(n.outputs[0]) for n in (last, node))
    if found is None or given is None or made is None:
        return None
    if last is node:
        users = (user for user, _ in node.outputs[0].uses())
        seen = (u.op_type == "Reshape" and _product(u, facts) for u in users)
        return found if len(given) == 4 or not any(seen) else None
    same_axes = len(made) == 4 and _equal(given[-2:], made[-2:])
    return found if same_axes and _heads_of(given, made[:2]) else None


def _heads_of(dims: Dims, heads: Dims) -> bool:
    """Whether all axes but two are batches and heads, in the order that these have."""
    return len(dims) > 2 and _equal((product(dims[:-2]),), (product(heads),))


def _softmax(
    weights: Factor, root: ir.Node, facts: Facts
) -> tuple[ir.Node | None, list[ir.Node], str]:
    """What computes weights, the nodes behind it, and the letters of its axes, of which
    the last two are right; it may be guarded against NaN."""
    nodes, letters, value = [root], weights.letters, weights.value
    for _ in range(2):
        seen = producer_of(value, root, "Reshape", "Transpose")
        inner = None if seen is None else seen.inputs[0]
        dims = None if inner is None else facts.dims(inner)
        if seen is None or inner is None or dims is None:
            break
        if seen.op_type == "Transpose":
            perm = permutation(seen, len(dims))
            letters = "".join(letters[perm.index(k)] for k in range(len(perm)))
        elif not _equal(dims[-2:], (facts.dims(value) or ())[-2:]):
            return None, nodes, letters
        nodes.append(seen)
        value = inner
        if seen.op_type == "Reshape":
            break
    node = producer_of(value, root, "Where")
    if node is not None:
        asked = producer_of(node.inputs[0], root, "IsNaN")
        if asked is None or asked.inputs[0] is not node.inputs[2]:
            return None, nodes, letters
        if _number(node.inputs[1]) != 0.0:
            return None, nodes, letters
        nodes += [node, asked]
        return producer_of(node.inputs[2], root, "Softmax"), nodes, letters
    return producer_of(value, root, "Softmax"), nodes, letters


def producer_of(value: ir.Value | None, root: ir.Node, *ops: str) -> ir.Node | None:
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
    """Reads scores of some sizes, their axes in an order, from the weights up to the
    product."""

    def __init__(
        self, facts: Facts, root: ir.Node, sizes: Dims, perm: list[int]
    ) -> None:
        self._facts, self._root, self._sizes, self._perm = facts, root, sizes, perm

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
            found.product = self._product(node)
            if found.product is not None:
                found.nodes += [found.product.node, *found.product.within]
                added = len(found.masks) + len(found.chosen)
                turned = self._perm != sorted(self._perm)
                refused = (found.finite and added > 1) or (turned and added)
                return None if refused else found
            inner = self._step(node, found)
        return None

    def _product(self, node: ir.Node) -> Product | None:
        """The product that a node is, or turns."""
        inner = node
        if node.op_type == "Transpose" and node.inputs[0] is not None:
            inner = node.inputs[0].producer() or node
        same = inner.graph is node.graph
        found = product_of(inner, self._facts) if same else None
        if found is None:
            return None
        if inner is not node:
            found = found.transposed(permutation(node, len(found.result)))
        return found.transposed(self._order(len(found.result)))

    def _order(self, rank: int) -> list[int]:
        """The order of axes; batches and heads may be other ones if these lead."""
        more = rank - len(self._perm)
        if not more:
            return self._perm
        return [*range(rank - 2), *(k + more for k in self._perm[-2:])]

    def _whole(self, value: ir.Value) -> bool:
        """Whether a value has the sizes of the scores, or is seen so."""
        dims, sizes = self._facts.dims(value), self._sizes
        if dims is not None and len(dims) > 2:
            dims = tuple(dims[k] for k in self._order(len(dims)))
        return (
            dims is not None
            and _heads_of(dims, sizes[:-2])
            and _fit(dims[-2:], sizes[-2:], exactly=True)
        )

    def _step(self, node: ir.Node, found: _Scores) -> ir.Value | None:
        a, b = (*node.inputs, None)[:2]
        if node.op_type == "Reshape":
            sizes, made = (self._facts.dims(x) for x in (a, node.outputs[0]) if x)
            lead = self._perm[:-2] == [*range(len(self._perm) - 2)]
            same_axes = sizes and made and _equal(sizes[-2:], made[-2:])
            return a if lead and same_axes else None
        if node.op_type == "Neg":
            found.factor = -found.factor
            return a
        if node.op_type in ("Mul", "Div"):
            for inner, number in ((a, _number(b)), (b, _number(a))):
                if not number or not math.isfinite(number):
                    continue
                if inner is b and node.op_type == "Div":
                    continue
                found.factor *= 1 / number if node.op_type == "Div" else number
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
        array, node = self._facts.array(mask), producer_of(mask, self._root, "Where")
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
            other = branches[1 - kept]
            if other is None or not self._facts.is_constant(other):
                continue
            low = self._facts.uniform(other)
            dtype = None if inner is None else inner.dtype
            if low is None or dtype is None or not self._leads(inner):
                continue
            keeps = self._keeps(condition, kept == 0)
            far = _FAR if keeps else -math.inf
            if not low <= max(far, _LOW.get(dtype.name, -math.inf)):
                continue
            found.finite = found.finite or low != -math.inf
            # Attention adds to float16 in float32, where the lowest leaves the scores.
            if low == -math.inf or dtype is ir.DataType.FLOAT16:
                found.keeps.append(keeps)
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
            node = producer_of(inner, self._root, *_SCORES)
            product = None if node is None else self._product(node)
            if product is not None:
                constant = self._facts.is_constant
                return not any(constant(factor.value) for factor in product.factors)
            waiting += () if node is None else node.inputs
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


# A factor, the letters of its leading axes in their order, and the one summed over.
_Operand: TypeAlias = "tuple[Factor, str, str]"


class _Writer:
    """The operator, and what its operands need."""

    def __init__(
        self, facts: Facts, root: ir.Node, scores: _Scores, sizes: Dims
    ) -> None:
        self._facts, self._root = facts, root
        self._scores, self._whole = scores, sizes
        lead = sizes[:-2]
        if len(lead) == 1:  # as masks see it: batches may be one axis with heads
            added = [*scores.masks, *scores.chosen]
            lead = next((s[:-2] for *_, s in added if len(s) == 4), lead)
        # Batches alone stay an axis. Of more, the last are heads, or groups of them.
        cut = len(lead) - (2 if self._in_groups() else 1)
        parts = (lead[:cut], lead[cut:])
        self._lead = lead if len(lead) < 3 else (product(parts[0]), product(parts[1]))
        self._sizes = (*self._lead, *[1] * (2 - len(self._lead)), *sizes[-2:])
        self.drafts: list[Draft] = []
        self._shared: list[Dim] = []  # how many heads keys and values have, if fewer

    def _in_groups(self) -> bool:
        """Whether the last axis of the scores' batches are heads of the same keys."""
        found, sizes = self._scores.product, self._whole[:-2]
        if found is None or len(sizes) < 3 or sizes[-1] == 1:
            return False
        keys = [factor for factor in found.factors if factor.own == found.result[-1]]
        return self._groups(keys[0], found.result[:-2]) is not None if keys else False

    def _groups(self, factor: Factor, letters: str) -> Dim | None:
        """How many groups of heads there are, if all of a group have the same of a
        factor, which lacks the last of these axes, or has 1 for it."""
        dims = self._facts.dims(factor.value) or ()
        kept = [dims[k] for k in order(factor.letters, letters)]
        if len(letters) < 3 or (letters[-1] in factor.letters and kept.pop() != 1):
            return None
        return kept[-1] if kept else None

    def attention(self, v: _Operand) -> float:
        """Drafts Attention last; returns its scale. Raises CannotWrite where its
        operands don't fit."""
        found = self._scores.product
        assert found is not None
        lead, pair = found.result[:-2], found.result[-2:]
        by_axis = {factor.own: (factor, lead, found.over) for factor in found.factors}
        if {*pair} != {*by_axis}:
            raise CannotWrite("scores of other axes")
        q, k = (by_axis[own] for own in pair)
        s, t = self._sizes[-2:]
        d, e = self._last(q), self._last(v, own=True)
        queries, fewer = self._heads(q, (s, d)), [*self._shared]
        keys, values = self._heads(k, (t, d)), self._heads(v, (t, e), values=True)
        if fewer or self._shared not in ([], self._shared[:1] * 2):
            raise CannotWrite("heads that share keys without values, or these alone")
        scale = self.scale(d)
        given: dict[str, int | float] = {"scale": scale}
        if len(self._lead) == 1:
            given.update(q_num_heads=1, kv_num_heads=1)
        self._add(Draft("Attention", [queries, keys, values, *self._mask()], given))
        self._whole = (*self._whole[:-1], e)
        return scale

    def put_back(self, perm: list[int]) -> None:
        """The result with the axes that it had, in an order."""
        if len(self._whole) not in (4, len(self._lead) + 2):
            self._reshaped(Output(self.drafts[-1]), self._whole)
        if perm != sorted(perm):
            self._add(Draft("Transpose", [Output(self.drafts[-1])], {"perm": perm}))

    def _last(self, operand: _Operand, own: bool = False) -> Dim:
        factor, _, over = operand
        dims = self._facts.dims(factor.value)
        if dims is None:
            raise CannotWrite("operands of unknown sizes")
        return dims[factor.letters.index(factor.own if own else over)]

    def scale(self, d: object) -> float:
        """The factor; what is 1 / sqrt(d) but for its rounding is just that, as is the
        root of another size that is no whole number, but for what few digits hide.

        Raises CannotWrite where an attribute can't have it.
        """
        scale = self._scores.factor
        if not _fits_attribute(scale, self._root.outputs[0]):
            raise CannotWrite("a scale that no attribute has")
        kind = self._root.outputs[0].dtype or ir.DataType.FLOAT
        eps = float(ml_dtypes.finfo(kind.numpy()).eps)  # type: ignore[no-untyped-call]
        other = round(scale**-2) if scale * _ROOT > 1 else 0
        other = 0 if math.isqrt(other) ** 2 == other else other
        for size, near in ((d, max(1e-6, eps)), (other, 1e-6)):
            usual = 1 / math.sqrt(size) if isinstance(size, int) and size else 0.0
            if usual and abs(scale / usual - 1) < near:
                return usual
        return scale

    def _heads(self, operand: _Operand, tail: Dims, values: bool = False) -> Input:
        """Queries, keys or values by heads. Raises CannotWrite for others."""
        factor, letters, over = operand
        pair = (over, factor.own) if values else (factor.own, over)
        value, perm = factor.value, order(factor.letters, (*letters, *pair))
        dims, heads = self._facts.dims(value), self._lead
        dims = None if dims is None else tuple(dims[k] for k in perm)
        if dims is None or not _fit(dims[-2:], tail, exactly=True):
            raise CannotWrite("sizes that don't meet")
        alone = letters[1:] and letters[1] not in factor.letters
        if heads[1:] and dims[1:-2] == (() if alone else (1,)):
            heads = (heads[0], 1)
        groups = self._groups(factor, letters)
        if groups is not None and heads[1:] not in ((), (groups,)):
            heads = (heads[0], groups)
        if heads != self._lead:
            self._shared.append(heads[1])
        if not _heads_of(dims, heads):
            raise CannotWrite("other heads")
        found: Input = value
        sizes = *heads, *tail
        if perm == sorted(perm):
            seen = producer_of(value, self._root, "Reshape", "Unsqueeze")
            inner = None if seen is None else seen.inputs[0]
            given = None if inner is None else self._facts.dims(inner)
            if inner is not None and given is not None and _equal(given, sizes):
                return inner
        else:
            found = self._add(Draft("Transpose", [value], {"perm": perm}))
        return found if _equal(dims[:-2], heads) else self._reshaped(found, sizes)

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
            node = producer_of(inner, self._root, "Mul", "Div", *_MOVEMENTS)
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

    def _base(self, node: ir.Node) -> ir.Value | None:
        """What a node multiplies by a number, which the factor takes in."""
        for place in (0, 1) if node.op_type == "Mul" else (0,):
            inner, number = node.inputs[place], _number(node.inputs[1 - place])
            dims = None if inner is None else self._facts.dims(inner)
            if inner is None or dims is None or number is None or not number > 0:
                continue
            if dims == self._facts.dims(node.outputs[0]):
                self._scores.factor *= 1 / number if node.op_type == "Div" else number
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
        if missing and not missing == 2 > len(self._lead):
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
        node = producer_of(value, self._root, "Where")
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
    scale = writer.scale(_head_size(node, facts))
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
