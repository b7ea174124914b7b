"""Where tensors lie that are reshaped or taken apart: they have axes of their own.

Index arithmetic has the sizes of these axes, as far as they are known or those of the
result. Of others the launcher passes those that it reads off the tensors, `own`; then
all sizes are checked to be products of single ones, or the same wherever they are.
"""

from __future__ import annotations

import onnx_ir as ir
import sympy

from ....analysis.graph.dims import Dim, same
from ..program.program import Argument, KernelProgram, NoKernel
from .layout import Layout, spelled

Names = dict[ir.Value, str]


class ReshapedLayout(Layout):
    """The layout of a program that reshapes, or reads at computed places."""

    def __init__(self, program: KernelProgram) -> None:
        super().__init__(program)
        self.own: dict[tuple[ir.Value, int], str] = {}

    @property
    def foreign(self) -> bool:
        """Whether tensors have sizes that the result has not."""
        sizes = [d for a in self.arguments if self.apart(a) for d in a.dims]
        return any(not isinstance(d, int) and self.like(d) is None for d in sizes)

    def apart(self, argument: Argument) -> bool:
        """Whether a tensor has axes of its own, not those of the result."""
        return argument.value in self.program.apart

    def own_size(self, size: Dim, names: Names) -> str:
        """What the kernel calls a size that the result hasn't."""
        argument, i = self._owner(size)
        name = f"n_{names[argument.value]}_{i}"
        return self.own.setdefault((argument.value, i), name)

    def counts(self, names: Names) -> dict[str, tuple[str, str]]:
        found = {}
        for (value, i), size in sorted(self.own.items(), key=lambda item: item[1]):
            name = names[value]
            found[size] = f"{name}.shape[{i}]", f"of axis {i} of {name}"
        return found

    def moved_letters(self, argument: Argument) -> str:
        if not self.apart(argument):
            return super().moved_letters(argument)
        shown = []
        for size in (d for d in argument.dims if d != 1):
            axis = self.like(size)
            if isinstance(size, int) or axis is not None:
                shown.append(str(size) if axis is None else self.letter(axis))
                continue
            owner, i = self._owner(size)
            shown.append(self.own.get((owner.value, i), "outer"))
        return f"[{', '.join(shown)}]"

    # ---- sizes in the launcher

    def moved_size(self, size: Dim, axis: int | None, names: Names) -> str:
        if self.foreign:
            return self.text(size, names)
        return super().moved_size(size, axis, names)

    def expected(self, argument: Argument, names: Names) -> str:
        if self.foreign:
            parts = [self.text(size, names) for size in argument.dims]
            name = names[argument.value]
            alone = all(p == f"{name}.shape[{i}]" for i, p in enumerate(parts))
            return "" if alone else spelled(parts)
        if not self.apart(argument):
            return super().expected(argument, names)
        parts = []
        for size in argument.dims:
            axis = self.like(size)
            if axis is None or isinstance(size, int):
                parts.append(str(size))
            else:
                parts.append(self.moved_size(size, axis.last, names))
        return spelled(parts)

    def text(self, size: Dim, names: Names) -> str:
        """A size as a product of single ones, or read off a tensor that has it."""
        if isinstance(size, int):
            return str(size)
        factors = sympy.Mul.make_args(size)
        if all(map(self._single, factors)):
            return " * ".join(
                str(f) if f.is_Integer else self._read(f, names) for f in factors
            )
        shapes = [self.program.space, *(a.dims for a in self.arguments)]
        others = (d for dims in shapes for d in dims if not isinstance(d, int))
        if any(
            d.free_symbols & size.free_symbols and not same(d, size) for d in others
        ):
            raise NoKernel("sizes known at run time that no tensor has alone")
        return self._read(size, names)

    def _single(self, factor: sympy.Expr) -> bool:
        alone = factor.is_Symbol or isinstance(factor, sympy.floor)
        dims = [d for a in self.arguments for d in a.dims]
        return factor.is_Integer or (alone and any(same(d, factor) for d in dims))

    def _read(self, size: Dim, names: Names) -> str:
        argument, i = self._owner(size)
        return f"{names[argument.value]}.shape[{i}]"

    def _owner(self, size: Dim) -> tuple[Argument, int]:
        for argument in self.arguments:
            for i, own in enumerate(argument.dims):
                if same(own, size):
                    return argument, i
        raise NoKernel("a size known at run time, which no tensor has")
