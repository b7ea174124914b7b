"""`fairhand rules`, and why a rule doesn't apply (`inspect --explain`)."""

from __future__ import annotations

import onnx_ir as ir
from rich.console import Console
from rich.table import Table

from ...analysis.errors import FairhandError
from ...analysis.graph.shape_facts import ShapeFacts
from ...rewrites.certificate.proof_store import Verdict, load, proven
from ...rewrites.engine.apply import Rewriter
from ...rewrites.engine.history import Application
from ...rewrites.engine.match import Matcher
from ...rewrites.language.rule import Rule
from ...rewrites.recognition.recognise import CLASSES, STATEMENTS
from ...rewrites.rules.catalogue import BY_NAME, PHASES, RULES
from ...rewrites.simplify import usable


def show_rules(name: str | None, out: Console) -> None:
    """Print all rules, or one with its law and its proof."""
    verdicts = load()
    if name is not None:
        out.print(_described(_rule(name), verdicts.get(name)), soft_wrap=True)
        return
    classes = proven(RULES)
    for phase in PHASES:
        out.print(f"{phase.name}: {phase.why}", soft_wrap=True)
        table = Table(box=None, pad_edge=False)
        for column in ("rule", "class", "applied", "law"):
            table.add_column(column, overflow="fold")
        for rule in phase.rules:
            found = classes.get(rule.name)
            shown = found.value if found is not None else "unproven"
            table.add_row(rule.name, shown, rule.when, rule.statement)
        out.print(table)
    table = Table(box=None, pad_edge=False)
    for column in ("recognised", "class", "meaning"):
        table.add_column(column, overflow="fold")
    for known, said in STATEMENTS.items():
        table.add_row(known, CLASSES[known].value, said)
    out.print(table)
    out.print(f"{len(classes)} of {len(RULES)} rules have a valid proof")


def _described(rule: Rule, verdict: Verdict | None) -> str:
    lines = [f"{rule.name} ({rule.family}): {rule.statement}", "", rule.law.text(), ""]
    if verdict is None:
        return "\n".join([*lines, "no proof is stored for it"])
    steps = ", ".join(verdict.steps) or "none beyond congruence"
    return "\n".join(
        [
            *lines,
            f"proof {verdict.proof_id}: level {verdict.level}, class"
            f" {verdict.exactness}",
            f"steps: {steps}",
            *(f"mutant {name}: {said}" for name, said in verdict.mutants.items()),
        ]
    )


def why(model: ir.Model, shapes: ShapeFacts, name: str, node_name: str) -> str:
    """Whether a rule would apply at a node of the rewritten graph, and why not."""
    rule = _rule(name)
    node = next((n for n in model.graph.all_nodes() if n.name == node_name), None)
    if node is None:
        raise FairhandError(
            f"there is no node {node_name!r} in the rewritten graph",
            hint="compile with --debug and open 4-rewrite.onnx to see its nodes",
        )
    classes = usable()
    if rule.name not in classes:
        return f"{name} doesn't apply: it has no valid proof"
    rewriter = Rewriter(model, shapes, classes)
    matcher = Matcher(rule, rewriter.facts)
    match = matcher.at(node)
    if match is None:
        return f"{name} doesn't apply at {node_name}: {matcher.why}"
    done = rewriter.apply(match)
    if isinstance(done, Application):
        return f"{name} applies at {node_name}, but is only used {rule.when}"
    return f"{name} doesn't apply at {node_name}: {done}"


def _rule(name: str) -> Rule:
    if name not in BY_NAME:
        raise FairhandError(
            f"there is no rule {name!r}", hint="`fairhand rules` lists them"
        )
    return BY_NAME[name]
