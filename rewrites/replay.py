"""Check a certificate: repeat each application it lists, and nothing else.

The search for places where rules apply is left out here. Each application is looked up
by the value it replaced, its law is matched there, its preconditions are evaluated on
the graph as it is at that point, and its proof must be the one that is shipped. The
graph that comes out must be the one the certificate ends with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx_ir as ir

from ..analysis.errors import FairhandError
from ..analysis.graph.traversal import all_nodes
from ..analysis.shapes.infer import infer
from .certificate.graph_hash import digest
from .certificate.proof_store import load
from .engine.apply import Rewriter
from .engine.history import Application
from .engine.match import Matcher
from .folding.constant_folding import fold_constants
from .recognition.recognise import CLASSES, recognitions
from .rules.catalogue import BY_NAME
from .simplify import Rewriting, know_sizes, prepare, usable


def replay(model: ir.Model, certificate: dict[str, Any]) -> int:
    """Apply what `certificate` lists to the loaded `model`; returns how many.

    Raises FairhandError for the first application that doesn't check.
    """
    steps = certificate["applications"]
    _check_proofs(steps)
    level = certificate["level"]
    prepare(model, level=level)
    done = Rewriting(infer(model), level=level)
    for sweep in range(certificate["sweeps"]):
        know_sizes(model, done)
        _sweep(model, done, [step for step in steps if step["sweep"] == sweep])
        done.folded += fold_constants(model, level == 0)
        done.shapes = infer(model)
    found = digest(model)
    if found != certificate["graph"]:
        raise FairhandError(
            f"the graph after {len(steps)} applications is another one "
            f"({found[:12]} instead of {certificate['graph'][:12]})",
            hint="was the package made by this version of fairhand?",
        )
    return len(steps)


def _check_proofs(steps: list[dict[str, Any]]) -> None:
    verdicts = load()
    for name in sorted({step["rule"] for step in steps} - CLASSES.keys()):
        verdict = verdicts.get(name)
        if name not in BY_NAME or verdict is None or not verdict.proved:
            raise FairhandError(f"rule {name} has no proof here")
        proofs = {step["proof"] for step in steps if step["rule"] == name}
        if proofs != {verdict.proof_id} or verdict.law != BY_NAME[name].hash:
            raise FairhandError(
                f"rule {name} was proved as {min(proofs)}, here as {verdict.proof_id}",
                hint="check with the version of fairhand that made the package",
            )


def _sweep(model: ir.Model, done: Rewriting, steps: list[dict[str, Any]]) -> None:
    rewriter = Rewriter(model, done.shapes, usable())
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
        applied = _applied(rewriter, node, step["rule"], where)
        if not isinstance(applied, Application):
            raise FairhandError(f"the rule may not be applied: {applied}", where)
        again = applied.as_dict(step["proof"])
        for key in ("before", "after", "results", "symbols", "exactness"):
            if again[key] != step[key]:
                raise FairhandError(
                    f"{key} is {again[key]}, the certificate says {step[key]}", where
                )
        values.update(_computed(rewriter.touched))
        rewriter.touched.clear()
    rewriter.finish()


def _applied(
    rewriter: Rewriter, node: ir.Node, name: str, where: str
) -> Application | str:
    if name in CLASSES:
        reason = "nothing of this name ends here"
        for found in recognitions(node, rewriter.facts):
            if found.name == name:
                done = rewriter.apply_recognised(found)
                if isinstance(done, Application):
                    return done
                reason = done
        return reason
    matcher = Matcher(BY_NAME[name], rewriter.facts)
    match = matcher.at(node)
    if match is None:
        raise FairhandError(f"the law doesn't hold: {matcher.why}", where)
    return rewriter.apply(match)


def _computed(nodes: Iterable[ir.Node]) -> dict[str, ir.Value]:
    return {value.name or "": value for node in nodes for value in node.outputs}


def _is_there(value: ir.Value | None, name: str) -> bool:
    if value is None or value.name != name:
        return False
    node = value.producer()
    return node is not None and node.graph is not None
