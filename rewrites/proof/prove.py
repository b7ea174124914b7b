"""Prove the rules of the catalogue, and refuse their mutants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from time import process_time

import z3

from ..certificate.proof_store import Verdict
from ..certificate.rule_file import read_rules
from ..language.exactness import Exactness
from ..language.rule import Law, Rule
from ..rules.catalogue import BY_NAME
from .element_kinds import (
    SILENT,
    UNREAD,
    computes_with_whole,
    divisions,
    is_silent,
    of_floats,
    prove_exact,
)
from .exactness_class import exactness
from .goal import goal
from .kernel.equality import Verdict as Answer
from .kernel.equality import prove_equal
from .kernel.smt import TooMuch
from .outright import Outright

NO_MEANING = "has no meaning"  # so begins why nothing can be asked of a law


def answer(law: Law) -> tuple[list[Answer], str]:
    """The kernel's answers for each result of a law; a reason if one is negative.

    Of floats, over the reals; of the kinds that the law names, if floats are none.
    """
    if not of_floats(law):
        return prove_exact(law, "")
    divided, computes = divisions(law, "float"), computes_with_whole(law)
    if any(divided):
        return [], UNREAD
    question = goal(law)
    answers = []
    for left, right in question.pairs:
        found = prove_equal(left, right, question.context, whole=bool(divided))
        if not found.proved:
            return [], found.why or "the sides differ"
        if found.level not in ("struct", "comm") and computes:
            return [], "whole numbers are computed with as if they were reals"
        answers.append(found)
    return answers, ""


def kinds_proved(law: Law, proved: bool) -> tuple[str, ...]:
    """What leaves that name no kind may be of; empty if there are none."""
    if not proved or not is_silent(law):
        return ()
    others = (kind for kind in SILENT[1:] if prove_exact(law, kind)[0])
    return ("float", *others)


def prove(rule: Rule) -> tuple[Verdict, Counter[str]]:
    """The verdict on one rule, mutants included, and the CPU seconds it took."""
    spent: Counter[str] = Counter()
    answers, found, why = judge(rule.law, spent)
    with _timed(spent, "proofs"):
        kinds = kinds_proved(rule.law, bool(answers))
    mutants = {}
    with _timed(spent, "mutants"):
        for mutant in rule.mutants:
            wrongly, _, why_not = judge(rule.mutated(mutant), Counter())
            meaningless = why_not if why_not.startswith(NO_MEANING) else "refused"
            mutants[mutant] = "proved" if wrongly else meaningless
    verdict = Verdict(
        rule=rule.name,
        law=rule.hash,
        proved=bool(answers),
        kinds=kinds,
        level=max((a.level or "" for a in answers), key=_LEVELS.index, default=""),
        exactness=found.value,
        why=why,
        mutants=mutants,
        steps=tuple(sorted({step for a in answers for step in a.steps})),
    )
    return verdict, spent


def judge(law: Law, spent: Counter[str]) -> tuple[list[Answer], Exactness, str]:
    """The answers for a law and its class; no answers, and why, if it is refused.

    The CPU seconds that it takes are added to `spent`.
    """
    try:
        with _timed(spent, "proofs"):
            answers, why = answer(law)
        if not answers:
            return [], Exactness.REAL, why
        with _timed(spent, "classes"):
            return answers, exactness(law, answers), ""
    except (Outright, TooMuch) as reason:
        return [], Exactness.REAL, str(reason)
    except Exception as error:  # others are still to be proved
        said = f"{type(error).__name__}: " * (not isinstance(error, ValueError))
        return [], Exactness.REAL, f"{NO_MEANING}: {said}{error}"


@contextmanager
def _timed(spent: Counter[str], what: str) -> Iterator[None]:
    before = process_time()
    yield
    spent[what] += process_time() - before  # type: ignore[assignment]


_LEVELS = ("", "struct", "comm", "order", "ring", "field", "bits")


def _prove_named(place: tuple[Path | None, str]) -> tuple[Verdict, Counter[str]]:
    file, name = place
    if file is None:
        return prove(BY_NAME[name])
    return prove({rule.name: rule for rule in read_rules(file).rules}[name])


def prove_all(
    rules: Iterable[Rule], processes: int = 2, file: Path | None = None
) -> Iterator[tuple[Verdict, Counter[str]]]:
    """Verdicts in the order of the rules, proved side by side; a user's are in `file`.

    Each in a process of its own, whatever was proved before: what z3 has seen changes
    the way it goes, and so, under a limit of steps, what it finds.
    """
    places = [(file, rule.name) for rule in rules]
    cheap = "forkserver" in get_all_start_methods()
    context = get_context("forkserver" if cheap else "spawn")
    if cheap:
        context.set_forkserver_preload([__name__])
    with context.Pool(processes, maxtasksperchild=1) as pool:
        yield from pool.imap(_prove_named, places)


def z3_version() -> str:
    """The version of the SMT solver, which verdicts name."""
    found: str = z3.get_version_string()
    return found
