"""What is written, before it is written: the rewritten graph and the module's plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from ... import __version__
from ...analysis.errors import FairhandError
from ...analysis.literals import one_line
from ...rewrites.simplify import Rewriting, Stage, simplify
from ..ir.package_plan import PackagePlan, SourcePlan, WeightPlan
from ..kernels.kernel_set import KernelSet
from ..lanes.divide import Divided
from ..load.read_model import Loaded
from ..request.options import CompileOptions
from .body_styles import ways_of
from .make_plan import make_plan

Progress = Callable[[str], None]


@dataclass(frozen=True)
class CompiledModel:
    """The rewritten graph, what was done to it, and what there is to write."""

    graph: ir.Model
    done: Rewriting
    plan: PackagePlan
    weights: list[WeightPlan]
    divided: Divided | None = None
    collection: KernelSet | None = None  # of kernels


def planned(
    loaded: Loaded,
    source: SourcePlan,
    title: str,
    options: CompileOptions,
    stage: Stage = lambda name, model: None,
    progress: Progress = lambda stage: None,
) -> CompiledModel:
    """Everything but the files."""
    if options.target not in ("torch", "triton"):
        what = f"there is no target {options.target!r}"
        raise FairhandError(what, hint="torch or triton")
    graph = loaded.model.clone()  # the loaded one stays as the file has it
    done = simplify(graph, options.exactness, options.rules, stage, options.level)
    progress("plan")
    ways = ways_of(graph, done.shapes, options, progress)
    applied = done.counts()
    plan, weights, divided = make_plan(
        graph, done.shapes, source, title, loaded.model, applied, options.level, ways
    )
    if divided is not None:
        progress(f"lanes: {divided.reason}")
    return CompiledModel(graph, done, plan, weights, divided, ways.collection)


def source_of(loaded: Loaded) -> SourcePlan:
    file = loaded.path.name if loaded.path is not None else loaded.name
    return SourcePlan(
        file=one_line(file),
        opset=loaded.opset,
        nodes=loaded.node_count,
        sha256=loaded.sha256,
        version=__version__,
    )
