"""Which constants of the module tree go to the weights file, and under which keys."""

from __future__ import annotations

import functools

import numpy as np

from ..analysis.ops.table import Weight
from ..analysis.parameters import has_name
from .kinds import Kinds
from .members import Switch
from .plan import WeightPlan
from .run import Run
from .steps import Step


def weights_of(kinds: Kinds) -> list[WeightPlan]:
    found: list[WeightPlan] = []

    def visit(run: Run, prefix: str) -> None:
        chain = kinds.of[run].chain
        for i, member in enumerate(kinds.members[run]):
            key = prefix + (str(i) if chain else member.key)
            what = member.what
            if isinstance(what, Run):
                visit(what, f"{key}.")
            elif isinstance(what, Step):
                assert what.form is not None
                for name, weight in what.form.weights.items():
                    found.append(
                        WeightPlan(f"{key}.{name}", weight.glance, weight=weight)
                    )
                for name, array in getattr(what.form, "buffers", {}).items():
                    found.append(
                        WeightPlan(
                            f"{key}.{name}", functools.partial(np.asarray, array)
                        )
                    )
            elif not isinstance(what, Switch):
                constant = not has_name(what)
                weight = Weight(what)
                found.append(WeightPlan(key, weight.glance, constant, weight))

    visit(kinds.root.run, "")
    return found


def is_filled(array: np.ndarray) -> bool:
    """A broadcast of one element: it takes no memory here and none in the file."""
    return array.size > 1 and not any(array.strides)


def parameter_count(kinds: Kinds) -> int:
    total = 0

    def visit(run: Run) -> None:
        nonlocal total
        for member in kinds.members[run]:
            if isinstance(member.what, Run):
                visit(member.what)
            elif isinstance(member.what, Step):
                assert member.what.form is not None
                for weight in member.what.form.weights.values():
                    total += weight.glance().size
            elif not isinstance(member.what, Switch):
                total += Weight(member.what).glance().size

    visit(kinds.root.run)
    return total
