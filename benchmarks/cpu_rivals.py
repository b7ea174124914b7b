"""What a package is measured beside that isn't an engine of its own.

Each of RIVALS takes the emitted package, the model's file and a feed, and returns a
call; what it can't convert is an error that says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Call = Callable[[], list[Any]]


def onnx2torch(module: Any, model: Path, feed: dict[str, Any]) -> Call:
    """Of the first spelling that it converts: its operators are those of opset 16."""
    import torch
    from onnx2torch import convert

    reason = None
    for spelling in spellings(model):
        try:
            made = convert(spelling).eval()
        except Exception as error:  # of any kind, in someone else's code
            reason = reason or error
        else:
            return called(made, lambda: map(torch.from_numpy, feed.values()))
    raise reason or FileNotFoundError(model)


def spellings(model: Path) -> Iterator[Any]:
    """The model and, where it is beside it, what TorchScript's exporter made; each as
    it is and as onnx's own converter writes it in opset 16."""
    import onnx
    from onnx.version_converter import convert_version

    for path in (model, model.with_suffix(".legacy.onnx")):
        if path.exists():
            made = onnx.load(str(path))
            yield made
            try:
                yield convert_version(made, 16)
            except Exception:  # it asserts; older spellings are all that is lost
                continue


def compiled(module: Any, model: Path, feed: dict[str, Any]) -> Call:
    """The emitted network by torch.compile, its weights frozen."""
    import torch

    run = torch.compile(module.load(), options={"freezing": True})
    return called(run, arguments(module, feed))


def aoti(module: Any, model: Path, feed: dict[str, Any]) -> Call:
    """The emitted network as a library by AOTInductor, its weights frozen."""
    import torch
    from torch._inductor import aoti_compile_and_package, aoti_load_package, config

    given = arguments(module, feed)
    with (
        tempfile.TemporaryDirectory() as folder,
        config.patch(freezing=True),
        torch.no_grad(),
    ):
        exported = torch.export.export(module.load(), given())
        path = aoti_compile_and_package(exported, package_path=f"{folder}/net.pt2")
        run = aoti_load_package(path)
    return called(run, given)


def openvino(module: Any, model: Path, feed: dict[str, Any]) -> Call:
    """The model's file by Intel's engine, in float32, all threads on one call."""
    import numpy as np
    import torch
    from openvino import Core

    wanted = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": "f32",  # it may choose bfloat16
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled_model = Core().compile_model(str(model), "CPU", wanted)
    request, count = compiled_model.create_infer_request(), len(compiled_model.outputs)

    def call() -> list[Any]:
        found = request.infer(feed, share_inputs=True)
        return [np.array(found[i]) for i in range(count)]

    return call


def arguments(module: Any, feed: dict[str, Any]) -> Callable[[], tuple[Any, ...]]:
    """What the emitted network takes, made anew as its Session does."""
    import torch

    session, cpu = module.session, torch.device("cpu")

    def made() -> tuple[Any, ...]:
        feeds = {
            name: session.to_tensor(name, feed[name], *like, cpu)
            for name, like in session.INPUTS.items()
        }
        nested = hasattr(session, "arguments")
        return tuple(session.arguments(feeds) if nested else feeds.values())

    return made


def called(run: Callable[..., Any], given: Callable[[], Iterable[Any]]) -> Call:
    """From NumPy to NumPy, as a Session."""
    import torch

    def call() -> list[Any]:
        with torch.inference_mode():
            return [leaf.numpy() for leaf in flat(run(*given()))]

    return call


def flat(found: Any) -> list[Any]:
    if isinstance(found, list | tuple):
        return [leaf for each in found for leaf in flat(each)]
    return [found]


RIVALS = {
    "compile": compiled,
    "aoti": aoti,
    "onnx2torch": onnx2torch,
    "openvino": openvino,
}
