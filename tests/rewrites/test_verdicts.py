"""The stored verdicts are those of the rules and the prover as they stand."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest

from fairhand import compile as compile_model
from fairhand.codegen.commands.compile import summary_rows
from fairhand.rewrites.certificate import proof_store
from fairhand.rewrites.language.rule import Rule
from fairhand.rewrites.rules.catalogue import RULES

AGAIN = "run `fairhand prove --write` and commit rewrites/proofs.json"


def test_no_verdict_is_stale() -> None:
    stored = proof_store.load()
    assert stored, f"the prover changed: {AGAIN}"
    current = {rule.name: rule.hash for rule in RULES}
    assert {name: v.law for name, v in stored.items()} == current, AGAIN


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_is_proved_and_its_mutants_are_refused(rule: Rule) -> None:
    verdict = proof_store.load()[rule.name]
    assert verdict.proved, verdict.why
    assert rule.mutants
    assert verdict.mutants == dict.fromkeys(rule.mutants, "refused")


def test_a_changed_law_loses_its_proof() -> None:
    rule = RULES[0]
    assert rule.name in proof_store.proven([rule])
    changed = dataclasses.replace(rule, law=rule.mutated(rule.mutants[0]))
    assert proof_store.proven([changed]) == {}


def test_a_changed_prover_loses_all_proofs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = proof_store.FILE.read_text("utf-8").replace(
        proof_store.kernel_hash(), "0" * 16
    )
    (tmp_path / "proofs.json").write_text(changed, "utf-8")
    monkeypatch.setattr(proof_store, "FILE", tmp_path / "proofs.json")
    proof_store.load.cache_clear()
    try:
        assert proof_store.proven(RULES) == {}
    finally:
        proof_store.load.cache_clear()


def test_a_compile_says_which_laws_were_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof_store, "FILE", tmp_path / "none.json")
    proof_store.load.cache_clear()
    try:
        package = compile_model("examples/digits_cnn.onnx", tmp_path / "digits")
        left_out = package.report["certificate"]["unproved"]
        assert left_out == sorted(rule.name for rule in RULES)
        rows = dict(summary_rows(package))
        assert f"not applied: {len(RULES)} laws" in rows["warning"]
    finally:
        proof_store.load.cache_clear()


def test_a_law_is_applied_to_the_kinds_that_it_is_proved_for() -> None:
    verdicts = proof_store.load()
    assert verdicts["expand_expand"].kinds == ("float", "int", "bool")
    assert verdicts["conv_batchnorm"].kinds == ("float",)
    assert "int" in verdicts["add_pairs"].kinds


def test_files_as_they_were_proved_are_not_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored = proof_store._shipped()
    assert stored["sources"] == proof_store._hash(proof_store._texts()), AGAIN
    monkeypatch.setattr(proof_store, "_code", lambda source: "")
    assert proof_store.kernel_hash.__wrapped__() == stored["kernel"]


def test_comments_leave_the_prover_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, read = proof_store.kernel_hash(), Path.read_text
    commented = lambda self, **more: f"# said\n{read(self, **more)}"  # noqa: E731
    monkeypatch.setattr(Path, "read_text", commented)
    assert proof_store.kernel_hash.__wrapped__() == kernel


def test_every_version_of_python_reads_the_same_code() -> None:
    """Newer ones have fields more in their syntax trees, and leave out empty ones."""
    source = "class A:\n    def f(self, *, x=None):\n        return f'{x!r:>3}'[1:]"
    digest = hashlib.sha256(proof_store._code(source).encode()).hexdigest()
    assert digest[:16] == "4d6738d36917cc1f"


def test_the_trust_page_lists_what_is_hashed() -> None:
    page = (proof_store.REWRITES.parent / "docs" / "trust.md").read_text("utf-8")
    for name in proof_store._TRUSTED:
        assert name.rpartition("/")[2] in page
