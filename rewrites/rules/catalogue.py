"""All rules, in the phases in which they are applied.

A phase runs to a fixpoint before the next begins; the order says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from ..language.rule import Rule
from . import (
    activations,
    algebra,
    attention,
    canonical,
    casts,
    causal,
    clips,
    concat,
    convolution,
    gather,
    horizontal_fusion,
    identity,
    indexing,
    lattice,
    logic,
    masks,
    matmul,
    movement,
    normalization,
    packing,
    pad,
    pooling,
    quantization,
    rectifiers,
    reductions,
    reshape,
    sharing,
    side_by_side,
    sink_movements,
    slices,
    softmax,
    where,
)


@dataclass(frozen=True)
class Phase:
    """Rules that are applied together, and the reason for their place."""

    name: str
    why: str
    families: tuple[ModuleType, ...]

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(rule for family in self.families for rule in family.RULES)


def _phase(name: str, why: str, *families: ModuleType) -> Phase:
    return Phase(name, why, families)


PHASES = (
    _phase(
        "simplify",
        "What changes nothing goes first: later patterns need not look through it.",
        identity,
        logic,
        lattice,
        clips,
        rectifiers,
        casts,
        movement,
        reshape,
        packing,
        slices,
        concat,
        gather,
        pad,
        where,
        indexing,
        quantization,
        masks,
    ),
    _phase(
        "recompose",
        "Whole layers are recognised while their parts still stand as exported.",
        activations,
        softmax,
        normalization,
        attention,
    ),
    _phase(
        "fuse",
        "Weights take in their neighbours; a layer of its own is none by now.",
        convolution,
        matmul,
        pooling,
        reductions,
    ),
    _phase(
        "sink",
        "Movements go down the graph, where they meet and cancel.",
        sink_movements,
    ),
    _phase(
        "merge",
        "Layers become one with their biases, which no layer takes in after it.",
        side_by_side,
    ),
    _phase(
        "algebra",
        "Associativity, distributivity and commutativity, where operations are saved;"
        " masks, once attention has all that is its own.",
        canonical,
        algebra,
        horizontal_fusion,
        sharing,
        causal,
    ),
)

FAMILIES = tuple(family for phase in PHASES for family in phase.families)
RULES: tuple[Rule, ...] = tuple(rule for phase in PHASES for rule in phase.rules)
BY_NAME = {rule.name: rule for rule in RULES}

# Published rules that are wrong: the prover has to refuse them.
FALSE_RULES: tuple[Rule, ...] = tuple(
    rule for family in FAMILIES for rule in getattr(family, "FALSE_RULES", ())
)

# Candidates that are left out: (name, law, why).
NOT_SHIPPED: tuple[tuple[str, str, str], ...] = tuple(
    row for family in FAMILIES for row in getattr(family, "NOT_SHIPPED", ())
)
