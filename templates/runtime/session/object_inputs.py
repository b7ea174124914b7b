"""Inputs that are strings, lists, maps or None, by type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..model import INPUTS
from ..ort_interface import FeedError, as_theirs, from_list
from .session import checked
from .types import to_tensor


def to_input(name: str, value: Any, device: torch.device) -> Any:
    """What was fed, in memory of its own where it is a tensor or strings."""
    return read(name, value, *INPUTS[name], device)


def read(name: str, value: Any, dtype: str, shape: Any, device: torch.device) -> Any:
    """A value that was fed to input `name`, or stands in its list."""
    if dtype in READERS:
        return READERS[dtype](name, value, dtype, shape, device)
    return to_tensor(checked(name, value, dtype, shape), device)


def read_strings(name: str, value: Any, dtype: str, shape: Any, _: Any) -> np.ndarray:
    """An array of str, which ONNX Runtime makes of any other object, too."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "S":
        value = np.char.decode(value, "utf-8")
    if isinstance(value, list):
        value = from_list(name, value, "object")
    if isinstance(value, np.ndarray) and value.dtype.kind in "UO":
        value = np.array(np.frompyfunc(str, 1, 1)(value), object)
    return np.array(checked(name, value, dtype, shape), order="C")


def read_list(name: str, value: Any, dtype: str, shape: Any, device: Any) -> list[Any]:
    inner = dtype.removeprefix("seq(")[:-1]
    items = read_python(name, value, dtype, shape, device)
    return [read(name, item, inner, None, device) for item in items]


def read_optional(name: str, value: Any, dtype: str, shape: Any, device: Any) -> Any:
    inner = dtype.removeprefix("optional(")[:-1]
    return None if value is None else read(name, value, inner, shape, device)


def read_python(name: str, value: Any, dtype: str, *_: Any) -> Any:
    """A list, or a map, as it is."""
    if not isinstance(value, dict if dtype.startswith("map(") else list):
        text = f"input {name!r} must be {dtype}, got {type(value).__name__}"
        kind = "Fail" if value is None else "InvalidArgument"
        raise as_theirs(FeedError(text), kind)
    return value


READERS: dict[str, Callable[..., Any]] = {
    "object": read_strings,
    "seq(float32)": read_list,
    "optional(float32)": read_optional,
    "map(string,tensor(float))": read_python,
}
