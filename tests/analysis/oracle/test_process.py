"""What a model does to the process that runs it is no matter to this one."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

from fairhand.analysis.oracle import child
from fairhand.analysis.oracle.process import (
    UNLIMITED,
    Apart,
    Forked,
    Forks,
    Limits,
    Process,
    RunFailed,
    Session,
)

HEAD = '<ir_version: 9, opset_import: ["" : 20]> g '


def serialised(text: str) -> bytes:
    return onnx.parser.parse_model(HEAD + text).SerializeToString()


DIVIDE = serialised("(int32[n] x, int32[n] z) => (int32[n] y) { y = Div(x, z) }")


def test_a_model_that_ends_its_process() -> None:
    session, least = Session(DIVIDE), np.array([-(2**31)], np.int32)
    with pytest.raises(RunFailed, match="SIGFPE") as failed:
        session.run(None, {"x": least, "z": np.array([-1], np.int32)})
    assert failed.value.fatal
    (found,) = session.run(["y"], {"x": least, "z": np.array([2], np.int32)})
    assert found.tolist() == [-(2**30)]


def test_a_message_of_onnx_runtime_is_whole() -> None:
    session = Session(DIVIDE)
    with pytest.raises(RunFailed, match="Got: 2 Expected: 1") as failed:
        session.run(None, dict.fromkeys("xz", np.ones((2, 2), np.int32)))
    assert not failed.value.fatal
    assert "Please fix either the inputs/outputs or the model" in str(failed.value)


GROWS = serialised(
    "(string[n] x) => (string[n] y) {"
    + " v0 = StringConcat(x, x)"
    + "".join(f" v{i} = StringConcat(v{i - 1}, v{i - 1})" for i in range(1, 34))
    + " y = Identity(v33) }"
)
ENDLESS = serialised("""(int64 n, float[1] x) => (float[1] y) {
    going = Constant<value = bool {1}>()
    y = Loop(n, going, x) <body = b (int64 i, bool c, float[1] s)
        => (bool d, float[1] t) { d = Identity(c) t = Neg(s) }> }""")


def test_limits() -> None:
    session = Session(GROWS, limits=Limits(60, 1 << 28))
    with pytest.raises(RunFailed):
        session.run(None, {"x": np.array(["ab"], object)})
    session = Session(ENDLESS, limits=Limits(0.5))
    feed = {"n": np.array(2**62), "x": np.ones(1, np.float32)}
    with pytest.raises(RunFailed, match=r"more than 0\.5 s"):
        session.run(None, feed)


def test_all_kinds_of_values_come_through() -> None:
    values = [
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.zeros((0, 3), np.float64),
        np.array(True),
        np.array([["a", "\u00e9"]], object),
        np.array([1.5, 2], ml_dtypes.bfloat16),
        [np.ones(2, np.int8), {3: 0.5, 4: 1.0}, {"a": "b"}],
        None,
        7,
    ]
    stream = io.BytesIO()
    child.write(stream, values)
    stream.seek(0)
    found = child.read(stream)
    for got, want in zip(found[:5], values[:5], strict=True):
        assert isinstance(want, np.ndarray)
        assert got.shape == want.shape and got.dtype == want.dtype.newbyteorder("=")
        assert (got == want).all()
    assert found[5][1:] == [{3: 0.5, 4: 1.0}, {"a": "b"}] and found[6:] == [None, 7]
    with pytest.raises(EOFError):
        child.read(io.BytesIO(stream.getvalue()[:-1]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_after_a_fork_each_has_its_own() -> None:
    session, feed = Session(DIVIDE), dict.fromkeys("xz", np.ones(1, np.int32))
    session.run(None, feed)
    pid = os.fork()
    if not pid:
        os._exit(int(session.run(None, feed)[0][0]))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert session.run(None, feed)[0].tolist() == [1]


PARENT = """
import os, sys
from fairhand.analysis.oracle.process import FORKS, Apart, Process
class Waiting(Apart):
    def __init__(self):
        Process.__init__(self)
process = {kind}()
process.ask({{"drop": 1}})
forks = FORKS._running
print(process._running.pid, forks.pid if forks else process._running.pid, flush=True)
process.ask({{"package": {package!r}, "engine": ""}})
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
@pytest.mark.parametrize("kind", ["Process", "Waiting"])
def test_a_child_ends_with_its_parent(kind: str, tmp_path: Path) -> None:
    package = tmp_path / "endless"
    package.mkdir()
    (package / "__init__.py").write_text("import time\nwhile True: time.sleep(0.1)\n")
    text = PARENT.format(kind=kind, package=str(package))
    with subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        time.sleep(0.3)
        parent.kill()
    end = time.monotonic() + 5
    while any(map(_alive, pids)):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def forks() -> Iterator[Forks]:
    if sys.platform != "linux":
        pytest.skip("processes are forked on Linux alone")
    found = Forks()
    yield found
    found.close()


def package(folder: Path, text: str) -> Path:
    """A package whose Session's one output is what `text` gives."""
    (folder / "net").mkdir()
    (folder / "net" / "__init__.py").write_text(
        "import os, signal, time\nfrom types import SimpleNamespace\nclass Session:\n"
        "    def get_outputs(self): return [SimpleNamespace(name='y')]\n"
        "    get_inputs = lambda self: []\n"
        f"    def run(self, names, feed): return [{text}]\n"
    )
    return folder / "net"


def test_a_forked_process_has_our_environment_and_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = package(tmp_path, "[os.environ.get('FOR_ONE'), os.getcwd()]")
    for given in ("a", "b"):
        monkeypatch.setenv("FOR_ONE", given)
        monkeypatch.chdir(tmp_path)
        with Apart(asked, "", UNLIMITED) as running:
            assert running.run([]) == [[given, str(tmp_path)]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGFPE)", "SIGFPE"),
        ("os._exit(7)", "exit code 7"),
        ("time.sleep(60)", r"more than 0\.5 s"),
    ],
)
def test_how_a_forked_process_ended(text: str, said: str, tmp_path: Path) -> None:
    with Apart(package(tmp_path, text), "", Limits(0.5)) as running:
        with pytest.raises(RunFailed, match=said) as failed:
            running.run([])
        assert failed.value.fatal


def test_the_process_that_forks_may_die(forks: Forks) -> None:
    first = Forked(forks)
    assert forks._running is not None
    forks._running.kill()
    with pytest.raises(OSError, match=r"ended|reset|pipe"):
        Forked(forks)
    second = Forked(forks)  # from another one
    second.kill()
    assert second.wait(5) == -signal.SIGKILL
    assert first.wait(5) == -signal.SIGKILL
    first.stdin.close()  # at which it ends by itself


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_what_a_package_may_not_import(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "__init__.py").write_text("import onnx\n")
    with Process() as process, pytest.raises(RunFailed, match="imports onnx"):
        process.ask({"package": str(tmp_path / "net"), "engine": ""})
