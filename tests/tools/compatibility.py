"""Programs that use ONNX Runtime, and exporters, with packages in the models' place.

    python -m tests.tools.compatibility --folder DIR [--only NAME ...]
        [--timed] [--write]

Each of compatibility_clients.py and compatibility_exporters.py gets an environment of
its own, in which this one's packages are seen as well (PyTorch); the models that it
ships, or that an exporter writes there, are compiled; its job runs on ONNX Runtime and
again by `fairhand run`.
What was found is kept in DIR/NAME/result.json; --write puts all of it into
docs/compatibility.md. Needs a package index.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import importlib.metadata
import json
import math
import re
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import fairhand

from .compatibility_clients import CLIENTS
from .compatibility_exporters import EXPORTERS

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "compatibility.md"
RUNNER = HERE / "compatibility_job.py"
INSTALL_S, MAKE_S, COMPILE_S, JOB_S = 900, 600, 600, 300
MOST_BYTES = 400_000_000  # of a model
_TIMED = [
    "Those that were timed are repeated until they get no faster, with whatever else"
    " ran beside them.",
    "",
    "- first: seconds until the first result, with all that is imported, opened and"
    " prepared for it: on ONNX Runtime, with packages",
    "- stall: seconds of the slowest repetition: where a Session measured engines, what"
    " that took",
    "- speed: the least time of a repetition on ONNX Runtime over that with packages",
    "",
]
CLOSE, NEAR_ZERO = 1e-3, 1e-4  # numbers of two end results, relative and absolute


@dataclass
class Model:
    """What became of a model, and the reason, or what its verification left out."""

    name: str
    sha256: str  # of its file, as clients ship the same ones
    seconds: float = 0.0
    error: float | None = None  # the worst relative one, where it was verified
    lines: int = 0
    reason: str = ""


@dataclass
class Client:
    """A program, its models, and its job with and without their packages."""

    name: str
    kind: str  # "client" or "exporter"
    version: str = ""
    models: list[Model] = field(default_factory=list)
    same: bool | None = None  # the end results; None where there is no job
    in_place: int = 0  # sessions that packages opened
    # Of each call of the job, without packages and with them.
    seconds: list[list[float]] = field(default_factory=list)
    reason: str = ""


class Failed(Exception):
    """A step of a client's that can't be done, with the last line that it wrote."""


def run(command: list[str], limit: float, where: Path | None = None) -> str:
    """What a command writes to stderr. Raises Failed where it fails or takes longer."""
    try:
        done = subprocess.run(
            command, cwd=where, timeout=limit, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"not done within {limit:.0f} s") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        said = [x for x in lines if re.search("error|unsupported", x, re.IGNORECASE)]
        raise Failed((said or lines or [f"exit code {done.returncode}"])[-1][:300])
    return done.stderr


def environment(folder: Path, packages: list[str]) -> Path:
    """The Python of a new environment with these packages; kept where there is one."""
    python = folder / "env" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "env", symlinks=True)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        own = sysconfig.get_path("purelib")
        site = folder / "env" / "lib" / version / "site-packages"
        # Not a mere path, which leaves out what this one's own .pth files bring.
        (site / "beside.pth").write_text(f"import site; site.addsitedir({own!r})\n")
    installed = folder / "env" / "installed"
    if not installed.exists():
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q"]
        torch = f"torch=={importlib.metadata.version('torch').partition('+')[0]}"
        run([*pip, "--prefer-binary", *packages, torch], INSTALL_S)
        installed.touch()
    return python


def version(python: Path, package: str) -> str:
    """The version of a package that an environment has."""
    name = re.split("[<>=\\[]", package)[0]
    code = f"import importlib.metadata as m, sys; sys.stderr.write(m.version({name!r}))"
    return run([str(python), "-c", code], 60)


def compiled(path: Path, name: str, packages: Path) -> Model:
    """Compile and verify one model."""
    found = Model(path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    begun = time.monotonic()
    out = packages / name
    signal.alarm(COMPILE_S)
    try:
        fairhand.compile(path, out, cache=False)
        report = json.loads((out / "report.json").read_text())
        found.error = report["verification"]["worst_relative_error"]
        skipped = report["verification"]["skipped"]
        found.reason = "; ".join(x for x in skipped if not x.startswith("seed "))
        found.lines = len((out / "model.py").read_text().splitlines())
    except Exception as error:  # one that isn't ours is a fault, and named
        ours = isinstance(error, fairhand.FairhandError | TimeoutError)
        found.reason = str(error) if ours else f"{type(error).__name__}: {error}"
    signal.alarm(0)
    found.seconds = round(time.monotonic() - begun, 1)
    return found


def _too_long(*_: object) -> None:
    raise TimeoutError(f"not done within {COMPILE_S} s")


def models_of(python: Path, folder: Path, given: dict[str, Any]) -> list[Path]:
    """The ONNX files that a client's packages ship, or that its code writes."""
    if "make" in given:
        made = folder / "models"
        made.mkdir(exist_ok=True)
        (folder / "make.py").write_text(given["make"])
        run([str(python), str(folder / "make.py")], MAKE_S, made)
        return sorted(made.rglob("*.onnx"))
    found = (folder / "env").glob(f"lib/*/site-packages/{given['models']}")
    return sorted(path for path in found if path.stat().st_size < MOST_BYTES)


def results(
    python: Path, folder: Path, job: str, client: Client, timed: list[str]
) -> None:
    """Run a client's job without packages and with them."""
    (folder / "job.py").write_text(job)
    found = []
    for way in ("without", "with"):
        out = folder / f"{way}.json"
        command = [str(python), str(RUNNER), str(folder / "job.py"), str(out), *timed]
        if way == "with":
            before = [sys.executable, "-m", "fairhand", "run", "--packages"]
            command = [*before, str(folder / "packages"), "--", *command]
        said = run(command, JOB_S, folder)
        client.in_place = len(re.findall(r"^fairhand: \S+ runs ", said, re.MULTILINE))
        found.append(json.loads(out.read_text()))
        if timed:
            client.seconds.append(found[-1]["seconds"])
    client.same = alike(found[0]["results"], found[1]["results"])


def alike(a: Any, b: Any) -> bool:
    """Whether two results are the same, but for the last digits of numbers."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, float) and isinstance(b, float):
        both = math.isnan(a) and math.isnan(b)
        return both or math.isclose(a, b, rel_tol=CLOSE, abs_tol=NEAR_ZERO)
    return type(a) is type(b) and bool(a == b)


def tried(name: str, given: dict[str, Any], folder: Path, timed: list[str]) -> Client:
    """Everything about one client."""
    client = Client(name, "exporter" if "make" in given else "client")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        python = environment(folder, given["packages"])
        client.version = version(python, given["packages"][0])
        paths = models_of(python, folder, given)
        if not paths:
            raise Failed("it ships no model")
        for number, path in enumerate(paths):
            stem = re.sub(r"\W", "_", f"m{number}_{path.stem}")
            client.models.append(compiled(path, stem, folder / "packages"))
        if "job" in given and any(model.lines for model in client.models):
            results(python, folder, given["job"], client, timed)
    except Failed as failed:
        client.reason = str(failed)
    (folder / "result.json").write_text(json.dumps(asdict(client), indent=1))
    return client


def page(clients: list[Client]) -> str:
    """docs/compatibility.md."""
    models = [model for client in clients for model in client.models]
    files = len({model.sha256 for model in models})
    verified = sum(model.error is not None for model in models)
    jobs = [client for client in clients if client.same is not None]
    same = sum(bool(client.same) for client in jobs)
    counts = collections.Counter(x.kind for x in clients if x.models)
    timed = any(client.seconds for client in clients)
    heads = ["program", "models", "verified", "lines", "sessions", "same result"]
    heads += ["first", "stall", "speed"] * timed
    rows = [
        "# Compatibility",
        "",
        "Programs that run models on ONNX Runtime, then exporters, as `python -m"
        " tests.tools.compatibility` finds them; two files beside that list them. A"
        " job is run unchanged on ONNX Runtime, then by `fairhand run --packages DIR --"
        " python app.py`, engine and threads as they are by default, and the results of"
        " its first two calls are compared.",
        "",
        *_TIMED * timed,
        f"{verified} of {len(models)} models ({files} files that differ) of"
        f" {counts['client']} programs and {counts['exporter']} exporters compile and"
        f" verify; {same} of {len(jobs)} jobs have the same end result.",
        "",
        "| " + " | ".join(heads) + " |",
        "|" + "---|" * len(heads),
    ]
    rows += [
        "| " + " | ".join(_cells(client)[: len(heads)]) + " |" for client in clients
    ]
    reasons = [
        f"- {client.name}: {_inline(client.reason)}"
        for client in clients
        if client.reason
    ]
    reasons += [
        f"- {client.name}, {model.name}: {_inline(model.reason)}"
        for client in clients
        for model in client.models
        if model.reason
    ]
    return "\n".join([*rows, "", "## Reasons", "", *reasons]) + "\n"


def _cells(client: Client) -> list[str]:
    done = [model for model in client.models if model.error is not None]
    first = stall = speed = ""
    if len(client.seconds) == 2:
        (begun, *theirs), (opened, *ours) = client.seconds
        first = f"{begun:.1f}, {opened:.1f}"
        stall = f"{max(theirs):.2f}, {max(ours):.2f}"
        speed = f"{min(theirs) / min(ours):.2f}"
    return [
        f"{client.name} {client.version}",
        str(len(client.models)),
        str(len(done)),
        str(sum(model.lines for model in done)),
        str(client.in_place) if client.same is not None else "",
        {None: "", True: "yes", False: "no"}[client.same],
        first,
        stall,
        speed,
    ]


def _inline(text: str) -> str:
    text = " ".join(re.sub(r"/\S*/", "", text.replace("`", "'")).split())
    return f"`{text[:400]}`"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--timed", action="store_true", help="on an idle machine")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGALRM, _too_long)
    for name, client in (CLIENTS | EXPORTERS).items():
        if given.only and name not in given.only:
            continue
        if not given.write and not (given.folder / name / "result.json").exists():
            folder = given.folder.resolve() / name
            timed = ["timed"] * given.timed
            print(tried(name, client, folder, timed), flush=True)
    if given.write:
        files = [given.folder / name / "result.json" for name in CLIENTS | EXPORTERS]
        kept = [json.loads(file.read_text()) for file in files if file.exists()]
        clients = [
            Client(**row | {"models": [Model(**m) for m in row["models"]]})
            for row in kept
        ]
        PAGE.write_text(page(clients))


if __name__ == "__main__":
    main()
