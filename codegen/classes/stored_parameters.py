"""Which constants of the module tree go to the weights file, and under which keys."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from ...analysis.graph.element_types import is_float
from ...analysis.graph.parameters import is_parameter, is_saved
from ...analysis.ops.module_form import Weight
from ..ir.assignment import Assignment
from ..ir.module_call import ModuleCall, layer_key
from ..ir.package_plan import Item, MemberPath, WeightPlan
from ..modules.members import ConstructorValue
from .module_classes import ClassTable


def weights_of(classes: ClassTable) -> list[WeightPlan]:
    """The tensors of weights.safetensors, by their keys in the state dict."""
    found: list[WeightPlan] = []

    def visit(call: ModuleCall, prefix: str, holder: MemberPath) -> None:
        chain = classes.of[call].chain
        for i, member in enumerate(classes.members[call]):
            key = prefix + (str(i) if chain else member.key)
            path = (*holder, *((Item(i),) if chain else member.path))
            what = member.what
            if isinstance(what, ModuleCall):
                visit(what, f"{key}.", path)
            elif isinstance(what, Assignment):
                assert what.form is not None
                for name, weight in what.form.weights.items():
                    plan = WeightPlan(f"{key}.{name}", weight.glance, weight=weight)
                    if what.form.source is None:
                        origin = _origin(weight.value)
                        at = (*path, name)
                        made = layer_key(what.form)
                        plan = replace(plan, path=at, origin=origin, layer=made)
                    found.append(plan)
                for name, array in getattr(what.form, "buffers", {}).items():
                    found.append(
                        WeightPlan(
                            f"{key}.{name}", functools.partial(np.asarray, array)
                        )
                    )
            elif not isinstance(what, ConstructorValue):
                constant = not is_saved(what)
                weight = Weight(what)
                plan = WeightPlan(key, weight.glance, constant, weight)
                if is_parameter(what):
                    plan = replace(plan, path=path, origin=_origin(what))
                found.append(plan)

    visit(classes.root.call, "", ())
    return found


def _origin(value: ir.Value) -> str:
    """The initializer of the file that a weight was made of, if it is one alone."""
    names = value.meta.get("folded_from", (value.name,))
    return names[0] or "" if is_float(value) and len(names) == 1 else ""


def is_filled(array: np.ndarray) -> bool:
    """A broadcast of one element: it takes no memory here and none in the file."""
    return array.size > 1 and not any(array.strides)


def parameter_count(weights: Iterable[WeightPlan]) -> int:
    """How many numbers they hold, but for those that no layer learns."""
    return sum(w.weight.glance().size for w in weights if w.weight is not None)
