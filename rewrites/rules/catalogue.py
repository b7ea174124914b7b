"""All rules, in the phases in which they are applied.

A phase runs to a fixpoint before the next begins; the order says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..language.rule import Rule
from . import (
    activations,
    algebra,
    associative,
    canonical,
    casts,
    clips,
    concat,
    convolution,
    gather,
    horizontal_fusion,
    identity,
    logic,
    masks,
    matmul,
    movement,
    pad,
    pooling,
    quantization,
    reductions,
    reshape,
    sink_movements,
    slices,
    where,
)


@dataclass(frozen=True)
class Phase:
    """Rules that are applied together, and the reason for their place."""

    name: str
    why: str
    rules: tuple[Rule, ...]


def _phase(name: str, why: str, *families: Sequence[Rule]) -> Phase:
    return Phase(name, why, tuple(rule for family in families for rule in family))


# Where operators are recognised by meaning, too.
RECOMPOSE, SHARE = "recompose", "share"

PHASES = (
    _phase(
        "simplify",
        "What changes nothing goes first: later patterns need not look through it.",
        identity.RULES,
        logic.RULES,
        clips.RULES,
        casts.RULES,
        movement.RULES,
        reshape.RULES,
        slices.RULES,
        concat.RULES,
        gather.RULES,
        pad.RULES,
        where.RULES,
        quantization.RULES,
        masks.RULES,
    ),
    _phase(
        RECOMPOSE,
        "Whole layers are recognised while their parts still stand as exported.",
        activations.RULES,
    ),
    _phase(
        "fuse",
        "Weights take in their neighbours; a layer of its own is none by now.",
        convolution.RULES,
        matmul.RULES,
        pooling.RULES,
        reductions.RULES,
    ),
    _phase(
        "sink",
        "Movements go down the graph, where they meet and cancel.",
        sink_movements.RULES,
    ),
    _phase(
        "merge",
        "Layers become one with their biases, which no layer takes in after it.",
        horizontal_fusion.BIASED,
    ),
    _phase(
        "algebra",
        "Associativity, distributivity and commutativity, where operations are saved;"
        " masks, once attention has all that is its own.",
        canonical.RULES,
        algebra.RULES,
        horizontal_fusion.RULES,
        associative.SHARED,
    ),
    _phase(
        SHARE,
        "Heads of keys serve several of queries; a mask is seen to be causal, and"
        " copies move to where they are recognised, while each still has its own.",
    ),
)

RULES: tuple[Rule, ...] = tuple(rule for phase in PHASES for rule in phase.rules)
BY_NAME = {rule.name: rule for rule in RULES}
