"""Each candidate of the backlog is a rule, or there is a reason why it isn't."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from fairhand.rewrites.rules.catalogue import FALSE_RULES, NOT_SHIPPED, RULES
from fairhand.tests.rewrites.backlog import CANDIDATES

RULE_NAMES = [rule.name for rule in (*RULES, *FALSE_RULES)]
LEFT_OUT = {name for name, _, _ in NOT_SHIPPED}


def fault(answer: str) -> str:
    """What is wrong with one answer; empty if nothing is."""
    kind, _, what = answer.partition(": ")
    if kind == "no law":
        return "" if what else "nobody does it"
    if kind == "not shipped":
        return "" if what in LEFT_OUT else f"{what} isn't listed as left out"
    known = any(fnmatchcase(name, answer) for name in RULE_NAMES)
    return "" if known else f"no rule is named {answer}"


def test_no_candidate_is_missing() -> None:
    assert list(CANDIDATES) == list(range(1, 219))


def test_what_a_candidate_became_is_in_the_catalogue() -> None:
    answers = [
        (number, answer.strip())
        for number, row in CANDIDATES.items()
        for answer in row.split(";")
    ]
    faults = {number: fault(answer) for number, answer in answers if fault(answer)}
    assert faults == {}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("no_such_rule", "no rule is named no_such_rule"),
        ("transpose_of_nothing_*", "no rule is named transpose_of_nothing_*"),
        ("not shipped: no_such", "no_such isn't listed as left out"),
        ("no law", "nobody does it"),
    ],
)
def test_a_wrong_answer_is_a_fault(answer: str, text: str) -> None:
    assert fault(answer) == text
