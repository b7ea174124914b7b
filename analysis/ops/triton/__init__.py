"""How operators are spelled inside a kernel."""

from __future__ import annotations

from .elementwise import POINTWISE, KernelOp
from .index_maps import MOVES
from .rows import ROWS

KERNEL_OPS: dict[str, KernelOp] = {**POINTWISE, **ROWS, **MOVES}
