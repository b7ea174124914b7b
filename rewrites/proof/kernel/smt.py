"""Integer questions, answered by z3 under a deterministic resource limit.

Sound when z3's `unsat` is right: `proves` says True only for goals whose negation z3
refutes together with the hypotheses. Everything added to a question here is a theorem
about integers (see integer_terms), so it can help and never mislead. `unknown`
counts as not proved. Each proof starts a new session (a z3 context of its own), so a
verdict doesn't depend on what was asked before it, nor on the clock.

The arithmetic on positions below stays in Python while all its arguments are Python
ints and bools, which makes denotations cheap to run on concrete sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeAlias

import z3

from .integer_terms import SEEN, Scan, product_lemmas, scanned
from .integer_terms import mentions as mentions
from .integer_terms import substitute as substitute
from .integer_terms import subterms as subterms

Integer: TypeAlias = Any  # int | z3.ArithRef; z3 has no type stubs
Truth: TypeAlias = Any  # bool | z3.BoolRef
IndexMap: TypeAlias = Callable[[Integer], Integer]

INT = z3.IntSort()
RLIMIT = 1_000_000  # three times what the laws in use need
HINT = RLIMIT // 20  # for what is often false, and of little use if it is true
QUESTION = 2_000  # that asking is worth, beside what z3 spends on the answer
WORK = 10_000_000  # in all, for one goal: some times what the laws in use need

_names = itertools.count()

POSITION = z3.Int("position!")  # stands for any axis position; never in a hypothesis


class TooMuch(Exception):
    """A goal takes more work than may be spent on one."""


class Remembered:
    """A function of a position that is computed once per position."""

    __slots__ = ("_function", "_values")

    def __init__(self, function: IndexMap) -> None:
        self._function = function
        self._values: dict[Any, tuple[Any, Any]] = {}

    def __call__(self, k: Any) -> Any:
        key = ("z3", k.get_id()) if z3.is_expr(k) else k
        found = self._values.get(key)
        if found is None:
            # k is kept, since z3 gives the number of a dead expression to another.
            found = self._values[key] = k, self._function(k)
        return found[1]


def remembered(function: IndexMap) -> IndexMap:
    """The map, with its values kept."""
    return function if isinstance(function, Remembered) else Remembered(function)


def fresh(prefix: str = "v") -> Any:
    """An integer nothing is known of."""
    return z3.Int(f"{prefix}!{next(_names)}")


def fresh_function(prefix: str = "f") -> Any:
    """A function from integers to integers nothing is known of."""
    return z3.Function(f"{prefix}!{next(_names)}", INT, INT)


def bound(prefix: str) -> Any:
    """An integer nothing is known of, for use within one attempt at a proof."""
    return z3.Int(f"{prefix}#{next(Session.names)}")


def bound_function(prefix: str) -> Any:
    """A function nothing is known of, for use within one attempt at a proof."""
    return z3.Function(f"{prefix}#{next(Session.names)}", INT, INT)


def bound_real(prefix: str) -> Any:
    """A real variable for a quantifier."""
    return z3.Real(f"{prefix}#{next(Session.names)}")


def bound_truth(prefix: str) -> Any:
    """A variable of truth for a quantifier."""
    return z3.Bool(f"{prefix}#{next(Session.names)}")


def integer(x: Any) -> Integer:
    """x as a Python int where its value is known, as a z3 integer otherwise."""
    if isinstance(x, int):
        return int(x)
    if z3.is_expr(x):
        return x.as_long() if z3.is_int_value(x) else x
    return int(x)


def term(x: Any) -> Any:
    """x as a z3 integer."""
    return x if z3.is_expr(x) else z3.IntVal(int(x))


def formula(x: Truth) -> Any:
    """x as a z3 truth value."""
    return x if z3.is_expr(x) else z3.BoolVal(bool(x))


def known(condition: Truth) -> bool | None:
    """The value of a condition when it is evident, else None."""
    if not z3.is_expr(condition):
        return bool(condition)
    simple = z3.simplify(condition)
    return True if z3.is_true(simple) else False if z3.is_false(simple) else None


def choose(condition: Truth, a: Integer, b: Integer) -> Integer:
    """a where the condition holds, else b."""
    value = known(condition)
    if value is not None:
        return integer(a) if value else integer(b)
    if a is b:
        return integer(a)
    return z3.If(condition, term(a), term(b))


def both(*conditions: Truth) -> Truth:
    """All of the conditions."""
    open_ones = [c for c in conditions if z3.is_expr(c)]
    if not all(c for c in conditions if not z3.is_expr(c)):
        return False
    return z3.And(*open_ones) if open_ones else True


def either(*conditions: Truth) -> Truth:
    """At least one of the conditions."""
    open_ones = [c for c in conditions if z3.is_expr(c)]
    if any(c for c in conditions if not z3.is_expr(c)):
        return True
    return z3.Or(*open_ones) if open_ones else False


def negate(condition: Truth) -> Truth:
    """The condition doesn't hold."""
    return z3.Not(condition) if z3.is_expr(condition) else not condition


def implies(condition: Truth, conclusion: Truth) -> Truth:
    """Where the condition holds, the conclusion does."""
    return either(negate(condition), conclusion)


def within(x: Integer, n: Integer) -> Truth:
    """0 <= x < n."""
    return both(x >= 0, x < n)


def same(a: Integer, b: Integer) -> Truth:
    """a = b."""
    return a == b


def quotient(a: Integer, b: Integer) -> Integer:
    """a div b rounded down, for b > 0 (anything else is unspecified)."""
    a, b = integer(a), integer(b)
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b else 0
    return term(a) / term(b)


def remainder(a: Integer, b: Integer) -> Integer:
    """a - b * quotient(a, b), for b > 0 (anything else is unspecified)."""
    a, b = integer(a), integer(b)
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else 0
    return term(a) % term(b)


def larger(a: Integer, b: Integer) -> Integer:
    """The larger of two."""
    return choose(a >= b, a, b)


def smaller(a: Integer, b: Integer) -> Integer:
    """The smaller of two."""
    return choose(a <= b, a, b)


def every(variable: Any, body: Truth, pattern: Any = None) -> Any:
    """For all values of the variable; z3 instantiates it where the pattern occurs."""
    return z3.ForAll(
        [variable], formula(body), patterns=[] if pattern is None else [pattern]
    )


class Session:
    """The z3 context that questions are put in, their answers, and what they cost."""

    context = z3.Context()
    names: ClassVar[Iterator[int]] = itertools.count()
    scans: ClassVar[dict[int, Scan]] = {}
    answers: ClassVar[dict[tuple[int, ...], bool]] = {}
    kept: ClassVar[list[Any]] = []  # the expressions that `answers` has numbers of
    queries = 0
    unknown = 0
    spent = 0  # resource units
    largest = 0  # of one question whose answer is yes


def new_session() -> None:
    """Forget what z3 was asked: from here on its answers don't depend on it."""
    Session.context = z3.Context()
    Session.scans.clear()
    SEEN.clear()
    Session.answers.clear()
    Session.kept.clear()
    Session.queries = Session.unknown = Session.spent = Session.largest = 0
    new_attempt()


def new_attempt() -> None:
    """Use the names of bound variables again.

    Nothing made with them may outlive the attempt before. Attempts begin alike, so
    many of their questions are the same, which the session remembers.
    """
    Session.names = itertools.count()


def scan(e: Any) -> Scan:
    """`scanned`, kept for each expression of the session."""
    found = Session.scans.get(e.get_id())
    if found is None:
        found = scanned(e)
        Session.scans[e.get_id()] = found
    return found


def proves(
    hypotheses: Iterable[Truth],
    goal: Truth,
    rlimit: int = RLIMIT,
    patient: bool = False,
) -> bool:
    """True only if the hypotheses imply the goal, for all values of the symbols.

    `patient`: by all means of z3, which take several times as long.
    """
    goal = z3.simplify(formula(goal))
    if z3.is_true(goal):
        return True
    facts = [h for h in hypotheses if z3.is_expr(h)]
    key = (rlimit, patient, *sorted({h.get_id() for h in facts}), goal.get_id())
    if key not in Session.answers:
        if Session.spent + QUESTION * Session.queries > WORK:
            raise TooMuch("not shown: that takes too much work")
        Session.kept += [*facts, goal]
        Session.answers[key] = refuted([*facts, z3.Not(goal)], rlimit, patient)
    return Session.answers[key]


def refuted(facts: list[Any], rlimit: int, patient: bool) -> bool:
    """Does z3 find the facts contradictory?"""
    scans = [scan(e) for e in facts]
    facts += [lemma for found in scans for lemma in found.lemmas]
    terms = {e.get_id(): e for found in scans for e in found.products}
    facts += product_lemmas(list(terms.values()))
    solver = (z3.Solver if patient else z3.SimpleSolver)(ctx=Session.context)
    solver.set("rlimit", rlimit)
    solver.set("smt.mbqi", False)  # it looks for models, and we never want one
    solver.add(*[f.translate(Session.context) for f in facts])
    answer = solver.check()
    record(answer, solver.statistics())
    return bool(answer == z3.unsat)


def record(answer: Any, statistics: Any) -> None:
    """Count a query, and the resources that it took."""
    total = dict(iter(statistics)).get("rlimit count", Session.spent)
    Session.queries += 1
    if answer == z3.unknown:
        Session.unknown += 1
    if answer == z3.unsat:
        Session.largest = max(Session.largest, total - Session.spent)
    Session.spent = total
