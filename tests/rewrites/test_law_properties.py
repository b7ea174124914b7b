"""Every law on ONNX Runtime, for each element type that it admits.

An instance of the left side is drawn (shapes, ranks, numbers: support/law_instances.py)
and rewritten by the law; both run on elements that are nasty: NaN, infinities, -0.0,
subnormals, extremes of whole numbers. What the class of a law leaves open is left open
here, and no more.

pytest tests/rewrites/test_law_properties.py    a few instances of some laws
pytest -m "" tests/rewrites/test_law_properties.py      and of all
python -m tests.tools.law_instances             1,000 of each type, and counts
"""

from __future__ import annotations

import pytest
from support.drawn import drawn
from support.law_check import examine
from support.law_instances import element_types

from fairhand.rewrites.certificate.proof_store import proved_kinds
from fairhand.rewrites.language.rule import Rule
from fairhand.rewrites.rules.catalogue import RULES

# Each is proved every time, by `fairhand prove --check`.
SOME = [pytest.param(rule, id=rule.name, marks=drawn(rule.name, 12)) for rule in RULES]


@pytest.mark.parametrize("rule", SOME)
def test_a_law_holds_on_the_runtime(rule: Rule) -> None:
    tallies = {
        of: examine(rule, of, models=2, feeds=3)
        for of in element_types(rule, proved_kinds(rule))
    }
    assert [v for tally in tallies.values() for v in tally.violations] == []
    assert any(tally.compared for tally in tallies.values())
