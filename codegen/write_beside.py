"""The files beside model.py."""

from __future__ import annotations

from pathlib import Path

from .emit.engines_file import engines_text
from .emit.runtime_files import copied_whole
from .emit.session_file import has_graphs, session_text
from .ir.engine_plan import EnginePlan
from .kernels.launch.kernels_page import write_kernels
from .plan.make_plan import CompiledModel

INIT = """\
\"\"\"{title}.

Session() stands in for onnxruntime.InferenceSession: the same names, NumPy in and out.
load() returns the network itself with its weights, an ordinary torch.nn.Module: Model.
\"\"\"

from .model import {network} as Model
from .model import load
from .session import Session

__all__ = ["Model", "Session", "load"]
"""


def init_text(title: str, network: str) -> str:
    """The text of __init__.py: `title` is escaped, `network` the name of a class."""
    return INIT.format(title=title, network=network)


def write_beside(folder: Path, made: CompiledModel, runs_on: EnginePlan) -> None:
    """Write all Python of a package but model.py."""
    plan = made.plan
    texts = {
        "session.py": session_text(plan, runs_on),
        "__init__.py": init_text(plan.title, plan.network),
        "ort_interface.py": copied_whole("ort_interface.py"),
        "test_parity.py": copied_whole("session/test_parity.py"),
    }
    if not runs_on.alone:
        texts["engines.py"] = engines_text(runs_on)
    else:
        (folder / "engines.py").unlink(missing_ok=True)
    if plan.lanes:
        texts["lanes.py"] = copied_whole("lanes.py")
    if made.collection is not None and plan.kernels:
        write_kernels(folder, made.collection.page, plan.title, plan.source.file)
        if has_graphs(plan):
            texts["graphs.py"] = copied_whole("graphs.py")
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
