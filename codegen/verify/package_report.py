"""report.json: what the package came from, and what was measured."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import onnx_ir as ir

from ... import __version__
from ...analysis.cost.peak_memory import peak_memory
from ...rewrites.adapters.cleanup import inlined
from ...rewrites.replay import make_certificate
from ..emit.source_map import names_in_file, source_map
from ..ir.engine_plan import EnginePlan
from ..lanes.plan_json import parts_report
from ..load.random_outputs import drawn_outputs
from ..load.read_model import Loaded
from ..plan.make_plan import CompiledModel
from ..request.options import CompileOptions
from .input_sizes import dynamic_sizes, first_sizes, free_inputs
from .inputs import input_ranges
from .parity import Verification
from .tolerances import TOLERANCES
from .vocabulary import known_words, map_parts


def make_report(
    loaded: Loaded,
    compiled: CompiledModel,
    options: CompileOptions,
    engine: EnginePlan,
    text: str,
    weights_bytes: int,
    digest: str,
) -> dict[str, Any]:
    """Everything but the verification; no time stamp, no path, no machine.

    `text` is the finished model.py, `digest` the rewritten graph's (graph_hash.py).
    """
    graph, rewriting = compiled.graph, compiled.rewriting
    divided, collection = compiled.divided, compiled.collection
    sizes = first_sizes(loaded.model)
    peak = peak_memory(graph, rewriting.shapes, sizes)
    return {
        **_facts(loaded, compiled, weights_bytes),
        "engine": engine.as_dict(),
        "activations": None if peak is None else {"sizes": sizes, **asdict(peak)},
        "source_map": {
            **source_map(text, compiled.plan, graph, rewriting.history),
            **names_in_file(loaded.model, graph, compiled.weights),
        },
        **parts_report(divided, options.lanes, options.profile, options.fusion),
        **(collection.report() if collection is not None else {}),
        "certificate": make_certificate(rewriting, options.exactness, digest),
    }


def note_verification(report: dict[str, Any], found: Verification) -> None:
    """Enter what verification found, and the tolerances that the package's test keeps:
    those that it needed, and none for what can't be compared."""
    report["verification"] = found.as_dict()
    if found.sizes:
        report["sizes"] = [dict(sizes) for sizes in found.sizes]
    for name, plain in list(report["tolerance"].items()):
        if name in found.unsteady:
            del report["tolerance"][name]  # not compared, as what is drawn at random
        else:
            report["tolerance"][name] = found.tolerance(name, plain)


def _facts(
    loaded: Loaded, compiled: CompiledModel, weights_bytes: int
) -> dict[str, Any]:
    """What the file says, and what of it is in the package."""
    graph, plan = loaded.model.graph, compiled.plan
    ranges = input_ranges(loaded.model)
    drawn = drawn_outputs(loaded.model)
    return {
        "generator": f"fairhand {__version__}",
        "source": {
            "file": loaded.file,  # by which it is looked for
            "sha256": loaded.sha256,
            "external_data": list(loaded.external_data),
            "opset": loaded.opset,
            "nodes": loaded.node_count,
            **({"shapes": dict(loaded.shapes)} if loaded.shapes else {}),
        },
        "meta": {
            "producer_name": loaded.model.producer_name or "",
            "graph_name": graph.name or "",
            "domain": loaded.model.domain or "",
            "description": loaded.model.doc_string or "",
            "graph_description": graph.doc_string or "",
            "version": _version(loaded.model.model_version),
            "custom_metadata_map": dict(sorted(loaded.model.metadata_props.items())),
        },
        "inputs": {
            tensor.name: dict(zip(("low", "high"), ranges[tensor.name], strict=True))
            for tensor in plan.interface.inputs
            if tensor.name in ranges
        }
        | _words(loaded),
        **({"defaults": frozen} if (frozen := _defaults(loaded.model)) else {}),
        "sizes": dynamic_sizes(loaded.model),
        "tolerance": {
            tensor.name: TOLERANCES.get(_numbers_of(tensor.dtype), 0.0)
            for tensor in plan.interface.outputs
            if tensor.name not in drawn
        },
        "parameters": plan.state.parameters,
        "weights_bytes": weights_bytes,
        "rewrites": compiled.rewriting.counts(),
        "classes": [c.name for c in plan.classes],
        "verification": None,
        "emission": None,
    }


def _defaults(model: ir.Model) -> list[str]:
    """Inputs that a caller of ONNX Runtime may leave out, and the package has not.

    Before IR version 4 every initializer was listed as an input, and meant nothing.
    """
    inputs = model.graph.inputs if (model.ir_version or 0) >= 4 else ()
    return [str(value.name) for value in inputs if value.is_initializer()]


def _words(loaded: Loaded) -> dict[str, Any]:
    """What random inputs of strings and maps are made of."""
    found: dict[str, Any] = {}
    for value in free_inputs(inlined(loaded.model)):
        parts = map_parts(value)
        if parts is not None:
            found[str(value.name)] = parts
        elif value.dtype == ir.DataType.STRING:
            found[str(value.name)] = {"words": known_words(value)}
    return found


def _numbers_of(dtype: str) -> str:
    """The NumPy type of the numbers in a list, in an optional or in maps."""
    inner = dtype.split("(")[-1].rstrip(")")
    return "float32" if inner == "float" else inner


def _version(declared: int | None) -> int:
    """As ONNX Runtime reports it, which takes the largest int64 for "not given"."""
    return 2**63 - 1 if declared is None else declared
