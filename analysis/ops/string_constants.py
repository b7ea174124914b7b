"""Constant strings in emitted source.

torch has no strings: a tensor of them is a NumPy array of str objects. A short table is
a literal. A long one would be most of the module, so it is stored with the weights, as
the UTF-8 bytes of a JSON list.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..errors import Unsupported
from ..literals import one_line
from ..spelling.expr import Expr, Name, Ref
from .helpers import strings as helpers

# Characters of a table that stands in the source, quotes and commas included.
SHORT = 600


def decoded(tensor: ir.TensorProtocol) -> npt.NDArray[np.object_]:
    """The elements of a tensor of strings as str objects."""
    array = np.asarray(tensor.numpy(), dtype=object)
    flat = [_text(item) for item in array.reshape(-1)]
    made = np.empty(len(flat), dtype=object)
    made[:] = flat
    return made.reshape(array.shape)


def _text(item: Any) -> str:
    try:
        return item.decode() if isinstance(item, bytes) else str(item)
    except UnicodeDecodeError:
        raise Unsupported(f"a string of the model is no text: {item[:40]!r}") from None


def string_array(t: Any, value: ir.Value) -> Any:
    """A constant of strings as an array, spelled by `t`."""
    assert value.const_value is not None
    array = decoded(value.const_value)
    if array.size and _is_short(array.reshape(-1).tolist()):
        return array_of(t, array.tolist())
    listed = string_list(t, array.reshape(-1).tolist(), value.name or "strings", value)
    made = array_of(t, listed)
    return made if array.ndim == 1 else made.reshape(array.shape)


def string_list(t: Any, words: Sequence[str], name: str, owner: Any) -> Any:
    """A list of strings, spelled by `t`: a literal, or read from the weights.

    `owner` is the node or value whose table it is: the same table is stored once.
    """
    if _is_short(words) or not isinstance(t.np.array, Expr):
        return list(words)
    key = f"stored {name}"
    if key not in owner.meta:
        data = np.frombuffer(json.dumps(list(words)).encode(), np.uint8)
        name = f"{one_line(owner.name or '')}_{name}"
        owner.meta[key] = ir.val(name, const_value=ir.Tensor(data))
    return t.helper(helpers.stored_strings)(Ref(owner.meta[key]))


def _is_short(words: Sequence[str]) -> bool:
    return sum(len(word) + 4 for word in words) <= SHORT


def array_of(t: Any, strings: Any) -> Any:
    """An array of strings of a list, nested or not, spelled by `t`."""
    is_printed = isinstance(t.np.array, Expr)
    return t.np.array(strings, dtype=Name("object") if is_printed else object)
