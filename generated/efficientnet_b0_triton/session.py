"""Session: model.py's network with the interface of onnxruntime.InferenceSession.

The same names, NumPy in and out, and the same feeds accepted and refused; one that does
not fit is a ValueError or a TypeError that names the input. No line here depends on the
model but ENGINE and what comes with it: the rest is in model.py and report.json.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .engines import make_engine
from .graphs import Graphed
from .model import INPUTS, OUTPUTS, WEIGHTS, load
from .ort_interface import OrtInterface, from_list, invalid, on_disk, plain, report

ENGINE = "auto"  # of those in engines.py
ONNX_TYPES = {"float32": "float", "float64": "double", "object": "string"}
PATIENCE = 2  # calls of the same shapes, before a graph is captured for them


class NodeArg(NamedTuple):
    name: str
    type: str
    shape: list[int | str | None]


class Session(OrtInterface):
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

    @torch.inference_mode()
    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: object = None,
    ) -> list[Any]:
        """The outputs of these names, all of them for None or an empty list."""
        if output_names and isinstance(output_names, str):
            raise invalid(f"output_names must be a list, got {output_names!r}")
        names = list(output_names or OUTPUTS)
        input_feed = {name: plain(value) for name, value in input_feed.items()}
        self._validate_input(list(input_feed))
        if unknown := [name for name in input_feed if name not in INPUTS]:
            fixed = [name for name in unknown if name in report().get("defaults", ())]
            why = f"; of {fixed} the file's defaults are constants here"
            text = f"no inputs {unknown}, the inputs are {list(INPUTS)}"
            raise invalid(text + why if fixed else text)
        if unknown := [name for name in names if name not in OUTPUTS]:
            raise invalid(f"no outputs {unknown}, the outputs are {list(OUTPUTS)}")
        self.check_options(run_options)
        feeds = [to_input(x, input_feed.get(x), self.inputs_on) for x in INPUTS]
        results = self.under_settings(self.network, feeds)
        if len(OUTPUTS) == 1:
            results = (results,)
        outputs = dict(zip(OUTPUTS, results, strict=True))
        return to_results(names, outputs)

    def get_inputs(self) -> list[NodeArg]:
        return node_args(INPUTS)

    def get_outputs(self) -> list[NodeArg]:
        return node_args(OUTPUTS)

    def get_modelmeta(self) -> SimpleNamespace:
        """Of the ONNX file: producer_name, graph_name, version and so on."""
        return SimpleNamespace(**report()["meta"])


def node_args(table: Mapping[str, tuple[str, Any]]) -> list[NodeArg]:
    return [
        NodeArg(name, f"tensor({ONNX_TYPES.get(dtype, dtype)})", list(shape or ()))
        for name, (dtype, shape) in table.items()
    ]


def checked(name: str, value: Any, dtype: str, shape: tuple[Any, ...] | None) -> Any:
    """The array that was fed, of the type and shape that input `name` has."""
    if not isinstance(value, np.ndarray):
        value = from_list(name, value, dtype)
    if name_of(value.dtype) != dtype:
        raise invalid(f"input {name!r} must be {dtype}, got {value.dtype}")
    if shape and not fits(value.shape, shape):  # a scalar, or no rank: any shape
        raise invalid(
            f"input {name!r} must have shape {list(shape)}, got {list(value.shape)}"
        )
    return value


@lru_cache(maxsize=64)
def name_of(dtype: np.dtype[Any]) -> str:
    """NumPy puts it together anew each time."""
    return dtype.name


@lru_cache(maxsize=64)
def fits(sizes: tuple[int, ...], shape: tuple[int | str | None, ...]) -> bool:
    """Sizes that have a name, or none, are free: they need not even agree."""
    return len(sizes) == len(shape) and all(
        size == wanted or not isinstance(wanted, int)
        for size, wanted in zip(sizes, shape, strict=True)
    )


def to_results(names: list[str], outputs: Mapping[str, Tensor]) -> list[np.ndarray]:
    """Copies: writing to one changes no parameter and no other output."""
    return [np.array(outputs[name].numpy(force=True), order="C") for name in names]


def to_input(name: str, value: Any, device: torch.device) -> Tensor:
    """What was fed, in memory of its own."""
    array = checked(name, value, *INPUTS[name])
    # The copy is contiguous and in native bytes, whatever the caller's array is.
    array = array.astype(INPUTS[name][0], "C", subok=False)
    tensor = torch.from_numpy(array)
    if device.type == "cuda":  # pinned: on its way while the next input is read
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
