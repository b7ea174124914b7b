"""Layers that share a matrix of the file: one parameter under several names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..ir.package_plan import ClassPlan, SourceNodes, WeightPlan
from .stored_parameters import is_filled
from .tie_lines import tie_lines


@dataclass(frozen=True)
class Tied:
    """What is stored, and the keys that are one parameter, the stored one first.

    That is the first by the alphabet, as in what safetensors' save_model writes.
    """

    weights: list[WeightPlan]
    keys: tuple[list[str], ...]
    lines: tuple[str, ...]  # self.lm_head.weight = self.transformer.wte.weight
    spared: int  # elements that are not stored again

    def network(self, plan: ClassPlan) -> ClassPlan:
        """The network's class, whose last lines make layers share their weights."""
        sources = (*plan.member_sources, *(SourceNodes() for _ in self.lines))
        members = (*plan.members, *self.lines)
        return replace(plan, members=members, member_sources=sources)


def tie(weights: Sequence[WeightPlan]) -> Tied:
    """Layers share weights that come of one initializer and are equal to the bit."""
    owners: dict[str, list[WeightPlan]] = {}
    keys: dict[str, list[str]] = {}
    lines: list[str] = []
    spared = 0
    for weight in weights:
        if not weight.origin:
            continue
        same = owners.setdefault(weight.origin, [])
        owner = next((w for w in same if _equal(w.array(), weight.array())), None)
        if owner is None:
            same.append(weight)
            continue
        if not _made_alike(owner, weight):
            _note_read(owner, weight)
        keys.setdefault(owner.key, [owner.key]).append(weight.key)
        lines.append(f"{weight.path} = {owner.path}")
        spared += weight.array().size
    groups = tuple(sorted(group) for group in keys.values())
    copies = {key for group in groups for key in group[1:]}
    stored = [weight for weight in weights if weight.key not in copies]
    return Tied(stored, groups, tuple(tie_lines(lines)), spared)


def _made_alike(a: WeightPlan, b: WeightPlan) -> bool:
    """Whether two tensors are equal whatever the initializer holds."""
    if a.weight is None or b.weight is None:
        return False
    same = a.weight.value is b.weight.value
    how = a.weight.convert is b.weight.convert or len(a.weight.how) > 0
    return same and how and a.weight.how == b.weight.how


def _note_read(*weights: WeightPlan) -> None:
    for weight in weights:
        if weight.weight is not None:
            weight.weight.array()


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and not is_filled(a)
        and (a is b or bool(np.array_equal(a, b)))
    )
