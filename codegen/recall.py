"""What an entry of the compile cache says: a package as it was written, weights apart.

A weight of the file that nothing looked at may have any content (file_tensor.py); its
type and shape are in the key. Of each of the others an entry holds the hash. Two looks
leave no trace, since they are repeated here: whether a weight is one number throughout,
and which of the large ones are equal.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from ..analysis import ops
from ..analysis.file_tensor import FileTensor, glance
from ..analysis.ops.table import Weight
from ..rewrites.digest import Step, finished
from ..rewrites.facts import uniform_number
from ..rewrites.merge_constants import equal_pairs
from .cache import LARGEST_ENTRY, entries, store
from .load import Loaded
from .plan import WeightPlan
from .weights import as_stored, write_weights

_FILES = "__init__.py model.py session.py engines.py kernels.py lanes.py plan.json"
FILES = (*_FILES.split(), "test_parity.py")  # those of a package that are text
Convert = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Recalled:
    """An entry that holds for a model."""

    loaded: Loaded
    head: Mapping[str, Any]
    stored: memoryview  # the content of weights that can't be made anew

    def write(self, draft: Path) -> dict[str, Any]:
        """Write the files with this model's hash and weights; returns the report."""
        old, new = self.head["sha256"], self.loaded.sha256
        for name, text in self.head["files"].items():
            if name in FILES:
                text = text.replace(old, new)
                (draft / name).write_text(text, encoding="utf-8", newline="\n")
        plans = [self._plan(row) for row in self.head["weights"]]
        report: dict[str, Any] = json.loads(self.head["report"])
        report["weights_bytes"] = write_weights(
            draft / "weights.safetensors", plans, new
        )
        report["source"]["sha256"] = new
        text = (draft / "model.py").read_bytes()
        report["source_map"]["sha256"] = hashlib.sha256(text).hexdigest()
        steps = [_decoded(step) for step in self.head["digest"]]
        weights = file_weights(self.loaded.model)
        held = {name: weight.held for name, weight in weights.items()}
        report["certificate"]["graph"] = finished(steps, held)
        return report

    def _plan(self, row: Mapping[str, Any]) -> WeightPlan:
        key = row["key"]
        if "of" in row:
            value = self.loaded.model.graph.initializers[row["of"]]
            return WeightPlan(key, Weight(value, _convert(row["by"])).glance)
        name, shape = row["dtype"], row["shape"]
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        start, end = row["bytes"]
        array = np.frombuffer(self.stored[start:end], dtype).reshape(shape)
        return WeightPlan(key, lambda: array)


def recall(key: str, loaded: Loaded) -> Recalled | None:
    """The entry under `key` that holds for this model, if there is one."""
    for content in entries(key):
        try:
            length = int.from_bytes(content[:8], "little")
            head = json.loads(zlib.decompress(content[8 : 8 + length]))
            if _holds(head, loaded.model):
                return Recalled(loaded, head, memoryview(content)[8 + length :])
        except (LookupError, TypeError, ValueError, zlib.error):
            continue  # not what this version writes
    return None


def remember(
    key: str,
    loaded: Loaded,
    draft: Path,
    report: Mapping[str, Any],
    weights: Sequence[WeightPlan],
    steps: Sequence[Step],
) -> None:
    """Keep what was written in `draft`. `steps` lead to the digest of its graph."""
    rows, stored = [], bytearray()
    for weight in weights:
        row = _recipe(weight)
        if row is None:
            array = np.ascontiguousarray(as_stored(weight.array()))
            if len(stored) + array.nbytes > LARGEST_ENTRY:
                return
            start = len(stored)
            stored += array.reshape(-1).view(np.uint8).data
            row = {"dtype": array.dtype.name, "shape": array.shape}
            row["bytes"] = [start, len(stored)]
        rows.append({"key": weight.key, **row})
    texts = {name: draft / name for name in FILES if (draft / name).is_file()}
    head = {
        "sha256": loaded.sha256,
        "files": {name: path.read_text("utf-8") for name, path in texts.items()},
        "report": json.dumps(report),
        "weights": rows,
        "digest": [_encoded(step) for step in steps],
        "equal": _equal(loaded.model),
        "read": _read(loaded.model),
    }
    packed = zlib.compress(json.dumps(head).encode(), 1)
    store(key, len(packed).to_bytes(8, "little") + packed + stored)


def file_weights(model: ir.Model) -> dict[str, FileTensor]:
    found = {v: v.const_value for v in model.graph.initializers.values()}
    return {v.name or "": t for v, t in found.items() if isinstance(t, FileTensor)}


def _holds(head: Mapping[str, Any], model: ir.Model) -> bool:
    """Whether what was decided by the content of weights would be so again."""
    for name, tensor in file_weights(model).items():
        if name in head["read"]:
            if _hash(tensor) != head["read"][name]:
                return False
        elif uniform_number(tensor.held) is not None:
            return False
    return _equal(model) == head["equal"]


def _read(model: ir.Model) -> dict[str, str]:
    """The hashes of the weights that something may have been decided by."""
    for tensor in file_weights(model).values():
        uniform_number(tensor)  # leaves a trace on those that are
    weights = file_weights(model).items()
    return {name: _hash(tensor) for name, tensor in weights if tensor.is_read}


def _hash(tensor: FileTensor) -> str:
    array = np.ascontiguousarray(glance(tensor)).reshape(-1)
    return hashlib.sha256(array.view(np.uint8).data).hexdigest()


def _equal(model: ir.Model) -> list[list[str]]:
    """The large weights that are equal to others."""
    values = model.graph.initializers.values()
    weights = [v for v in values if isinstance(v.const_value, FileTensor)]
    return [[a.name or "", b.name or ""] for a, b in equal_pairs(weights)]


def _recipe(plan: WeightPlan) -> dict[str, Any] | None:
    """How a tensor of the package is made of one of the file; None if that is unclear.

    A weight whose content is kept in its place has been read.
    """
    if plan.weight is None:
        return None
    tensor, by = plan.weight.value.const_value, _named(plan.weight.convert)
    if by is None or not isinstance(tensor, FileTensor):
        plan.weight.array()
        return None
    return {"of": tensor.known_as, "by": by}


def _named(convert: Convert | None) -> list[Any] | None:
    """A conversion by the place where it is defined, and its arguments."""
    if convert is None:
        return []
    function, arguments = convert, tuple[Any, ...]()
    if isinstance(convert, partial) and not convert.keywords:
        function, arguments = convert.func, convert.args
    module = getattr(function, "__module__", "")
    name = getattr(function, "__qualname__", "")
    plain = all(isinstance(x, bool | int | float | str) for x in arguments)
    made = [module, name, *arguments]
    return made if plain and _function(module, name) is function else None


def _convert(by: Sequence[Any]) -> Convert | None:
    if not by:
        return None
    module, name, *arguments = by
    function = _function(module, name)
    if function is None:
        raise LookupError(name)
    return partial(function, *arguments)


def _function(module: str, name: str) -> Convert | None:
    """A function of NumPy or of the operators' modules: none else is ever called."""
    is_ours = module.startswith(f"{ops.__name__}.")
    if not is_ours and (module, name) != ("numpy", "ravel"):
        return None
    found: Convert | None = getattr(sys.modules.get(module), name, None)
    return found


def _encoded(step: Step) -> str | list[Any]:
    if isinstance(step, str):
        return step
    return [
        (
            part.hex()
            if isinstance(part, bytes)
            else part if isinstance(part, int) else [part[0].hex(), part[1]]
        )
        for part in step
    ]


def _decoded(step: str | list[Any]) -> Step:
    if isinstance(step, str):
        return step
    return [
        (
            bytes.fromhex(part)
            if isinstance(part, str)
            else part if isinstance(part, int) else (bytes.fromhex(part[0]), part[1])
        )
        for part in step
    ]
