"""A network's own state_dict in the module that its ONNX file became at -O0.

    python tests/tools/round_trips.py MODELS [--write docs/round_trips.md]

MODELS holds NAME.onnx or NAME.EXPORTER.onnx, beside it NAME.pt, a `torch.save` of the
original's state_dict, and NAME.npz with its inputs in:<name> and outputs out:<i>.
"""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from support.emitted import imported

import fairhand
from fairhand.codegen.load.read_model import load

HEAD = """# Round trips at -O0

Networks exported by `torch.onnx.export` and brought back at `-O0`. *keys*: those of
the original's `state_dict`. *loaded*: keys that the emitted module takes, strictly:
all of them, and none beside them, under the original's names. *absent*: keys whose
tensors the file doesn't hold, since the exported computation doesn't use them; no
module made from the file can have them. *error*: outputs with the original's weights
loaded, against those of the original, relative to the largest. *noise*: how far the
emitted module's outputs move when its float inputs move by one part in 10^7, where it
has any.

By the dynamo exporter without its optimiser (`optimize=False`), which folds norms
into convolutions and renames what it computes, and by the TorchScript exporter
(`.legacy`) with `do_constant_folding=False` and `training=TrainingMode.PRESERVE`, for
the same reason.

Made by `python tests/tools/round_trips.py MODELS --write docs/round_trips.md`.

"""
TABLE = """
| model | keys | loaded | absent | error | noise |
| --- | ---: | ---: | --- | ---: | ---: |
"""
NUDGE = np.float32(1 + 1e-7)


@dataclass(frozen=True)
class Trip:
    """`lost` are keys that the file holds and the module lacks, or the reverse."""

    name: str
    keys: int
    absent: tuple[str, ...]
    lost: tuple[str, ...]
    error: float
    noise: float | None

    @property
    def row(self) -> str:
        noise = "" if self.noise is None else f"{self.noise:.1e}"
        loaded = self.keys - len(self.absent) - len(self.lost)
        words = (self.name, self.keys, loaded, ", ".join(self.absent))
        return f"| {' | '.join(map(str, words))} | {self.error:.1e} | {noise} |\n"


def measure(path: Path) -> Trip:
    """Compile, load the state_dict, compare; raises if what is there doesn't load."""
    stem = path.with_name(path.name.partition(".")[0])
    state = torch.load(stem.with_suffix(".pt"), weights_only=True)
    arrays = np.load(stem.with_suffix(".npz"))
    with TemporaryDirectory() as folder:
        package = fairhand.compile(path, Path(folder) / "net", level=0, verify=False)
        session = imported(package.path).Session()
        own = session.model.state_dict()
        absent = _absent(path, {k: v for k, v in state.items() if k not in own})
        given = {key: value for key, value in state.items() if key not in absent}
        lost = sorted(set(given) ^ set(own))
        if not lost:
            session.model.load_state_dict(given, strict=True)
        feed = {i.name: arrays[f"in:{i.name}"] for i in session.get_inputs()}
        found = session.run(None, feed)
        wanted = [arrays[f"out:{i}"] for i in range(len(found))]
        moved = {n: a * NUDGE if a.dtype == np.float32 else a for n, a in feed.items()}
        floats = any(a.dtype == np.float32 for a in feed.values())
        noise = _apart(session.run(None, moved), found) if floats else None
    name = path.name.removesuffix(".onnx")
    return Trip(
        name, len(state), tuple(absent), tuple(lost), _apart(found, wanted), noise
    )


def _absent(path: Path, missing: dict[str, torch.Tensor]) -> list[str]:
    """Those that stand in the file under no name, as they are or transposed."""
    stored = set()
    for value in load(path).model.graph.initializers.values():
        array = value.const_value.numpy() if value.const_value is not None else None
        if array is not None:
            stored |= {_digest(array), _digest(array.T)}
    return [key for key, t in missing.items() if _digest(t.numpy()) not in stored]


def _digest(array: np.ndarray) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()


def _apart(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    pairs = zip(found, wanted, strict=True)
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    trips: dict[bool, list[Trip]] = {False: [], True: []}
    for path in sorted(arguments.models.glob("*.onnx")):
        trip = measure(path)
        trips[".legacy" in path.name].append(trip)
        print(trip.row, *trip.lost, end="", flush=True)
    if arguments.write is None:
        return
    text = HEAD
    for legacy, found in trips.items():
        whole = sum(not t.absent and not t.lost for t in found)
        held = sum(not t.lost for t in found)
        exporter = "TorchScript" if legacy else "dynamo"
        text += (
            f"\n{exporter}: {whole} of {len(found)} take the whole `state_dict`"
            f" with `strict=True`, {held} all of it that the file holds.\n"
        )
        text += TABLE + "".join(trip.row for trip in found)
    arguments.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
