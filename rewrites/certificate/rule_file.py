"""Laws of the user's own: a Python file, and beside it what the prover found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...analysis.errors import FairhandError
from ...analysis.user_code import run_file
from ..language.rule import Rule
from ..recognition.recognise import CLASSES
from ..rules.catalogue import BY_NAME, rules_among
from .proof_store import attach, stored_in

HINT = "a file of laws: docs/rewrites.md shows one"


@dataclass(frozen=True)
class RuleFile:
    """The laws of a file, with the verdicts that stand beside it."""

    path: Path
    rules: tuple[Rule, ...]

    @property
    def proofs(self) -> Path:
        """The file of the verdicts."""
        return self.path.with_suffix(".proofs.json")


def read_rules(path: Path) -> RuleFile:
    """The laws that a Python file defines, by themselves or in lists, in their order.

    Raises FairhandError where it fails, defines none, or gives one a name that is
    taken; it names the line.
    """
    found = rules_among(run_file(path, HINT).values())
    if not found:
        raise FairhandError(f"{path} defines no law", hint=HINT)
    taken = {*BY_NAME, *CLASSES}
    for rule in found:
        if rule.name in taken:
            raise FairhandError(
                f"there is another law called {rule.name}", place_of(path, rule)
            )
        if rule.measure != "weight":
            raise FairhandError(
                "a law of your own has to make graphs lighter", place_of(path, rule)
            )
        taken.add(rule.name)
    file = RuleFile(path, found)
    verdicts = stored_in(file.proofs)
    for rule in file.rules:
        attach(rule, verdicts.get(rule.name))
    return file


def place_of(path: Path, rule: Rule) -> str:
    """The line of its file that made a law."""
    return f"{path}, line {rule.line}, law {rule.name}"
