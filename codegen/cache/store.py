"""The compile cache: a folder of what was written before, for the next time.

An entry is one file: a checksum, then its content (entry.py). It appears under its
name when it is whole, so that processes may share the folder, and one with anything
wrong is a miss. FAIRHAND_CACHE names another folder, or if empty turns the cache off.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

from ...analysis.lazy import lazy
from ..load.read_model import Loaded
from ..request.options import CompileRequest

torch = lazy("torch")

LARGEST_ENTRY = 256 << 20  # bytes
LARGEST = 1 << 30  # of all entries
_SUFFIX = ".entry"
_ABANDONED = 3600.0  # seconds after which a file that was never finished may go

# Whatever these do may show in what is written.
_TOOLS = (
    "black jinja2 ml_dtypes numpy onnx onnx-ir onnxruntime safetensors sympy torch"
).split()


def folder() -> Path | None:
    """Where entries are kept; None where there are to be none."""
    chosen = os.environ.get("FAIRHAND_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError:  # nobody's home
        return None
    return root / "fairhand"


def key_of(loaded: Loaded, request: CompileRequest) -> str | None:
    """The hash of all that decides what is written, but the content of weights.

    None where code decides, which no hash can tell. The machine counts, as far as
    PyTorch sees it only if the options measure on it: it takes seconds to load.
    """
    options = request.key()
    if options is None:
        return None
    model = [loaded.outline, loaded.name, loaded.file, list(loaded.external_data)]
    parts = [model, options, _tool(), _machine(request.measures)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@cache
def _tool() -> str:
    """fairhand itself, and what it writes with."""
    root = Path(__file__).parents[2]
    found = hashlib.sha256()
    for part in ("__init__.py", "analysis", "codegen", "rewrites", "templates"):
        files = [root / part] if part.endswith(".py") else (root / part).rglob("*.*")
        for file in sorted(f for f in files if f.suffix != ".pyc" and f.is_file()):
            found.update(f"{file.relative_to(root)} {file.stat().st_size} ".encode())
            found.update(file.read_bytes())
    for name in _TOOLS:
        with suppress(metadata.PackageNotFoundError):
            found.update(f"{name} {metadata.version(name)} ".encode())
    return found.hexdigest()


@cache
def _machine(measures: bool) -> list[object]:
    processor = platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        heads = ("model name", "flags", "Features", "CPU part")
        processor = " ".join(dict.fromkeys(x for x in lines if x.startswith(heads)))
    cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
    found = [platform.python_version(), platform.platform(), processor, len(cores)]
    if measures:
        found.append(torch.get_num_threads())
        found.append(torch.cuda.is_available() and torch.cuda.get_device_name())
    return found


def entries(key: str) -> Iterator[bytes]:
    """The content of each entry under a key, the newest first; the broken go."""
    where = folder()
    if where is None:
        return
    found = sorted(where.glob(f"{key}.*{_SUFFIX}"), key=_age)
    for path in found:
        try:
            data = path.read_bytes()
        except OSError:  # another process may have removed it
            continue
        if hashlib.sha256(data[32:]).digest() == data[:32]:
            with suppress(OSError):
                os.utime(path)
            yield data[32:]
        else:
            _remove(path)


def store(key: str, content: bytes) -> None:
    """Keep an entry, and the folder in bounds. What can't be written isn't kept."""
    where = folder()
    if where is None or len(content) > LARGEST_ENTRY:
        return
    name = f"{key}.{hashlib.sha256(content).hexdigest()[:16]}{_SUFFIX}"
    try:
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(prefix=".", dir=where)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest())
                file.write(content)
            os.replace(temporary, where / name)
        except BaseException:
            _remove(Path(temporary))
            raise
        _bound(where)
    except OSError:
        return


def _bound(where: Path) -> None:
    """Let the entries go that were not used for the longest time."""
    now, total, kept = time.time(), 0, list[tuple[float, int, str]]()
    for found in os.scandir(where):
        with suppress(OSError):
            state, is_entry = found.stat(), not found.name.startswith(".")
            if is_entry:
                kept.append((state.st_mtime, state.st_size, found.path))
            elif now - state.st_mtime > _ABANDONED:
                _remove(Path(found.path))
    for _, size, path in sorted(kept, reverse=True):
        total += size
        if total > LARGEST:
            _remove(Path(path))


def _age(path: Path) -> float:
    """For an order: the least is the newest."""
    try:
        return -path.stat().st_mtime
    except OSError:
        return 0.0


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
