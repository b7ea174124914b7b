"""Constants of the graph as expressions, so that a bare network holds them too."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from ...analysis.graph.constants import is_number
from ...analysis.graph.parameters import is_parameter, is_saved
from ...analysis.literals import literal
from ...analysis.ops.helpers import buffers
from ...analysis.ops.module_form import Weight
from ...analysis.spelling.expr import TORCH_DTYPES
from ..ir.package_plan import ArgumentPlan, ClassPlan, SourceNodes, path_text
from ..modules.members import Attribute
from .module_classes import ClassTable, ModuleClass

_SHORT = 4  # elements of a tensor for which no formula is shorter
_LISTED = 32  # integers of a tensor that is written out, and floats,
_ONE_LINE = 56  # if no more characters are
_CHECKED = 2**24  # bytes of a tensor that formulas are tried on
_COUNTED = ("float32", "float64", "int64", "int32")


class Constants:
    """How the buffers of a faithful network get what they hold.

    `unwritten`: some are no short expression, and read from the weights file;
    `optional`: some have a name in the file, under which a state_dict may have them.
    """

    def __init__(self, classes: ClassTable) -> None:
        self._classes = classes
        self.unwritten = False
        self.optional = False

    def line(self, cls: ModuleClass, member: Attribute, empty: str) -> str:
        """The statement that makes a tensor of a class; `empty` has its shape alone."""
        value = member.what
        assert isinstance(value, ir.Value)
        if is_parameter(value):
            return f"self.{member.attr} = nn.Parameter({empty})"
        text = self._text(cls, member)
        if not self._classes.faithful:
            return f'self.register_buffer("{member.attr}", {text or empty})'
        self.unwritten |= text is None
        self.optional |= is_saved(value)
        persistent = "" if is_saved(value) else ", persistent=False"
        *holder, name = member.path
        return (
            f'{path_text(tuple(holder))}.register_buffer("{name}", '
            f"{text or empty}{persistent})"
        )

    def helpers(self, stored: bool) -> list[Callable[..., object]]:
        """The functions that see to buffers; some are `stored` beside state_dict."""
        reads = [buffers.read_constants] if stored or self.unwritten else []
        return [*([buffers.keep_buffers] if self.optional else []), *reads]

    def network(self, plan: ClassPlan) -> ClassPlan:
        """The network's class, whose last lines see to buffers of all classes."""
        init, lines = plan.constructor, list[str]()
        if self.optional:
            lines.append("self.register_load_state_dict_pre_hook(keep_buffers)")
        if self.unwritten:
            weights = ArgumentPlan("weights", "str | Path", "WEIGHTS")
            init = replace(init, arguments=(weights,))
            lines.append("read_constants(self, weights)")
        sources = (*init.sources, *(SourceNodes() for _ in lines))
        init = replace(init, body=(*init.body, *lines), sources=sources)
        return replace(plan, constructor=init)

    def _text(self, cls: ModuleClass, member: Attribute) -> str | None:
        """The expression that is right for every instance of the class."""
        texts = {
            constant_text(
                Weight(same.what).array(),
                TORCH_DTYPES[same.what.dtype],
                self._classes.faithful,
            )
            for run, kind in self._classes.of.items()
            if kind is cls
            for same in self._classes.members.get(run, ())
            if same.text == member.text
            and isinstance(same.what, ir.Value)
            and same.what.dtype is not None
        }
        return texts.pop() if len(texts) == 1 else None


def constant_text(array: np.ndarray, dtype: str, listed: bool = True) -> str | None:
    """What makes a tensor of PyTorch's `dtype` that is equal to the bit.

    None if there is no short expression for it. Floats are `listed` where no other
    training may change them, and the text with them.
    """
    if not is_number(array.dtype) or array.dtype.name != dtype:
        return None
    if not array.size or (array.nbytes > _CHECKED and any(array.strides)):
        return None
    shape = array.shape
    if array.size > 1 and not any(array.strides):  # one element, however many
        array = array[(slice(0, 1),) * array.ndim]
    if array.dtype.kind in "fV" and np.isnan(array).any():
        return None  # there are many
    first = array.reshape(-1)[:1]
    many = math.prod(shape) > 1
    if many and np.array_equal(_bits(array), _bits(first, array.shape)):
        return _full(first[0], shape, dtype)
    formulas = _formulas(array, dtype) if array.dtype.kind != "V" else ()
    found = next((text for text, same in formulas if same), None)
    listed = listed or array.dtype.kind not in "fV"
    if found is None and array.size <= _LISTED and listed:
        default = dtype in ("float32", "int64", "bool")
        options = "" if default else f", dtype=torch.{dtype}"
        text = _listed(array)
        if array.dtype.kind not in "fV" or len(text) <= _ONE_LINE:
            return f"torch.tensor({text}{options})"
    return found


def _bits(array: np.ndarray, shape: Sequence[int] | None = None) -> np.ndarray:
    """Elements by their bits: 0 and -0 differ."""
    whole = np.ascontiguousarray(array).reshape(array.shape)
    bits = whole.view(f"u{array.dtype.itemsize}")
    return bits if shape is None else np.broadcast_to(bits, shape)


def _listed(array: np.ndarray) -> str:
    if array.ndim == 0:
        return literal(array[()])
    return f"[{', '.join(map(_listed, array))}]"


def _full(value: np.generic, shape: Sequence[int], dtype: str) -> str:
    default = dtype in ("float32", "int64", "bool")
    sizes = literal(tuple(map(int, shape)))
    plain = literal(value)
    if plain in ("0.0", "1.0", "0", "1", "True", "False"):
        options = "" if dtype == "float32" else f", dtype=torch.{dtype}"
        return f"torch.{'ones' if value else 'zeros'}({sizes}{options})"
    return f"torch.full({sizes}, {plain}{'' if default else f', dtype=torch.{dtype}'})"


def _formulas(array: np.ndarray, dtype: str) -> Iterator[tuple[str, bool]]:
    """Expressions, and whether they are equal to the array."""
    flat = array.reshape(-1)
    view = "" if array.ndim == 1 else f".view({', '.join(map(str, array.shape))})"
    if dtype in _COUNTED and array.size > _SHORT:
        start, step = (float(x) for x in (flat[0], flat[1] - flat[0]))
        if start.is_integer() and step.is_integer() and step:
            count = np.arange(flat.size, dtype=np.float64) * step + start
            yield _range(int(start), int(step), flat.size, dtype) + view, _same(
                count.astype(array.dtype), flat
            )
    if (
        dtype in (*_COUNTED, "bool")
        and array.ndim >= 2
        and array.size == np.prod(array.shape[-2:]) > _SHORT
    ):
        yield from _triangles(array.reshape(array.shape[-2:]), array.shape, dtype)


def _range(start: int, step: int, count: int, dtype: str) -> str:
    bounds = [start, start + step * count, step]
    bounds = bounds if step != 1 else bounds[:2] if start else bounds[1:2]
    options = "" if dtype == "int64" else f", dtype=torch.{dtype}"
    return f"torch.arange({', '.join(map(str, bounds))}{options})"


def _triangles(
    matrix: np.ndarray, shape: Sequence[int], dtype: str
) -> Iterator[tuple[str, bool]]:
    """One number throughout, and zeros on one side of a diagonal."""
    for side, corner, cut in (
        ("tril", matrix[-1, 0], np.tril),
        ("triu", matrix[0, -1], np.triu),
    ):
        whole = np.broadcast_to(np.asarray(corner), matrix.shape)
        edge = np.count_nonzero(matrix[0] if side == "tril" else matrix[:, 0])
        diagonal = edge - 1 if side == "tril" else 1 - edge
        offset = f"{diagonal}" if diagonal else ""
        text = _full(corner, shape, dtype)
        yield f"{text}.{side}({offset})", _same(cut(whole, diagonal), matrix)


def _same(made: np.ndarray, array: np.ndarray) -> bool:
    return made.dtype == array.dtype and np.array_equal(_bits(made), _bits(array))
