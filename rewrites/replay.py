"""Make a certificate, and check one: repeat each application it lists, and no other.

The search for places where rules apply is left out here. Each application is looked up
by the value it replaced, its law is matched there, its preconditions are evaluated on
the graph as it is at that point, and its proof must be the one that is shipped. What
was done is certified again: the two certificates must be one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import onnx_ir as ir

from ..analysis.cost.graph_cost import GraphCost, graph_cost
from ..analysis.errors import FairhandError
from ..analysis.graph.dims import text as size_text
from ..analysis.graph.shape_facts import ShapeFacts
from ..analysis.graph.traversal import all_nodes
from ..analysis.shapes.infer import infer
from ..analysis.shapes.requirements import name_equal_sizes
from .adapters.cleanup import give_texts
from .certificate.graph_hash import digest
from .certificate.proof_store import kernel_hash, unproved, verdict_of
from .certificate.rule_file import RuleFile
from .common_branches import share_branches
from .engine.apply import Rewriter
from .engine.history import LAYOUT, Application
from .engine.match import Matcher
from .engine.worklist import phase_of
from .folding.constant_branches import take_truths
from .folding.constant_folding import fold_constants
from .language.exactness import LEVELS
from .language.rule import Rule
from .recognition.recognise import CLASSES, PROOF, recognitions
from .rules.catalogue import BY_NAME, RULES
from .second_opinion.compare import Difference, Sides
from .simplify import Rewriting, applied_at, know_sizes, prepare, usable

_OWN = "laws of your own are named by --rules"
_VERSION = "was the package made by this version of fairhand?"


def make_certificate(done: Rewriting, exactness: str, graph: str) -> dict[str, Any]:
    """What `fairhand check` repeats: each application with its proof and evidence.

    `graph` is the digest of the one they led to.
    """
    rules = (*RULES, *(done.own.rules if done.own else ()))
    verdicts = {rule.name: verdict_of(rule) for rule in rules}
    proofs = {name: v.proof_id for name, v in verdicts.items() if v is not None}
    classes = Counter(a.exactness.value for a in done.history)
    left_out = unproved(rules)
    return {
        **({"rules": done.own.path.name} if done.own else {}),
        **({"unproved": left_out} if left_out else {}),
        "level": done.level,
        "exactness": exactness,
        "classes": dict(sorted(classes.items())),
        "kernel": kernel_hash(),
        "sweeps": done.sweeps,
        "applications": [a.as_dict(proofs.get(a.rule, PROOF)) for a in done.history],
        "graph": graph,
        "cost": {"before": _cost(done.before), "after": _cost(done.after)},
    }


def _cost(cost: GraphCost | None) -> dict[str, Any]:
    """Counts; those that depend on dynamic sizes as formulas of their names."""
    assert cost is not None
    found: dict[str, Any] = {"nodes": cost.nodes}
    for name, count in (
        ("operations", cost.flops),
        ("intermediate_bytes", cost.intermediate_bytes),
    ):
        found[name] = count if isinstance(count, int) else size_text(count)
    return found


def replay(
    model: ir.Model, certificate: dict[str, Any], own: RuleFile | None = None
) -> tuple[int, int]:
    """Apply what `certificate` lists to the loaded `model`; `own` has the user's laws.

    Returns how many applications there are, and of how many the nodes before and after
    were found to compute the same: what is left has operators or sizes that
    second_opinion/ doesn't know. Raises FairhandError for the first application that
    doesn't check.
    """
    _check_form(certificate)
    steps, level = certificate["applications"], certificate["level"]
    rules = BY_NAME | {rule.name: rule for rule in (own.rules if own else ())}
    _check_proofs(steps, rules)
    prepare(model, level=level)
    done = Rewriting(infer(model), level=level, own=own)
    if name_equal_sizes(model, done.shapes):
        done.shapes = infer(model)
    take_truths(model, done.shapes)
    done.before = graph_cost(model, done.shapes)
    classes = usable(certificate["exactness"], own)
    compared = 0
    for sweep in range(certificate["sweeps"]):
        know_sizes(model, done)
        rewriter = Rewriter(model, done.shapes, classes, level, sweep)
        here = [step for step in steps if step["sweep"] == sweep]
        compared += _sweep(rewriter, done, here, rules)
        shared = share_branches(model, done.shapes, level)
        if not (
            here or rewriter.merged or shared or sweep + 1 == certificate["sweeps"]
        ):
            raise FairhandError(f"nothing was done in sweep {sweep}")
        done.sweeps += 1
        done.folded += fold_constants(model, level)
        done.shapes = infer(model)
    if give_texts(model):
        done.shapes = infer(model)
    done.after = graph_cost(model, done.shapes)
    _check_same(
        make_certificate(done, certificate["exactness"], digest(model)), certificate
    )
    return len(steps), compared


_LISTS = ("before", "results", "after", "evidence")
_OF_STEP = {
    **dict.fromkeys(("rule", "proof", "phase", "exactness"), str),
    "sweep": int,
    **dict.fromkeys(_LISTS, list),
    "symbols": dict,
}


def _check_form(certificate: dict[str, Any]) -> None:
    """Raises FairhandError unless everything that is read of it is there."""
    levels, words = range(3), certificate.get("exactness")
    sweeps, steps = certificate.get("sweeps"), certificate.get("applications")
    if not (
        certificate.get("level") in levels
        and type(certificate["level"]) is type(sweeps) is int
        and words in LEVELS
        and isinstance(steps, list)
        and all(isinstance(step, dict) for step in steps)
        and all(isinstance(s.get(k), of) for s in steps for k, of in _OF_STEP.items())
        and all(step["results"] for step in steps)
        and all(isinstance(x, str) for s in steps for k in _LISTS for x in s[k])
    ):
        raise FairhandError("this is no certificate", hint=_VERSION)


def _check_same(found: dict[str, Any], certificate: dict[str, Any]) -> None:
    """Raises FairhandError where another certificate would have been made."""
    found = json.loads(json.dumps(found))
    others = {*_differing(found, certificate)} - {"generation"}
    if others:
        key = "graph" if "graph" in others else min(others)
        raise FairhandError(
            f"{key} of the certificate is {_short(certificate.get(key))}, "
            f"and comes out as {_short(found.get(key))}",
            hint=_VERSION,
        )


def _differing(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """The keys that stand in one alone, or with other texts: to Python, true is 1."""
    texts = [{k: json.dumps(v, sort_keys=True) for k, v in x.items()} for x in (a, b)]
    return sorted({key for key, _ in texts[0].items() ^ texts[1].items()})


def _short(x: Any) -> str:
    text = json.dumps(x)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _check_proofs(steps: list[dict[str, Any]], rules: Mapping[str, Rule]) -> None:
    others = {s["proof"] for s in steps if s["rule"] in CLASSES} - {PROOF}
    if others:
        raise FairhandError(f"recognised with the proof {min(others)}, not {PROOF}")
    for name in sorted({step["rule"] for step in steps} - CLASSES.keys()):
        verdict = verdict_of(rules[name]) if name in rules else None
        if verdict is None or not verdict.proved:
            raise FairhandError(f"rule {name} has no proof here", hint=_OWN)
        proofs = {step["proof"] for step in steps if step["rule"] == name}
        if proofs != {verdict.proof_id}:
            raise FairhandError(
                f"rule {name} was proved as {min(proofs)}, here as {verdict.proof_id}",
                hint="check with the version of fairhand that made the package",
            )


def _sweep(
    rewriter: Rewriter,
    done: Rewriting,
    steps: list[dict[str, Any]],
    rules: Mapping[str, Rule],
) -> int:
    """Apply what a sweep applied; returns how many could be compared by values."""
    compared, model = 0, rewriter.model
    values = _computed(all_nodes(model.graph))
    for number, step in enumerate(steps):
        where = f"application {number} of {step['rule']} at {step['results'][0]}"
        name = step["results"][0]
        if not _is_there(values.get(name), name):  # an application moved the name
            values = _computed(all_nodes(model.graph))
        value = values.get(name)
        node = None if value is None else value.producer()
        if node is None:
            raise FairhandError("the certificate names a value that isn't there", where)
        if step["rule"] not in rewriter.classes:
            raise FairhandError("that isn't as exact as the certificate says", where)
        standing = _Standing(step, values, rewriter.shapes, where)
        applied = _applied(rewriter, node, step, rules, where)
        if not isinstance(applied, Application):
            raise FairhandError(f"the rule may not be applied: {applied}", where)
        again = json.loads(json.dumps(applied.as_dict(step["proof"])))
        for key in _differing(again, step):
            raise FairhandError(
                f"{key} is {again.get(key)}, the certificate says {step.get(key)}",
                where,
            )
        done.history.append(applied)
        compared += standing.compare(where)
        values.update(_computed(rewriter.touched))
        rewriter.touched.clear()
    rewriter.finish()
    done.merged += rewriter.merged
    return compared


class _Standing:
    """The results of an application as they are computed before it, and their users."""

    def __init__(
        self,
        step: dict[str, Any],
        values: Mapping[str, ir.Value],
        shapes: ShapeFacts,
        where: str,
    ) -> None:
        missing = [name for name in step["results"] if name not in values]
        if missing:
            raise FairhandError(f"there is no value {missing[0]}", where)
        self.results = [values[name] for name in step["results"]]
        self.users = [list(value.uses()) for value in self.results]
        self.outputs = [_place(value) for value in self.results]
        self.sides = Sides(self.results, step["before"], shapes.dims, shapes.content)
        self.rounded = step["exactness"] not in _SAME_NUMBERS

    def compare(self, where: str) -> bool:
        """Whether it could be seen that what stands there now computes the same.

        Raises FairhandError where it doesn't.
        """
        now = [self._now(k) for k in range(len(self.results))]
        if any(value is None for value in now):
            return False  # with its users, which had twins
        try:
            return self.sides.check([x for x in now if x is not None], self.rounded)
        except Difference as difference:
            raise FairhandError(f"another result: {difference}", where) from None

    def _now(self, k: int) -> ir.Value | None:
        graph, place = self.outputs[k]
        if graph is not None:
            return graph.outputs[place]
        for user, index in self.users[k]:
            if user.graph is not None:
                return user.inputs[index]
        return None


# Classes whose sides are the same real numbers, constants included.
_SAME_NUMBERS = frozenset({"B", "V", "F", "FV", "O"})


def _place(value: ir.Value) -> tuple[ir.Graph | None, int]:
    """Which output of its graph a value is."""
    graph = value.graph if value.is_graph_output() else None
    return (None, 0) if graph is None else (graph, list(graph.outputs).index(value))


def _applied(
    rewriter: Rewriter,
    node: ir.Node,
    step: Mapping[str, Any],
    rules: Mapping[str, Rule],
    where: str,
) -> Application | str:
    name = step["rule"]
    if name in CLASSES:
        reason = "nothing of this name ends here"
        for found in recognitions(node, rewriter.around, {name}):
            done = rewriter.apply_recognised(found, phase_of(name))
            if isinstance(done, Application):
                return done
            reason = done
        return reason
    rule = rules[name]
    if rule.when not in applied_at(rewriter.level):
        return f"it isn't applied at -O{rewriter.level}"
    matcher = Matcher(rule, rewriter.facts)
    match = matcher.at(node)
    if match is None:
        raise FairhandError(f"the law doesn't hold: {matcher.why}", where)
    together = step["phase"] == LAYOUT  # the weight alone is not asked for then
    return rewriter.apply(match, LAYOUT if together else phase_of(name))


def _computed(nodes: Iterable[ir.Node]) -> dict[str, ir.Value]:
    return {value.name or "": value for node in nodes for value in node.outputs}


def _is_there(value: ir.Value | None, name: str) -> bool:
    if value is None or value.name != name:
        return False
    node = value.producer()
    return node is not None and node.graph is not None
