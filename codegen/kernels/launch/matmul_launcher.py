"""What launches the kernel of a matrix product, and its twin."""

from __future__ import annotations

import onnx_ir as ir

from ..program.program import Argument, KernelProgram, NoKernel, equal
from ..source.matmul_tiles import TiledLayout, TiledSource
from ..source.row_kernel import Source
from .launcher import Launcher, or_none


class TiledLauncher(Launcher):
    layout: TiledLayout
    precision = "precision()"

    def make_source(self, program: KernelProgram) -> Source:
        return TiledSource(program)

    def __init__(self, program: KernelProgram) -> None:
        super().__init__(program)
        names, layout = self.names, self.layout
        whole = [
            a
            for a in layout.arguments
            if a.value in layout.first and not a.role and equal(a.dims, layout.left)
        ]
        if not whole:
            raise NoKernel("a left factor whose sizes no tensor has")
        self.whole = whole[0]
        self.x = names[self.whole.value]
        weight = next(a for a in layout.arguments if a.role == "weight")
        self.weight = names[weight.value]
        self.width = f"{self.weight}.shape[{0 if layout.product.flipped else -1}]"
        lead = f"*{self.x}.shape[:-1]"
        if layout.batched and not layout.extent.batches[0]:
            lead = f"*{self.weight}.shape[:-2], {self.x}.shape[-2]"
        self.shape = f"({lead}, {self.width})"

    @property
    def fits(self) -> str:
        found = ["n_batches < 2**16"] if self.layout.batched else []
        if not (self.layout.product.bits or self.layout.before):  # as under autocast
            found.append(f"{self.weight}.dtype == {self.x}.dtype")
        return " and ".join(found)

    def size_lines(self, tensors: tuple[str, ...]) -> list[str]:
        lead = self.layout.extent.batch_axes
        rows = f"{self.x}.shape[:-1].numel()"
        if lead:
            rows = f"{self.x}.shape[-2]"
        lines = [f"n_rows, depth = {rows}, {self.x}.shape[-1]"]
        lines.append(f"n_cols = {self.width}")
        if lead:
            owner = self.x if self.layout.extent.batches[0] else self.weight
            lines.append(f"n_batches = {owner}.shape[:-2].numel()")
        return lines

    def made(self) -> list[str]:
        given = ["n_rows", "n_cols", f"{self.x}.element_size()", self.precision]
        given += ["n_batches"] * self.layout.batched
        left = sum(a.value in self.layout.first for a in self.layout.arguments)
        given += [f"n_left={2 ** (left - 1).bit_length()}"] * (left > 1)
        return [f"tile = tiles({', '.join(given)})"]

    @property
    def counts(self) -> dict[str, str]:
        """Further sizes, of packed weights."""
        roles = {a.role: self.names[a.value] for a in self.layout.arguments}
        if not self.layout.product.per_block:
            return {}
        found = {
            "n_bytes": f"{roles['weight']}.shape[1:].numel()",
            "n_blocks": f"{roles['scales']}.shape[1]",
        }
        if "zero_points" in roles:
            found["n_spare"] = f"{roles['zero_points']}.shape[1]"
        return found

    def grid(self, result: str) -> str:
        batches = ", n_batches" if self.layout.batched else ","
        return f"(tile_count(n_rows, n_cols, **tile){batches})"

    def passed(self, result: str, numbers: tuple[str, ...]) -> list[str]:
        sizes = ["n_rows", "n_cols", "depth", *self.counts.values()]
        return [*sizes, f"PRECISION={self.precision}", "**tile"]

    def parameters(self, numbers: tuple[str, ...]) -> list[str]:
        names, layout = self.names, self.layout
        lines = [
            f"{names[a.value]}_ptr,  # {self.letters(a)} in{or_none(a)}"
            for a in layout.arguments
        ]
        whole = "[B, M, N]" if layout.batched else "[M, N]"
        lines += [f"{names[r]}_ptr,  # {whole} out" for r in self.program.results]
        lines += ["n_rows,  # M", "n_cols,  # N", "depth,  # K"]
        notes = {
            "n_bytes": "of a row of the weight",
            "n_blocks": "of numbers in a row",
            "n_spare": "bytes of a row of zero points",
        }
        lines += [f"{name},  # {notes[name]}" for name in self.counts]
        return [
            *lines,
            'PRECISION: tl.constexpr,  # "tf32" or "ieee", for float32',
            "BLOCK_M: tl.constexpr,  # a tile of the result",
            "BLOCK_N: tl.constexpr,",
            "BLOCK_K: tl.constexpr,  # of the depth at a time",
        ]

    def letters(self, argument: Argument) -> str:
        layout = self.layout
        batches, rows, cols = layout.groups(argument)
        if argument.role == "weight" and layout.product.per_block:
            return "[N, bytes]"
        if argument.role == "weight":
            order = ["N", "K"] if layout.product.flipped else ["K", "N"]
            return f"[{', '.join(['B'] * batches + order)}]"
        if argument.role in ("scales", "zero_points"):
            return "[N, blocks]" if argument.role == "scales" else "[N, bytes]"
        if argument.role:
            return "[1]" if argument.dims == (1,) else "[N]"
        inner = "N"
        if argument.value in layout.first:
            cols, inner = layout.left_groups(argument)[2], "K"
        shown = ["B"] * batches + ["M"] * rows + [inner] * cols
        return f"[{', '.join(shown)}]"

    def expected(self, argument: Argument) -> str:
        """The shape that a tensor must have; "" for those that sizes are read off."""
        layout, x = self.layout, self.x
        if argument is self.whole:
            return ""
        name = self.names[argument.value]
        if argument.role == "weight" and layout.product.per_block:
            each = layout.product.per_block
            width = each * layout.product.bits // 8
            return f"({name}.shape[0], -(-{x}.shape[-1] // {each}), {width})"
        if argument.role == "weight" and layout.product.flipped:
            return f"({name}.shape[0], {x}.shape[-1])"
        if argument.role == "weight":
            lead = ""
            if layout.extent.batches[1]:
                own = x if layout.extent.batches[0] else name
                lead = f"*{own}.shape[:-2], "
            return f"({lead}{x}.shape[-1], {name}.shape[-1])"
        if argument.role == "scales":
            each = layout.product.per_block
            return f"({self.width}, -(-{x}.shape[-1] // {each}))"
        if argument.role == "zero_points":
            return f"({self.width}, {argument.dims[1]})"
        if argument.role:
            return "(1,)" if argument.dims == (1,) else f"({self.width},)"
        if argument.value in layout.first:
            return self._like(argument, f"{x}.shape")
        return self._like(argument, self.shape)

    def _like(self, argument: Argument, whole: str) -> str:
        """The shape of a tensor that has some of the groups of axes of another."""
        rank = len(argument.dims)
        if equal(
            argument.dims,
            self.layout.left if whole != self.shape else self.program.space,
        ):
            return whole
        full = self.program.space if whole == self.shape else self.layout.left
        parts = []
        for place in range(-rank, 0):
            if argument.dims[place] == 1 != full[place]:
                parts.append("1")
            elif place == -1:
                parts.append(
                    self.width if whole == self.shape else f"{self.x}.shape[-1]"
                )
            else:
                parts.append(f"{self.x}.shape[{place}]")
        return f"({', '.join(parts)}{',' if rank == 1 else ''})"

    def result(self, result: ir.Value) -> tuple[str, str]:
        kind = self.dtype(result, self.x)
        shape = self.shape.replace(self.width, "n_cols")
        return self.names[result], f"{self.x}.new_empty({shape}{kind})"
