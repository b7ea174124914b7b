"""Is the right side defined wherever the left one is?

A quotient, a root or a logarithm has no value over the reals for some arguments. Equal
normal forms say nothing of those: y - y = y / x - y / x. So each such argument on the
right must be shown to be in the domain, in one of three ways:

  sign     it is a square, an exponential, a sum of such ...
  left     the left side needs the same of an equal argument, at a place that it reads
           wherever the right one does
  order    it follows from what the law requires of numbers (order_reasoning.py)

Sound because a term has a value only if all its arguments have, but for those of
`where` and of choices on indices that are not chosen: what is needed there is needed
under the condition. Of an unknown function nothing is known but that it has a value
where the left side has the same one.

Whole numbers are worse off: a division by 0, or of the least number by -1, ends the
process, whether or not its result is chosen. So where `eager` is asked, the right side
may divide by numbers other than these, and as the left side does, and no more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import z3

from .monomials import Binder, guard_truth
from .order_reasoning import Order
from .questions import Failure, Hypotheses
from .scalars import PI, Const, FromInt, Ite, NegZero, Op, Opaque, Red, Scalar, Symbol
from .smt import bound_function

POSITIVE, NOT_NEGATIVE, NOT_ZERO, SAME = "positive", "not negative", "not zero", "same"
IMPLIED = {POSITIVE: {POSITIVE, NOT_NEGATIVE, NOT_ZERO}}
PARTIAL = {
    "div": (1, NOT_ZERO),
    "recip": (0, NOT_ZERO),
    "sqrt": (0, NOT_NEGATIVE),
    "rsqrt": (0, POSITIVE),
    "log": (0, POSITIVE),
}
ALWAYS_POSITIVE = {"exp", "sigmoid", "softplus"}
NEVER_NEGATIVE = {"abs", "relu", "sqrt", "square"}


@dataclass(frozen=True)
class Need:
    """`what` has to hold of the argument where the hypotheses and the facts do.

    `variables` are what the reductions around it run over, `domains` their ranges.
    """

    what: str
    argument: Scalar
    hypotheses: Hypotheses = ()
    facts: tuple[Scalar, ...] = ()
    variables: tuple[Any, ...] = ()
    eager: bool = False


class Definedness(Order):
    """See the head of this file."""

    def equal(self, a: Scalar, b: Scalar, hypotheses: Hypotheses) -> bool:
        """Are the scalars equal wherever the hypotheses hold?"""
        raise NotImplementedError

    def contradictory(self, hypotheses: Hypotheses) -> bool:
        """Whether what a law requires holds nowhere."""
        nothing = z3.Bool("nothing is known of this")
        if self.proves(hypotheses, nothing, patient=True):
            return True
        try:
            facts = self.context.scalar_facts
            return bool(facts) and self.same_by_order(Const(0), Const(1), hypotheses)
        except Failure:
            return False

    def undefined(
        self, a: Scalar, b: Scalar, hypotheses: Hypotheses, eager: bool = False
    ) -> str:
        """What of b isn't shown to have a value wherever a has; empty if all is."""
        evaluated = [Need(NOT_ZERO, x) for x in self.context.evaluated]
        for need in needs(b, Need("", b, eager=eager)):
            given = evaluated + [
                derived
                for values in self._choices(a, need)
                for n in needs(a, Need("", a, eager=eager), list(values))
                for derived in implications(n)
            ]
            if not self._met(need, given, hypotheses):
                return f"{need.argument!r} may not be {need.what}"[:200]
        return ""

    def _choices(self, a: Scalar, need: Need) -> Iterator[tuple[Any, ...]]:
        """What the left side's reductions may stand at: where the need's do."""
        deep = depth(a)
        own = [*need.variables, 0][:3]
        yield from itertools.product(own, repeat=min(deep, 3))

    def _met(self, need: Need, given: Sequence[Need], hypotheses: Hypotheses) -> bool:
        known = (*hypotheses, *need.hypotheses)
        return (
            self._by_sign(need.what, need.argument, known)
            or any(self._follows(need, other, known) for other in given)
            or self._by_order(need, known)
            or self._in_parts(need, given, hypotheses)
            or self._is_product(need, given, known)
        )

    def _is_product(self, need: Need, given: Sequence[Need], known: Hypotheses) -> bool:
        """Whether it is the product of two numbers that aren't 0."""
        factors = [n for n in given if n.what == NOT_ZERO and not n.hypotheses]
        return need.what == NOT_ZERO and any(
            self.equal(a.argument * b.argument, need.argument, known)
            for a, b in itertools.combinations(factors[:4], 2)
            if not a.facts and not b.facts
        )

    def _follows(self, need: Need, other: Need, known: Hypotheses) -> bool:
        """Whether what the left side needs is met there, and is as much."""
        if need.what not in IMPLIED.get(other.what, {other.what}):
            return False
        if not all(self.proves(known, h) for h in other.hypotheses):
            return False
        if not all(
            any(f is g or self.equal(f, g, known) for g in need.facts)
            for f in other.facts
        ):
            return False
        return self.equal(other.argument, need.argument, known)

    def _by_order(self, need: Need, known: Hypotheses) -> bool:
        """From what is required of numbers, and from the conditions around it."""
        facts = self.context.scalar_facts
        zero = Const(0)
        goal = {
            POSITIVE: Op("less", zero, need.argument),
            NOT_NEGATIVE: Op("less_equal", zero, need.argument),
            NOT_ZERO: Op("not", Op("equal", need.argument, zero)),
        }.get(need.what)
        if goal is None or not (facts or need.facts):
            return False
        self.context.scalar_facts = [*facts, *need.facts]
        try:
            return self.same_by_order(goal, Const(1), known)
        except Failure:
            return False
        finally:
            self.context.scalar_facts = facts

    def _in_parts(
        self, need: Need, given: Sequence[Need], hypotheses: Hypotheses
    ) -> bool:
        """A product isn't 0 if no factor is, and so on."""
        e = need.argument
        if not isinstance(e, Op) or need.what == SAME:
            return False
        parts: tuple[Scalar, ...] = ()
        if need.what == NOT_ZERO:
            parts = {"mul": e.args, "div": e.args[:1]}.get(e.name, ())
            if e.name in ("neg", "sqrt", "abs", "square"):
                parts = e.args
        elif e.name in ("mul", "div"):
            parts = e.args
        wanted = [replace(need, argument=part) for part in parts]
        if e.name == "div" and need.what == NOT_NEGATIVE:
            wanted[1] = replace(wanted[1], what=POSITIVE)
        return bool(wanted) and all(self._met(n, given, hypotheses) for n in wanted)

    # ---- signs

    def _by_sign(self, what: str, e: Scalar, known: Hypotheses) -> bool:
        if what == POSITIVE:
            return self._positive(e, known)
        if what == NOT_NEGATIVE:
            return self._not_negative(e, known)
        if what == NOT_ZERO:
            return self._positive(e, known) or self._positive(Op("neg", e), known)
        count = e.args[-1] if isinstance(e, Op) and e.name == "div" else None
        return isinstance(count, FromInt) and self._positive(count, known)

    def _positive(self, e: Scalar, known: Hypotheses) -> bool:
        if isinstance(e, Const):
            return e.value > 0
        if isinstance(e, FromInt):
            return self.proves(known, e.value > 0)
        if isinstance(e, Symbol):
            return e is PI
        if isinstance(e, Ite):
            return self._each(self._positive, e, known)
        if isinstance(e, Red):
            b = Binder.of(e)
            body = e.body(b.variable)
            inhabited = e.kind == "prod" or self.is_inhabited(b, known)
            return inhabited and self._positive(body, (*known, b.domain()))
        if not isinstance(e, Op):
            return False
        if e.name in ALWAYS_POSITIVE:
            return True
        signs = [self._positive(a, known) for a in e.args]
        if e.name == "add":
            return any(signs) and self._all_not_negative(e, known)
        if e.name == "max":
            return any(signs)
        if e.name == "where":
            return all(signs[1:])
        if e.name == "neg":
            return self._negative(e.args[0])
        return e.name in ("mul", "div", "min", "recip", "sqrt") and all(signs)

    def _negative(self, e: Scalar) -> bool:
        return isinstance(e, Const) and e.value < 0

    def _not_negative(self, e: Scalar, known: Hypotheses) -> bool:
        if isinstance(e, NegZero) or (isinstance(e, Const) and e.value == 0):
            return True
        if isinstance(e, FromInt):
            return self.proves(known, e.value >= 0)
        if isinstance(e, Ite):
            return self._each(self._not_negative, e, known)
        if isinstance(e, Red):
            b = Binder.of(e)
            there = e.kind in ("sum", "prod") or self.is_inhabited(b, known)
            body = e.body(b.variable)
            return there and self._not_negative(body, (*known, b.domain()))
        if isinstance(e, Op):
            if e.name in NEVER_NEGATIVE:
                return True
            if e.name in ("add", "min", "div"):
                return self._all_not_negative(e, known)
            if e.name == "mul":
                factor, other = e.args
                return self.equal(factor, other, known) or self._all_not_negative(
                    e, known
                )
            if e.name == "pow" and isinstance(e.args[1], Const):
                return e.args[1].value % 2 == 0
            if e.name == "where":
                return all(self._not_negative(a, known) for a in e.args[1:])
            if e.name == "max":
                return any(self._not_negative(a, known) for a in e.args)
        return self._positive(e, known)

    def _all_not_negative(self, e: Op, known: Hypotheses) -> bool:
        return all(self._not_negative(a, known) for a in e.args)

    def _each(self, test: Any, e: Ite, known: Hypotheses) -> bool:
        return all(
            test(branch, (*known, guard_truth(e.condition, value)))
            for branch, value in ((e.a, True), (e.b, False))
        )


def needs(e: Scalar, at: Need, values: list[Any] | None = None) -> Iterator[Need]:
    """What has to hold for a term to have a value.

    What reductions run over are the `values` given, from the outermost on (any if none
    are); whether they are in range is among the hypotheses.
    """
    if isinstance(e, Ite):
        for branch, value in ((e.a, True), (e.b, False)):
            known = (*at.hypotheses, guard_truth(e.condition, value))
            yield from needs(branch, replace(at, hypotheses=known), values)
    elif isinstance(e, Red):
        b = Binder.of(e)
        given: Any = None
        if values is not None:
            given, values = (values[0] if values else 0), values[1:]
            if b.vec and isinstance(given, int):
                given = _first
            if b.vec != _is_map(given):
                return
        place = b.variable if given is None else given
        known = (*at.hypotheses, b.domain() if given is None else b.domain(given))
        inside = replace(at, hypotheses=known, variables=(*at.variables, place))
        yield from needs(e.body(place), inside, values)
    elif isinstance(e, Opaque):
        for t in e.tensors:
            yield from needs(t.at(bound_function("i")), at, values)
    elif isinstance(e, Op):
        yield from _needs_of(e, at, values)


def _first(k: Any) -> int:
    """The index of the first element."""
    return 0


def _is_map(value: Any) -> bool:
    """Whether it is an index, not an integer."""
    return not isinstance(value, int) and not hasattr(value, "sort")


def _needs_of(e: Op, at: Need, values: list[Any] | None) -> Iterator[Need]:
    if e.name == "where" and not at.eager:
        c, a, b = e.args
        yield from needs(c, at, values)
        for branch, fact in ((a, c), (b, Op("not", c))):
            yield from needs(branch, replace(at, facts=(*at.facts, fact)), values)
        return
    for a in e.args:
        yield from needs(a, at, values)
    if e.name.startswith("sigma:") or (at.eager and may_end(e)):
        yield replace(at, what=SAME, argument=e)
    elif at.eager:
        return
    elif e.name in PARTIAL:
        place, what = PARTIAL[e.name]
        yield replace(at, what=what, argument=e.args[place])
    elif e.name == "pow":
        yield from _needs_of_power(e, at)


def may_end(e: Op) -> bool:
    """Whether it is a quotient of whole numbers that may end the process."""
    by = e.args[-1]
    return e.name == "div" and not (isinstance(by, Const) and by.value not in (0, -1))


def _needs_of_power(e: Op, at: Need) -> Iterator[Need]:
    base, power = e.args
    if not isinstance(power, Const):
        yield replace(at, what=SAME, argument=e)
        return
    if power.value < 0:
        yield replace(at, what=NOT_ZERO, argument=base)
    if power.value.denominator != 1:
        yield replace(at, what=NOT_NEGATIVE, argument=base)


def implications(need: Need) -> Iterator[Need]:
    """What follows from what is needed: if a product isn't 0, no factor is."""
    yield need
    e = need.argument
    if need.what == POSITIVE and isinstance(e, Op) and e.name == "sqrt":
        yield from implications(replace(need, argument=e.args[0]))
    if need.what != NOT_ZERO or not isinstance(e, Op):
        return
    if e.name in ("mul", "div"):
        for part in e.args if e.name == "mul" else e.args[:1]:
            yield from implications(replace(need, argument=part))
    elif e.name in ("neg", "abs", "square"):
        yield from implications(replace(need, argument=e.args[0]))
    elif e.name == "sqrt":
        yield from implications(replace(need, what=POSITIVE, argument=e.args[0]))
    elif e.name == "pow" and isinstance(e.args[1], Const) and e.args[1].value > 0:
        yield from implications(replace(need, argument=e.args[0]))


def depth(e: Scalar) -> int:
    """How many reductions stand inside each other."""
    if isinstance(e, Red):
        return 1 + depth(e.body(Binder.of(e).variable))
    if isinstance(e, Op):
        return max(map(depth, e.args), default=0)
    if isinstance(e, Ite):
        return max(depth(e.a), depth(e.b))
    return 0


def partial(e: Scalar) -> bool:
    """Whether a term has no value for some arguments."""
    return any(True for _ in needs(e, Need("", e)))
