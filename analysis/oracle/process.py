"""A process that runs models and packages, and may fail, or die, without harm to us.

What a model file asks of ONNX Runtime may end the process that it runs in (INT_MIN
divided by -1), take all memory, or never end. So it runs in child.py, with limits.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import child

if TYPE_CHECKING:
    from typing_extensions import Self

_ROOT = str(Path(__file__).parents[3])
_PATIENCE_S = 5  # to wait for a process that was told to end


class RunFailed(Exception):
    """A model or package couldn't be loaded or run.

    `fatal` if that ended the process: by a signal, or since it took too long.
    """

    def __init__(self, text: str, fatal: bool = False) -> None:
        super().__init__(text)
        self.fatal = fatal


class Limits(NamedTuple):
    """What one request may take; None for what is not limited."""

    seconds: float | None = None
    memory: int | None = None  # bytes, beside what the process has by then


UNLIMITED = Limits()


class Forks:
    """A process with PyTorch loaded, from which others are forked; see child.py."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def warm(self, modules: Sequence[str] = ()) -> None:
        """Start it, if it doesn't run and can, and let it import modules of PyTorch:
        it takes seconds until it answers."""
        with self._lock, suppress(OSError):
            self._started().send(json.dumps({"import": modules}).encode())

    def _started(self) -> socket.socket:
        # Elsewhere a fork is no process that systems' libraries may be used in.
        if sys.platform != "linux":
            raise OSError(f"no forks on {sys.platform}")
        if self._socket is not None:
            return self._socket
        self._socket, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            self._running = subprocess.Popen(
                [sys.executable, child.__file__, "fork"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        return self._socket

    def ask(
        self, request: Mapping[str, Any], descriptors: Sequence[int] = ()
    ) -> dict[str, Any]:
        """The reply to a request. Raises OSError if there is none."""
        with self._lock:
            asked = self._started()
            try:
                socket.send_fds(asked, [json.dumps(request).encode()], descriptors)
                return dict(json.loads(asked.recv(1 << 10)))
            except BaseException as error:  # its reply would answer the next request
                self._end()
                if isinstance(error, ValueError):
                    raise OSError("the process that forks ended") from None
                raise

    def close(self) -> None:
        """End it, and leave alone what was forked."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._running is not None:
            self._running.kill()
            self._running.wait()
        self._socket = self._running = None

    def forget(self) -> None:
        """In a process that was forked off: the running one belongs to the parent."""
        self._lock = threading.Lock()
        if self._socket is not None:
            self._socket.close()
        self._socket = self._running = None


class Forked:
    """A process that was forked, as far as it is used like a subprocess.Popen."""

    def __init__(self, forks: Forks) -> None:
        """Raises OSError."""
        self._forks = forks
        self.returncode: int | None = None
        requests, stdin = os.pipe()
        stdout, replies = os.pipe()
        self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
        where = {"environ": dict(os.environ), "folder": os.getcwd()}
        try:
            self.pid = forks.ask(where, [requests, replies])["pid"]
        except OSError:
            _close_pipes(self)
            raise
        finally:
            os.close(requests)
            os.close(replies)

    def kill(self) -> None:
        """End it, if it runs."""
        with suppress(OSError):
            self._forks.ask({"kill": self.pid})

    def wait(self, timeout: float | None = None) -> int:
        """Its return code, once it ended. Raises subprocess.TimeoutExpired."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            try:
                self.returncode = self._forks.ask({"wait": self.pid})["code"]
            except OSError:
                self.returncode = -signal.SIGKILL
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired("child.py", timeout or 0)
            time.sleep(0.002)
        return self.returncode


_Running = subprocess.Popen[bytes] | Forked


class Process:
    """A process that answers requests as child.py describes; started when needed."""

    def __init__(self) -> None:
        self._running: _Running | None = None
        self._lock = threading.Lock()
        self.ends = 0  # how often it ended, and its sessions with it
        self.unused: list[int] = []  # sessions to be dropped

    def ask(
        self, request: Mapping[str, Any], limits: Limits = UNLIMITED
    ) -> dict[str, Any]:
        """The reply to a request. Raises RunFailed, with the message of what failed."""
        with self._lock:
            while self._running is not None and self.unused:
                self._answer({"drop": self.unused.pop()}, Limits(_PATIENCE_S))
            reply = self._answer({**request, "memory": limits.memory}, limits)
        if "error" in reply:
            raise RunFailed(reply["error"])
        return reply

    def _answer(self, request: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
        running = self._started()
        assert running.stdin is not None and running.stdout is not None
        with _ended_after(running, limits.seconds) as late:
            try:
                child.write(running.stdin, request)
                return dict(child.read(running.stdout))
            except (OSError, EOFError, ValueError):
                self._end()
                if late.is_set():
                    text = f"it took more than {limits.seconds:g} s"
                else:
                    text = _how_it_ended(running.returncode)
                raise RunFailed(text, fatal=True) from None
            except BaseException:  # its reply would answer the next request
                running.kill()
                self._end()
                raise

    def close(self) -> None:
        """End the process, if it runs."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """In a process that was forked off: the running one belongs to the parent."""
        self._lock = threading.Lock()
        _close_pipes(self._running)
        self._running, self.unused = None, []
        self.ends += 1

    def _started(self) -> _Running:
        if self._running is None:
            self._running = self._start()
        return self._running

    def _start(self) -> _Running:
        return subprocess.Popen(
            [sys.executable, child.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        self.ends, self.unused = self.ends + 1, []
        _close_pipes(running)
        try:
            running.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _ended_after(running: _Running, seconds: float | None) -> Iterator[threading.Event]:
    """Kill a process that takes longer than the block may; the event says so."""
    late = threading.Event()

    def give_up() -> None:
        late.set()
        running.kill()

    timer = threading.Timer(seconds or 0, give_up)
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def _close_pipes(running: _Running | None) -> None:
    for stream in () if running is None else (running.stdin, running.stdout):
        with suppress(OSError):
            if stream is not None:
                stream.close()


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            name = signal.Signals(-code).name
            return f"the process that ran it was ended by {name}"
    return f"the process that ran it ended, with exit code {code}"


class Output(NamedTuple):
    """An output of a session, as onnxruntime.InferenceSession gives them."""

    name: str


class Session:
    """A model loaded by ONNX Runtime, in the process that all of them share."""

    _era = -1  # what `ends` was when it was loaded

    def __init__(
        self, model: str | bytes, threads: int = 0, limits: Limits = UNLIMITED
    ) -> None:
        """Load a file, or a serialised model. Raises RunFailed."""
        given = model if isinstance(model, str) else np.frombuffer(model, np.uint8)
        self._request = {"load": given, "threads": threads}
        self._limits = limits
        self._load()

    def _load(self) -> None:
        reply = _SHARED.ask(self._request, self._limits)
        self._era, self._number = _SHARED.ends, reply["session"]
        self._outputs = [Output(name) for name in reply["outputs"]]

    def get_outputs(self) -> list[Output]:
        """The outputs in their order."""
        return self._outputs

    def run(self, names: Sequence[str] | None, feed: Mapping[str, Any]) -> list[Any]:
        """The results for one feed. Raises RunFailed."""
        if self._era != _SHARED.ends:  # another model ended the process
            self._load()
        wanted = None if names is None else list(names)
        request = {"run": self._number, "outputs": wanted, "feed": dict(feed)}
        return list(_SHARED.ask(request, self._limits)["results"])

    def __del__(self) -> None:
        # Dropped with the next request: a lock may be held by whom this interrupts.
        if self._era == _SHARED.ends:
            _SHARED.unused.append(self._number)


class Apart(Process):
    """An emitted package's Session, in a process that is not used for anything else."""

    def __init__(self, package: Path, engine: str, limits: Limits) -> None:
        """Load it. Raises RunFailed, and the process is gone then."""
        super().__init__()
        self._limits = limits
        request = {"package": str(package), "engine": engine}
        try:
            self._number = self.ask(request, limits)["session"]
        except RunFailed:
            self.close()
            raise

    def _start(self) -> _Running:
        with suppress(OSError):
            return Forked(FORKS)
        return super()._start()

    def run(self, feed: Sequence[Any]) -> list[Any]:
        """The results for the values of inputs, in their order. Raises RunFailed."""
        request = {"run": self._number, "values": list(feed)}
        return list(self.ask(request, self._limits)["results"])

    def call(self, function: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """What a function of ours, as "module:function", answers there.

        Raises RunFailed.
        """
        request = {"call": function, "root": _ROOT, "given": dict(given)}
        return self.ask(request, self._limits)


def available_memory() -> int | None:
    """Bytes that processes could take now; None where the system doesn't say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    sizes = dict(line.split(":", 1) for line in lines if ":" in line)
    found = sizes.get("MemAvailable", "").split()
    return int(found[0]) << 10 if found else None


_SHARED, FORKS = Process(), Forks()
for each in (_SHARED, FORKS):
    atexit.register(each.close)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=each.forget)
