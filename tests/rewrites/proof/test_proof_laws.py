"""The prover on laws that no model asks for: each is proved, and its mutants refused.

pytest -m slow tests/rewrites/proof/test_proof_laws.py     all of them: some minutes
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fairhand.rewrites.language.rule import Rule
from fairhand.rewrites.proof.prove import prove


def _package() -> ModuleType:
    """laws/ as a package, under a name of its own."""
    folder = Path(__file__).with_name("laws")
    spec = importlib.util.spec_from_file_location(
        "prover_laws", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_package()
LAWS: list[Rule] = []
FALSE: list[Rule] = []
for _file in sorted(Path(__file__).with_name("laws").glob("[a-z]*.py")):
    _module = importlib.import_module(f"prover_laws.{_file.stem}")
    LAWS += _module.RULES
    FALSE += getattr(_module, "FALSE_RULES", [])
EVERY = 24  # one in so many without -m slow


def check(rule: Rule) -> None:
    verdict, _ = prove(rule)
    assert verdict.proved, verdict.why
    assert rule.mutants
    assert verdict.mutants == dict.fromkeys(rule.mutants, "refused")


@pytest.mark.parametrize("rule", LAWS[::EVERY], ids=lambda rule: rule.name)
def test_a_law_is_proved(rule: Rule) -> None:
    check(rule)


@pytest.mark.slow
@pytest.mark.parametrize("rule", LAWS, ids=lambda rule: rule.name)
def test_every_law_is_proved(rule: Rule) -> None:
    check(rule)


@pytest.mark.parametrize("rule", FALSE, ids=lambda rule: rule.name)
def test_a_false_law_is_refused(rule: Rule) -> None:
    verdict, _ = prove(rule)
    assert not verdict.proved
