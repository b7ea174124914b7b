"""Find the left side of a rule in a graph.

The matcher knows no rule and no operator: it follows the pattern, asks the vocabulary
to read nodes, binds symbols, and evaluates preconditions. Where it fails, `why` says
what kept the rule from applying.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import onnx_ir as ir

from ..certificate.proof_store import proved_kinds
from ..language.facts import Facts
from ..language.operators.elementwise import pointwise_operands
from ..language.operators.read_write import NoReading, reading
from ..language.pattern import Apply, Chain, Many, Node, Pointwise, Term, Var
from ..language.rule import Rule
from ..language.terms import Axes, Expr, Fn, Sizes
from .associative_chains import candidates, flattened, may_depend, same_function
from .bindings import Binding, Undecided, decided, evaluate, spelled
from .declarations import (
    bind_common_rank,
    bind_ends,
    bind_length,
    equal,
    misdeclared,
    symbol_name,
    unfit,
    unproved_kind,
)

Found = Callable[[Binding], bool]


@dataclass(frozen=True)
class Match:
    """A place where a rule applies."""

    rule: Rule
    roots: tuple[ir.Value, ...]
    binding: Binding
    # Sizes and symbols; None if the law looks at more than these.
    question: Hashable = None

    def nodes(self) -> list[ir.Node]:
        """The nodes that the left side stands for."""
        return list(dict.fromkeys(_all_nodes(self.binding)))


def _all_nodes(binding: Binding) -> Iterator[ir.Node]:
    yield from binding.nodes.values()
    yield from binding.chains
    for members in binding.members.values():
        for member in members:
            yield from _all_nodes(member)


class Matcher:
    """Matches one rule at one node."""

    def __init__(self, rule: Rule, facts: Facts) -> None:
        self.rule, self.facts = rule, facts
        self.why = "the operator is another one"
        self._result: Binding | None = None
        self._roots: tuple[ir.Value, ...] = ()
        self._asked: Hashable = None
        self._equations: list[tuple[Any, Any]] = []

    def at(self, node: ir.Node) -> Match | None:
        """The match whose first result `node` computes."""
        first = self.rule.law.left[0]
        output = first.output if isinstance(first, Apply) else 0
        if output >= len(node.outputs):
            return None
        binding = Binding(self.facts)
        self._equations = []
        value = node.outputs[output]
        if not self._term(first, value, binding, lambda b: self._others([value], b)):
            return None
        assert self._result is not None
        return Match(self.rule, self._roots, self._result, self._asked)

    # ---- several results

    def _others(self, roots: list[ir.Value], binding: Binding) -> bool:
        """Find the remaining results among the users of what is bound."""
        left = self.rule.law.left
        if len(roots) == len(left):
            self._roots = tuple(roots)
            return self._finish(binding)
        if self._refuted(binding):
            return False
        term = left[len(roots)]
        for value in candidates(term, binding):
            if value in roots:
                continue
            trial = binding.copy()
            further = partial(self._others, [*roots, value])
            if self._term(term, value, trial, further):
                return True
        return self._no("no second node to go with it")

    def _refuted(self, binding: Binding) -> bool:
        """Whether no further results mend it: or all pairs of users would be tried."""
        law = self.rule.law
        for condition, why in zip(law.requires, law.reasons, strict=True):
            try:
                found = evaluate(condition, binding.copy())
            except (Undecided, KeyError):  # a symbol of those to come
                continue
            if found is False:
                self.why = why or f"it needs {spelled(condition)}"
                return True
        return False

    # ---- terms

    def _term(self, term: Term, value: ir.Value, binding: Binding, then: Found) -> bool:
        if isinstance(term, Var):
            return self._leaf(term, value, binding) and then(binding)
        if isinstance(term, Chain):
            return self._chain(term, value, binding, then)
        assert isinstance(term, Apply)
        return self._apply(term, value, binding, then)

    def _apply(
        self, term: Apply, value: ir.Value, binding: Binding, then: Found
    ) -> bool:
        node = value.producer()
        pattern = term.node
        if node is None:
            return self._no(f"{value.name} isn't computed by {pattern.operator}")
        if pattern in binding.nodes:
            same_node = binding.nodes[pattern] is node
            return same_node and value.index() == term.output and then(binding)
        if pattern.operator.name == "pointwise":
            return self._pointwise(pattern, node, binding, then)
        if node.op_type != pattern.operator.name or node.domain != "":
            return self._no(
                f"{value.name} is computed by {node.op_type}, not {pattern.operator}"
            )
        more = node.outputs[pattern.count :]
        further = any(y.uses() or y.is_graph_output() for y in more)
        if further or value.index() != term.output:
            return self._no(f"another result of {node.name} is used")
        try:
            found = reading(node, self.facts)
        except NoReading as reason:
            return self._no(str(reason))
        binding.nodes[pattern] = node
        for name, wanted in pattern.parameters.items():
            if not self._parameter(wanted, found.parameters[name], binding):
                return self._no(f"{name} of {node.name} is another")
        return self._operands(pattern, list(found.inputs), binding, then)

    def _operands(
        self,
        pattern: Node,
        inputs: list[ir.Value | None],
        binding: Binding,
        then: Found,
    ) -> bool:
        terms = list(pattern.inputs)
        if any(isinstance(term, Many) for term in terms):
            return self._spread(terms, inputs, binding, then)
        if len(terms) != len(inputs):
            return self._no(f"{pattern.operator} has {len(inputs)} inputs")
        if not pattern.operator.commutative:
            return self._all(terms, inputs, binding, then)
        # A constant stands on either side, whatever the exporter's habit.
        turned = inputs[::-1]
        if not all(map(_may_be, terms, turned)):
            return self._all(terms, inputs, binding, then)
        if all(map(_may_be, terms, inputs)):
            trial = binding.copy()
            equations = list(self._equations)
            if self._all(terms, inputs, trial, then):
                return True
            self._equations = equations
        return self._all(terms, turned, binding, then)

    def _spread(
        self,
        terms: Sequence[Any],
        values: Sequence[ir.Value | None],
        binding: Binding,
        then: Found,
    ) -> bool:
        """Give each Many one or more of the inputs, in their order."""
        if not terms:
            return not values and then(binding)
        term, *rest = terms
        for count in range(1, len(values) - len(rest) + 1):
            trial = binding.copy()
            equations = list(self._equations)
            later = values[count:]
            if isinstance(term, Many):
                found = self._many(term, list(values[:count]), trial)
                if found and self._spread(rest, later, trial, then):
                    return True
            elif (
                count == 1
                and values[0] is not None
                and self._term(
                    term,
                    values[0],
                    trial,
                    partial(self._spread, rest, later, then=then),
                )
            ):
                return True
            self._equations = equations
        return self._no("the inputs are of other forms")

    def _all(
        self,
        terms: Sequence[Term | None],
        values: Sequence[ir.Value | None],
        binding: Binding,
        then: Found,
        place: int = 0,
    ) -> bool:
        """Match terms with values, from a place on."""
        for k in range(place, len(terms)):
            term, value = terms[k], values[k]
            if term is None or value is None:
                if (term is None) != (value is None):
                    return self._no("an optional input is given, or left out")
            elif not isinstance(term, Var):
                further = partial(self._all, terms, values, then=then, place=k + 1)
                return self._term(term, value, binding, further)
            elif not self._leaf(term, value, binding):
                return False
        return then(binding)

    def _pointwise(
        self, pattern: Node, node: ir.Node, binding: Binding, then: Found
    ) -> bool:
        symbol: Pointwise = pattern.parameters["f"]
        operands = pointwise_operands(node, symbol.arity, symbol.family, self.facts)
        if operands is None:
            return self._no(f"{node.op_type} is no {symbol.family} operator")
        bound = binding.symbols.get(symbol.name)
        if bound is not None and not same_function(bound, node, symbol.arity):
            return self._no(f"{node.name} is another function than {bound.name}")
        binding.symbols.setdefault(symbol.name, node)
        binding.nodes[pattern] = node
        return self._all(pattern.inputs, operands, binding, then)

    def _chain(
        self, term: Chain, value: ir.Value, binding: Binding, then: Found
    ) -> bool:
        count = len(term.parts)
        for operands, nodes in flattened(value, term.head.name, count):
            trial = binding.copy()
            trial.chains += nodes
            trial.reassociated = trial.reassociated or count > 2
            equations = list(self._equations)
            if self._assign(list(term.parts), operands, trial, then):
                return True
            self._equations = equations
        return self._no(f"{value.name} is no {term.head} of {count} such operands")

    def _assign(
        self, parts: list[Term], values: list[ir.Value], binding: Binding, then: Found
    ) -> bool:
        """Give each part of a chain one of the operands, in any order."""
        if not parts:
            return then(binding)
        for i, value in enumerate(values):
            rest = values[:i] + values[i + 1 :]
            trial = binding.copy()
            equations = list(self._equations)
            further = partial(self._assign, parts[1:], rest, then=then)
            if self._term(parts[0], value, trial, further):
                return True
            self._equations = equations
        return False

    def _many(
        self, many: Many, inputs: list[ir.Value | None], binding: Binding
    ) -> bool:
        members = []
        for value in inputs:
            if value is None:
                return self._no("an input is left out")
            trial = Binding(self.facts, dict(binding.values), dict(binding.symbols))
            kept: list[Binding] = []

            def keep(b: Binding, kept: list[Binding] = kept) -> bool:
                kept.append(b)
                return True

            if not self._term(many.form, value, trial, keep):
                return False
            (member,) = kept
            for name, symbol in member.symbols.items():
                binding.symbols.setdefault(name, symbol)
            members.append(member)
        binding.members[many.name] = members
        return True

    # ---- leaves and parameters

    def _leaf(self, leaf: Var, value: ir.Value, binding: Binding) -> bool:
        if leaf in binding.values:
            same_value = binding.values[leaf] is value
            return same_value or self._no(f"{value.name} is another value")
        reason = unfit(leaf, value, binding)
        if reason:
            return self._no(reason)
        dims = self.facts.dims(value)
        assert dims is not None
        binding.values[leaf] = value
        if leaf.sizes is not None:
            if len(dims) != len(leaf.sizes):
                return self._no(f"{value.name} has {len(dims)} axes")
            for wanted, size in zip(leaf.sizes, dims, strict=True):
                self._parameter(wanted, size, binding)
            return True
        return leaf.aligned or self._parameter(leaf.length, len(dims), binding)

    def _parameter(self, wanted: Any, found: Any, binding: Binding) -> bool:
        """Bind a symbol, or note an equation that is checked when all are bound."""
        if isinstance(wanted, Expr | Fn | Axes | Sizes):
            name = symbol_name(wanted)
            if name and name not in binding.symbols:
                binding.symbols[name] = found
                bind_length(wanted, found, binding)
            else:
                self._equations.append((wanted, found))
                bind_ends(wanted, found, binding)
            return True
        return bool(wanted == found)

    # ---- the end

    def _finish(self, binding: Binding) -> bool:
        other = unproved_kind(binding, proved_kinds(self.rule))
        if other:
            return self._no(other)
        bind_common_rank(self.rule.law.symbols.values(), binding)
        key = self._question(binding)
        reason = self.facts.answers.get(key)
        if reason is None:
            try:
                reason = self._unmet(binding)
            except Undecided as undecided:
                reason = str(undecided)
            if not (binding.looked or binding.members):
                self.facts.answers[key] = reason
        left = self.rule.law.left
        if not reason and len(left) > 1 and may_depend(left, binding):
            reason = "one result may depend on another"
        if reason:
            return self._no(reason)
        self._result = binding
        self._asked = None if binding.looked or binding.members else key
        return True

    def _question(self, binding: Binding) -> Hashable:
        """All that preconditions depend on, unless they look at elements."""
        dims = self.facts.dims
        return (
            self.rule,
            tuple([(leaf, dims(x)) for leaf, x in binding.values.items()]),
            tuple(binding.symbols.items()),
            tuple([found for _, found in self._equations]),
        )

    def _unmet(self, binding: Binding) -> str:
        law = self.rule.law
        for wanted, found in self._equations:
            if not equal(evaluate(wanted, binding), found):
                return f"{spelled(wanted)} is not {found!r}"
        for name, symbol in law.symbols.items():
            reason = misdeclared(name, symbol, binding)
            if reason:
                return reason
        for condition, why in zip(law.requires, law.reasons, strict=True):
            if not decided(condition, binding):
                return why or f"it needs {spelled(condition)}"
        return ""

    def _no(self, why: str) -> bool:
        self.why = why
        return False


def _may_be(term: Term | None, value: ir.Value | None) -> bool:
    """Whether a value could match a term, judged by what computes it."""
    if not isinstance(term, Apply) or term.node.operator.name == "pointwise":
        return True
    node = None if value is None else value.producer()
    return node is not None and node.op_type == term.node.operator.name
