"""Cases of analysis/ops/onnx/reductions.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import Case, case, cases, i64, u64


def _cases(
    values: Any = None, types: tuple[str, ...] = (), hollow: bool = True
) -> list[Case]:
    """Every way to give axes, over float32; and `types`; and no elements at all."""
    grid = np.linspace(-3, 4, 24).reshape(2, 3, 4) if values is None else values
    x = grid.astype(np.float32)
    made = [case(x), case(x, keepdims=0), case(x[0, 0, 0]), case(x[:, 0, 0])]
    for axes in ([1], [-1], [0, 2], [-1, -2], [0, 1, 2]):
        for keep in (0, 1):
            made.append(case(x, i64(axes), constants=(1,), keepdims=keep))
            made.append(case(x, i64(axes), keepdims=keep))
    made.append(case(x, i64([-1, 1, 2, 1]), constants=(1,), keepdims=0))
    for noop in (0, 1):
        none = i64([])
        made.append(case(x, none, constants=(1,), noop_with_empty_axes=noop))
        made.append(case(x, none, noop_with_empty_axes=noop))
        made.append(case(x, noop_with_empty_axes=noop))
    for dtype in ("float64", "float16", *types):
        typed = grid.astype(dtype)
        made.append(case(typed, i64([1]), constants=(1,), keepdims=0))
        made.append(case(typed))
    if hollow:
        shell = np.empty((2, 0, 3), np.float32)
        made.append(case(shell, i64([1]), constants=(1,)))
        made.append(case(shell, i64([0]), constants=(1,), keepdims=0))
        made.append(case(shell, keepdims=0))
    return made


_WHOLE = ("int32", "int64", "uint32", "uint64")
_POSITIVE = np.arange(1, 25).reshape(2, 3, 4)
_FACTORS = np.array([[[1, 2, 1, 3], [2, 1, 1, 1], [1, 1, 2, 1]]] * 2)
_UNSIGNED = _cases(_POSITIVE, types=_WHOLE[2:], hollow=False)[-4:]
# The mean of nothing is undefined.
_MEANS = _cases(types=_WHOLE[:2], hollow=False) + _UNSIGNED
# Of uint32, onnx's own evaluator makes uint64.
_SQUARES = _cases(types=_WHOLE[:2]) + _UNSIGNED[2:]
_ALL_TYPES = _cases(types=_WHOLE[:2]) + _UNSIGNED
for _name in ("ReduceSum", "ReduceL1", "ReduceL2"):
    cases(_name, *_ALL_TYPES)
cases("ReduceMean", *_MEANS)
cases("ReduceLogSum", *_cases(_POSITIVE, _WHOLE[:2]))
cases(
    "ReduceLogSumExp",
    *_cases(types=_WHOLE[:2]),
    case(i64([[5, 5, 5, 4, 4, 4], [0, 0, -1, -9, -9, 0]]), i64([1]), constants=(1,)),
)
cases("ReduceSumSquare", *_SQUARES)
cases("ReduceProd", *_cases(_FACTORS, _WHOLE))
_BOOLS = np.array([[True, False, False], [False, False, True]])
for _name in ("ReduceMax", "ReduceMin"):
    cases(
        _name,
        *_cases(types=(*_WHOLE[:2], "int8")),
        *_cases(_POSITIVE, types=(*_WHOLE[2:], "uint8"))[-6:],
        case(_BOOLS, i64([0]), constants=(1,)),
        case(_BOOLS, i64([1]), constants=(1,), keepdims=0),
        case(_BOOLS, keepdims=0),
        case(np.empty((2, 0), np.int32), i64([1]), constants=(1,)),
        case(np.empty((2, 0), bool), i64([1]), constants=(1,)),
        case(np.empty((2, 0), bool), i64([1])),
        case(u64([[2**63, 1]]), i64([1]), constants=(1,)),
        case(i64([[7, 1], [4, 2]]), i64([1, -1]), constants=(1,), keepdims=0),
    )


_TIES = np.array([[1, 3, 3, 2], [2, 2, 2, 2], [3, 1, 0, 3]])
for _name in ("ArgMax", "ArgMin"):
    cases(
        _name,
        case([2, 3, 4]),
        *[
            case(
                _TIES.astype(np.float32),
                axis=axis,
                keepdims=keep,
                select_last_index=last,
            )
            for axis in (0, 1, -1)
            for keep in (0, 1)
            for last in (0, 1)
        ],
        *[
            case(_TIES.astype(dtype), axis=1)
            for dtype in (
                "float16",
                "float64",
                "int8",
                "int16",
                "uint8",
                *_WHOLE,
            )
        ],
    )


for _name in ("CumSum", "CumProd"):
    cases(
        _name,
        *[
            case(
                _FACTORS.astype(np.float32),
                np.array(axis, np.int64),
                constants=constants,
                exclusive=exclusive,
                reverse=reverse,
            )
            for axis in (0, 2, -2)
            for constants in ((), (1,))
            for exclusive in (0, 1)
            for reverse in (0, 1)
        ],
        *[
            case(
                _FACTORS.astype(dtype),
                np.array(1, np.int32),
                constants=(1,),
                exclusive=exclusive,
            )
            for dtype in ("float64", "float16", *_WHOLE)
            for exclusive in (0, 1)
        ],
        case(i64([3, 4, 5]), i64([0]), constants=(1,)),
        case([2, 0], np.array(1, np.int64), constants=(1,), exclusive=1),
    )
