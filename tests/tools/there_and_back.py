"""From ONNX to a package and back: parity, fixpoints and names that came along.

    python -m tests.tools.there_and_back MODELS... [--write docs/there_and_back.md]

MODELS are .onnx files or folders of such. Each is compiled and exported again by a
process of its own, which `fairhand export` lets no file leave that ONNX Runtime doesn't
agree about; the file that comes back is compiled too, which has to give the same
model.py but for what it says of its file.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

HEAD = """# There and back

`fairhand compile`, then `fairhand export` of what it wrote, then `compile` of what that
wrote. *nodes*: those of the original file. *restored*: nodes of the new file that have
the name of one of the original. *error*: of the new file on ONNX Runtime beside the
package, relative to the largest element. *lines*: that differ between the two model.py,
but for those that speak of the file.

Made by `python -m tests.tools.there_and_back MODELS --write docs/there_and_back.md`.

"""
TABLE = """| model | nodes | restored | error | lines |
| --- | ---: | ---: | ---: | ---: |
"""
# What a module says of the file that it came from, and not of the network.
_FILE = re.compile(r"^(MODEL_SHA256 = |Source  |Rewrites  |Weights  |\"\"\").*", re.M)
_TIME_LIMIT_S = 1800


@dataclass(frozen=True)
class Trip:
    """How one network came back; `refused` is why it didn't."""

    name: str
    nodes: int = 0
    restored: int = 0
    error: float = 0.0
    lines: int = 0
    refused: str = ""

    @property
    def row(self) -> str:
        """The network's line of the table."""
        if self.refused:
            return f"| {self.name} |  |  | {self.refused} |  |\n"
        words = (self.name, self.nodes, self.restored, f"{self.error:.1e}", self.lines)
        return f"| {' | '.join(map(str, words))} |\n"


def measure(model: Path, folder: Path) -> Trip:
    """One network there and back, in a folder for its packages."""
    import fairhand

    name = model.name.removesuffix(".onnx")
    try:
        package = fairhand.compile(model, folder / "net", verify=False, cache=False)
        back = fairhand.export(package.path, None, folder / model.name)
        again = fairhand.compile(
            back.path, folder / "again" / "net", verify=False, cache=False
        )
    except fairhand.FairhandError as error:
        return Trip(name, refused=str(error).splitlines()[0][:200].replace("|", "/"))
    nodes = package.report["source"]["nodes"]
    lines = len(list(differing(package.path, again.path)))
    return Trip(name, nodes, back.restored, back.worst, lines)


def differing(one: Path, other: Path) -> Iterator[str]:
    """Lines of two model.py that differ in what they say of the network."""
    import difflib

    texts = [
        _FILE.sub("", (package / "model.py").read_text(encoding="utf-8")).splitlines()
        for package in (one, other)
    ]
    for line in difflib.unified_diff(*texts, lineterm="", n=0):
        if line[:1] in "+-" and line[:3] not in ("+++", "---"):
            yield line


def summary(trips: list[Trip]) -> str:
    """A sentence of all networks."""
    back = [trip for trip in trips if not trip.refused]
    fixed = sum(trip.lines == 0 for trip in back)
    nodes, restored = (sum(getattr(t, f) for t in back) for f in ("nodes", "restored"))
    return (
        f"{len(back)} of {len(trips)} networks come back and agree on ONNX Runtime;"
        f" {fixed} compile to the same model.py again; {restored} nodes have the name"
        f" of one of the {nodes} original ones.\n\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(asdict(measure(arguments.models[0], arguments.one))))
        return
    models = [
        model
        for path in arguments.models
        for model in (sorted(path.glob("*.onnx")) if path.is_dir() else [path])
    ]
    trips = []
    for model in models:  # each in memory of its own, one at a time
        with TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.tools.there_and_back"]
            run = subprocess.run(
                [*command, str(model.resolve()), "--one", folder],
                capture_output=True,
                text=True,
                timeout=_TIME_LIMIT_S,
            )
        try:
            trips.append(Trip(**json.loads(run.stdout.splitlines()[-1])))
        except (ValueError, IndexError):
            fault = (run.stderr.strip().splitlines() or ["no answer"])[-1][:200]
            trips.append(Trip(model.stem, refused=f"a fault: {fault}"))
        print(trips[-1].row, end="", flush=True)
    print(summary(trips))
    if arguments.write is not None:
        text = HEAD + summary(trips) + TABLE + "".join(trip.row for trip in trips)
        arguments.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
