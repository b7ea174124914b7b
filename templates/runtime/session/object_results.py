"""Results that are strings, lists, maps or None, by type."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from ..model import OUTPUTS
from .types import to_array


def to_results(names: list[str], outputs: Mapping[str, Any]) -> list[Any]:
    """Copies: writing to one changes no parameter and no other output."""
    return [to_result(OUTPUTS[name][0], outputs[name]) for name in names]


def to_result(dtype: str, value: Any) -> Any:
    return WRITERS.get(dtype, to_array)(dtype, value)


def write_list(dtype: str, values: list[Any]) -> list[Any]:
    return [to_result(dtype.removeprefix("seq(")[:-1], value) for value in values]


def write_optional(dtype: str, value: Any) -> Any:
    inner = dtype.removeprefix("optional(")[:-1]
    return None if value is None else to_result(inner, value)


def write_python(dtype: str, value: Any) -> Any:
    """Strings, or maps."""
    return copy.deepcopy(value)


WRITERS: dict[str, Callable[[str, Any], Any]] = {
    "object": write_python,
    "seq(float32)": write_list,
    "optional(float32)": write_optional,
}
