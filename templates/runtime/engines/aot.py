"""Libraries by AOTInductor, and the folder where they and measurements are kept."""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import tempfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .by_size import BySize
from .results import check, mapped, sizes_of

# Weights are laid out once, and products are the fastest of several spellings.
INDUCTOR = {
    "freezing": True,
    "max_autotune": True,
    "max_autotune_gemm_backends": "CPP,ATEN",
}


class AOT(BySize):
    """The network, as a library in C++ without Python or a tracer.

    Making one takes 20 to 90 s and a C++ compiler; taking up one that was made before,
    for the same source, weights, sizes, threads, processor and PyTorch, takes neither.
    """

    def made_for(self, feeds: tuple[Any, ...]) -> Callable[..., Any]:
        return library(self.model, feeds)


def library(model: nn.Module, feeds: tuple[Any, ...]) -> Callable[..., Any]:
    """`model` for feeds of these sizes, compiled; RuntimeError where that fails."""
    with tempfile.TemporaryDirectory() as passing:
        file = kept(model, feeds, f"-{content(model)}.pt2")
        file = file or Path(passing) / "kept.pt2"
        if not file.exists():
            try:
                made = compiled_library(model, feeds, Path(passing))
                os.makedirs(file.parent, mode=0o700, exist_ok=True)
                partial = file.with_suffix(f".{os.getpid()}")
                partial.write_bytes(made.read_bytes())
                partial.replace(file)
            except Exception as error:  # of the tracer, the compiler or the disk
                raise RuntimeError(f"no library: {error}") from error
        run = torch._inductor.aoti_load_package(str(file))
    check(run(*feeds), model(*feeds))
    return run


def compiled_library(model: nn.Module, feeds: tuple[Any, ...], folder: Path) -> Path:
    """A new file in `folder`."""
    with torch.inference_mode(False), torch.no_grad():
        # Those of inference mode may not be traced.
        program = torch.export.export(model, mapped(torch.clone, feeds))
        path = torch._inductor.aoti_compile_and_package(
            program, package_path=str(folder / "network.pt2"), inductor_configs=INDUCTOR
        )
    return Path(path)


def kept(model: nn.Module, feeds: Any, ending: str) -> Path | None:
    """The file for such a purpose, in the folder of FAIRHAND_CACHE or in the user's.

    None where it is set to '', nobody's home is known, or the network has no source.
    """
    try:
        chosen = os.environ.get("FAIRHAND_CACHE")
        if chosen is None:
            users = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            chosen = str(Path(users) / "fairhand")
        name = purpose(model, feeds) + ending
    except (OSError, TypeError, KeyError, RuntimeError):
        return None
    return Path(chosen) / "engines" / name if chosen else None


def is_kept(model: nn.Module, feeds: Any) -> bool:
    """Whether there is a library for these sizes, if perhaps of other weights."""
    file = kept(model, feeds, "")
    return file is not None and any(file.parent.glob(f"{file.name}-*.pt2"))


def purpose(model: nn.Module, feeds: Any) -> str:
    """A hash of what decides how fast an engine is: all but the values of weights."""
    names = {type(layer).__module__ for layer in model.modules()}
    own = sorted(name for name in names if not name.startswith("torch."))
    text = [inspect.getsource(sys.modules[name]) for name in own]
    where = (torch.__version__, processor(), torch.get_num_threads())
    types = [t.dtype for t in chain(model.parameters(), model.buffers())]
    told = (text, where, types, sizes_of(feeds))
    return hashlib.sha256(repr(told).encode()).hexdigest()[:32]


def content(model: nn.Module) -> str:
    """A hash of parameters and buffers."""
    found = hashlib.sha256()
    for name, t in chain(model.named_parameters(), model.named_buffers()):
        found.update(repr((name, t.dtype, tuple(t.shape))).encode())
        flat = t.detach().contiguous().reshape(-1).view(torch.uint8)
        found.update(flat.numpy().data)
    return found.hexdigest()[:32]


def processor() -> str:
    """What code is compiled for."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line for line in lines if line.startswith("model name")]
    return f"{torch.backends.cpu.get_cpu_capability()} {names[:1]}"
