"""Run a program with packages in the place of the models that they were made from."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...analysis.errors import FairhandError
from ..emit.package_files import is_package
from ..in_place import fairhand_hook

HOOKS = Path(fairhand_hook.__file__).parent
# PyTorch's threads spin for milliseconds before they sleep: where other programs have
# the processors each layer waits that long. This is what libgomp takes by itself when
# it has more threads than processors.
SPINS = "GOMP_SPINCOUNT", "1000"


def run(packages: Path, command: Sequence[str]) -> int:
    """Become `command`, whose Python processes open packages of the folder.

    Where a process can't become another one, returns the exit code of a new one.
    Raises FairhandError if the folder has no packages, or there is no such program.
    """
    folder = _folder_of_packages(packages)
    paths = [str(HOOKS), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {
        fairhand_hook.VARIABLE: str(folder),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    if not {SPINS[0], "OMP_WAIT_POLICY"} & os.environ.keys():
        settings |= dict([SPINS])
    try:
        if os.name == "posix":  # signals reach the program itself
            os.execvpe(command[0], list(command), os.environ | settings)
        return subprocess.run(command, env=os.environ | settings).returncode
    except FileNotFoundError:
        raise FairhandError(f"there is no program {command[0]}") from None


@contextmanager
def packages_in_place(folder: str | Path) -> Iterator[None]:
    """In here onnxruntime.InferenceSession(model) opens what was made from that file.

    Of `folder`, if it has one; raises FairhandError if it has no packages at all.
    """
    with fairhand_hook.in_place(_folder_of_packages(Path(folder))):
        yield


def _folder_of_packages(folder: Path) -> Path:
    if not folder.is_dir() or not any(map(is_package, folder.iterdir())):
        raise FairhandError(
            f"{folder} has no packages in it",
            hint="give the folder that `fairhand compile -o FOLDER/NAME` wrote into",
        )
    return folder.resolve()
