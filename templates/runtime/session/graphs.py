"""Where there is graphs.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..engines import make_engine
from ..graphs import Graphed
from ..model import INPUTS, WEIGHTS, load
from . import session
from .session import ENGINE, checked


class Session(session.Session):
    """Stands in for onnxruntime.InferenceSession; `threads` are those of run().

    With `graph`, a GPU replays what was captured for inputs of the same shapes.
    """

    def __init__(
        self,
        weights: str | Path = WEIGHTS,
        device: str = "cpu",
        engine: str = ENGINE,
        threads: int | None = None,
        graph: bool = False,
    ):
        if graph and torch.device(device).type != "cuda":
            raise ValueError(f"graph=True needs a CUDA device, not {device!r}")
        self.model = load(weights, device)
        self.device = torch.device("cpu" if graph else device)  # that inputs go to
        self.on_gpu = torch.device(device).type == "cuda"
        self.threads = threads
        network = make_engine(engine, self.model, torch.device(device))
        self.network = Graphed(network, torch.device(device)) if graph else network

    def get_providers(self) -> list[str]:
        gpu = ["CUDAExecutionProvider"] if self.on_gpu else []
        return [*gpu, "CPUExecutionProvider"]


def to_input(name: str, value: Any, device: torch.device) -> Tensor:
    """What was fed, in memory of its own."""
    array = checked(name, value, *INPUTS[name])
    # The copy is contiguous and in native bytes, whatever the caller's array is.
    array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    tensor = torch.from_numpy(array)
    if device.type == "cuda":  # pinned: on its way while the next input is read
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
