"""docs/rules.md: the catalogue, from the rules themselves and their stored verdicts."""

from __future__ import annotations

from collections import Counter

from fairhand.rewrites.certificate.proof_store import load, proven
from fairhand.rewrites.language.exactness import Exactness
from fairhand.rewrites.language.rule import Rule
from fairhand.rewrites.recognition.recognise import CLASSES, STATEMENTS
from fairhand.rewrites.rules.catalogue import PHASES, RULES

HEADER = """# Rewrite rules

<!-- Written by docs/generate.py from the catalogue and proofs.json; don't edit. -->

Every rule here is proved by machine for all ranks, shapes and values that its
precondition admits (`fairhand prove` repeats the proofs; [proofs.md](proofs.md) says
how they work). Each has mutants, wrong variants of its law, which the prover refuses.
`fairhand rules NAME` prints a law in full.

*Class* is what the proof shows of floating-point results: {classes}.

*Applied* says when: always; only by the search for fewer operations (DNNFusion's, see
[proofs.md](proofs.md#the-search)); or only when asked for, since the result is true but
worse to read.
"""

MEANING = {
    Exactness.BITWISE: "the same bits for all inputs",
    Exactness.EVALUATED: "by evaluation of constants",
    Exactness.ZERO_SIGN: "equal up to the sign of zero",
    Exactness.FINITE: "the same bits for finite inputs",
    Exactness.FINITE_ZERO_SIGN: "both of these",
    Exactness.ORDER: "the same operations, but for the order of sums and vector lanes",
    Exactness.RING: "exact for integers mod 2^n and over the reals",
    Exactness.REAL: "exact over the reals where both sides are defined",
    Exactness.ROUNDED: "exact up to the rounding of a constant",
}


RECOGNISED = (
    "Not laws but meanings: a part of the graph that has the same normal form is this, "
    "however it is spelled. Each application is proved where it stands."
)


def rules_page() -> str:
    """The page of all laws, with what is recognised and what is refused."""
    found = proven(RULES)
    classes = ", ".join(f"**{c.value}** {MEANING[c]}" for c in Exactness)
    lines = [HEADER.format(classes=classes)]
    counts = Counter(found[r.name].value for r in RULES if r.name in found)
    shown = ", ".join(
        f"{counts[c.value]} {c.value}" for c in Exactness if counts[c.value]
    )
    mutants = sum(len(rule.mutants) for rule in RULES)
    lines.append(f"{len(RULES)} rules with {mutants} mutants; by class: {shown}.\n")
    for phase in PHASES:
        lines += [f"## {phase.name.capitalize()}", "", phase.why, ""]
        lines += ["| Rule | Law | Class | Proof | Applied | Mutants |"]
        lines += ["| --- | --- | --- | --- | --- | ---: |"]
        lines += [_row(rule) for rule in phase.rules]
        lines.append("")
    lines += ["## Recognised", "", RECOGNISED, ""]
    lines += ["| Name | Meaning | Class |", "| --- | --- | --- |"]
    lines += [
        f"| {name} | {_cell(said)} | {CLASSES[name].value} |"
        for name, said in STATEMENTS.items()
    ]
    return "\n".join(lines) + "\n"


def _row(rule: Rule) -> str:
    verdict = load().get(rule.name)
    known = proven([rule]).get(rule.name)
    found = known.value if known is not None else "unproven"
    level = verdict.level if verdict is not None else ""
    cells = (rule.name, _cell(rule.statement), found, level, rule.when)
    return f"| {' | '.join(cells)} | {len(rule.mutants)} |"


def _cell(text: str) -> str:
    return f"{text}".replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
