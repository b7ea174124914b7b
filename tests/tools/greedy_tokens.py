"""Decoders token by token: a package's Session beside ONNX Runtime on the original.

    python -m tests.tools.greedy_tokens [--tokens 64] [--room N] MODEL.onnx ...

The likeliest token is the next; each side keeps the cache that it computed. Tokens must
be equal. Besides, in every step, the package is given what ONNX Runtime has computed
so far: logits must be as close as verification allows. A decoder without a
cache reads all tokens in each step; one of a fixed length, as many as it takes. With
--room, caches begin with room for so many keys, where the file leaves their length open
(a buffer that past and present share). A line of JSON is written for each file.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

import fairhand
from fairhand.codegen.load.read_model import load
from fairhand.codegen.verify.input_sizes import decoding_sizes, dynamic_sizes
from fairhand.codegen.verify.inputs import make_inputs
from fairhand.codegen.verify.parity import oracle
from fairhand.codegen.verify.rounding_noise import allowance, own_noise
from fairhand.codegen.verify.tolerances import compare

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
from support.emitted import imported

BATCH, PROMPT = 2, 4
_NOT_STATES = re.compile("ids|mask|position|use_cache|encoder_hidden|encoder_outputs")


@dataclass(frozen=True)
class Decoded:
    """What a decoder gave beside ONNX Runtime."""

    file: str
    steps: int
    same: int  # steps in which all tokens were the same
    same_from_cache: int  # the same, each from the cache that ONNX Runtime computed
    varied: int  # different tokens in all
    error: (
        float  # of logits from that cache, relative to the largest, in the worst step
    )
    off: int  # steps in which they were further off than is allowed


class Decoder:
    """What is fed to a decoder's session in each step."""

    def __init__(self, session: Any, model: ir.Model, room: int = 0) -> None:
        self.outputs = [tensor.name for tensor in session.get_outputs()]
        self._inputs = {t.name: t for t in session.get_inputs()}
        tries = dynamic_sizes(model)
        self._given = make_inputs(model, 0, _several(tries[0]))
        self._ids = next(
            name
            for name, array in self._given.items()
            if array.dtype.kind == "i" and array.ndim == 2 and "mask" not in name
        )
        if self._given[self._ids].shape[1] == 1:  # no prompt beside a cache
            tries = decoding_sizes(model) or tries
            self._given = make_inputs(model, 0, _several(tries[0]))
        self._only = {key for key in tries[0] if len({s[key] for s in tries[:2]}) == 1}
        fed = [n for n in self._inputs if not _NOT_STATES.search(n)]
        states = [n for n in self.outputs if n != self.logits]
        self._states = _paired(fed, states)
        length = self._inputs[self._ids].shape[1]
        self.fixed = length if isinstance(length, int) else 0
        self.rows = len(self._given[self._ids])
        self._room = room

    @property
    def logits(self) -> str:
        """The output that says which token is next."""
        return next((n for n in self.outputs if "logits" in n), self.outputs[0])

    def prompt(self) -> np.ndarray:
        """The first tokens, other ones in each row."""
        return self._given[self._ids][:, : self.fixed or PROMPT].astype(np.int64)

    def begin(self) -> dict[str, np.ndarray]:
        """The states before the first token."""
        return {name: self._empty(name) for name in self._states}

    def feed(
        self, tokens: np.ndarray, new: int, states: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Inputs for `tokens`, all so far, of which the last `new` are not in states.

        Raises ValueError for an input of unknown meaning.
        """
        if self.fixed or not states:
            new = self.fixed or tokens.shape[1]
        ids = tokens[:, -new:]
        total = ids.shape[1] if not states else tokens.shape[1]
        return {
            name: states[name] if name in states else self._value(name, ids, total, new)
            for name in self._inputs
        }

    def keep(
        self, found: Mapping[str, np.ndarray], before: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """The states of the next step; those of an encoder stay."""
        return {
            name: old if "encoder" in name else found[self._states[name]]
            for name, old in before.items()
        }

    def _empty(self, name: str) -> np.ndarray:
        given = self._given[name]
        if "encoder" in name:
            return given  # its keys and values are whole from the beginning
        shape = list(given.shape)
        for axis, size in enumerate(self._inputs[name].shape):
            open_ = not isinstance(size, int) and str(size) not in self._only
            if open_ and 0 < axis < max(2, given.ndim - 1):
                shape[axis] = self._room
        return np.zeros(shape, given.dtype)

    def _value(self, name: str, ids: np.ndarray, total: int, new: int) -> np.ndarray:
        given = self._given[name]
        if name == self._ids:
            return ids.astype(given.dtype)
        if "encoder" in name:
            return np.ones_like(given) if "mask" in name else given
        if "position" in name:
            places = np.arange(total - new, total)
            rows = places if given.ndim == 1 else np.tile(places, (self.rows, 1))
            rows = np.broadcast_to(rows, given.shape[:-2] + rows.shape)
            return rows.astype(given.dtype)
        if "mask" in name and given.ndim == 2:
            return np.ones((self.rows, total), given.dtype)
        if "use_cache" in name:
            return np.full(given.shape, total > new)
        raise ValueError(f"nothing is known of input {name!r}")


def _several(sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes, of a batch."""
    return {**sizes, "batch_size": BATCH, "batch": BATCH}


def _paired(past: list[str], present: list[str]) -> dict[str, str]:
    """Each state that is fed, and the output that it is in the next step."""

    def stem(name: str) -> str:
        return re.sub("past_key_values|past|present|_in$|_out$|new_", "", name)

    by_stem = {stem(name): name for name in present}
    fed = [name for name in past if "encoder" not in name]
    if all(stem(name) in by_stem for name in fed):
        return {name: by_stem.get(stem(name), name) for name in past}
    return dict(zip(past, present, strict=True))


def decode(path: Path, package: Path, steps: int, room: int = 0) -> Decoded:
    """The tokens of a package and of ONNX Runtime, from the same prompt."""
    model = load(path).model
    session, ours = oracle(str(path)), imported(package).Session()
    decoder, allowed = Decoder(ours, model, room), allowance(model)
    tokens = [decoder.prompt(), decoder.prompt()]
    states = [decoder.begin(), decoder.begin()]
    same = same_from_cache = off = 0
    worst, new = 0.0, tokens[0].shape[1]
    for _ in range(steps):
        found = []
        for side, run in enumerate((session.run, ours.run)):
            feed = decoder.feed(tokens[side], new, states[side])
            results = run(None, feed)
            found.append(dict(zip(decoder.outputs, results, strict=True)))
            states[side] = decoder.keep(found[side], states[side])
            if side == 0:
                reference = feed, results
        place = decoder.outputs.index(decoder.logits)
        want, given = reference[1][place], ours.run(None, reference[0])[place]
        result = compare(given, want)
        worst = max(worst, result.error)
        if not result:
            noise = own_noise(str(path), session, oracle, *reference)[decoder.logits]
            off += result.error > allowed.of(noise)
        for side, outputs in enumerate(found):
            token = _likeliest(outputs[decoder.logits])
            tokens[side] = np.concatenate([tokens[side], token[:, None]], axis=1)
        same_from_cache += int(np.array_equal(_likeliest(want), _likeliest(given)))
        same += int(np.array_equal(tokens[0][:, -1], tokens[1][:, -1]))
        new = 1
    varied = len(np.unique(tokens[0][:, -steps:]))
    error = float(f"{worst:.3g}")
    return Decoded(str(path), steps, same, same_from_cache, varied, error, off)


def _likeliest(logits: np.ndarray) -> np.ndarray:
    return np.asarray(logits[:, -1].argmax(axis=-1))


def rows(paths: list[Path], steps: int, room: int) -> Iterator[dict[str, Any]]:
    """Compile and verify each file, and decode with it."""
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            try:
                package = fairhand.compile(path, Path(folder) / "decoder")
            except fairhand.FairhandError as error:
                yield {"file": str(path), "refused": str(error)}
            else:
                yield asdict(decode(path, package.path, steps, room))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--room", type=int, default=0)
    given = parser.parse_args()
    for row in rows(given.models, given.tokens, given.room):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
