"""Every law is there for something: a model it fires on, or who writes it."""

from __future__ import annotations

import json
from functools import cache

import pytest

from fairhand.rewrites.rules.catalogue import RULES
from fairhand.tests.tools.emitted_bytes import tasks
from fairhand.tests.tools.law_witnesses import FIRES, KEPT, KINDS, LEVELS, fired

TOLD: dict[str, str] = json.loads(KEPT.read_text("utf-8"))
MODELS = sorted({what for what in TOLD.values() if what.startswith(f"{FIRES} ")})


def test_every_law_has_a_witness() -> None:
    assert list(TOLD) == sorted(rule.name for rule in RULES)
    assert len(TOLD) <= 250
    assert [n for n, what in TOLD.items() if not what.startswith(KINDS)] == []


@pytest.mark.slow
@pytest.mark.parametrize("what", MODELS)
def test_a_law_fires_on_its_witness(what: str) -> None:
    name, _, level = what.removeprefix(f"{FIRES} ").partition(" at ")
    if name not in sources():
        pytest.skip("no model of the repository")
    laws = {law for law, told in TOLD.items() if told == what}
    assert laws <= fired(sources()[name], LEVELS[level])


@cache
def sources() -> dict[str, str]:
    """Where the repository's models are, by their names."""
    return {key.rpartition(" ")[0]: source for key, source, _ in tasks([], True, True)}
