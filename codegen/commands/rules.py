"""The commands about rewrite rules: rules, prove, check, and why one didn't apply."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from time import monotonic

import onnx_ir as ir
from rich.console import Console
from rich.table import Table

from ...analysis.errors import FairhandError
from ...analysis.shapes.infer import ShapeFacts
from ...rewrites.certificate.proof_store import Verdict, load, proven, save
from ...rewrites.engine.apply import Rewriter
from ...rewrites.engine.history import Application
from ...rewrites.engine.match import Matcher
from ...rewrites.language.rule import Rule
from ...rewrites.replay import replay
from ...rewrites.rules.catalogue import BY_NAME, FALSE_RULES, PHASES, RULES
from ...rewrites.simplify import usable
from ..load.read_model import load as load_model
from ..verify.package_report import check_source, read_report


def check(report: Path, model: Path) -> str:
    """Replay the certificate of a package; raises FairhandError where it fails."""
    folder = report.parent if report.name == "report.json" else report
    found = read_report(folder)
    loaded = load_model(model)
    check_source(folder, loaded)
    certificate = found.get("certificate")
    if not isinstance(certificate, dict):
        raise FairhandError(
            f"{folder} has no certificate", hint="compile the model again"
        )
    count = replay(loaded.model.clone(), certificate)
    rules = {step["rule"] for step in certificate["applications"]}
    return (
        f"{count} applications of {len(rules)} proven rules lead from {model.name} to "
        f"graph {certificate['graph'][:12]}: checked"
    )


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


def prove_rules(names: list[str], jobs: int, write: bool, out: Console) -> None:
    """Prove rules; raises FairhandError if one fails, or a mutant is proved."""
    try:
        from ...rewrites.proof.prove import prove_all, z3_version
    except ImportError as error:
        raise FairhandError(
            "proving needs z3", hint='pip install "fairhand[prove]"'
        ) from error
    everything = (*RULES, *FALSE_RULES)
    chosen = [
        r for r in everything if not names or r.name in names or r.family in names
    ]
    if not chosen:
        raise FairhandError(f"no rule or family is called {' or '.join(names)}")
    verdicts, wrong = [], []
    refused = {rule.name for rule in FALSE_RULES}
    began, spent = monotonic(), Counter[str]()
    for verdict, seconds in prove_all(chosen, jobs):
        spent.update(seconds)
        verdicts.append(verdict)
        loose = [m for m, said in verdict.mutants.items() if said != "refused"]
        if verdict.proved == (verdict.rule in refused) or loose:
            wrong.append(verdict.rule)
        said = f"{verdict.level} {verdict.exactness}" if verdict.proved else verdict.why
        extra = f"; proved the mutants {', '.join(loose)}" if loose else ""
        out.print(f"{verdict.rule:36} {said}{extra}", soft_wrap=True)
    if write:
        kept = {} if not names else {v.rule: v for v in load().values()}
        kept.update({v.rule: v for v in verdicts})
        save([kept[r.name] for r in everything if r.name in kept], z3_version())
    split = ", ".join(f"{what} {seconds:.0f}" for what, seconds in spent.items())
    out.print(
        f"{sum(spent.values()):.0f} CPU seconds ({split}) in {jobs} processes,"
        f" {monotonic() - began:.0f} s in all"
    )
    if wrong:
        raise FairhandError(f"not proved, or too easily: {', '.join(wrong)}")
    false = sum(verdict.rule in refused for verdict in verdicts)
    out.print(
        f"{len(verdicts) - false} rules proved, all mutants and {false} false rules"
        " refused"
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
