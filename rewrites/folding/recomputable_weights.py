"""Weights that were computed from weights of the file, and how to compute them again.

Nothing is decided by what such a computation gives, unless a size depends on it. So it
leaves no trace on the weights it takes, and the compile cache repeats it for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from ...analysis.graph.weight_access import FileTensor, glance, is_data, note_read
from .island import Island, compute, constant, fed, tensor_of

_LARGEST_ARGUMENTS = 1 << 20  # bytes of constants that a recipe holds itself


@dataclass(frozen=True, eq=False)
class Recipe:
    """A model in ONNX, and which weights it takes and gives."""

    model: bytes
    takes: Mapping[str, FileTensor]  # by the name of an input
    gives: Sequence[str]  # names of its outputs


class RecomputableWeight(FileTensor):
    """One output of a recipe."""

    def __init__(
        self,
        held: ir.TensorProtocol,
        name: str,
        recipe: Recipe,
        sources: tuple[FileTensor, ...],
    ) -> None:
        super().__init__(held, known_as(name), sources)
        self.recipe, self.output = recipe, name


def known_as(name: str) -> str:
    """No weight of a file is called so."""
    return f"\0{name}"


def arguments(island: Island) -> dict[str, np.ndarray]:
    """What an island is computed from."""
    return {value.name or "": fed(_held(constant(value))) for value in island.inputs}


def tensors_of(
    island: Island, results: Mapping[ir.Value, np.ndarray]
) -> dict[ir.Value, ir.TensorProtocol]:
    """The results as tensors; those of weights know of what they were made."""
    found = {value: tensor_of(array, value.name) for value, array in results.items()}
    sources = _sources(island)
    weights = []
    for value, tensor in found.items():
        if is_data(tensor.dtype, tensor.size) and sources[value]:
            weights.append(value)
        else:
            note_read(*sources[value])
    if not weights:
        return found
    recipe = _recipe(island, weights)
    if recipe is None:
        for value in weights:
            note_read(*sources[value])
        return found
    for value in weights:
        found[value] = RecomputableWeight(
            found[value], value.name or "", recipe, sources[value]
        )
    return found


def made_again(
    recipe: bytes, takes: Mapping[str, ir.TensorProtocol], gives: Sequence[str]
) -> list[np.ndarray] | None:
    """The outputs of a recipe for other weights; None if they can't be computed."""
    feeds = {name: fed(_held(tensor)) for name, tensor in takes.items()}
    return compute(recipe, gives, feeds)


def _held(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return tensor.held if isinstance(tensor, FileTensor) else tensor


def _sources(island: Island) -> dict[ir.Value, tuple[FileTensor, ...]]:
    """The weights that each value of an island depends on."""
    found: dict[ir.Value, tuple[FileTensor, ...]] = {}
    for value in island.inputs:
        tensor = constant(value)
        found[value] = (tensor,) if isinstance(tensor, FileTensor) else ()
    for node in island.nodes:
        inputs = [found[value] for value in node.inputs if value is not None]
        joined = tuple(dict.fromkeys(source for each in inputs for source in each))
        found.update(dict.fromkeys(node.outputs, joined))
    return found


def _recipe(island: Island, weights: Sequence[ir.Value]) -> Recipe | None:
    """What `weights` are computed by; None if it takes too much but weights."""
    wanted, nodes = set(weights), list[ir.Node]()
    for node in reversed(island.nodes):
        if wanted.intersection(node.outputs):
            nodes.append(node)
            wanted.update(value for value in node.inputs if value is not None)
    part = Island(nodes[::-1], island.opsets)
    takes: dict[str, FileTensor] = {}
    others: dict[str, np.ndarray] = {}
    for value in part.inputs:
        tensor = constant(value)
        if isinstance(tensor, FileTensor):
            takes[value.name or ""] = tensor
        else:
            others[value.name or ""] = fed(tensor)
    plain = all(array.dtype.kind in "fiub" for array in others.values())
    if not plain or sum(a.nbytes for a in others.values()) > _LARGEST_ARGUMENTS:
        return None
    shapes = {name: glance(tensor) for name, tensor in takes.items()} | others
    model = part.model(weights, shapes)
    given = [info for info in model.graph.input if info.name in takes]
    del model.graph.input[:]
    model.graph.input.extend(given)
    for name, array in others.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    names = [value.name or "" for value in weights]
    return Recipe(model.SerializeToString(), takes, names)
