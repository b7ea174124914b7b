"""A decoder's package that generates, and ONNX Runtime on the file it was made from."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import torch

from .emitted import imported


class Generating:
    """Both, on the same inputs besides tokens: `given`, which whoever makes it sets."""

    def __init__(self, model: Path, package: Path, name: str = "") -> None:
        self.name, self.path = name, package
        module = imported(package).__name__
        self.caches = importlib.import_module(f"{module}.caches")
        self.module = importlib.import_module(f"{module}.generate")
        self.network = importlib.import_module(f"{module}.model").load()
        report = json.loads((package / "report.json").read_text("utf-8"))
        self.room = report["generation"]["room"]
        options = ort.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 4
        options.enable_mem_reuse = False  # it trusts the sizes that a file declares
        self.session = ort.InferenceSession(str(model), options)
        self.given: dict[str, torch.Tensor] = {}

    def generate(self, *prompts: list[int], new: int = 80, **how: Any) -> Any:
        """Tokens behind each of the prompts."""
        rows = {
            name: tensor.repeat(len(prompts), *[1] * (tensor.dim() - 1))
            for name, tensor in self.given.items()
        }
        return self.module.generate(
            self.network, prompts, new, **{"given": rows, **how}
        )

    @contextmanager
    def noted(self) -> Iterator[tuple[list[np.ndarray], set[Any]]]:
        """The scores of the first row in each step that is made in here but those that
        read a prompt and don't end it, and the shapes of steps of one token."""
        scores: list[np.ndarray] = []
        shapes: set[Any] = set()
        read, step = self.caches.Caches.read, self.caches.Caches.step

        def reading(*arguments: Any) -> torch.Tensor:
            found: torch.Tensor = read(*arguments)
            scores[:] = [found[0].float().numpy()]
            shapes.clear()
            return found

        def stepping(memory: Any, network: Any, *rest: Any) -> torch.Tensor:
            def seen(*values: torch.Tensor) -> Any:
                shapes.add(tuple(value.size() for value in values))  # all that is seen
                return network(*values)

            found: torch.Tensor = step(memory, seen, *rest)
            scores.append(found[0].float().numpy())
            return found

        self.caches.Caches.read, self.caches.Caches.step = reading, stepping
        try:
            yield scores, shapes
        finally:
            self.caches.Caches.read, self.caches.Caches.step = read, step

    def mask(self, length: int, new: int, room: int) -> np.ndarray:
        """As the file has it, of `new` tokens behind `length`."""
        dtype, shape = self.caches.INPUTS.get(self.caches.MASK, ("bool", (1, 1)))
        if len(shape) == 2:
            return np.ones((1, length + new))
        keys = np.arange(room if self.room == "placed" else length + new)
        shown = keys <= np.arange(length, length + new)[:, None]
        shown = shown.reshape(*[1] * (len(shape) - 2), *shown.shape)
        return np.where(shown, 0.0, -3e38) if "float" in dtype else shown

    def expected(
        self, prompt: list[int], new: int, tokens: list[int] | None = None
    ) -> Iterator[np.ndarray]:
        """Scores by ONNX Runtime, step by step: of `tokens`, else of the likeliest."""
        caches, fresh, length = self.caches, list(prompt), 0
        feeds: dict[str, Any] = {n: t.numpy() for n, t in self.given.items()}
        for name, (_, shape) in {**caches.CACHES, **caches.CROSS}.items():
            # What is told of lengths may be given buffers; windows count on them.
            room = len(prompt) + new if self.room in ("behind", "placed") else 0
            room = caches.whole_blocks(room) if self.room == "placed" else room
            sizes = [{"rows": 1, "places": room}.get(size, size) for size in shape]
            feeds[name] = np.zeros(sizes, caches.INPUTS[name][0])
        names = [output.name for output in self.session.get_outputs()]
        for count in range(new):
            size = 1 if caches.CHUNK == 1 else len(fresh)
            for at in range(0, len(fresh), size):
                ids = fresh[at : at + size]
                fed = {
                    caches.IDS: np.array([ids]),
                    caches.MASK: self.mask(length, len(ids), room),
                    **dict.fromkeys(caches.AT, np.arange(length, length + len(ids))),
                    caches.POSITIONS: np.arange(length, length + len(ids))[None],
                    caches.BRANCH: np.array([length > 0]),
                }
                for name in fed.keys() & caches.INPUTS.keys():
                    dtype, shape = caches.INPUTS[name]
                    one = fed[name]
                    while len(shape) < one.ndim:
                        one = one[0]
                    parts = shape[: len(shape) - one.ndim]
                    feeds[name] = np.broadcast_to(one.astype(dtype), parts + one.shape)
                results = self.session.run(None, feeds)
                found = dict(zip(names, results, strict=True))
                feeds |= {n: found[out] for n, (out, _) in caches.CACHES.items()}
                if not length:
                    feeds |= {n: found[out] for n, (out, _) in caches.CROSS.items()}
                length += len(ids)
            rows = found[caches.LOGITS].astype(np.float32)
            scores = rows.reshape(-1, rows.shape[-1])[-1]
            yield scores
            fresh = [tokens[count] if tokens else int(scores.argmax())]
