"""What the leaves and symbols of a law may stand for, and whether they do."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import onnx_ir as ir

from ...analysis.graph.dims import same
from ..language.pattern import Leaf, Var
from ..language.terms import Axes, Fn, Int, Real, Sizes
from .bindings import Binding, Undecided, decided, evaluate, number


def bind_ends(wanted: Any, found: Any, binding: Binding) -> None:
    """Bind the symbols that end a range of axes; its equation checks the rest."""
    if not isinstance(wanted, Axes) or wanted.span is None or not found:
        return
    for end, place in zip(wanted.span, (min(found), max(found) + 1), strict=True):
        name = symbol_name(end)
        if name and name not in binding.symbols:
            binding.symbols[name] = place


def bind_length(wanted: Any, found: Any, binding: Binding) -> None:
    """Bind the symbol that says how long a list is."""
    if isinstance(wanted, Fn | Sizes):
        length = wanted.length if isinstance(wanted, Fn) else wanted.rank
        name = symbol_name(length)
        if name and name not in binding.symbols:
            binding.symbols[name] = len(found)


def symbol_name(wanted: Any) -> str:
    """The name of a law's symbol, '' for a larger expression."""
    if isinstance(wanted, Int | Real):
        return str(wanted.args[0]) if wanted.head == "symbol" else ""
    return str(wanted.name)


def equal(a: Any, b: Any) -> bool:
    """Whether an attribute has the value that a law asks for; floats as float32."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(b, float) and isinstance(a, int | float | Fraction):
        return bool(np.float32(a) == np.float32(b))  # attributes are float32
    if isinstance(a, frozenset) or isinstance(b, str | float) or isinstance(a, str):
        return bool(a == b)
    return same(a, b) is True


def bind_common_rank(symbols: Iterable[Any], binding: Binding) -> None:
    """Where operands broadcast and none need have all axes: the most one has."""
    ranks: dict[str, int] = {}
    for leaf in symbols:
        if not (isinstance(leaf, Var) and leaf.aligned and leaf in binding.values):
            continue
        name = symbol_name(leaf.length)
        if name and name not in binding.symbols:
            dims = binding.facts.dims(binding.values[leaf])
            ranks[name] = max(ranks.get(name, 0), len(dims or ()))
    binding.symbols.update(ranks)


def misdeclared(name: str, symbol: Any, binding: Binding) -> str:
    """Why a bound symbol isn't what the law declared; empty if it is."""
    if isinstance(symbol, Var):
        value = binding.values.get(symbol)
        if value is None or not symbol.aligned:
            return ""
        dims = binding.facts.dims(value)
        length = number(evaluate(symbol.length, binding))
        if dims is None or len(dims) > length:
            return f"{name} has more than {length} axes"
        return ""
    if name not in binding.symbols:
        return ""
    if isinstance(symbol, Int) and len(symbol.args) == 3:
        low, high = symbol.args[1:]
        if low is not None and not decided(low <= symbol, binding):
            return f"{name} is below {low!r}"
        if high is not None and not decided(symbol <= high, binding):
            return f"{name} is above {high!r}"
    if isinstance(symbol, Fn | Sizes):
        fn = symbol.dim if isinstance(symbol, Sizes) else symbol
        if len(binding.symbols[name]) != number(evaluate(fn.length, binding)):
            return f"{name} has another length"
    return ""


def unfit(leaf: Var, value: ir.Value, binding: Binding) -> str:
    """Why a value is not what a leaf may stand for; empty if it is."""
    facts = binding.facts
    dims = facts.dims(value)
    if dims is None:
        return f"the rank of {value.name} is unknown"
    if leaf.kinds and not _of_kind(value, leaf.kinds):
        return f"{value.name} is no tensor of {leaf.kinds}"
    if leaf.kind is Leaf.TENSOR:
        return ""
    if not facts.is_constant(value):
        return f"{value.name} is no constant"
    if leaf.kind is Leaf.CONSTANT:
        return ""
    single = (Leaf.SCALAR, Leaf.FULL, Leaf.ABOUT)
    if leaf.kind in single and any(n != 1 for n in dims):
        return f"{value.name} has more than one element"
    if leaf.kind is Leaf.SCALAR:
        return ""
    if leaf.kept and _is_parameter(value):
        return f"{value.name} is a parameter of the model"
    return _other_number(leaf, value, binding)


def _is_parameter(value: ir.Value) -> bool:
    """Whether a constant may be trained: zeros of today are biases of tomorrow."""
    tensor, dtype = value.const_value, value.dtype
    if tensor is None or dtype is None or not dtype.is_floating_point():
        return False
    return tensor.size > 1 and not value.meta.get("made")


def _other_number(leaf: Var, value: ir.Value, binding: Binding) -> str:
    uniform = binding.facts.uniform(value)
    assert leaf.number is not None and value.dtype is not None
    try:
        wanted = evaluate(leaf.number, binding)
    except Undecided as reason:
        return str(reason)
    if uniform is None:
        return f"{value.name} isn't one stored number"
    if leaf.kind in (Leaf.FULL, Leaf.FILLED):
        alike = uniform == wanted and _negative(uniform) == _negative(wanted)
    else:
        alike = abs(uniform - wanted) <= 2 * _last_place(value.dtype) * abs(wanted)
    return "" if alike else f"{value.name} is {uniform}, not {float(wanted)}"


def _negative(x: float | int | Fraction) -> bool:
    """Its sign bit: -0.0 is another number than 0."""
    return math.copysign(1, x) < 0


def _of_kind(value: ir.Value, kinds: str) -> bool:
    dtype = value.dtype
    if dtype is None:
        return False
    if kinds == "float":
        return bool(dtype.is_floating_point())
    if kinds == "bool":
        return dtype == ir.DataType.BOOL
    return bool(dtype.is_integer())


def _last_place(dtype: ir.DataType) -> float:
    """The relative distance of neighbouring numbers of an element type."""
    kinds = {"FLOAT": 2.0**-23, "DOUBLE": 2.0**-52, "FLOAT16": 2.0**-10}
    return kinds.get(dtype.name, 2.0**-7)


def unproved_kind(binding: Binding, proved: Collection[str]) -> str:
    """Why a law isn't proved for the element types that stand here; empty if it is.

    Leaves that name no kind of element may be of the kinds in `proved`; of any type at
    all, if these are floats, whole numbers and truth values.
    """
    if len(proved) == len(KINDS):
        return ""
    other = _silent_kinds(binding).difference(proved)
    return f"the law isn't proved for elements that are {min(other)}" if other else ""


KINDS = ("float", "int", "bool")


def _silent_kinds(binding: Binding) -> set[str]:
    """The kinds of element of the leaves that name none."""
    silent = [x for leaf, x in binding.values.items() if not leaf.kinds]
    found = {
        next((kind for kind in KINDS if _of_kind(x, kind)), "of another type")
        for x in silent
    }
    for members in binding.members.values():
        found = found.union(*map(_silent_kinds, members))
    return found
