"""For which kinds of element a law holds: floats, whole numbers, truth values.

A law whose leaves name no kind is a law of floats, proved over the reals. Whole numbers
wrap around and divide towards 0, truth values know no arithmetic: of these a law is
proved once more, each time as runtimes compute it, by what holds of the kind alone:

struct, comm  the same operations on the same elements
order         comparisons and choices alone, which any total order has
ring          sums and products of whole numbers, modulo 2^n
bits          z3's bit vectors, in all eight types of whole numbers; or truth values
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from ..language.pattern import Apply, Chain, Leaf, Many, Node, Var, leaves
from ..language.rule import Law
from .goal import goal
from .kernel.equality import Verdict as Answer
from .kernel.equality import prove_equal
from .kernel.scalars import Const, Element, FromInt, Ite, Op, Opaque, Red, Scalar
from .kernel.smt import fresh, fresh_function
from .kernel.tensors import Family, Tensor
from .machine.arithmetic import LOGICAL
from .machine.bitwise_decision import WHOLE
from .machine.element_types import BOOLEAN
from .machine.operators import COMPARISONS
from .runtime_kernels import RuntimeSemantics, decided_by_bits

SILENT = ("float", "int", "bool")  # what leaves that name no kind may be of

UNREAD = "whole numbers are divided, and what comes out may not be read"
ORDERED = COMPARISONS | LOGICAL | {"max", "min", "where", "relu", "clip"}
_RING = frozenset("add sub mul neg square shl".split())


def kinds_of(law: Law, silent: str) -> dict[str, str]:
    """The kind of each leaf by its name, where those that name none are `silent`."""
    found = leaves([*law.left, *law.right])
    return {x.name: x.kinds or silent for x in found if x.kind is not Leaf.NUMBER}


def is_silent(law: Law) -> bool:
    """Whether a leaf names no kind."""
    return "" in kinds_of(law, "").values()


def of_floats(law: Law) -> bool:
    """Whether the law speaks of floats, if silent leaves do."""
    return "float" in kinds_of(law, "float").values()


def prove_exact(law: Law, silent: str) -> tuple[list[Answer], str]:
    """Answers for each result where no element is rounded; a reason if one is negative.

    `silent`: the kind of leaves that name none.
    """
    kinds = kinds_of(law, silent)
    divided = divisions(law, silent)
    if any(divided):
        return [], UNREAD
    question = goal(law, RuntimeSemantics(law, whole=True))
    answers = []
    for left, right in question.pairs:
        found = _answer(left, right, question.context, kinds, bool(divided))
        if not found.proved:
            return [], found.why or "the sides differ"
        answers.append(found)
    return answers, ""


def _answer(
    left: Any, right: Any, context: Any, kinds: dict[str, str], whole: bool
) -> Answer:
    j, index = fresh("j"), fresh_function("i")
    a, b = (
        (t.member(j) if isinstance(t, Family) else t).at(index) for t in (left, right)
    )
    of = set(kinds.values())
    numbers, added = set(_constants(a)), set(_constants(b))
    if any(n.denominator != 1 for n in numbers | added):
        why = "a fraction is no whole number"
        return Answer(False, None, frozenset(), why)
    levels = ["struct", "comm"]
    if _ordered(a) and _ordered(b) and added <= numbers | {0, 1}:
        levels.append("order")
    if of <= {"int", "bool"} and wraps(a) and wraps(b):
        levels.append("ring")

    def decided(result: Tensor, place: Any, x: Scalar, y: Scalar) -> bool:
        if not of <= {"int", "bool"}:
            return False
        formats = (BOOLEAN,) if of == {"bool"} else WHOLE
        found = decided_by_bits(context, x, y, (result, place), formats)
        return found.name == "bitwise"

    return prove_equal(left, right, context, tuple(levels), decided, whole)


def _constants(term: Scalar) -> Iterator[Fraction]:
    if isinstance(term, Const):
        yield term.value
    for part in parts(term):
        yield from _constants(part)


def parts(term: Scalar) -> tuple[Scalar, ...]:
    """The terms that it is made of; of a range of them, any one."""
    if isinstance(term, Op):
        return term.args
    if isinstance(term, Ite):
        return (term.a, term.b)
    if isinstance(term, Red):
        return (term.body(fresh_function() if term.vec else fresh()),)
    if isinstance(term, Opaque):
        return tuple(t.at(fresh_function()) for t in term.tensors)
    return ()


def _ordered(term: Scalar) -> bool:
    """Whether elements are compared and chosen, nothing else."""
    if isinstance(term, Op):
        return term.name in ORDERED and all(map(_ordered, term.args))
    if isinstance(term, Ite):
        return _ordered(term.a) and _ordered(term.b)
    return isinstance(term, Const | Element | FromInt)


def wraps(term: Scalar) -> bool:
    """Whether it is computed in the ring of the whole numbers mod 2^n."""
    if isinstance(term, Op):
        return term.name in _RING and all(map(wraps, term.args))
    if isinstance(term, Ite):
        return wraps(term.a) and wraps(term.b)
    if isinstance(term, Red):
        return term.kind in ("sum", "prod") and all(map(wraps, parts(term)))
    whole = isinstance(term, Const) and term.value.denominator == 1
    return whole or isinstance(term, Element | FromInt)


# The kind of what comes out, where it isn't that of an operand.
_GIVES = {
    "int": "ArgMax ArgMin Shape QuantizeLinear",
    "bool": "And Or Xor Not Equal Less LessOrEqual Greater GreaterOrEqual IsNaN",
    "float": "DequantizeLinear",
}
_OF_KIND = {name: kind for kind, names in _GIVES.items() for name in names.split()}
# These may leave out elements of an operand.
_PICKS = frozenset(
    "Expand Gather GatherND Pad ScatterND Shape Slice Split Tile Trilu".split()
)
# These compute with no whole numbers, but compare them, and move them.
_FREE = (_OF_KIND.keys() | _PICKS).union(
    "Cast Clip Concat DepthToSpace Flatten Identity Max Min Range ReduceMax ReduceMin "
    "Relu Reshape SpaceToDepth Squeeze Transpose Unsqueeze Where pointwise".split()
)


def nodes_of(terms: Iterable[Any], below: bool = False) -> Iterator[tuple[Node, bool]]:
    """The nodes of some terms, and whether one above may leave out what they give."""
    for term in terms:
        if isinstance(term, Many):
            yield from nodes_of([term.form], below)
        elif isinstance(term, Chain):
            yield Node(term.head, term.parts), below
            yield from nodes_of(term.parts, below)
        elif isinstance(term, Apply):
            node = term.node
            yield node, below
            # Beside an operand without elements nothing of the others is read.
            picks = node.operator.name in _PICKS or (
                len(node.inputs) > 1 and node.operator.name != "Concat"
            )
            yield from nodes_of(node.inputs, below or picks)


def kind_of(term: Any, kinds: dict[str, str]) -> str:
    """The kind of a term; empty if it is one of any kind, such as a new number."""
    if isinstance(term, Var):
        return kinds.get(term.name, term.kinds)
    if isinstance(term, Many):
        return kind_of(term.form, kinds)
    if not isinstance(term, Apply | Chain):
        return ""
    node = term.node if isinstance(term, Apply) else Node(term.head, term.parts)
    name, to = node.operator.name, node.parameters.get("to")
    if name == "Cast" and isinstance(to, str):
        return "int" if "INT" in to else "bool" if to == "BOOL" else "float"
    given = (kind_of(x, kinds) for x in node.inputs[name == "Where" :])
    return _OF_KIND.get(name) or next(filter(None, given), "")


def _of_whole(terms: Any, law: Law, silent: str) -> Iterator[tuple[Node, bool]]:
    kinds = kinds_of(law, silent)
    for node, below in nodes_of(terms):
        if any(kind_of(x, kinds) == "int" for x in node.inputs):
            yield node, below


def computes_with_whole(law: Law) -> bool:
    """Whether a law of floats computes with whole numbers.

    Compared and chosen they may be, as elements of a total order.
    """
    found = _of_whole([*law.left, *law.right], law, "float")
    return any(node.operator.name not in _FREE for node, _ in found)


def divisions(law: Law, silent: str) -> list[bool]:
    """Of each division of whole numbers on the right, whether it may end the process
    unseen: it isn't on the left, and its results may not be read.
    """
    there = {repr(node) for node, _ in nodes_of(law.left)}
    return [
        below and repr(node) not in there
        for node, below in _of_whole(law.right, law, silent)
        if node.operator.name in ("Div", "ReduceMean", "pointwise")
    ]
