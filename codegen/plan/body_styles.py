"""Who writes the bodies of classes: plainly, in lanes, in functions for the groups of a
fusion plan, or with calls of kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ...analysis.errors import FairhandError
from ...analysis.fusion.dnnfusion import FusionPlan
from ...analysis.schedule.fork_join import Fork
from ...analysis.shapes.infer import ShapeFacts
from ..classes.module_classes import ClassTable, ModuleClass
from ..commands.inspect_plans import fusion_plan
from ..forward.writer import BodyWriter
from ..kernels.forward_with_kernels import kernel_bodies
from ..kernels.kernel_set import KernelSet
from ..kernels.launch.tuning import tuner_here
from ..lanes.divide import Costed, Divided, cost_lanes, divide
from ..lanes.fused_functions import GroupWriter, groups_of
from ..lanes.lane_lines import DIVIDES_THREADS, RUN_LANES, ForkWriter
from ..request.options import CompileOptions


@dataclass(frozen=True)
class BodyStyle:
    """What was asked for but plain bodies: choices of lanes, a fusion plan to show, or
    a set that collects kernels. At most one of them."""

    lanes: Sequence[Costed] = ()
    fused: FusionPlan | None = None
    collection: KernelSet | None = None


PLAINLY = BodyStyle()


class BodyWriters:
    """The writer of each class of a network."""

    def __init__(
        self, kinds: ClassTable, model: ir.Model, shapes: ShapeFacts, ways: BodyStyle
    ) -> None:
        self._kinds, self._shapes = kinds, shapes
        self.collection = ways.collection
        self.divided: Divided | None = divide(kinds, model, ways.lanes)
        self._forks: Mapping[ModuleClass, tuple[Fork, ...]] = (
            self.divided.forks if self.divided is not None else {}
        )
        self._groups = groups_of(kinds, model, ways.fused)
        self._other: Callable[..., BodyWriter] = (
            BodyWriter
            if ways.collection is None
            else kernel_bodies(kinds, ways.collection)
        )

    @property
    def names(self) -> set[str]:
        """Functions that bodies call: no value may be called so."""
        found = {RUN_LANES, DIVIDES_THREADS} if self._forks else set()
        if self.collection is not None:
            found |= set(self.collection.names)
        return found

    def writer(self, kind: ModuleClass, reserved: frozenset[str]) -> BodyWriter:
        given = kind, self._kinds, self._shapes, reserved
        if kind in self._forks:
            return ForkWriter(*given, self._forks[kind])
        if kind in self._groups:
            return GroupWriter(*given, self._groups[kind])
        return self._other(*given)


def ways_of(
    graph: ir.Model,
    shapes: ShapeFacts,
    options: CompileOptions,
    progress: Callable[[str], None],
) -> BodyStyle:
    """What bodies are to show. Raises FairhandError for more than one thing."""
    kernels = options.target == "triton"
    asked = {
        "--lanes": options.lanes is not None,
        "--fusion": options.fusion is not None,
        "--target triton": kernels,
    }
    names = [name for name, is_asked in asked.items() if is_asked]
    if len(names) > 1:
        raise FairhandError(f"{' and '.join(names)} don't go together")
    if options.autotune and not kernels:
        raise FairhandError("--autotune needs --target triton")
    if options.autotune and options.profile:
        raise FairhandError("--profile and --autotune don't go together")
    tuner = tuner_here() if kernels and options.profile else None
    return BodyStyle(
        cost_lanes(graph, shapes, options.lanes, options.profile, progress),
        fusion_plan(graph, shapes, options.fusion) if options.fusion else None,
        KernelSet(graph, shapes, tuner, options.autotune) if kernels else None,
    )
