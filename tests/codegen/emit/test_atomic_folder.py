"""A package is the old one or the new one, whenever the compiler is ended."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from fairhand.codegen.emit import atomic_folder
from fairhand.codegen.emit.atomic_folder import replacing

FILES = ["__init__.py", "mine.txt", "model.py", "report.json"]

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


def put(folder: Path, text: str) -> None:
    for name in ("__init__.py", "model.py", "report.json"):
        (folder / name).write_text(text)


def write(folder: Path, text: str) -> None:
    with replacing(folder) as draft:
        put(draft, text)


@posix
def test_two_at_once_that_are_killed(tmp_path: Path) -> None:
    net = tmp_path / "net"
    write(net, "first")
    (net / "mine.txt").write_text("a user's")
    rng = random.Random(0)
    for _ in range(25):
        pids = [os.fork(), 0]
        if pids[0]:
            pids[1] = os.fork()
        if not all(pids):
            while True:
                write(net, str(os.getpid()))
        time.sleep(0.05 * rng.random())
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        assert sorted(path.name for path in net.iterdir()) == FILES
        texts = {(net / name).read_text() for name in FILES if name != "mine.txt"}
        assert len(texts) == 1
    write(net, "last")
    assert [path.name for path in tmp_path.iterdir()] == ["net"]
    assert (net / "model.py").read_text() == "last"
    assert (net / "mine.txt").read_text() == "a user's"


@posix
def test_a_package_that_was_moved_aside_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where folders can't change places at once, and the process ends in between."""
    monkeypatch.setattr(atomic_folder, "_exchanged", lambda one, other: False)
    net = tmp_path / "net"
    write(net, "first")
    pid = os.fork()
    if not pid:
        rename = Path.rename

        def renamed(self: Path, target: Path) -> Path:
            found = rename(self, target)
            os._exit(0)
            return found

        monkeypatch.setattr(Path, "rename", renamed)
        write(net, "second")
    os.waitpid(pid, 0)
    assert not net.exists()
    with replacing(tmp_path / "other") as draft:
        assert (net / "model.py").read_text() == "first"
        put(draft, "another")
    write(net, "third")
    assert (net / "model.py").read_text() == "third"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net", "other"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    net = tmp_path / "new" / "net"
    with pytest.raises(OSError, match="no space"), replacing(net) as draft:
        put(draft, "half")
        raise OSError("no space")
    assert not list(tmp_path.iterdir())
