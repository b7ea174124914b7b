"""What an entry of the compile cache says: a package as it was written, weights apart.

A weight of the file that nothing looked at may have any content (weight_access.py); its
type and shape are in the key. Of each of the others an entry holds the hash. What was
computed from weights is computed again. Two looks leave no trace, as they are repeated
here: whether a weight is one number throughout, and which of the large ones are equal.
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

from ...analysis import ops
from ...analysis.graph.constants import is_wave, uniform_number
from ...analysis.graph.weight_access import FileTensor, glance
from ...analysis.ops.module_form import Weight
from ...rewrites.certificate.graph_hash import Step, digest_steps, finished
from ...rewrites.folding.duplicate_constants import equal_pairs
from ...rewrites.folding.island import tensor_of
from ...rewrites.folding.recomputable_weights import (
    Recipe,
    RecomputableWeight,
    known_as,
    made_again,
)
from ..emit.package_files import SOURCES
from ..emit.weights import as_stored, write_weights
from ..ir.package_plan import WeightPlan
from ..load.read_model import Loaded
from ..plan.make_plan import CompiledModel
from .store import LARGEST_ENTRY, entries, store

Convert = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class _CacheEntry:
    """An entry that holds for a model."""

    loaded: Loaded
    head: Mapping[str, Any]
    stored: memoryview  # the content of weights that can't be made anew
    weights: Mapping[str, ir.TensorProtocol]  # the file's, and those made of them

    def write(self, draft: Path) -> dict[str, Any]:
        """Write the files with this model's hash and weights; returns the report."""
        old, new = self.head["sha256"], self.loaded.sha256
        for name, text in self.head["files"].items():
            if name in SOURCES:
                text = text.replace(old, new)
                (draft / name).write_text(text, encoding="utf-8", newline="\n")
        plans = [self._plan(row) for row in self.head["weights"]]
        report: dict[str, Any] = json.loads(self.head["report"])
        report["weights_bytes"] = write_weights(
            draft / "weights.safetensors", plans, new
        )
        report["source"]["sha256"] = new
        written = (draft / "model.py").read_text("utf-8")
        digest = hashlib.sha256(written.encode()).hexdigest()
        report["source_map"] |= {"sha256": digest, "text": written}
        steps = [_decoded(step) for step in self.head["digest"]]
        report["certificate"]["graph"] = finished(steps, self.weights)
        return report

    def _plan(self, row: Mapping[str, Any]) -> WeightPlan:
        key = row["key"]
        if "of" in row:
            value = ir.Value(const_value=self.weights[row["of"]])
            return WeightPlan(key, Weight(value, _convert(row["by"])).glance)
        name, shape = row["dtype"], row["shape"]
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        start, end = row["bytes"]
        array = np.frombuffer(self.stored[start:end], dtype).reshape(shape)
        return WeightPlan(key, lambda: array)


def recall(key: str, loaded: Loaded) -> _CacheEntry | None:
    """The entry under `key` that holds for this model, if there is one."""
    for content in entries(key):
        try:
            length = int.from_bytes(content[:8], "little")
            head = json.loads(zlib.decompress(content[8 : 8 + length]))
            weights = _weights(head, loaded.model)
            if weights is not None:
                stored = memoryview(content)[8 + length :]
                return _CacheEntry(loaded, head, stored, weights)
        except (LookupError, TypeError, ValueError, zlib.error):
            continue  # not what this version writes
    return None


def remember(
    key: str,
    loaded: Loaded,
    compiled: CompiledModel,
    draft: Path,
    report: Mapping[str, Any],
) -> None:
    """Keep what was written in `draft`, with its report as it was before verifying.

    Nothing is kept that would be too large, or can't be made of other weights.
    """
    weights = compiled.weights
    steps, leaves = digest_steps(compiled.graph)
    rows, stored = [], bytearray()
    for weight in weights:
        row = _recipe(weight)
        if row is None:
            array = as_stored(weight.array())
            if len(stored) + array.nbytes > LARGEST_ENTRY:
                return
            start = len(stored)
            stored += np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            row = {"dtype": array.dtype.name, "shape": array.shape}
            row["bytes"] = [start, len(stored)]
        rows.append({"key": weight.key, **row})
    made = _made([w.weight for w in weights if w.weight is not None], leaves)
    if made is None:
        return
    texts = {name: draft / name for name in SOURCES if (draft / name).is_file()}
    head = {
        "sha256": loaded.sha256,
        "files": {name: path.read_text("utf-8") for name, path in texts.items()},
        "report": json.dumps(report),
        "weights": rows,
        "digest": steps,
        "equal": _equal(loaded.model),
        "made": made,
        "read": _read(loaded.model),
    }
    packed = zlib.compress(json.dumps(head, default=bytes.hex).encode(), 1)
    store(key, len(packed).to_bytes(8, "little") + packed + stored)


def _file_weights(model: ir.Model) -> dict[str, FileTensor]:
    """The weights of a model that stand in its file, by their names there."""
    found = {v: v.const_value for v in model.graph.initializers.values()}
    return {v.name or "": t for v, t in found.items() if isinstance(t, FileTensor)}


def _weights(
    head: Mapping[str, Any], model: ir.Model
) -> dict[str, ir.TensorProtocol] | None:
    """The weights; None if what was decided by their content would not be so again."""
    found: dict[str, ir.TensorProtocol] = {}
    read: set[str] = set()
    for name, tensor in _file_weights(model).items():
        found[name] = tensor.held
        if name in head["read"]:
            read.add(name)
            if _hash(tensor) != head["read"][name]:
                return None
        elif uniform_number(tensor.held) is not None or is_wave(tensor.held):
            return None
    if _equal(model) != head["equal"]:
        return None
    for recipe in head["made"]:
        takes = {name: found[known] for name, known in recipe["takes"].items()}
        names = [row[0] for row in recipe["gives"]]
        arrays = made_again(bytes.fromhex(recipe["model"]), takes, names)
        is_known = read.issuperset(recipe["takes"].values())
        for (name, dtype, shape), array in zip(
            recipe["gives"], arrays or (), strict=True
        ):
            if [array.dtype.name, list(array.shape)] != [dtype, shape]:
                return None
            found[known_as(name)] = made = tensor_of(array, name)
            if is_known:
                read.add(known_as(name))
            elif uniform_number(made) is not None:
                return None
    return found


def _made(
    weights: Sequence[Weight], leaves: Mapping[str, ir.TensorProtocol]
) -> list[dict[str, Any]] | None:
    """The recipes of weights, in order; None if two weights have one name."""
    recipes: dict[Recipe, list[RecomputableWeight]] = {}
    names: dict[str, RecomputableWeight] = {}

    def visit(tensor: ir.TensorProtocol | None) -> bool:
        if (
            not isinstance(tensor, RecomputableWeight)
            or names.get(tensor.known_as) is tensor
        ):
            return True
        if tensor.known_as in names:
            return False
        names[tensor.known_as] = tensor
        uniform_number(tensor)  # leaves a trace if it is
        before = all(map(visit, tensor.recipe.takes.values()))
        recipes.setdefault(tensor.recipe, []).append(tensor)
        return before

    wanted = [*(w.value.const_value for w in weights), *leaves.values()]
    if not all(map(visit, wanted)):
        return None
    return [
        {
            "model": recipe.model.hex(),
            "takes": {name: t.known_as for name, t in recipe.takes.items()},
            "gives": [
                [t.output, t.dtype.numpy().name, list(t.shape.numpy())] for t in tensors
            ],
        }
        for recipe, tensors in recipes.items()
    ]


def _read(model: ir.Model) -> dict[str, str]:
    """The hashes of the weights that something may have been decided by."""
    for tensor in _file_weights(model).values():
        uniform_number(tensor)  # leaves a trace on those that are
    weights = _file_weights(model).items()
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
    of_numpy = module == "numpy" and name in ("ravel", "transpose")
    if not of_numpy and not module.startswith(f"{ops.__name__}."):
        return None
    found: Convert | None = getattr(sys.modules.get(module), name, None)
    return found


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
