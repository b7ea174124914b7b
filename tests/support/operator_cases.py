"""Cases of operators: small inputs and attributes, made into models of one node.

`support/cases/` has them, a file for each of analysis/ops; `CASES` holds them all.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairhand.analysis.ops.registry import OpDef

FLOATS = ("float16", "float64", "bfloat16")
INTS = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class Case:
    """One test of an operator: NumPy inputs (None = absent) and attributes.

    `constants` are the positions given as initializers. A shape stands for standard
    normal float32 from a fixed seed, an array for itself.
    """

    inputs: tuple[Any, ...]
    attrs: Mapping[str, Any]
    constants: tuple[int, ...] = ()
    outputs: int = 1


def case(
    *inputs: Any, constants: Sequence[int] = (), outputs: int = 1, **attrs: Any
) -> Case:
    """A test of an operator: its inputs, and attributes by name."""
    return Case(inputs, attrs, tuple(constants), outputs)


CASES: dict[tuple[str, str], list[Case]] = {}


def cases(name: str, *more: Case, domain: str = "") -> None:
    """Adds to the cases of an operator."""
    CASES.setdefault((domain, name), []).extend(more)


def cases_of(op: OpDef) -> Sequence[Case]:
    """The cases of an entry of the operator table."""
    folder = Path(__file__).parent
    for file in sorted(folder.glob("cases/*/*.py")) if not CASES else ():
        importlib.import_module(f"support.cases.{file.parent.name}.{file.stem}")
    return CASES.get((op.domain, op.name), ())


def _of(dtype: str) -> Callable[[Any], npt.NDArray[Any]]:
    return lambda values: np.array(values, dtype)


f16, f32, f64 = map(_of, ("float16", "float32", "float64"))
i8, i32, i64 = map(_of, ("int8", "int32", "int64"))
u8, u32, u64 = map(_of, ("uint8", "uint32", "uint64"))


def text(*words: Any) -> npt.NDArray[Any]:
    """An array of strings."""
    return np.array(words, dtype=object)


def spread(low: float, high: float, *dtypes: str) -> list[Case]:
    """Cases over an interval: float32 and `dtypes`, a scalar, and no elements."""
    grid = np.linspace(low, high, 24).reshape(2, 3, 4)
    made = [case(grid.astype(dtype)) for dtype in ("float32", *dtypes)]
    middle = np.float32((low + high) / 2)
    return [*made, case(np.array(middle)), case(np.empty((0, 3), np.float32))]


def pairs(zero: bool = True) -> list[Case]:
    """Cases of two operands: every type, broadcasting, numbers on either side."""
    made = [
        case([2, 3], [2, 3]),
        case([2, 1, 4], [3, 1]),
        case([], [3]),
        case([0, 3], [3]),
        case([2, 3], f32(0.1), constants=(1,)),
        case(f32([[2.5]]), [2, 3], constants=(0,)),
        case([2], f32([[[-3]]]), constants=(1,)),
        case([2, 3], f32([1, 2, 3]), constants=(1,)),
    ]
    left = np.arange(-7, 8)
    right = left[::-1] if zero else np.where(left[::-1] == 0, 3, left[::-1])
    for dtype in (*FLOATS, *INTS, *UNSIGNED):
        if dtype == "uint64" and not zero:  # ONNX Runtime takes Mod through float64
            left, right = abs(left), abs(right)
        made.append(case(left.astype(dtype), right.astype(dtype)))
        made.append(case(left.astype(dtype), np.array(3, dtype), constants=(1,)))
    made.append(case(f16([0.3, 1, 7]), f16(0.1), constants=(1,)))
    return made
