"""Cases of analysis/ops/onnx/matmul.py."""

from __future__ import annotations

from functools import partial

import numpy as np
from support.operator_cases import case, cases

_int8, _int32 = partial(np.array, dtype=np.int8), partial(np.array, dtype=np.int32)
_uint8, _uint32 = partial(np.array, dtype=np.uint8), partial(np.array, dtype=np.uint32)
_uint64 = partial(np.array, dtype=np.uint64)
_float16 = partial(np.array, dtype=np.float16)
cases(
    "MatMul",
    case([2, 3], [3, 4]),
    case([2, 3], [3, 4], constants=(1,)),
    case([5, 2, 3], [3, 4], constants=(1,)),
    case([3], [3, 4], constants=(1,)),
    case([3], [2, 3, 4]),
    case([2, 5, 2, 3], [5, 3, 4]),
    case([2, 4, 3], [3]),
    case([3], [3]),
    case([2, 3], [3], constants=(1,)),
    case([2, 3], [5, 3, 4], constants=(1,)),
    case([2, 3], [3, 4], constants=(0,)),
    case([2, 0], [0, 4]),
    case(np.eye(3), np.arange(6.0).reshape(3, 2), constants=(1,)),
    case(np.arange(6).reshape(2, 3), np.full((3, 2), -(2**61))),
    case(_int32([[2**30, 7]]), _int32([[4], [-5]])),
    case(_uint32([[2**31, 7]]), _uint32([[3], [5]])),
    case(_uint64([[2**63, 7]]), _uint64([[3], [5]])),
    case(_float16([[0.5, 2]]), _float16([[3], [5]]), constants=(1,)),
)

cases(
    "Gemm",
    case([2, 3], [3, 4]),
    case([2, 3], [3, 4], [4]),
    case([2, 3], [3, 4], [2, 1], alpha=0.1, beta=0.3),
    case([3, 2], [4, 3], [4], transA=1, transB=1),
    case([2, 3], [4, 3], [4], transB=1, constants=(1, 2)),
    case([2, 3], [3, 4], [4], constants=(1, 2)),
    case([2, 3], [3, 4], constants=(1,)),
    case([3, 2], [3, 4], [1, 4], transA=1, constants=(1, 2)),
    case([2, 3], [3, 4], [1], constants=(1, 2), alpha=0.5, beta=2.0),
    case([2, 3], [4, 3], [4], transB=1, constants=(1, 2), alpha=0.3),
    case([2, 3], [4, 3], [4], transB=1, constants=(1, 2), beta=0.3),
    case([2, 3], [4, 3], [4], transB=1, constants=(1,), beta=0.0),
    case([2, 3], [3, 4], [2, 4], constants=(1, 2)),
    case([2, 3], [3, 4], [2, 4], constants=(1,)),
    case([2, 3], [3, 4], np.array(2, np.float32), constants=(1, 2)),
    case(np.eye(3), np.ones((3, 2)), np.ones(2), alpha=0.1, beta=0.3),
    case(np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4), alpha=2.0),
    case(_uint32([[7]]), _uint32([[3]]), _uint32([2**32 - 1])),
)

cases(
    "Einsum",
    case([2, 3], [3, 4], equation="ij,jk->ik"),
    case([2, 3], [3, 4], equation="ij,jk"),
    case([2, 3, 4], [2, 4, 5], equation="bij, bjk -> bik"),
    case([2, 3, 4], [2, 4, 5], equation="...ij,...jk->...ik"),
    case([2, 3, 4], equation="...ij->...ji"),
    case([2, 3, 4], equation="...ij->..."),
    case([3, 3], equation="ii->i"),
    case([3, 3], equation="ii"),
    case([3, 4], equation="ba"),
    case([3, 4], equation="aB->Ba"),
    case([2, 5, 3], [5, 2, 3], [3], equation="abc,bac,c->b"),
    case([3, 1], [2, 4], equation="ij,jk->ik"),
    case([1, 2], [3, 4], equation="ij,ik->ijk"),
    case(
        np.arange(6).reshape(2, 3),
        np.arange(12).reshape(3, 4),
        equation="ij,jk->ik",
    ),
    case(_int32([[2, 3]]), _int32([[4, 5]]), equation="ij,kj->ik"),
)

_U8 = _uint8([[11, 7, 3], [10, 6, 2], [9, 5, 1], [8, 4, 0]])
_I8 = _int8([[1, -4], [2, 5], [3, -6]])
cases(
    "MatMulInteger",
    case(_U8, _I8),
    case(_U8, _I8, np.array(12, np.uint8), np.array(-3, np.int8)),
    case(_U8, _I8, _uint8([12]), _int8([-3, 2]), constants=(1, 2, 3)),
    case(_U8, _I8, None, _int8([1])),
    case(np.stack([_U8, _U8 + 1]), _I8, np.array(2, np.uint8)),
)
