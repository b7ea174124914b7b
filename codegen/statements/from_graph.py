"""From a graph to the assignments and blocks that compute its outputs."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.spelling.expr import Expr, Ref
from ..ir.assignment import Assignment
from ..ir.control_flow import Action, Block
from .combine import pass_gradients
from .control_flow import BlockSpelling, Writer, rename
from .control_flow_spellings import write_if, write_loop, write_scan, write_sequence_map
from .idioms import spell_idioms
from .spell_nodes import unsupported

BODIES: Mapping[str, Writer] = {
    "If": write_if,
    "Loop": write_loop,
    "Scan": write_scan,
    "SequenceMap": write_sequence_map,
}


def make_steps(
    model: ir.Model, shapes: ShapeFacts, faithful: bool = False, kernels: bool = False
) -> list[Assignment]:
    """The steps in the file's own order, idioms as such. Raises Unsupported.

    `faithful` as in `spelled_steps`; `kernels` are going to be made of the steps.
    """
    steps = spelled_steps(model, shapes, faithful)
    steps = spell_idioms(steps, shapes, set(model.graph.outputs), kernels)
    pass_gradients(steps)
    return steps


def spelled_steps(
    model: ir.Model, shapes: ShapeFacts, faithful: bool = False
) -> list[Assignment]:
    """Each node as the operator table spells it; one Unsupported for all it lacks.

    If `faithful`, no layer holds a named weight otherwise than the file does.
    """
    spelling = BlockSpelling(model, shapes, faithful, BODIES)
    steps = spelling.run(model.graph, model.graph.outputs)
    if spelling.missing or spelling.refused:
        error = unsupported(model, spelling.missing, spelling.own_faults())
        refused = (node for node, _ in spelling.refused)
        error.nodes = frozenset([*spelling.missing, *refused])
        raise error
    return _without_aliases(steps, set(model.graph.outputs), {})


def _without_aliases(
    steps: list[Assignment], results: set[ir.Value], same: dict[ir.Value, Expr]
) -> list[Assignment]:
    """Drop `y = x`, which operators spell that do nothing, such as a Pad by zero."""
    kept: list[Assignment] = []
    for step in steps:
        if isinstance(step, Block):
            for part in step.parts():
                part[:] = _without_aliases(part, results, same)  # type: ignore[arg-type]
            kept.append(step)
            continue
        rename([step], same)
        out = step.outputs[0] if step.outputs else None
        alias = isinstance(step.expr, Ref) and not isinstance(step, Action)
        if alias and out is not None and out not in results:
            same[out] = step.expr
        else:
            kept.append(step)
    return kept
