"""What several test files share. Heavy modules are imported where they are used."""

from __future__ import annotations

import ast
import gc
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

# No test is timed.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# A test that finds what an earlier one wrote tests nothing.
os.environ["FAIRHAND_CACHE"] = ""
# Triton reads it when it is imported: kernels then run on CPU tensors.
os.environ.setdefault("TRITON_INTERPRET", "1")
# A process per core: with as many threads as cores, each waits for the others.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Thirteen thousand tests are some million objects that stay: looking through them for
# what may go, once and again, takes a tenth of the time.
gc.disable()

if TYPE_CHECKING:
    import onnx
    from support.emitter_models import Emitted


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="write generated/ and tests/goldens/ anew",
    )


@pytest.hookimpl(tryfirst=True)  # before -m takes some of them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from support.drawn import draw_families

    draw_families(items, Path(__file__).parent)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture
def emitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[onnx.ModelProto], Emitted]:
    """Compiles and verifies in this process; checks what holds for every module."""
    import black
    from support.emitter_models import emit, run_here

    from fairhand.codegen.verify import parity

    monkeypatch.setattr(parity, "run_package", run_here)

    def make(model: onnx.ModelProto) -> Emitted:
        found = emit(model, tmp_path / "net")
        assert max(map(len, found.text.splitlines())) <= 88
        assert found.text == black.format_str(found.text, mode=black.Mode())
        counted = [n for n in stored(found.text) if re.search(r"_\d+$|\d\d", n)]
        assert not counted, "variables that are numbered, not named"
        return found

    return make


def stored(text: str) -> set[str]:
    """The local variables of a module's functions."""
    functions = [f for f in ast.walk(ast.parse(text)) if isinstance(f, ast.FunctionDef)]
    names = [n for f in functions for n in ast.walk(f) if isinstance(n, ast.Name)]
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}
