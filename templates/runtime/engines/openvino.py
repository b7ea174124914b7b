"""OpenVINO, where its wheel is installed: fairhand[openvino] asks for it."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any

import torch

from .by_size import BySize
from .results import check, listed, mapped


class OpenVINO(BySize):
    """The network, compiled by OpenVINO: in seconds, and without a compiler."""

    def made_for(self, feeds: tuple[Any, ...]) -> Callable[..., Any]:
        return by_openvino(self.model, feeds)


def by_openvino(model: Any, feeds: tuple[Any, ...]) -> Callable[..., Any]:
    """`model` for feeds of these sizes; RuntimeError where that fails."""
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",  # else bfloat16, where the processor has it
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "NUM_STREAMS": 1,
    }
    try:
        openvino = importlib.import_module("openvino")
        with torch.inference_mode(False), torch.no_grad():
            program = torch.export.export(model, mapped(torch.clone, feeds))
        graph = openvino.convert_model(program)
        compiled = openvino.Core().compile_model(graph, "CPU", settings)
    except Exception as error:  # of the tracer, or OpenVINO's own
        raise RuntimeError(f"OpenVINO: {error}") from error
    request, lock = compiled.create_infer_request(), threading.Lock()
    count, wanted = len(compiled.outputs), model(*feeds)

    def run(*feeds: Any) -> Any:
        arrays = [tensor.numpy() for tensor in listed(feeds)]
        with lock:  # a request is one call's at a time
            found = request.infer(arrays, share_inputs=True)
            tensors = iter([torch.from_numpy(found[i]) for i in range(count)])
        return mapped(lambda _: next(tensors), wanted)

    check(run(*feeds), wanted)
    return run
