"""Where there is graphs.py."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..engines import make_engine
from ..graphs import Graphed
from ..model import INPUTS, WEIGHTS, load
from ..ort_interface import on_disk
from . import session
from .session import ENGINE, checked

PATIENCE = 2  # calls of the same shapes, before a graph is captured for them


class Session(session.Session):
    """Stands in for onnxruntime.InferenceSession; `threads` are those of run().

    With `graph`, a GPU replays what was captured for inputs of the same shapes; where
    that is left open, from the third call of these shapes on, if it can be captured.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes | None = None,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[dict[str, Any]] | None = None,
        *,
        weights: str | Path = WEIGHTS,
        device: str | None = None,
        engine: str = ENGINE,
        threads: int | None = None,
        graph: bool | None = None,
        **without_effect: Any,
    ):
        self.accept(path_or_bytes, sess_options, without_effect)
        self.place(providers, provider_options, device)
        if graph and self.device.type != "cuda":
            raise ValueError(
                f"graph=True needs a CUDA device, not {str(self.device)!r}"
            )
        self.threads = threads or self.wanted_threads
        self.engine = engine
        self.graph = graph
        self.model = load(on_disk(weights), str(self.device))
        self.prepare()

    def prepare(self) -> None:
        """What run() calls, from the model as it is and where it is."""
        self.inputs_on = self.device
        self.runs_on = make_engine(self.engine, self.model, self.device)
        self.network = self.runs_on
        graphs = self.graph is not False and self.engine != "compile"  # has its own
        if graphs and self.device.type == "cuda":
            self.inputs_on = torch.device("cpu")
            patience = 0 if self.graph else PATIENCE
            self.network = Graphed(self.runs_on, self.device, patience)


def to_input(name: str, value: Any, device: torch.device) -> Tensor:
    """What was fed, in memory of its own."""
    array = checked(name, value, *INPUTS[name])
    # The copy is contiguous and in native bytes, whatever the caller's array is.
    array = array.astype(INPUTS[name][0], "C", subok=False)
    tensor = torch.from_numpy(array)
    if device.type == "cuda":  # pinned: on its way while the next input is read
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
