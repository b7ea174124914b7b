"""Which rules a node may match, told by its operator and its operands.

A law's first result says what its root is computed from: an operator, a constant, a
number, the same value twice. Nodes that are alike in this have one form, and the rules
that a form admits are found once. The matcher has the last word: what is told here is
necessary, not sufficient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import onnx_ir as ir

from ..language.facts import Facts
from ..language.operators.elementwise import FAMILIES
from ..language.operators.read_write import NoReading, reading, trimmed
from ..language.pattern import Apply, Chain, Leaf, Many, Term, Var
from ..language.rule import Rule
from ..language.terms import Axes, Expr, Fn, Sizes
from ..rules.catalogue import RULES

_SINGLE = (Leaf.SCALAR, Leaf.FULL, Leaf.ABOUT)


class _Operand(NamedTuple):
    """An operand of a node, as far as its form tells it from others."""

    operator: str  # that computes it; "" if none does
    below: frozenset[str]  # the operators of its own operands, "" for a constant
    constant: bool
    single: bool  # a constant with one element
    number: Any  # that a constant is throughout, if a law names it; see _UNREAD


_UNREAD = "unread"  # no law asks for the number of such an operand


class _Form:
    """What a node has in common with others that the same rules may match."""

    def __init__(
        self,
        operator: str,
        operands: tuple[_Operand | None, ...],
        first: tuple[int, ...],
        words: tuple[Any, ...] | None,
    ) -> None:
        self.operator, self.operands = operator, operands
        self.first = first  # where the same value stands first, of each operand
        self.words = words  # parameters that laws spell out; None for an unread node

    def admits(self, rule: Rule) -> bool:
        """Whether the root of a law may be a node of this form."""
        term = rule.law.left[0]
        if isinstance(term, Chain):
            return self._unfolds(term)
        assert isinstance(term, Apply)
        pattern = term.node
        if pattern.operator.name == "pointwise":
            return self._in_order(pattern.inputs, len(pattern.inputs))
        if self.words is None:
            return False
        named = zip(_VOCABULARY.words.get(self.operator, ()), self.words, strict=True)
        for name, found in named:
            wanted = pattern.parameters.get(name, found)
            if _spelled(wanted) and wanted != found:
                return False
        if any(isinstance(x, Many) for x in pattern.inputs):
            return self._spread(pattern.inputs)
        if len(pattern.inputs) != len(self.operands):
            return False
        if pattern.operator.commutative:
            return self._either_way(pattern.inputs)
        return self._in_order(pattern.inputs, len(self.operands))

    def _unfolds(self, term: Chain) -> bool:
        if len(term.parts) == 2:
            return self._either_way(term.parts)
        inner = [x for x in self.operands if x and x.operator == term.head.name]
        if len(term.parts) > 3 or not inner:
            return bool(inner)
        seen = frozenset().union(*(_seen(x) for x in self.operands if x))
        return all(_is_among(part, seen) for part in term.parts)

    def _either_way(self, terms: Sequence[Term | None]) -> bool:
        return self._in_order(terms, 2) or self._in_order(terms[::-1], 2)

    def _spread(self, terms: Sequence[Term | None]) -> bool:
        """Whether each term may have an operand in its place, a Many one or more."""
        before = [isinstance(x, Many) for x in terms].index(True)
        after = [isinstance(x, Many) for x in terms[::-1]].index(True)
        last = len(self.operands) - after
        if last - before < len(terms) - before - after:
            return False
        within = terms[before : len(terms) - after]
        between = self.operands[before:last]
        fits = all if len(within) == 1 else any
        return (
            all(map(_fits, terms[:before], self.operands))
            and all(map(_fits, terms[len(terms) - after :], self.operands[last:]))
            and all(fits(_fits(term, x) for x in between) for term in within)
        )

    def _in_order(self, terms: Sequence[Term | None], count: int) -> bool:
        operands = self.operands[:count]
        return (
            len(operands) == len(terms)
            and all(map(_fits, terms, operands))
            and all(
                self.first[i] == self.first[j]
                for j in range(count)
                for i in range(j)
                if terms[i] is terms[j] and isinstance(terms[i], Var | Apply)
            )
        )


def _fits(term: Term | None, operand: _Operand | None) -> bool:
    if term is None or operand is None:
        return term is None and operand is None
    if isinstance(term, Many):
        return _fits(term.form, operand)
    if not isinstance(term, Var):
        return _is_among(term, {operand.operator}) and all(
            _is_among(inner, operand.below) for inner in _inner(term)
        )
    if term.kind is Leaf.TENSOR:
        return True
    if not operand.constant or (term.kind in _SINGLE and not operand.single):
        return False
    number = _number(term)
    if number is None or number not in _VOCABULARY.numbers:
        return True
    return operand.number is _UNREAD or bool(operand.number == number)


def _seen(operand: _Operand) -> frozenset[str]:
    own = {operand.operator} if operand.operator else set()
    return operand.below | own | ({""} if operand.constant else set())


def _is_among(term: Term | None, operators: Set[str]) -> bool:
    """Whether a value that a term may stand for is computed by one of these.

    As in Operand.below, "" stands for a constant.
    """
    if isinstance(term, Apply):
        name = term.node.operator.name
        if name == "pointwise":
            return not operators.isdisjoint(FAMILIES[term.node.parameters["f"].family])
        return name in operators
    if isinstance(term, Chain):
        return term.head.name in operators
    if isinstance(term, Many):
        return _is_among(term.form, operators)
    assert term is None or isinstance(term, Var)
    return term is None or term.kind is Leaf.TENSOR or "" in operators


def _inner(term: Term) -> Sequence[Term | None]:
    """The operands that a node which a term stands for has itself."""
    if isinstance(term, Apply):
        return term.node.inputs
    assert isinstance(term, Chain)
    return term.parts if len(term.parts) == 2 else ()


def _number(leaf: Var) -> Any:
    """The number that a leaf must be to the last bit, if the law spells it."""
    if leaf.kind not in (Leaf.FULL, Leaf.FILLED) or leaf.number is None:
        return None
    if leaf.number.head == "number":
        return leaf.number.args[0]
    return _CONSTANTS.get(leaf.number.head)


# The sign of zero doesn't matter here, where numbers are compared by ==.
_CONSTANTS = {"negative_zero": 0, "negative_infinity": -math.inf}


def _spelled(parameter: Any) -> bool:
    """Whether a law gives a parameter itself, not a symbol for it."""
    return not isinstance(parameter, Expr | Fn | Axes | Sizes)


class _Vocabulary:
    """The numbers and words that the laws of the catalogue spell out."""

    @cached_property
    def numbers(self) -> frozenset[Any]:
        found = (
            _number(x)
            for r in RULES
            for x in r.law.symbols.values()
            if isinstance(x, Var)
        )
        return frozenset(number for number in found if number is not None)

    @cached_property
    def filled(self) -> frozenset[str]:
        """Operators of which an operand may be one number throughout."""
        return frozenset(
            op
            for rule in RULES
            if any(
                isinstance(x, Var) and x.kind is Leaf.FILLED
                for x in rule.law.symbols.values()
            )
            for op in roots(rule)
        )

    @cached_property
    def words(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, dict[str, None]] = {}
        for rule in RULES:
            root = rule.law.left[0]
            if isinstance(root, Apply) and root.node.operator.name != "pointwise":
                spelled = (k for k, v in root.node.parameters.items() if _spelled(v))
                found.setdefault(root.node.operator.name, {}).update(
                    dict.fromkeys(spelled)
                )
        return {op: tuple(sorted(words)) for op, words in found.items() if words}


_VOCABULARY = _Vocabulary()


def form_of(node: ir.Node, facts: Facts) -> _Form:
    """The form of a node, found once until it or an operand has other inputs."""
    form: _Form | None = facts.forms.get(node)
    if form is None:
        form = facts.forms[node] = _form(node, facts)
    return form


def _form(node: ir.Node, facts: Facts) -> _Form:
    words: tuple[Any, ...] | None = None
    try:
        found = reading(node, facts)
    except NoReading:
        inputs: Sequence[ir.Value | None] = trimmed(node.inputs)
    else:
        inputs = found.inputs
        names = _VOCABULARY.words.get(node.op_type, ())
        words = tuple([found.parameters[name] for name in names])
    filled = node.op_type in _VOCABULARY.filled
    known = facts.operands[filled]
    operands = []
    for value in inputs:
        operand = None if value is None else known.get(value)
        if operand is None and value is not None:
            operand = known[value] = _operand(value, filled, facts)
        operands.append(operand)
    places: dict[ir.Value | None, int] = {}
    first = tuple([places.setdefault(x, i) for i, x in enumerate(inputs)])
    return _interned(node.op_type, tuple(operands), first, words)


_interned = lru_cache(maxsize=1 << 14)(_Form)


def _operand(value: ir.Value, filled: bool, facts: Facts) -> _Operand:
    node = value.producer()
    op, below = "", _NOTHING
    if node is not None and not node.domain:
        op = node.op_type
        below = _told(node, facts)
    if not facts.is_constant(value):
        return _Operand(op, below, False, False, None)
    dims = facts.dims(value)
    single = dims is not None and all(n == 1 for n in dims)
    number: Any = _UNREAD
    if single or filled:
        number = facts.uniform(value)
        number = number if number in _VOCABULARY.numbers else None
    return _Operand(op, below, True, single, number)


_NOTHING: frozenset[str] = frozenset()


def _told(node: ir.Node, facts: Facts) -> frozenset[str]:
    """What computes the operands of a node, "" for constants among them."""
    found = set()
    for value in node.inputs:
        if value is None:
            continue
        if facts.is_constant(value):
            found.add("")
        producer = value.producer()
        if producer is not None and not producer.domain:
            found.add(producer.op_type)
    return frozenset(found)


@cache
def roots(rule: Rule) -> frozenset[str]:
    """The operators that the first result of a law's left side may be computed by."""
    root = rule.law.left[0]
    if isinstance(root, Chain):
        return frozenset([root.head.name])
    assert isinstance(root, Apply)
    if root.node.operator.name == "pointwise":
        return FAMILIES[root.node.parameters["f"].family]
    return frozenset([root.node.operator.name])


class _Index:
    """Rules in their order, by the forms that admit them."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.operators: dict[str, list[Rule]] = {}
        self.admitted = lru_cache(maxsize=1 << 14)(self._admitted)  # by form
        for rule in rules:
            for op in roots(rule):
                self.operators.setdefault(op, []).append(rule)

    def rules(self, node: ir.Node, facts: Facts) -> tuple[Rule, ...]:
        """Those that may match at a node."""
        return self.admitted(form_of(node, facts))

    def _admitted(self, form: _Form) -> tuple[Rule, ...]:
        return tuple(filter(form.admits, self.operators.get(form.operator, ())))


@lru_cache(maxsize=64)
def index_of(rules: tuple[Rule, ...]) -> _Index:
    """The index of some rules, made once."""
    return _Index(rules)
