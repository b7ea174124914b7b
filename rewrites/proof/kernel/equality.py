"""Two tensors are equal: same rank, same sizes, equal scalars at every index.

The scalars are compared at one index of which nothing is known but its range, at the
lowest level that suffices:

  struct  the same scalar functions of the same elements
  comm    and add, mul, max and min in either order, and maxima over permuted axes
  order   linear real arithmetic with comparisons and choices (order_reasoning.py)
  ring    sums of products, over the reals and over integers modulo 2^w
  field   division, exp, log, roots and translated maxima over the reals

What closes a comparison of two scalars, at every level:

  choice      a condition on indices holds or doesn't; `where` has a condition that is
              true or isn't, and takes the branch. Each case is compared under its
              assumption, and one whose assumption is contradictory is dropped.
  congruence  the same function of equal arguments; the same reduction over the same
              range of equal bodies. That holds for any values, infinite ones too.
  the level   otherwise both are translated as a whole, which covers finite values.

Sound if these steps are, and those in the modules below. What is not shown in the
limits is refused.

Splitting into cases is sound because a condition on indices and a truth value are each
true or false, and a branch is taken only where the condition is shown equal to the one
assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from .definedness import Definedness
from .integer_terms import substitute
from .monomials import Binder, guard_truth
from .order_reasoning import has_order
from .questions import COMM, LEVELS, ORDER, RING, Failure, Hypotheses
from .scalars import Const, FromInt, Guard, Ite, NegInf, NegZero, Op, Red, Scalar
from .smt import (
    POSITION,
    TooMuch,
    bound,
    bound_function,
    every,
    formula,
    fresh,
    fresh_function,
    implies,
    negate,
    new_attempt,
    new_session,
    within,
)
from .tensors import Context, Family, Tensor

COMMUTATIVE = {"add", "mul", "max", "min"}
_TURNED = {"max": "min", "min": "max"}
SPLITS = 16  # nested choices at most


@dataclass(frozen=True)
class Verdict:
    """proved: at `level`, by `steps`; or not, and why (the reason is a hint only)."""

    proved: bool
    level: str | None
    steps: frozenset[str]
    why: str

    def __bool__(self) -> bool:
        return self.proved


Compare: TypeAlias = Callable[[Scalar, Scalar, Hypotheses], bool]


class Equality(Definedness):
    """Equality of scalars at one level, and of tensors."""

    def __init__(self, context: Context, level: int) -> None:
        super().__init__(context, level)
        self.why = ""
        self.splits = 0

    def equal(self, a: Scalar, b: Scalar, hypotheses: Hypotheses) -> bool:
        """Are the scalars equal wherever the hypotheses hold?"""
        if a is b:
            return True
        split = first_split(a)
        if split is None:
            split = first_split(b)
        if split is not None:
            # Conditions on scalars mean more to `order` than case splits show.
            compared = isinstance(split, Scalar) and self.level == ORDER
            if compared and self.equal_as_wholes(a, b, hypotheses):
                return True
            return self.equal_in_cases(a, b, split, hypotheses)
        if self.congruent(a, b, hypotheses):
            return True
        return self.level >= ORDER and self.equal_as_wholes(a, b, hypotheses)

    def equal_as_wholes(self, a: Scalar, b: Scalar, hypotheses: Hypotheses) -> bool:
        """By order or by normal form."""
        try:
            if self.level == ORDER:
                ordered = self.context.scalar_facts or has_order(a) or has_order(b)
                return bool(ordered) and self.same_by_order(a, b, hypotheses)
            left, right = self.normal(a, hypotheses), self.normal(b, hypotheses)
            return self.same_poly(left, right, hypotheses)
        except Failure as failure:
            self.why = str(failure)
            return False

    def equal_in_cases(
        self, a: Scalar, b: Scalar, split: Split, hypotheses: Hypotheses
    ) -> bool:
        """In each case that is possible."""
        if self.splits >= SPLITS:
            self.why = "too many cases"
            return False
        self.steps.add("case-split")
        self.splits += 1
        try:
            return all(
                self.equal_in_case(a, b, split, value, hypotheses)
                for value in (True, False)
            )
        finally:
            self.splits -= 1

    def equal_in_case(
        self, a: Scalar, b: Scalar, split: Split, value: bool, hypotheses: Hypotheses
    ) -> bool:
        """Whether two scalars are equal where a condition has this truth."""
        if not isinstance(split, Scalar):
            assumed = guard_truth(split, value)
            if self.proves(hypotheses, negate(assumed)):
                return True
            hypotheses = (*hypotheses, assumed)

        def same(condition: Split, other: Split) -> bool:
            if isinstance(condition, Scalar) or isinstance(other, Scalar):
                return (
                    isinstance(condition, Scalar)
                    and isinstance(other, Scalar)
                    and self.equal(condition, other, hypotheses)
                )
            return self.same_guard(condition, other, hypotheses)

        left, right = (in_case(x, split, value, same) for x in (a, b))
        return self.equal(left, right, hypotheses)

    # ----------------------------------------------------------- congruence
    def congruent(self, a: Scalar, b: Scalar, hypotheses: Hypotheses) -> bool:
        """The same head on equal parts."""
        if self.level >= ORDER:
            a, b = self.inward(a, hypotheses), self.inward(b, hypotheses)
        if isinstance(a, Op) and isinstance(b, Op):
            return self.same_op(a, b, hypotheses)
        if isinstance(a, Red) and isinstance(b, Red):
            return self.same_red(a, b, hypotheses)
        if isinstance(a, NegZero | NegInf):
            return type(a) is type(b)
        if isinstance(a, Const) and isinstance(b, Const):
            return a.value == b.value
        if isinstance(a, Const | FromInt) and isinstance(b, Const | FromInt):
            values = [x.value for x in (a, b)]
            if any(isinstance(v, Fraction) and v.denominator != 1 for v in values):
                return False
            m, n = (int(v) if isinstance(v, Fraction) else v for v in values)
            return self.same_integer(m, n, hypotheses)
        return self.same_leaf(a, b, hypotheses)

    def inward(self, e: Scalar, hypotheses: Hypotheses) -> Scalar:
        """-max f as min -f, and relu(max f) as max relu(f) where there is an f."""
        total = e.args[0] if isinstance(e, Op) and e.name in ("neg", "relu") else None
        if not (isinstance(e, Op) and isinstance(total, Red)):
            return e
        kind = _TURNED.get(total.kind, "")
        if e.name == "relu" and kind:
            kind = total.kind * self.is_inhabited(Binder.of(total), hypotheses)
        if not kind:
            return e

        def body(b: Any) -> Scalar:
            inner = total.body(b)
            if isinstance(inner, Op) and e.name == inner.name == "neg":
                return inner.args[0]
            return Op(e.name, inner)

        return Red(kind, total.size, body, total.vec, total.rank, total.sel)

    def same_op(self, a: Op, b: Op, hypotheses: Hypotheses) -> bool:
        """Whether two operations are equal since their arguments are, in either order
        where they commute.
        """
        if a.name != b.name or len(a.args) != len(b.args):
            return False
        pairs = list(zip(a.args, b.args, strict=True))
        if all(self.equal(x, y, hypotheses) for x, y in pairs):
            return True
        if self.level < COMM or a.name not in COMMUTATIVE or len(pairs) != 2:
            return False
        (x, y), (z, w) = a.args, b.args
        if self.equal(x, w, hypotheses) and self.equal(y, z, hypotheses):
            self.steps.add("comm")
            return True
        return False

    def same_red(self, a: Red, b: Red, hypotheses: Hypotheses) -> bool:
        """The same reduction of equal bodies over the same range.

        A maximum may also run over the range in another order.
        """
        if a.kind != b.kind or a.vec != b.vec:
            return False
        left, right = Binder.of(a), Binder.of(b)
        permuted = a.kind in ("max", "min") and self.level >= COMM
        for way in self.bijections((left,), (right,), ([], [])):
            if way.step and not permuted:
                continue
            if self.same_domain(way, (right,), ((), ()), hypotheses):
                body = a.body(way.values[0])
                goal = b.body(right.variable)
                if self.equal(body, goal, (*hypotheses, right.domain())):
                    self.steps.add(way.step or f"reduce-{a.kind}")
                    return True
        return False

    # -------------------------------------------------------------- tensors
    def same_tensor(self, a: Tensor, b: Tensor, hypotheses: Hypotheses) -> bool:
        """The same shape, and equal at every index."""
        index = bound_function("i")
        return self.same_shape(a, b, hypotheses) and self.same_at(
            index, a, b, hypotheses
        )

    def same_at(
        self,
        i: Any,
        a: Tensor,
        b: Tensor,
        hypotheses: Hypotheses,
        compare: Compare | None = None,
    ) -> bool:
        """Equal elements at index i of two tensors of one shape."""
        rank = a.rank if isinstance(a.rank, int) else b.rank

        def in_range(k: Any) -> Any:
            return implies(within(k, rank), within(i(k), a.dim(k)))

        if isinstance(rank, int):
            ranges = tuple(in_range(k) for k in range(rank))
        else:
            k = bound("k")
            ranges = (every(k, in_range(k), i(k)),)
        anywhere = formula(in_range(POSITION))
        self.schemas.append(lambda k: substitute(anywhere, [(POSITION, k)]))
        try:
            same = compare or self.equal
            return same(a.at(i), b.at(i), (*hypotheses, *ranges))
        finally:
            # The index exists only if the tensor isn't empty: gone with this tensor.
            self.schemas.pop()

    def same_values(self, a: Scalar, b: Scalar, hypotheses: Hypotheses) -> bool:
        """Equal, and the right one defined wherever the left one is."""
        if not self.equal(a, b, hypotheses):
            if self.level < RING:
                return False
            plain = without_guards(b, Equality(self.context, 0), hypotheses)
            if plain is b or not self.equal(a, plain, hypotheses):
                return False
            self.steps.add("domain: no guarded number is NaN")
        if self.level >= ORDER:
            self.why = self.undefined(a, b, hypotheses)
            return not self.why
        return True

    def divides_alike(self, a: Tensor, b: Tensor, hypotheses: Hypotheses) -> bool:
        """Whether b divides no whole numbers but those that a divides."""

        def compare(x: Scalar, y: Scalar, known: Hypotheses) -> bool:
            self.why = self.undefined(x, y, known, eager=True)
            return not self.why

        return self.same_at(bound_function("i"), a, b, hypotheses, compare)

    def same_shape(self, a: Tensor, b: Tensor, hypotheses: Hypotheses) -> bool:
        """Whether two tensors have axes of equal sizes; if not, `why` says so."""
        if not self.same_integer(a.rank, b.rank, hypotheses):
            self.why = "the ranks differ"
            return False
        rank = a.rank if isinstance(a.rank, int) else b.rank
        if not self.same_index(a.dim, b.dim, rank, hypotheses):
            self.why = "the shapes differ"
            return False
        return True


def prove_equal(
    left: Tensor | Family,
    right: Tensor | Family,
    context: Context,
    levels: tuple[str, ...] = LEVELS,
    decide: Callable[[Tensor, Any, Scalar, Scalar], bool] | None = None,
    whole: bool = False,
) -> Verdict:
    """Is the left tensor (or each of a family) the right one, given the context?

    Where no level shows it, `decide` is asked of the left tensor, an index, and the two
    elements there. `whole`: divisions are of whole numbers, and may end the process.
    """
    new_session()
    try:
        return _proved(left, right, context, levels, decide, whole)
    except TooMuch as reason:
        return Verdict(False, None, frozenset(), str(reason))


def _proved(
    left: Tensor | Family,
    right: Tensor | Family,
    context: Context,
    levels: tuple[str, ...],
    decide: Callable[[Tensor, Any, Scalar, Scalar], bool] | None,
    whole: bool,
) -> Verdict:
    hypotheses: Hypotheses = tuple(context.hypotheses)
    questions = Equality(context, 0)
    shown = hypotheses
    for what, goal in context.obligations:
        if not questions.proves(shown, goal, patient=True):
            return Verdict(False, None, frozenset(), f"not shown: {what}")
        shown = (*shown, goal)
    if isinstance(left, Family) or isinstance(right, Family):
        if not (isinstance(left, Family) and isinstance(right, Family)):
            return Verdict(False, None, frozenset(), "a family against a tensor")
        if not questions.same_integer(left.count, right.count, hypotheses):
            return Verdict(False, None, frozenset(), "the numbers of tensors differ")
        j = fresh("j")
        hypotheses = (*hypotheses, within(j, left.count))
        left, right = left.member(j), right.member(j)
    if not questions.same_shape(left, right, hypotheses):
        return Verdict(False, None, frozenset(), questions.why)
    found = _by_levels(left, right, context, hypotheses, levels)
    if not found and decide is not None:
        index = fresh_function("i")
        if decide(left, index, left.at(index), right.at(index)):
            found = Verdict(True, "bits", frozenset(), "")
    if found and questions.contradictory(hypotheses):
        return Verdict(False, None, frozenset(), "the preconditions contradict")
    alike = Equality(context, COMM)
    if found and whole and not alike.divides_alike(left, right, hypotheses):
        return Verdict(False, None, frozenset(), alike.why)
    return found


def _by_levels(
    left: Tensor,
    right: Tensor,
    context: Context,
    hypotheses: Hypotheses,
    levels: tuple[str, ...],
) -> Verdict:
    """At the lowest level at which two tensors of one shape are shown equal."""
    why = "not shown: the same values"
    index = fresh_function("i")
    for level in levels:
        new_attempt()
        attempt = Equality(context, LEVELS.index(level))
        compare = attempt.same_values
        if attempt.same_at(index, left, right, hypotheses, compare):
            return Verdict(True, level, frozenset(attempt.steps), "")
        why = attempt.why or why
    return Verdict(False, None, frozenset(), why)


Split: TypeAlias = "Guard | Scalar"
Same: TypeAlias = Callable[["Split", "Split"], bool]


def first_split(e: Scalar) -> Split | None:
    """The condition of an innermost choice outside reductions."""
    if isinstance(e, Ite):
        guard: Split = e.condition
        return guard
    if isinstance(e, Op):
        simple = unfolded(e)
        if not isinstance(simple, Op):
            return first_split(simple)
        for a in simple.args:
            found = first_split(a)
            if found is not None:
                return found
        if simple.name == "where":
            return simple.args[0]
    return None


def unfolded(e: Op) -> Scalar:
    """`where` on a compound truth value as nested ones on simple truth values."""
    while e.name == "where":
        c, a, b = e.args
        if isinstance(c, Const):
            chosen = a if c.value else b
            if not isinstance(chosen, Op):
                return chosen
            e = chosen
        elif isinstance(c, Op) and c.name == "not":
            e = Op("where", c.args[0], b, a)
        elif isinstance(c, Op) and c.name == "and":
            e = Op("where", c.args[0], Op("where", c.args[1], a, b), b)
        elif isinstance(c, Op) and c.name == "or":
            e = Op("where", c.args[0], a, Op("where", c.args[1], a, b))
        else:
            break
    return e


def in_case(e: Scalar, split: Split, value: bool, same: Same) -> Scalar:
    """The scalar where the condition has that value."""
    if isinstance(e, Ite):
        if not isinstance(split, Scalar) and same(e.condition, split):
            return in_case(e.a if value else e.b, split, value, same)
        a, b = (in_case(x, split, value, same) for x in (e.a, e.b))
        return Ite(e.condition, a, b)
    if isinstance(e, Op):
        simple = unfolded(e)
        if not isinstance(simple, Op):
            return in_case(simple, split, value, same)
        if simple.name == "where" and isinstance(split, Scalar):
            c, a, b = simple.args
            if c is split or same(c, split):
                return in_case(a if value else b, split, value, same)
        return Op(simple.name, *(in_case(a, split, value, same) for a in simple.args))
    if isinstance(e, Red) and isinstance(split, Scalar):
        inner = e.body
        return Red(
            e.kind,
            e.size,
            lambda b: in_case(inner(b), split, value, same),
            e.vec,
            e.rank,
            e.sel,
        )
    return e


def without_guards(e: Scalar, struct: Equality, hypotheses: Hypotheses) -> Scalar:
    """The scalar where no p of a `where(isnan(p), a, p)` is NaN; itself if it has none.

    On the right alone: there a guard keeps NaN away that the left side has.
    """
    if isinstance(e, Op):
        args = [without_guards(a, struct, hypotheses) for a in e.args]
        if e.name == "where":
            test, _, kept = e.args
            if (
                isinstance(test, Op)
                and test.name == "isnan"
                and struct.equal(test.args[0], kept, hypotheses)
            ):
                return args[2]
        unchanged = all(a is b for a, b in zip(args, e.args, strict=True))
        return e if unchanged else Op(e.name, *args)
    if isinstance(e, Ite):
        a, b = (without_guards(x, struct, hypotheses) for x in (e.a, e.b))
        return e if a is e.a and b is e.b else Ite(e.condition, a, b)
    if isinstance(e, Red):
        probe = e.body(Binder.of(e).variable)
        if without_guards(probe, struct, hypotheses) is probe:
            return e

        def body(b: Any) -> Scalar:
            return without_guards(e.body(b), struct, hypotheses)

        return Red(e.kind, e.size, body, e.vec, e.rank, e.sel)
    return e
