"""Tensors of strings: moving them, comparing, converting, and operators of text."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from ..helpers import strings as helpers
from ..node_view import NodeView
from ..registry import ONE_TO_ONE, OPAQUE, OPS, OpDef, Spelling, define
from ..string_constants import array_of, string_list


def _add(name: str, strings: Spelling) -> None:
    """Give an operator that stands in the table its spelling for strings."""
    op = OPS["", name]
    OPS["", name] = replace(op, strings=strings)


# ---- operators that move elements, whatever these are


class _Places(NodeView):
    """The node as if its strings were numbers: the places they are taken from."""

    def _dtype(self, value: ir.Value, which: str) -> ir.DataType:
        if value.dtype == ir.DataType.STRING:
            return ir.DataType.INT64
        return super()._dtype(value, which)


def _moved(spelling: Spelling, *at: int) -> Spelling:
    """The spelling for numbers, on the places of the strings, which are inputs `at`."""

    def spell(t: Any, n: NodeView, *given: Any) -> Any:
        free = (i for i in range(len(given)) if n.has(i) and n.const(i) is None)
        device = [given[i].device for i in free if i not in at][:1]
        words, operands = given[at[0]], list(given)
        for i in at:
            operands[i] = t.helper(helpers.positions)(given[i], *device)
        for i in at[1:]:  # they stand behind the first
            operands[i] = operands[i] + words.size
            words = t.np.concatenate([words.reshape(-1), given[i].reshape(-1)])
        found = spelling(t, _Places(n.node, n.shapes), *operands)
        if isinstance(found, tuple):
            return tuple(
                x if x is None else t.helper(helpers.take)(words, x) for x in found
            )
        listed = isinstance(n.node.outputs[0].type, ir.SequenceType)
        several = sum(map(n.used, range(n.outputs))) > 1
        if listed or several or (n.outputs > 1 and not n.used(0)):
            return t.helper(helpers.take_each)(words, found)
        return t.helper(helpers.take)(words, found)

    return spell


def _gather(t: Any, n: NodeView, words: Any, places: Any) -> Any:
    if n.shapes.rank(n.value(0)) == 1:
        return t.helper(helpers.take)(words, places)
    spelling = OPS["", "Gather"].torch
    assert spelling is not None
    return _moved(spelling, 0)(t, n, words, places)


_MOVERS = (
    *("Compress", "DepthToSpace", "Expand", "Flatten", "GatherElements", "GatherND"),
    *("Reshape", "ReverseSequence", "Slice", "SpaceToDepth", "Split"),
    *("SplitToSequence", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
)
_AT = {"OneHot": (2,), "ScatterElements": (0, 2), "ScatterND": (0, 2)}
_READY = (
    *("ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement"),
    *("SequenceAt", "SequenceConstruct", "SequenceErase", "SequenceInsert"),
    *("SequenceLength", "Unique"),
)
for _name in (*_MOVERS, *_AT, *_READY):
    _spelling = OPS["", _name].torch
    assert _spelling is not None
    at = _AT.get(_name, (0,))
    _add(_name, _spelling if _name in _READY else _moved(_spelling, *at))

_add("Gather", _gather)
_add("Identity", lambda t, n, x: x)
_add("Size", lambda t, n, x: t.tensor(x.size, device=t.device))
_add("Concat", lambda t, n, *xs: t.np.concatenate(list(xs), axis=n.attr("axis")))
_add("Where", lambda t, n, mask, x, y: t.np.where(mask.numpy(force=True), x, y))


def _equal(t: Any, n: NodeView, x: Any, y: Any) -> Any:
    return t.helper(helpers.equal_strings)(x, y, t.device)


_add("Equal", _equal)


# ---- conversions


def _cast(t: Any, n: NodeView, x: Any, like: Any = None) -> Any:
    source, target = n.value(0).dtype, n.node.outputs[0].dtype
    if source == target:
        return x
    if target != ir.DataType.STRING:
        if target is None or target == ir.DataType.BOOL:
            n.refuse("a cast of strings to truth values is not supported")
        return t.helper(helpers.strings_to_numbers)(x, t.dtype(n.out_dtype()), t.device)
    if n.is_float(0):
        return t.helper(helpers.floats_to_strings)(x)
    return t.helper(helpers.integers_to_strings)(x)


_add("Cast", _cast)
_add("CastLike", _cast)


# ---- operators of text


def _join(t: Any, n: NodeView, x: Any, y: Any) -> Any:
    """NumPy makes a plain str of a sum that has no axes."""
    return x + y if n.shapes.rank(n.node.outputs[0]) else array_of(t, x + y)


define(
    OpDef("StringConcat", since=20, mapping=ONE_TO_ONE, traceable=False, strings=_join)
)


def _full_match(t: Any, n: NodeView, words: Any) -> Any:
    pattern = n.attr("pattern")
    if pattern is None:
        n.refuse("RegexFullMatch needs a pattern")
    return t.helper(helpers.full_matches)(words, python_pattern(n, pattern), t.device)


# What RE2 has and Python's re module has not, or means otherwise.
_RE2_ONLY = r"\p \P \C \z \Q \E \pN \x{ [[: (?U (?P> (?s- (?i- (?m-".split()


def python_pattern(n: NodeView, pattern: str) -> str:
    """A pattern of RE2 that means the same to Python's re module, or a refusal."""
    op = n.node.op_type
    for mark in _RE2_ONLY:
        if mark in pattern:
            n.refuse(f"{op} with {mark!r} in its pattern is not supported")
    if re.search(r"\\[wWdDsSbB]", pattern):
        pattern = "(?a)" + pattern  # RE2's classes are of ASCII
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError, Warning):
        n.refuse(f"the pattern of {op} is none that Python's re module reads")
    return pattern


define(
    OpDef(
        "RegexFullMatch",
        since=20,
        mapping=ONE_TO_ONE,
        traceable=False,
        strings=_full_match,
    )
)


def _split(t: Any, n: NodeView, words: Any) -> Any:
    most = n.attr("maxsplit", -1)
    delimiter = n.attr("delimiter", "")
    made = t.helper(helpers.split_strings)(words, delimiter, most, t.device)
    return made[0] if n.used(0) and not n.used(1) else made


define(OpDef("StringSplit", since=20, mapping=OPAQUE, strings=_split, inlines=False))


def _normalize(t: Any, n: NodeView, words: Any) -> Any:
    change = {"NONE": "", "LOWER": "lower", "UPPER": "upper"}
    action = n.attr("case_change_action", "NONE")
    if action not in change:
        n.refuse("StringNormalizer with an unknown change of case")
    stopwords = string_list(t, n.attr("stopwords", []), "stopwords", n.node)
    folds = not n.attr("is_case_sensitive", 0)
    return t.helper(helpers.normalize_strings)(words, stopwords, folds, change[action])


define(OpDef("StringNormalizer", since=10, mapping=OPAQUE, strings=_normalize))
