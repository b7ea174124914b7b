"""Decoders' packages that generate, beside ONNX Runtime, token by token.

    python -m tests.tools.generated_tokens [--tokens 500] MODEL.onnx ...

Each file is compiled, and generate() makes the likeliest tokens; where those are few
different ones, tokens are drawn. ONNX Runtime reads the same tokens with caches of its
own. A line of JSON for each file says in how many steps the likeliest token of both is
the same; of others, how far its two best scores are apart,
relative to the largest (a tie where that is less than the error); the worst error; how
many shapes the steps saw; bytes that a step copied for each cache's new token, beside
what a token's keys or values are; and whether three rows of unequal prompts have what
each has alone.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import fairhand
from fairhand.codegen.emit.package_files import read_report

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
from support.generating import Generating

PROMPT, SHORT, SOURCE = 7, (3, 9, 5), 11
VARIED = 10  # different tokens that make the likeliest ones telling


def given_of(caches: Any) -> dict[str, torch.Tensor]:
    """Random inputs that stay the same: an encoder's states, and masks of ones."""
    draw, found = np.random.default_rng(0), {}
    for name in caches.GIVEN:
        dtype, shape = caches.INPUTS[name]
        sizes = [n if isinstance(n, int) else SOURCE for n in shape]
        array = draw.normal(size=[1, *sizes[1:]])
        array = np.ones_like(array) if "mask" in name else array
        found[name] = torch.tensor(array).to(getattr(torch, dtype))
    return found


# What writes its last argument to places of its first, and what copies tensors whole.
_PLACED = ("index_copy_", "index_put_", "scatter_")
_COPIES = {"_to_copy", "cat", "clone", "constant_pad_nd", "gather", "index", "mul"}
_COPIES |= {"index_select", "roll", "scatter", "where"}


class Copied(TorchDispatchMode):
    """Counts the bytes that are written into buffers, or copied out of them whole.

    Heads that a network repeats are no copy: it computes with more than there is.
    """

    def __init__(self, buffers: Collection[torch.Tensor]) -> None:
        super().__init__()
        self.count = 0
        self._places = {tensor.untyped_storage().data_ptr() for tensor in buffers}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        given = args[0] if name == "cat" else args
        tensors = [x for x in given if isinstance(x, torch.Tensor)]
        reads = [x for x in tensors if self._is_part(x)]
        written = name[-1] == "_" and any(x is args[0] for x in reads)
        if written or (reads and name in _COPIES):
            new = tensors[-1] if name in _PLACED else result
            self.count += new.numel() * new.element_size()
        return result

    def _is_part(self, tensor: torch.Tensor) -> bool:
        repeated = 0 in tensor.stride() and tensor.numel() > 1
        return not repeated and tensor.untyped_storage().data_ptr() in self._places


def copied(made: Generating, prompt: list[int]) -> tuple[int, int]:
    """Bytes that a step of one token copies, and those of its caches' new places."""
    caches = made.caches
    memory = caches.Caches([len(prompt)], len(prompt) + 1, torch.device("cpu"))
    network = caches.flat(made.network)
    memory.read(network, [prompt], made.given)
    new = 0
    for name, (_, shape) in caches.CACHES.items():
        tensor = memory.tensors[name]
        place = tensor.select(shape.index("places"), 0) if "places" in shape else tensor
        new += place.numel() * place.element_size()
    with Copied(memory.tensors.values()) as seen:
        memory.step(network, [prompt[:1]], slice(0, 1), made.given)
    return seen.count, new


def figures(path: Path, package: Path, count: int) -> dict[str, Any]:
    """What one package does."""
    report = read_report(package)
    found = report.get("generation", {"refused": "no tokens and caches were found"})
    if "refused" in found:
        return dict(found)
    made = Generating(path, package)
    caches, draw = made.caches, np.random.default_rng(0)
    made.given = given_of(caches)
    if caches.MOST:
        count = min(count, caches.MOST - PROMPT)
    prompt = draw.integers(0, caches.VOCABULARY, PROMPT).tolist()
    start = time.perf_counter()
    with made.noted() as (scores, shapes):
        (tokens,) = made.generate(prompt, new=count)
    taken = time.perf_counter() - start
    drawn = len(set(tokens)) < VARIED
    if drawn:
        with made.noted() as (scores, shapes):
            (tokens,) = made.generate(prompt, new=count, temperature=1.0)
    same, ties, worst = 0, [], 0.0
    for i, theirs in enumerate(made.expected(prompt, count, tokens)):
        largest = np.abs(theirs).max()
        worst = max(worst, float(np.abs(scores[i] - theirs).max() / largest))
        likeliest = int(scores[i].argmax())
        same += int(theirs.argmax()) == likeliest
        if int(theirs.argmax()) != likeliest:
            ties.append(float((theirs.max() - theirs[likeliest]) / largest))
    rows = None
    if not caches.ROWS:
        prompts = [draw.integers(0, caches.VOCABULARY, n).tolist() for n in SHORT]
        alone = [made.generate(each, new=30)[0] for each in prompts]
        rows = made.generate(*prompts, new=30) == alone
    return {
        "room": made.room,
        "laws": list(report["certificate"]["generation"]["laws"]),
        "tokens": count,
        "drawn": drawn,
        "same": same,
        "ties": [float(f"{tie:.1e}") for tie in ties],
        "error": float(f"{worst:.1e}"),
        "varied": len(set(tokens)),
        "shapes": len(shapes),
        "blocks": math.ceil((PROMPT + count) / 64),
        "rows": rows,
        "bytes_copied_and_new": copied(made, prompt),
        "tokens_per_second": round(count / taken),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--tokens", type=int, default=500)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for path in arguments.models:
        with tempfile.TemporaryDirectory() as folder:
            try:
                package = fairhand.compile(path, Path(folder) / "decoder").path
                found = figures(path, package, arguments.tokens)
            except fairhand.FairhandError as error:
                found = {"refused": str(error)}
        print(json.dumps({"file": str(path), **found}), flush=True)


if __name__ == "__main__":
    main()
