"""A plan is tried before it is kept: all its devices as processes of this machine."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from ...analysis.errors import VerificationError

SECONDS = 300  # until devices that give no answer are given up
_START = """
import importlib, importlib.util, sys
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("network", sys.argv[1] + "/__init__.py")
sys.modules["network"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["network"])
importlib.import_module("network.parallel").check()
"""
# PyTorch's caches keep process groups alive to the end, when Python aborts if one of
# their threads has yet to let go of a tensor (pytorch/pytorch#179291): it ends here.
_RUN = """
import os, sys, traceback
failed = 1
try:
    exec(sys.argv[2])
    failed = 0
except BaseException:
    traceback.print_exc()
finally:
    sys.stdout.flush()
    os._exit(failed)
"""


def rehearse(folder: Path, world: int) -> str:
    """What `--check` of the package in `folder` says on `world` processes.

    Raises VerificationError where one of them fails, when all have ended.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = [_start(folder, rank, world, port) for rank in range(world)]
    end = time.monotonic() + SECONDS
    try:
        while any(p.poll() is None for p in running) and time.monotonic() < end:
            if any(p.poll() for p in running):
                break
            time.sleep(0.05)
    finally:
        time.sleep(0.2 if any(p.poll() for p in running) else 0)
        failed = sorted((p for p in running if p.poll()), key=lambda p: p.returncode)
        late = [process for process in running if process.poll() is None]
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
        texts = {process: process.communicate()[0] for process in running}
    hint = "the machine may be too small for all devices: --no-verify leaves them out"
    reason = _reason(texts[failed[0]]) if failed else ""
    if failed and failed[0].returncode < 0:
        number = -failed[0].returncode
        raise VerificationError(
            f"a device was ended by signal {number}: {reason}", hint=hint
        )
    if failed:
        raise VerificationError(
            f"parallel.py doesn't run as planned: {reason}",
            hint="this is a fault in fairhand, not in the model; please report it",
        )
    if late:
        raise VerificationError(f"devices gave no answer in {SECONDS} s", hint=hint)
    said = [line for text in texts.values() for line in text.splitlines()]
    return next((line for line in said if line.startswith("worst")), "")


def _start(folder: Path, rank: int, world: int, port: int) -> subprocess.Popen[str]:
    environment = os.environ | {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, str(folder.resolve()), _START],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _reason(text: str) -> str:
    """The last line of what a process said, which names the error."""
    lines = [line for line in text.splitlines() if re.search(r"\w", line)]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exit|not as)", line)]
    return " ".join((named or lines or ["no reason"])[-1].split())[:400]
