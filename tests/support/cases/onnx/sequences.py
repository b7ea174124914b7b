"""Cases of analysis/ops/onnx/sequences.py."""

from __future__ import annotations

import numpy as np
from support.operator_cases import case, cases

_X = np.arange(6, dtype=np.float32).reshape(2, 3)
_Y = np.ones((1, 3), np.float32)
_SEQUENCE = (_X, _Y, -_X)


def _place(i: int) -> np.ndarray:
    return np.array(i, np.int64)


cases("SequenceEmpty", case(), case(dtype=7))

cases("SequenceConstruct", case([2, 3]), case([2, 3], [1, 3], [4]))

cases(
    "SequenceInsert",
    case(_SEQUENCE, [2, 2]),
    *(case(_SEQUENCE, [2], _place(i), constants=(2,)) for i in (0, 1, 3, -1)),
    *(case(_SEQUENCE, [2], _place(i)) for i in (0, 2, -2)),
)

cases(
    "SequenceErase",
    case(_SEQUENCE),
    *(case(_SEQUENCE, _place(i), constants=(1,)) for i in (0, 1, -1, -2)),
    *(case(_SEQUENCE, _place(i)) for i in (2, -1)),
)

cases(
    "SequenceAt",
    case(_SEQUENCE, _place(1), constants=(1,)),
    case(_SEQUENCE, _place(-1)),
    case(_SEQUENCE, np.array(2, np.int32)),
)

cases("SequenceLength", case(_SEQUENCE))

cases(
    "SplitToSequence",
    case([4, 3]),
    case([4, 3], axis=1, keepdims=0),
    case([4, 3], keepdims=0),
    case([4, 3], axis=-1),
    case([4, 3], _place(1), constants=(1,), keepdims=0),
    case([4, 3], _place(1), axis=1, keepdims=0),
    case([4, 3], _place(3), constants=(1,)),
    case([4, 3], np.array([1, 2]), constants=(1,), axis=1),
    case([4, 3], np.array([3, 1])),
)

cases(
    "ConcatFromSequence",
    case(_SEQUENCE, axis=0),
    case((_X, -_X), axis=-1),
    case((_X, -_X), axis=-1, new_axis=1),
    case((_X, -_X), axis=0, new_axis=1),
)

cases("Optional", case([2, 3]), case(_SEQUENCE))

cases("OptionalHasElement", case([2, 3]), case(_SEQUENCE), case())

cases("OptionalGetElement", case([2, 3]), case(_SEQUENCE))
