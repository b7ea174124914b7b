"""Kernels of matrix products: a tile of the result is summed up along the depth.

What precedes the product is computed for each part of the left factor as it is read,
what follows for the finished tile, so that neither is ever stored.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from math import prod

import onnx_ir as ir

from ....analysis.graph.dims import Dims, same
from ....analysis.ops.triton.elementwise import FLOATS
from ..launch.launcher import Launcher, Parameter
from ..layout.layout import LARGEST, Axis, Layout, spelled
from ..program.products import Extent, Product
from ..program.program import Argument, KernelProgram, NoKernel, Operation, equal
from ..source.row_kernel import KernelBody, Source, as_stored

# Groups of axes, with the size that an index is below.
ROWS, COLS = ("rows", "n_rows"), ("cols", "n_cols")
ACROSS, DOWN = ("across", "depth"), ("down", "depth")
BATCH = ("batch", "n_batches")

START = """\
# Eight rows of tiles at a time, which read the same columns from the cache.
tiles_m, tiles_n = tl.cdiv(n_rows, BLOCK_M), tl.cdiv(n_cols, BLOCK_N)
tile = tl.program_id(0)
tile_m, tile_n = tl.swizzle2d(tile // tiles_n, tile % tiles_n, tiles_m, tiles_n, 8)"""


def _groups_of(dims: Dims, whole: Dims, ends: Sequence[int]) -> tuple[bool, ...]:
    """For each group of axes of `whole`, whether a tensor has them, or none of them.

    `ends` are the axes that the groups end before.
    """
    if len(dims) > len(whole):
        raise NoKernel("a tensor of more axes than the product")
    padded = (1,) * (len(whole) - len(dims)) + tuple(dims)
    found, start = [], 0
    for end in ends:
        pairs = list(zip(padded[start:end], whole[start:end], strict=True))
        has = not all(own == 1 for own, _ in pairs)
        short = len(whole) - len(dims) > start  # what it lacks may grow at run time
        start = end
        if has and (short or not all(same(own, size) for own, size in pairs)):
            raise NoKernel("a tensor that is broadcast along a part of the rows")
        found.append(has)
    return tuple(found)


class TiledLayout(Layout):
    """Batches, rows and columns of the result; the depth is nobody's axis."""

    shared = 1  # groups that a tensor may lack without being broadcast

    def __init__(self, program: KernelProgram) -> None:
        assert program.extent is not None and program.product is not None
        self.extent: Extent = program.extent
        product = program.product
        self.left = program.dims(product.operands[0])  # type: ignore[arg-type]
        self.product: Product = product.product  # type: ignore[assignment]
        self.before = program.before_product()
        self.first = {o for op in self.before for o in op.operands}
        if not self.before:
            self.first = {product.operands[0]}
        super().__init__(program)

    @property
    def batched(self) -> bool:
        """Whether matrices are multiplied for each of a batch."""
        return self.extent.batch_axes > 0

    def ends(self, whole: Dims, batches: int) -> tuple[int, ...]:
        """Before which axes of a tensor its batches, rows and columns end."""
        return batches, len(whole) - 1, len(whole)

    def _axes(self) -> list[Axis]:
        space = self.program.space
        ends = self.ends(space, self.extent.batch_axes)
        columns = zip(*map(self.groups, self.arguments), strict=True)
        axes = [
            Axis(start - len(space), end - 1 - len(space), has, *name)
            for start, end, has, name in zip(
                (0, *ends), ends, columns, (BATCH, ROWS, COLS), strict=False
            )
        ]
        return axes if self.batched else axes[1:]

    def groups(self, argument: Argument) -> tuple[bool, bool, bool]:
        """Whether a tensor has batches, rows and columns."""
        if argument.role:
            batches = argument.role == "weight" and self.extent.batches[1]
            return batches, False, True
        if argument.value in self.first:
            batches, rows, _ = self.left_groups(argument)
            return batches, rows, False
        return self.result_groups(argument)

    def left_groups(self, argument: Argument) -> tuple[bool, ...]:
        """Whether a tensor before the product has batches, rows and the depth."""
        if equal(argument.dims, self.left):
            return self.extent.batches[0], True, True
        lead = self.extent.batch_axes if self.extent.batches[0] else 0
        return _groups_of(argument.dims, self.left, self.ends(self.left, lead))

    def result_groups(self, argument: Argument) -> tuple[bool, bool, bool]:
        """Which of the result's batches, rows and columns a tensor has."""
        space = self.program.space
        if equal(argument.dims, space):
            return self.batched, True, True
        ends = self.ends(space, self.extent.batch_axes)
        batches, rows, cols = _groups_of(argument.dims, space, ends)
        return batches, rows, cols

    def narrow(self, argument: Argument) -> bool:
        first = argument.value in self.first and not argument.role
        has = self.left_groups(argument) if first else self.groups(argument)
        return not all(has[self.shared :])

    @property
    def wide(self) -> bool:
        deep = [*self.program.space[:-1], self.extent.depth]
        known = all(isinstance(d, int) for d in [*self.program.space, *deep])
        return not known or max(prod(self.program.space), prod(deep)) >= LARGEST

    @property
    def wide_weight(self) -> bool:
        """Whether offsets in the weight may need 64 bits."""
        size = [self.program.space[-1], self.extent.depth]
        return not all(isinstance(d, int) for d in size) or prod(size) >= LARGEST


def _offset(has: Sequence[bool], axes: Sequence[tuple[str, str]]) -> str:
    """Where the elements lie: (batch * n_rows + rows) * depth + across."""
    text = ""
    for index, size in (a for a, own in zip(axes, has, strict=True) if own):
        inner = text if text.isidentifier() else f"({text})"
        text = f"{inner} * {size} + {index}" if text else index
    return text


def _inside(has: Sequence[bool], axes: Sequence[tuple[str, str]]) -> str:
    """The condition that they are in the tensor."""
    own = [a for a, own in zip(axes, has, strict=True) if own and a is not BATCH]
    if len(own) == 1:
        return f"{own[0][0]} < {own[0][1]}"
    return " & ".join(f"({index} < {size})" for index, size in own)


class TiledSource(Source):
    """What differs where rows and columns change places has a name of its own."""

    layout: TiledLayout
    first_axes = (BATCH, ROWS, ACROSS)  # of what is computed before the product
    deep = "across"  # its index along the depth
    own = COLS  # that each have a bias

    def make_layout(self, program: KernelProgram) -> Layout:
        return TiledLayout(program)

    def body(self) -> list[str]:
        layout, op = self.layout, self.program.product
        assert op is not None
        wide = ".to(tl.int64)" if layout.wide else ""
        columns = ".to(tl.int64)" if layout.wide_weight else ""
        rows = f"(tile_m * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]{wide}"
        lines = [*START.split("\n"), f"rows = {rows}"]
        lines.append(
            f"cols = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]{columns}"
        )
        if layout.batched:
            lines.append("batch = tl.program_id(1).to(tl.int64)")
        sums = self.sums(op)
        lines += [
            f"{sums} = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)",
            "for start in range(0, depth, BLOCK_K):",
            *(textwrap.indent(line, "    ") for line in self._parts(op, sums)),
        ]
        return [*lines, *self._finished(op, sums)]

    def sums(self, op: Operation) -> str:
        """What a tile is summed up in: its result, unless something is added to it."""
        more = {"scale", "bias"} & {a.role for a in self.layout.arguments}
        return self.wording.free("sums") if more else self.names[op.result]

    # ---- along the depth

    def _parts(self, op: Operation, sums: str) -> list[str]:
        """A part of both factors, and what it adds to the sums."""
        lines = KernelBody(self)
        lines.lines += [
            "across = (start + tl.arange(0, BLOCK_K))[None, :]",
            "down = (start + tl.arange(0, BLOCK_K))[:, None]",
        ]
        x = op.operands[0]
        assert isinstance(x, ir.Value)
        for argument in self.layout.arguments:
            if argument.role or argument.value not in self.layout.first:
                continue
            cast = bool(self.layout.before) and argument.value.dtype in FLOATS
            lines.lines.append(self._read_left(argument, cast))
            lines.zero.add(self.names[argument.value])
        for earlier in self.layout.before:
            self._operation(earlier, lines)
        name = self.names[x]
        if self.layout.before:
            factor = f"tl.where({self.deep} < depth, {name}, 0.0)"
            factor = name if name in lines.zero else factor
            lines.lines.append(
                f"{name} = {factor}.to({self._like(op)}.dtype.element_ty)"
            )
        lines.lines += self.weight(op)
        made = f"tl.dot({self.factors(name)}, {sums}, input_precision=PRECISION)"
        kinds = ", ".join(node.op_type for node in op.nodes)
        note = f"  # {kinds}" if sums == self.names[op.result] else ""
        return [*lines.lines, f"{sums} = {made}{note}"]

    def factors(self, name: str) -> str:
        """The operands of tl.dot, the left one first."""
        return f"{name}, weight"

    def _like(self, op: Operation) -> str:
        """The tensor in whose type both factors are multiplied."""
        assert op.product is not None
        if not op.product.bits:
            return "weight_ptr"
        floats = [
            a
            for a in self.layout.arguments
            if a.value in self.layout.first and a.value.dtype in FLOATS and not a.role
        ]
        if not floats:
            raise NoKernel("a left factor that no tensor of floats gives its type")
        return f"{self.names[floats[0].value]}_ptr"

    def _read_left(self, argument: Argument, cast: bool) -> str:
        has, axes = self.layout.left_groups(argument), self.first_axes
        where, mask = _offset(has, axes), _inside(has, axes)
        label = self.names[argument.value]
        return self._read(argument, where, mask, cast, label, zeroed=True)

    def _read(
        self,
        argument: Argument,
        where: str,
        mask: str,
        cast: bool,
        label: str,
        zeroed: bool = False,
    ) -> str:
        """A lane that is out of the tensor holds 0 where `zeroed`, else anything."""
        pointer = f"{self.names[argument.value]}_ptr"
        options = f", mask={mask}" if mask else ""
        if mask and zeroed:
            options += ", other=0.0" if argument.value.dtype in FLOATS else ", other=0"
        text = f"tl.load({pointer} + {where}{options})" if where else ""
        text = text or f"tl.load({pointer})"
        return f"{label} = {text}{'.to(tl.float32)' if cast else ''}"

    def weight(self, op: Operation) -> list[str]:
        """Lines that load the part of the weight for one step of the depth."""
        product = op.product
        assert product is not None
        if product.per_block:
            return self._unpacked(op, product)
        if product.flipped:
            where, cast = "cols * depth + down", ""
            if product.bits:
                cast = f".to(tl.float32).to({self._like(op)}.dtype.element_ty)"
        else:
            has = (self.layout.extent.batches[1], True, True)
            where, cast = _offset(has, (BATCH, DOWN, COLS)), ""
        other = "0" if product.bits else "0.0"
        mask = "(cols < n_cols) & (down < depth)"
        load = f"tl.load(weight_ptr + {where}, mask={mask}, other={other})"
        return [f"weight = {load}{cast}"]

    def _unpacked(self, op: Operation, product: Product) -> list[str]:
        """Integers of a few bits, to floats by the numbers of their block."""
        mask = "(cols < n_cols) & (down < depth)"
        block = f"down // {product.per_block}"
        lines = [f"inside = {mask}"]
        number = self._bits("weight", "down", "n_bytes", product)
        zero = str(2 ** (product.bits - 1))
        if any(a.role == "zero_points" for a in self.layout.arguments):
            lines.append(f"block = {block}")
            block = "block"
            zero = "zero"
        lines.append(f"number = {number}")
        if zero == "zero":
            found = self._bits("zero_points", "block", "n_spare", product)
            lines.append(f"zero = {found}")
        where = f"scales_ptr + cols * n_blocks + {block}"
        load = f"tl.load({where}, mask=inside, other=0.0)"
        kind = f"{self._like(op)}.dtype.element_ty"
        return [
            *lines,
            f"scale = {load}.to(tl.float32)",
            f"weight = ((number - {zero}) * scale).to({kind})",
        ]

    def _bits(self, name: str, index: str, size: str, product: Product) -> str:
        each = product.per_byte
        at = index if each == 1 else f"{index} // {each}"
        byte = f"tl.load({name}_ptr + cols * {size} + {at}, mask=inside, other=0)"
        if each == 1:
            return f"{byte}.to(tl.int32)"
        shift = f"{index} % {each} * {product.bits}"
        return f"({byte}.to(tl.int32) >> {shift}) & {2**product.bits - 1}"

    # ---- the finished tile

    def _finished(self, op: Operation, sums: str) -> list[str]:
        layout, lines, own = self.layout, KernelBody(self), dict(self.names)
        after = [o for o in self.program.operations if o not in layout.before]
        read = {o for later in after if later is not op for o in later.operands}
        roles = {a.role for a in layout.arguments}
        made = sums
        index, size = self.own
        mask = f"mask={index} < {size}"
        kind = ", ".join(node.op_type for node in op.nodes)
        if "scale" in roles:
            each = next(a for a in layout.arguments if a.role == "scale").dims != (1,)
            where = (
                f"tl.load(scale_ptr + cols, {mask})" if each else "tl.load(scale_ptr)"
            )
            made = f"{made} * {where}"
        axes, whole = (BATCH, ROWS, COLS), (layout.batched, True, True)
        lines.lines += [
            "",
            f"offsets = {_offset(whole, axes)}",
            f"mask = {_inside(whole, axes)}",
        ]
        if "bias" in roles:
            load = f"tl.load(bias_ptr + {index}, {mask}).to(tl.float32)"
            lines.lines.append(f"bias = {load}")
            made = f"{made} + bias"
        if made != own[op.result]:
            lines.lines.append(f"{own[op.result]} = {made}  # {kind}")
        if op.result in self.program.results and op.result in read:
            name = own[op.result]
            lines.lines.append(f"{name} = {as_stored(name, name)}")
        self.names = dict(own)
        for argument in layout.arguments:
            if argument.role or argument.value not in read:
                continue
            has = layout.result_groups(argument)
            label = own[argument.value]
            if argument.value in layout.first:
                label = self.wording.free("residual")
            where, within = _offset(has, axes), _inside(has, axes)
            if has == whole:
                where, within = "offsets", "mask"
            cast = argument.value.dtype in FLOATS
            load = self._read(argument, where, within, cast, label)
            if argument.optional:
                self.held[argument.value] = load
            else:
                lines.lines.append(load)
            self.names[argument.value] = label
        for later in after:
            if later is not op:
                self._operation(later, lines)
        self.names = own
        stores = [
            f"tl.store({own[r]}_ptr + offsets, {own[r]}, mask=mask)"
            for r in self.program.results
        ]
        return [*lines.lines, "", *stores]

    # ---- around it

    def product_formula(self, op: Operation, x: str) -> str:
        product, roles = op.product, [a.role for a in self.layout.arguments]
        assert product is not None
        weight = "weight"
        if product.per_block:
            zero = "zero_points" if "zero_points" in roles else 2 ** (product.bits - 1)
            weight = f"((unpacked(weight) - {zero}) * scales)"
        elif product.bits:
            weight = "(weight * scale)"
        left = x if re.fullmatch(r"\w+|\w+\([^()]*\)", x) else f"({x})"
        text = f"{left} @ {weight}{'.T' if product.flipped else ''}"
        return f"{text} + bias" if "bias" in roles else text


class TiledLauncher(Launcher):
    """What launches a product of matrices, a tile of the result per program."""

    layout: TiledLayout

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
        rows = f"math.prod({self.x}.shape[:-1])"
        if lead:
            rows = f"{self.x}.shape[-2]"
        lines = [f"n_rows, depth = {rows}, {self.x}.shape[-1]"]
        lines.append(f"n_cols = {self.width}")
        if lead:
            owner = self.x if self.layout.extent.batches[0] else self.weight
            lines.append(f"n_batches = math.prod({owner}.shape[:-2])")
        return lines

    def tile(self) -> str:
        given = ["n_rows", "n_cols", f"{self.x}.element_size()", "precision()"]
        given += ["n_batches"] * self.layout.batched
        left = sum(a.value in self.layout.first for a in self.layout.arguments)
        given += [f"n_left={2 ** (left - 1).bit_length()}"] * (left > 1)
        return f"tiles({', '.join(given)})"

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
        return f"(tile_count(n_rows, n_cols, {{tile}}){batches})"

    def options(self) -> dict[str, str]:
        return {}

    def parameters(self, numbers: tuple[str, ...]) -> list[Parameter]:
        notes = {
            "n_bytes": "of a row of the weight",
            "n_blocks": "of numbers in a row",
            "n_spare": "bytes of a row of zero points",
        }
        sizes = {"n_rows": "M", "n_cols": "N", "depth": "K"}
        tf32 = '"tf32x3", "tf32" or "ieee", for float32'
        return [
            *self.tensors(),
            *(Parameter(name, note, name) for name, note in sizes.items()),
            *(Parameter(name, notes[name], text) for name, text in self.counts.items()),
            Parameter("PRECISION", tf32, "precision()", constant=True),
            Parameter("BLOCK_M", "a tile of the result", constant=True),
            Parameter("BLOCK_N", constant=True),
            Parameter("BLOCK_K", "of the depth at a time", constant=True),
        ]

    def letters_of(self, result: ir.Value) -> str:
        return "[B, M, N]" if self.layout.batched else "[M, N]"

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
        return self.like(argument, argument.value in layout.first)

    def like(self, argument: Argument, first: bool) -> str:
        """The shape of a tensor that has some of the axes of x, or of the result."""
        full = self.layout.left if first else self.program.space
        if equal(argument.dims, full):
            return f"{self.x}.shape" if first else self.shape
        places = range(-len(argument.dims), 0)
        return spelled(
            [
                "1" if argument.dims[i] == 1 != full[i] else self.size_at(i, first)
                for i in places
            ]
        )

    def size_at(self, place: int, first: bool) -> str:
        """What reads the size of an axis of x, or of the result."""
        whole = place == -1 and not first
        return self.width if whole else f"{self.x}.shape[{place}]"

    def result(self, result: ir.Value) -> tuple[str, str]:
        kind = self.dtype(result, self.x)
        shape = self.shape.replace(self.width, "n_cols")
        return self.names[result], f"{self.x}.new_empty({shape}{kind})"
