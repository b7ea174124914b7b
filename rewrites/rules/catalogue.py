"""All rules, in the phases in which they are applied.

A phase runs to a fixpoint before the next begins; the order says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType

from ..language.rule import Rule
from . import (
    activations,
    affine,
    algebra,
    associative,
    canonical,
    casts,
    clips,
    concat,
    convolution,
    gather,
    gemm,
    horizontal_fusion,
    identity,
    linear,
    logic,
    masks,
    matmul,
    merging,
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


def rules_among(values: Iterable[object]) -> tuple[Rule, ...]:
    """Those that stand there by themselves, or in lists, each once, in their order."""
    found: dict[Rule, None] = {}
    for value in values:
        members = value if isinstance(value, list | tuple) else [value]
        found.update(dict.fromkeys(x for x in members if isinstance(x, Rule)))
    return tuple(found)


def _phase(name: str, why: str, *families: ModuleType | Sequence[Rule]) -> Phase:
    """Of a file all laws that stand in it, of a list those in it."""
    files = (f.__dict__.values() if isinstance(f, ModuleType) else f for f in families)
    return Phase(name, why, tuple(x for file in files for x in rules_among(file)))


# Where operators are recognised by meaning, too.
RECOMPOSE, SHARE = "recompose", "share"

PHASES = (
    _phase(
        "simplify",
        "What changes nothing goes first: later patterns need not look through it.",
        identity,
        logic,
        clips,
        casts,
        movement,
        reshape,
        slices,
        concat,
        gather,
        pad,
        where,
        quantization,
        masks,
    ),
    _phase(
        RECOMPOSE,
        "Whole layers are recognised while their parts still stand as exported.",
        activations,
    ),
    _phase(
        "fuse",
        "Weights take in their neighbours; a layer of its own is none by now.",
        convolution,
        matmul,
        gemm,
        linear,
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
        horizontal_fusion.BIASED,
    ),
    _phase(
        "algebra",
        "Associativity, distributivity and commutativity, where operations are saved;"
        " masks, once attention has all that is its own.",
        canonical,
        algebra,
        merging,
        affine,
        associative.RULES,
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
