"""Who writes the bodies of classes: plainly, in lanes, in functions for the groups of a
fusion plan, or with calls of kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ...analysis.dataflow.dataflow import dataflow
from ...analysis.fusion.dnnfusion import FusionPlan, dnnfusion
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.schedule.fork_join import Fork
from ..classes.module_classes import ClassTable, ModuleClass
from ..forward.variable_names import Subject
from ..forward.writer import BodyWriter
from ..kernels.forward_with_kernels import kernel_bodies
from ..kernels.kernel_set import KernelSet
from ..kernels.launch.tuning import tuner_here
from ..lanes.divide import Costed, Divided, Measure, cost_lanes, divide
from ..lanes.fused_functions import GroupWriter, groups_of
from ..lanes.lane_lines import DIVIDES_THREADS, RUN_LANES, ForkWriter
from ..request.options import CompileOptions


@dataclass(frozen=True)
class _BodyStyle:
    """What was asked for but plain bodies: choices of lanes, a fusion plan to show, or
    a set that collects kernels. At most one of them."""

    lanes: Sequence[Costed] = ()
    fused: FusionPlan | None = None
    collection: KernelSet | None = None


class BodyWriters:
    """The writer of each class of a network."""

    def __init__(
        self,
        classes: ClassTable,
        model: ir.Model,
        shapes: ShapeFacts,
        style: _BodyStyle,
    ) -> None:
        self._classes, self._shapes = classes, shapes
        self.collection = style.collection
        self.divided: Divided | None = divide(classes, model, style.lanes)
        self._forks: Mapping[ModuleClass, tuple[Fork, ...]] = (
            self.divided.forks if self.divided is not None else {}
        )
        self._groups = groups_of(classes, model, style.fused)
        self._other: Callable[[Subject], BodyWriter] = (
            BodyWriter
            if style.collection is None
            else kernel_bodies(classes, style.collection)
        )

    @property
    def names(self) -> set[str]:
        """Functions that bodies call: no value may be called so."""
        found = {RUN_LANES, DIVIDES_THREADS} if self._forks else set()
        if self.collection is not None:
            found |= set(self.collection.names)
        return found

    def writer(self, cls: ModuleClass, reserved: frozenset[str]) -> BodyWriter:
        """Of one class; no value may be called as one of `reserved`."""
        of = Subject(cls, self._classes, self._shapes, reserved)
        if cls in self._forks:
            return ForkWriter(of, self._forks[cls])
        if cls in self._groups:
            return GroupWriter(of, self._groups[cls])
        return self._other(of)


def body_style(
    graph: ir.Model, shapes: ShapeFacts, options: CompileOptions, measure: Measure
) -> _BodyStyle:
    """What the options want bodies to show; `measure` serves `profile`."""
    kernels = options.target == "triton"
    tuner = tuner_here() if kernels and options.profile else None
    return _BodyStyle(
        cost_lanes(graph, shapes, options.lanes, measure if options.profile else None),
        dnnfusion(dataflow(graph, shapes)) if options.fusion else None,
        KernelSet(graph, shapes, tuner, options.autotune) if kernels else None,
    )
