"""Normalise a graph, compute what is constant, and apply the proven rules."""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock

import onnx_ir as ir

from ..analysis.cost.graph_cost import GraphCost, graph_cost
from ..analysis.graph.dims import Dim, Dims
from ..analysis.graph.shape_facts import Content, ShapeFacts
from ..analysis.graph.traversal import all_nodes
from ..analysis.shapes.infer import infer
from ..analysis.shapes.requirements import Requirements, name_equal_sizes, requirements
from .adapters.cleanup import give_texts
from .certificate.proof_store import proven
from .certificate.rule_file import RuleFile
from .common_branches import share_branches
from .engine.apply import Rewriter
from .engine.flop_search import SEARCH, Search
from .engine.history import LAYOUT, Application
from .engine.worklist import OWN, Worklist
from .folding.constant_branches import take_branches, take_truths
from .folding.constant_folding import fold_constants
from .folding.duplicate_constants import merge_constants
from .folding.settle import settle
from .language.exactness import Exactness, allowed
from .language.rule import Rule
from .layout import Layout
from .normalise import normalise
from .recognition.recognise import CLASSES as RECOGNISED
from .rules.catalogue import PHASES
from .rules.catalogue import RULES as PROVABLE

LATER = (SEARCH, LAYOUT)  # when nothing else applies

Stage = Callable[[str, ir.Model], None]


@dataclass
class Rewriting:
    """What was done to a graph, and the sizes of what came out."""

    shapes: ShapeFacts
    history: list[Application] = field(default_factory=list)
    folded: int = 0  # nodes that computed constants
    merged: int = 0  # equal constants, and equal nodes, that became one
    sweeps: int = 0  # how often the catalogue was gone through
    level: int = 1
    lightest: float = math.inf  # see layout.py
    own: RuleFile | None = None  # the user's
    before: GraphCost | None = None  # as normalised and folded
    after: GraphCost | None = None
    required: Requirements | None = None  # of the sizes, before anything was rewritten

    def counts(self) -> dict[str, int]:
        """How often each rule applied, for the docstring and the report."""
        found = {"fold-constants": self.folded, "merge-equal": self.merged}
        found.update(Counter(application.rule for application in self.history))
        return {name: n for name, n in found.items() if n}


def simplify(
    model: ir.Model,
    exactness: str = "real",
    rules: Sequence[Rule] | RuleFile | None = None,
    stage: Stage = lambda name, model: None,
    level: int = 1,
) -> Rewriting:
    """Rewrite `model`, which must have passed `load`, in place.

    `exactness` is "bitwise", "order" or "real" (exactness.py): rules that round
    otherwise than it admits are left out, as are rules without a valid proof. `rules`
    narrows the catalogue, or adds laws of the user's own. `level` 0 changes no stored
    weight; 2 also applies the rules that take parameters together or away
    (`when="asked"`).
    """
    with no_garbage_collection():
        own = rules if isinstance(rules, RuleFile) else None
        done = Rewriting(ShapeFacts(), level=level, own=own)
        return _simplified(model, usable(exactness, rules), stage, done)


_LOCK = RLock()


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Nearly all that is made here lives on; to search it for garbage takes longer
    than most of the work, and again for every quarter that it grows by.

    One thread at a time: it is said for all, and several that read Python's syntax at
    once fail in CPython 3.11 (AST constructor recursion depth mismatch).
    """
    with _LOCK:
        enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if enabled:
                gc.enable()


def _simplified(
    model: ir.Model, classes: dict[str, Exactness], stage: Stage, done: Rewriting
) -> Rewriting:
    level = done.level
    done.folded, done.merged = folded, _ = prepare(model, stage, level)
    done.shapes = infer(model)
    done.required = requirements(model, done.shapes)
    if name_equal_sizes(model, done.shapes):
        done.shapes = infer(model)
    take_truths(model, done.shapes)
    done.before = graph_cost(model, done.shapes)
    known: Known | None = None
    while True:
        know_sizes(model, done)
        unchanged = known is not None and done.folded == folded
        if unchanged and known == facts_known(model, done.shapes):
            break
        swept = _sweep(model, classes, done)
        if not share_branches(model, done.shapes, level) and not swept:
            break
        folded, known = done.folded, facts_known(model, done.shapes)
        done.folded += fold_constants(model, level)
        done.shapes = infer(model, done.shapes)
    if give_texts(model):
        done.shapes = infer(model, done.shapes)
    done.after = graph_cost(model, done.shapes)
    stage("4-rewrite", model)
    return done


def usable(
    exactness: str = "real", rules: Sequence[Rule] | RuleFile | None = None
) -> dict[str, Exactness]:
    """The class of each rule that may be applied; see `simplify`."""
    wanted = allowed(exactness)
    if rules is None or isinstance(rules, RuleFile):
        own = () if rules is None else rules.rules
        known = proven((*PROVABLE, *own)) | RECOGNISED
    else:
        known = proven(rules)
    return {name: found for name, found in known.items() if found in wanted}


def applied_at(level: int) -> tuple[str, ...]:
    """When rules are applied at a level: what their `when` may be."""
    return ("always", SEARCH, LAYOUT, *(["asked"] if level == 2 else []))


def prepare(
    model: ir.Model, stage: Stage = lambda name, model: None, level: int = 1
) -> tuple[int, int]:
    """Normalise and fold; returns how many nodes were folded, how many merged."""
    normalise(model)
    stage("2-normalise", model)
    folded = fold_constants(model, level)
    if take_branches(model):
        folded += fold_constants(model, level)
    merged = merge_constants(model) if level else 0
    stage("3-fold", model)
    return folded, merged


def know_sizes(model: ir.Model, done: Rewriting) -> None:
    """Sizes that turn out to be numbers make more of the graph constant, and masks that
    hide nothing take none of it."""
    folded, done.shapes = settle(model, done.shapes, done.level)
    done.folded += folded


# By value: its element type, sizes, and elements if they are few whole numbers.
Known = dict[ir.Value, tuple[ir.DataType | None, Dims | None, tuple[Dim, ...] | None]]


def facts_known(model: ir.Model, shapes: ShapeFacts) -> Known:
    """What rules may ask of computed values: if it is the same, so are the answers."""
    return {
        value: (value.dtype, shapes.dims(value), _elements(shapes.content(value)))
        for node in all_nodes(model.graph)
        for value in node.outputs
    }


def _elements(content: Content | None) -> tuple[Dim, ...] | None:
    return None if content is None else tuple(content.flat)


def _sweep(model: ir.Model, classes: dict[str, Exactness], done: Rewriting) -> bool:
    """Rewrite to a fixpoint with what is known; returns whether anything applied."""
    rewriter = Rewriter(model, done.shapes, classes, done.level, done.sweeps)
    wanted = applied_at(done.level)
    own = () if done.own is None else done.own.rules
    phases = [(OWN, own), *((p.name, p.rules) for p in PHASES)]
    known = [(name, [r for r in rules if r.name in classes]) for name, rules in phases]
    engine = Worklist(
        rewriter,
        [
            (name, [r for r in rules if r.when in wanted and r.when not in LATER])
            for name, rules in known
        ],
    )
    every = [r for _, some in known for r in some]
    rules = [r for r in every if r.when == SEARCH]
    sinks = [r for r in every if r.when in ("always", LAYOUT)]
    layout = Layout(rewriter, sinks, done.lightest)
    applied: list[Application] = []
    while True:
        engine.run()
        applied += engine.history
        engine.history = []
        last: Search | Layout = Search(rewriter, rules)
        if not last.run():
            last = layout
            if not last.run():
                break
        applied += last.history
        engine.push(last.touched)
    done.lightest = layout.lightest
    rewriter.finish()
    done.history += applied
    done.sweeps += 1
    done.merged += rewriter.merged
    return bool(applied) or rewriter.merged > 0
