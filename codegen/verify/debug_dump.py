"""What `--debug` writes: a model after each stage, to be looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx_ir as ir

from ...rewrites.simplify import Stage


def stage_writer(debug: str | Path | None, progress: Callable[[str], None]) -> Stage:
    """Announces each stage by `progress`, and writes its graph in folder `debug`, with
    large weights beside it in `<stage>.onnx.data`."""

    def stage(name: str, model: ir.Model) -> None:
        if debug is not None:
            Path(debug).mkdir(parents=True, exist_ok=True)
            file = f"{name}.onnx"
            ir.save(model, Path(debug) / file, external_data=f"{file}.data")
        progress(name.partition("-")[2])

    return stage
