"""Cases of analysis/ops/onnx/strings.py."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from support.operator_cases import case, cases, f32, i64, text

_WORDS = text(["a", "b c", ""], ["d\u00e9", "'\"\\", "f"])
for _name, _cases in {
    "Compress": [case(_WORDS, np.array([False, True]), axis=0)],
    "DepthToSpace": [case(text([[["a"]], [["b"]], [["c"]], [["d"]]]), blocksize=2)],
    "Expand": [case(text(["a"], ["b"]), i64([2, 3]), constants=(1,))],
    "Flatten": [case(_WORDS, axis=0)],
    "GatherElements": [case(_WORDS, i64([[2, 0], [1, 1]]), axis=1)],
    "GatherND": [case(_WORDS, i64([[1, 2], [0, 0]]))],
    "Reshape": [case(_WORDS, i64([3, -1]), constants=(1,))],
    "ReverseSequence": [case(_WORDS, i64([2, 1, 1]), batch_axis=1, time_axis=0)],
    "OneHot": [
        case(i64([0, 2, -1]), np.array(3), text("no", "yes"), constants=(1,)),
        case(i64([[0, 1]]), np.array(3), text("no", "yes"), axis=0, constants=(1, 2)),
    ],
    "ScatterElements": [case(_WORDS, i64([[2], [-3]]), text(["x"], ["y"]), axis=1)],
    "ScatterND": [
        case(_WORDS, i64([[-1, 0], [0, 1]]), text("x", "y")),
        case(_WORDS, i64([[1]]), text(["x", "y", "z"]), constants=(1,)),
    ],
    "Slice": [case(_WORDS, i64([1]), i64([3]), i64([1]), constants=(1, 2, 3))],
    "SpaceToDepth": [case(text([[["a", "b"], ["c", "d"]]]), blocksize=2)],
    "Split": [case(_WORDS, axis=1, num_outputs=3, outputs=3)],
    "SplitToSequence": [
        case(_WORDS, axis=1),
        case(_WORDS, i64([1, 2]), axis=1),
        case(_WORDS, axis=0, keepdims=0),
    ],
    "Squeeze": [case(text(["a", "b"]), i64([0]), constants=(1,))],
    "Tile": [case(_WORDS, i64([1, 2]), constants=(1,))],
    "Transpose": [case(_WORDS, perm=[1, 0])],
    "Unsqueeze": [case(_WORDS, i64([1]), constants=(1,))],
}.items():
    cases(_name, *_cases)

cases(
    "Gather",
    case(_WORDS, i64([2, 0]), axis=1),
    # Rows of strings come out of ONNX Runtime with their first column alone.
    case(text("x", "y"), i64(1), constants=(1,)),
    case(text("x", "y", "z"), i64([[2, 0], [1, -1]]), constants=(0,)),
)
cases("Identity", case(_WORDS))
cases("Size", case(_WORDS))
cases(
    "Concat",
    case(_WORDS, _WORDS, axis=1),
    case(_WORDS, text(["x"] * 3), axis=0, constants=(1,)),
)
_PAIRS = text(["b", "a"], ["\u00e9", "b"], ["b", "a"])
cases(
    "Unique",
    case(_PAIRS, outputs=4),
    case(_PAIRS, axis=0, outputs=4),
    case(_PAIRS, sorted=0, outputs=2),
    case(text("b", "a", "b")),
)
_SEQUENCE = (text("a", "b"), text("c", "d"))
cases(
    "ConcatFromSequence",
    case(_SEQUENCE, axis=0),
    case(_SEQUENCE, axis=1, new_axis=1),
)
cases("SequenceAt", case(_SEQUENCE, np.array(1)))
cases("SequenceConstruct", case(text("a"), text("b", "c")))
cases("Where", case(np.array([[True], [False]]), _WORDS, text("x", "y", "z")))
cases(
    "Equal",
    case(_WORDS, text("a", "x", "f")),
    case(_WORDS, text("a"), constants=(1,)),
)

_SPELLED = text("1", "-2.5", "1e-3", "NaN", "INF", "-INF", "0.1")
_TEXT = ir.DataType.STRING.value
cases(
    "Cast",
    case(_SPELLED, to=ir.DataType.FLOAT.value),
    case(_SPELLED, to=ir.DataType.DOUBLE.value),
    case(text(["3", "-14"]), to=ir.DataType.INT64.value),
    case(text("3", "-14"), to=ir.DataType.INT32.value),
    case(f32([1, -2.5, 1e-3, 0.47892547, 1e10, 123456.789]), to=_TEXT),
    case(f32([np.nan, np.inf, -np.inf, 0, 100, 1e-10]), to=_TEXT),
    case(np.array([1 / 3, 1e300, 5.0, -0.1]), to=_TEXT),
    case(i64([[1, -2], [3, 2**60]]), to=_TEXT),
    case(np.array([True, False]), to=_TEXT),
    case(_WORDS, to=_TEXT),
)
cases("CastLike", case(text("3", "-1"), f32([0])), case(i64([3]), text("x")))

cases(
    "StringConcat",
    case(_WORDS, text("x", "", "\u00e9")),
    case(text("a", "b"), text("z"), constants=(1,)),
    case(np.array("a", object), np.array("b", object)),
)

cases(
    "RegexFullMatch",
    case(text("www.google.com", "facebook"), pattern="www.[\\w.-]+\\.\\bcom\\b"),
    case(text(["a", "ab"], ["abb", ""]), pattern="ab*"),
)

_SENTENCES = text("a  b c", " x", "", "y,z,")
cases(
    "StringSplit",
    case(_SENTENCES, outputs=2),
    case(_SENTENCES, delimiter=",", outputs=2),
    case(text(["a b c"], ["d"]), delimiter=" ", maxsplit=1, outputs=2),
)

_DAYS = text("monday", "Tuesday", "FRIDAY")
cases(
    "StringNormalizer",
    case(_DAYS, stopwords=["monday"], is_case_sensitive=1),
    case(_DAYS, stopwords=["MONDAY"], case_change_action="LOWER"),
    case(_DAYS[None], stopwords=["Friday"], case_change_action="UPPER"),
    case(_DAYS, case_change_action="UPPER"),
    case(_DAYS[:1], stopwords=["monday"], is_case_sensitive=1),
)
