"""Words and numbers that a model knows: what inputs of strings and maps are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ...analysis.graph.map_types import map_type
from .index_limits import follow

_WORDS = ("", "a", "zero", "Two words")
_MOST = 24
_TEXTS = """cats_strings classes_strings keys_strings pool_strings stopwords
    string_vocabulary""".split()
_NUMBERS = "cats_int64s int64_vocabulary keys_int64s pool_int64s".split()


def known_words(value: ir.Value) -> list[str]:
    """Some strings for an input: those that operators look for, and some others."""
    return [*list(dict.fromkeys(_listed(value, _TEXTS)))[:_MOST], *_WORDS]


def known_numbers(value: ir.Value) -> list[int]:
    """The integers that operators look for in an input."""
    return sorted(set(_listed(value, _NUMBERS)))


def only_known(value: ir.Value) -> list[Any]:
    """What the input may be, if an encoder that it reaches refuses all else."""
    name = "cats_strings" if value.dtype == ir.DataType.STRING else "cats_int64s"
    lists = []
    for reach in follow(value):
        found = reach.node.attributes.get(name)
        if found and not reach.node.attributes.get_int("zeros", 1):
            lists.append(set(found.value))  # no row of zeros stands for others
    return sorted(set.intersection(*lists)) if lists else []


def _listed(value: ir.Value, names: Iterable[str]) -> list[Any]:
    found: list[Any] = []
    for reach in follow(value):
        for name in names:
            attribute = reach.node.attributes.get(name)
            found += [] if attribute is None else list(attribute.value)
    return found


def random_map(value: ir.Value, rng: np.random.Generator) -> dict[Any, Any]:
    """A map with some of the keys that are looked for, and with random values."""
    parts = map_parts(value)
    assert parts is not None
    keys = [key for key in parts["keys"] if rng.random() < 0.8] or parts["keys"][:1]
    numbers = rng.standard_normal(len(keys)).astype(np.float32)
    if parts["values"] == "str":
        return {key: str(i) for i, key in enumerate(keys)}
    make = float if parts["values"] == "float" else int
    return {key: make(number * 4) for key, number in zip(keys, numbers, strict=True)}


def map_parts(value: ir.Value) -> Mapping[str, Any] | None:
    """Keys and the type of the values of a map that is an input; None for others."""
    kind = map_type(value)
    if kind is None or kind.WhichOneof("value") != "map_type":
        return None
    is_text = kind.map_type.key_type == ir.DataType.STRING
    keys = known_words(value) if is_text else [*known_numbers(value), 0, 1, 3]
    dtype = ir.DataType(kind.map_type.value_type.tensor_type.elem_type)
    values = "float" if dtype.is_floating_point() else "int"
    if dtype == ir.DataType.STRING:
        values = "str"
    return {"keys": list(dict.fromkeys(keys))[:_MOST], "values": values}
