"""`fairhand review`: what a change does to the models of a git repository."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from io import StringIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import onnx
import onnx.parser
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from rich.console import Console

from ...analysis.errors import FairhandError
from ...analysis.literals import one_line
from ..compare.comparison import compare
from ..pipeline import compile
from .bench import bench
from .compile import summary_rows
from .diff import code, markdown

_ROUNDS = 10
_AT = ("cat-file", "--filters")
_SAID = ("model.py", "weights", "parity")


def review(base: str, speed: bool) -> tuple[list[str], bool]:
    """Lines of Markdown about the ONNX files below this folder that are not as in the
    commit `base`, or whose weights beside them are not, and whether all of them
    compile. Raises FairhandError where there is no such commit."""
    lines, good = [], True
    for name in _changed(base):
        lines += [f"### {code(name)}", ""]
        try:
            with TemporaryDirectory() as folder:
                lines += _about(Path(name), base, Path(folder), speed)
        except FairhandError as error:
            good = False
            # Indented: no line of it ends the block.
            lines += [f"    {one_line(line)}" for line in str(error).splitlines()]
            lines.append("")
    return lines or ["No model has changed."], good


def _changed(base: str) -> list[str]:
    kinds = ["diff", "--name-only", "--relative", "--no-renames", "--diff-filter=AM"]
    changed = {*_names(*kinds, "-z", base)}
    models = _names("ls-files", "-z", "*.onnx", "*.onnxtxt")
    others = changed.difference(models)
    return [name for name in models if name in changed or _is_beside(name, others)]


def _is_beside(model: str, changed: set[str]) -> bool:
    """Whether one of these files holds weights of a model: it lies in its folder."""
    folder = PurePosixPath(model).parent
    if not any(PurePosixPath(name).is_relative_to(folder) for name in changed):
        return False
    return not changed.isdisjoint((folder / x).as_posix() for x in _beside(Path(model)))


def _beside(model: Path) -> set[str]:
    """The files that a model says its weights are in; none where it is no model."""
    try:
        tensors = onnx.load(model, load_external_data=False).graph.initializer
    except (DecodeError, onnx.parser.ParseError, OSError, ValueError):
        return set()
    entries = (entry for tensor in tensors for entry in tensor.external_data)
    return {entry.value for entry in entries if entry.key == "location"}


def _about(model: Path, base: str, folder: Path, speed: bool) -> Iterator[str]:
    package = compile(model, folder / "net")
    for label, text in summary_rows(package):
        if label in _SAID:
            yield f"- {label}: {text}"
    before = _before(model, base, folder / "before")
    if before is None:
        yield from ("- a new model", "")
    else:
        sizes = [f"{path.stat().st_size:,}" for path in (before, model)]
        yield from (f"- bytes of the file: {' to '.join(sizes)}", "")
        yield from (*markdown(compare(before, model)), "")
    if speed:
        printed = StringIO()
        bench(package.path, model, _ROUNDS, None, Console(file=printed, width=100))
        yield from ("```", *printed.getvalue().splitlines(), "```", "")


def _before(model: Path, base: str, folder: Path) -> Path | None:
    """The model as it was in a commit, its weights beside it; None if it wasn't. What
    git keeps elsewhere (LFS) is fetched as for a checkout."""
    try:
        content = _git(*_AT, f"{base}:./{model.as_posix()}")
    except FairhandError:
        return None
    folder.mkdir()
    path = folder / model.name
    path.write_bytes(content)
    for name in _beside(path):
        if ".." not in PurePosixPath(name).parts and not Path(name).is_absolute():
            at = f"{base}:./{(model.parent / name).as_posix()}"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(_git(*_AT, at))
    return path


def _names(*arguments: str) -> list[str]:
    return [*filter(None, _git(*arguments).decode().split("\0"))]


def _git(*arguments: str) -> bytes:
    run = subprocess.run(["git", *arguments], capture_output=True)
    if run.returncode != 0:
        said = run.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise FairhandError(f"git {arguments[0]}: {one_line(said, 300)}")
    return run.stdout
