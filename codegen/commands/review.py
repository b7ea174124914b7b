"""`fairhand review`: what a change does to the models of a git repository."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from io import StringIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import onnx
from rich.console import Console

from ...analysis.errors import FairhandError
from ...analysis.literals import one_line
from ..compare.comparison import compare
from ..pipeline import compile
from .bench import bench
from .compile import summary_rows
from .diff import code, markdown

_ROUNDS = 10
_SAID = ("model.py", "weights", "parity")


def review(base: str, speed: bool) -> tuple[list[str], bool]:
    """Lines of Markdown about the ONNX files that are not as in the commit `base`, and
    whether all of them compile. Raises FairhandError where there is no such commit."""
    kinds = ["*.onnx", "*.onnxtxt"]
    names = ["diff", "--name-only", "--no-renames", "--diff-filter=AM", "-z", base]
    changed = _git(*names, "--", *kinds).decode().split("\0")
    lines, good = [], True
    for name in filter(None, changed):
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
    """The model as it was in a commit, its weights beside it; None if it wasn't."""
    try:
        content = _git("show", f"{base}:./{model.as_posix()}")
    except FairhandError:
        return None
    folder.mkdir()
    path = folder / model.name
    path.write_bytes(content)
    tensors = onnx.load(path, load_external_data=False).graph.initializer
    entries = (entry for tensor in tensors for entry in tensor.external_data)
    for name in {entry.value for entry in entries if entry.key == "location"}:
        if ".." not in PurePosixPath(name).parts and not Path(name).is_absolute():
            at = f"{base}:./{(model.parent / name).as_posix()}"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(_git("show", at))
    return path


def _git(*arguments: str) -> bytes:
    run = subprocess.run(["git", *arguments], capture_output=True)
    if run.returncode != 0:
        said = run.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise FairhandError(f"git {arguments[0]}: {one_line(said, 300)}")
    return run.stdout
