"""Kernels of attention: softmax in one pass over the keys, so that no score is stored.

The largest score so far and the sums relative to it are kept for each query; they are
scaled when a larger one comes (Milakov and Gimelshein 2018, Dao et al. 2022).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from ....analysis.ops.facts.index_maps import Place
from ....analysis.spelling.expr import Expr
from ..launch.launcher import Launcher, Parameter
from ..layout.layout import Axis, Layout, spelled
from ..program.attention_form import Attention
from ..program.program import Argument, KernelProgram, NoKernel, Operation
from ..source.indexed_kernel import Index, IndexedSource
from ..source.names import Wording
from ..source.row_kernel import Source


@dataclass(frozen=True)
class HeadIndices:
    """The indices of an element along batches, heads, rows and the width of a head.

    `sizes` are those of the axes, `letters` what comments call them; `mask` says which
    elements there are.
    """

    indices: tuple[str, str, str, str]
    sizes: tuple[str, str, str, str]
    letters: str
    mask: str


class _HeadLayout(Layout):
    """Four axes apart, found by the indices that attention has."""

    def __init__(self, program: KernelProgram, where: HeadIndices) -> None:
        self.where = where
        super().__init__(program)

    def _axes(self) -> list[Axis]:
        if len(self.program.space) != 4:
            raise NoKernel("attention on operands of other ranks")
        table = [self.program.patterns(a.dims) for a in self.arguments]
        axes = []
        for i, (index, size) in enumerate(
            zip(self.where.indices, self.where.sizes, strict=True)
        ):
            known = self.program.space[i]
            if i - 4 in self.program.fixed:
                size = str(known)
            axes.append(Axis(i - 4, i - 4, tuple(r[i] for r in table), index, size))
        return axes

    def letter(self, axis: Axis) -> str:
        return self.where.letters[axis.first]

    def base(self) -> Argument | None:
        return None


class _Prologue(IndexedSource):
    """The lines that compute one operand of attention where it is loaded."""

    layout: _HeadLayout

    def __init__(
        self, program: KernelProgram, wording: Wording, where: HeadIndices
    ) -> None:
        self.where = where
        self.own: dict[str, str] = {}  # what the key's are called
        super().__init__(program, wording)
        self.role = self.names[program.results[0]]
        self.mask = f"inside_{self.role}"

    def make_layout(self, program: KernelProgram) -> Layout:
        return _HeadLayout(program, self.where)

    def body(self) -> list[str]:
        """In the type of v, by which the scores are multiplied; 0 outside."""
        self.start()
        (result,) = self.program.results
        whole: Index = tuple(Place(axis) for axis in range(4))
        name = self.value(result, whole, ())
        cast = f"tl.where({self.mask}, {name}, 0.0).to(v_ptr.dtype.element_ty)"
        inside = f"{self.mask} = {self.where.mask}"
        return [inside, *self.lines, f"{self.role} = {cast}"]

    def label(self, name: str, index: Index) -> str:
        """None that the other operand has, which is computed in a loop."""
        if self.role in (name, "q"):
            return super().label(name, index)
        if name not in self.own:
            self.own[name] = self.wording.free("k_" + name.rstrip("0123456789"))
        return super().label(self.own[name], index)

    def assign(self, op: Operation, value: ir.Value, index: Index, made: Expr) -> str:
        """The result has the name of what it is computed from, if that is its role."""
        if value not in self.program.results:
            return super().assign(op, value, index, made)
        self.lines.append(f"{self.role} = {self.text(made)}  # {op.view.node.op_type}")
        return self.role

    def shifted(self, argument: Argument, index: Index) -> str:
        return ""

    def expected(self, argument: Argument, others: Mapping[str, str]) -> str:
        """The shape that a tensor must have, with `others` in the place of sizes."""
        name, rank = self.names[argument.value], len(argument.dims)
        own = [f"{name}.shape[{i}]" for i in range(-rank, 0)]
        known = self.layout.expected(argument, self.names)
        parts = known.strip("(,)").split(", ") if known else own
        parts = [others.get(part, part) for part in parts]
        return spelled(parts) if parts != own else ""

    def _size_texts(self) -> list[str]:
        """What reads the sizes of the four axes off the tensors."""
        space, names = self.program.space, self.names
        return [self.layout.moved_size(space[i], i, names) for i in range(-4, 0)]


class _NoAxes(Layout):
    """Strides say where elements lie."""

    def _axes(self) -> list[Axis]:
        return []

    def narrow(self, argument: Argument) -> bool:
        return False


QUERIES = HeadIndices(
    ("batch", "head", "rows", "width[None, :]"),
    ("n_batches", "n_heads", "n_rows", "depth"),
    "BHMD",
    "(rows < n_rows) & (width[None, :] < depth)",
)
KEYS = HeadIndices(
    ("batch", "shared", "keys[None, :]", "width[:, None]"),
    ("n_batches", "n_shared", "n_keys", "depth"),
    "BGND",
    "(keys[None, :] < n_keys) & (width[:, None] < depth)",
)
Q = f"""\
q = tl.load(
    q_ptr + batch * q_batch + head * q_head + rows * q_row + width[None, :],
    mask={QUERIES.mask},
    other=0.0,
)"""
K = f"""\
k = tl.load(
    k_ptr + keys[None, :] * k_row + width[:, None],
    mask={KEYS.mask},
    other=0.0,
)"""
HEAD_OF_KEYS = "k_ptr += batch * k_batch + shared * k_head"
START = """\
# One program for a tile of queries of one head.
tiles = tl.cdiv(n_rows, BLOCK_M)
program = tl.program_id(0).to(tl.int64)  # offsets can exceed 2**31
pair, tile = program // tiles, program % tiles
batch, head = pair // n_heads, pair % n_heads
rows = (tile * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
width = tl.arange(0, BLOCK_D)
columns = tl.arange(0, BLOCK_E)[None, :]
shared = head // group
{q}
{k}
v_ptr += batch * v_batch + shared * v_head
largest = tl.full([BLOCK_M, 1], float("-inf"), tl.float32)
total = tl.zeros([BLOCK_M, 1], tl.float32)
y = tl.zeros([BLOCK_M, BLOCK_E], tl.float32)
for start in range(0, n_keys, BLOCK_N):"""
# In place of its last line, where no query of a tile reads what lies behind them all.
CAUSAL = """\
last = tl.minimum(n_keys, (tile + 1) * BLOCK_M)
for start in range(0, last, BLOCK_N):"""
SCORES = """\
keys = start + tl.arange(0, BLOCK_N).to(tl.int64)
{k}
scores = tl.dot(q, k, input_precision=PRECISION) * scale
inside = (rows < n_rows) & (keys[None, :] < n_keys)"""
MASK = """\
mask = tl.load(
    mask_ptr
    + batch * mask_batch
    + head * mask_head
    + rows * mask_row
    + keys[None, :] * mask_key,
    mask=inside,
    other=0,
)"""
REST = """\
scores = tl.where({inside}, scores, float("-inf"))

# Softmax: what was summed so far shrinks to the scale of the largest score.
larger = tl.maximum(largest, tl.max(scores, axis=1, keep_dims=True))
base = tl.where(larger == float("-inf"), 0.0, larger)  # no key counts yet
powers = tl.exp(scores - base)
shrink = tl.exp(largest - base)
total = total * shrink + tl.sum(powers, axis=1, keep_dims=True)
largest = larger
v = tl.load(
    v_ptr + keys[:, None] * v_row + columns,
    mask=(keys[:, None] < n_keys) & (columns < v_depth),
    other=0.0,
)
powers = powers.to(v_ptr.dtype.element_ty)
y = tl.dot(powers, v, y * shrink, input_precision=PRECISION)"""
END = """\

# A query that no key counts for gives 0.
y = y / tl.where(total > 0, total, 1.0)
tl.store(
    y_ptr + batch * y_batch + head * y_head + rows * y_row + columns,
    y,
    mask=(rows < n_rows) & (columns < v_depth),
)"""


def indented(text: str, inner: bool = False) -> list[str]:
    """The lines of a text, one level deeper where they stand in the loop."""
    return [f"    {t}" if inner and t else t for t in text.split("\n")]


class AttentionSource(Source):
    """The lines of a kernel of attention over many queries."""

    shared_heads = "n_shared = n_heads // group"
    start, q, scores, mask, end = START, Q, SCORES, MASK, END
    places = (QUERIES, KEYS)  # the indices that elements of q and of k have
    last = "n_keys"  # how far the keys go that a program takes

    def make_layout(self, program: KernelProgram) -> Layout:
        return _NoAxes(program)

    def __init__(self, program: KernelProgram) -> None:
        super().__init__(program)
        *_, self.op = program.operations
        assert self.op.attention is not None
        self.form: Attention = self.op.attention
        self.computed = {
            role: _Prologue(program.before(operand), self.wording, where)
            for role, operand, where in zip(
                "qk", self.op.operands[:2], self.places, strict=True
            )
            if isinstance(operand, ir.Value) and operand not in program.arguments
        }

    def operand(self, role: str, loaded: str) -> str:
        """What computes q or k, or loads it."""
        prologue = self.computed.get(role)
        return "\n".join(prologue.body()) if prologue else loaded

    def body(self) -> list[str]:
        start = self.start
        if self.form.causal:
            start = f"{start[: start.rindex('for start')]}{CAUSAL}"
        head = self.shared_heads if "k" in self.computed else HEAD_OF_KEYS
        top = start.format(q=self.operand("q", self.q), k=head).replace("\n\n", "\n")
        lines = indented(top)
        k = self.operand("k", K.replace("< n_keys", f"< {self.last}"))
        lines += indented(self.scores.format(k=k), True)
        if self.form.mask:
            lines += indented(self.mask, True)
        inside = "inside"
        if self.form.mask == "added":
            lines.append("    scores += mask.to(tl.float32)")
        elif self.form.mask:
            inside += " & (mask != 0)"
        if self.form.causal:
            inside += " & (keys[None, :] <= rows)"
        rest = REST.format(inside=inside).replace("< n_keys", f"< {self.last}")
        return lines + indented(rest, True) + indented(self.end)

    def formula(self) -> list[str]:
        scale = "sqrt(D)" if self.form.scale is None else ""
        scores = f"q @ k.T / {scale}" if scale else f"q @ k.T * {self.form.scale!r}"
        if self.form.mask == "added":
            scores += " + mask"
        notes = []
        if self.form.mask == "kept":
            notes.append("of keys where mask is true")
        if self.form.causal:
            notes.append("of keys up to the query's own place")
        if self.form.group > 1:
            notes.append("H / G heads share keys and values")
        before = [line for p in self.computed.values() for line in p.formula()]
        lines = [*before, f"y = softmax({scores}) @ v"]
        return [*lines, *([f"    {', '.join(notes)}"] if notes else [])]


class AttentionLauncher(Launcher):
    """What is computed as it is loaded has no strides, and its sizes are others'."""

    source: AttentionSource

    def __init__(self, program: KernelProgram) -> None:
        super().__init__(program)
        own = {role: [f"{role}.shape[{i}]" for i in range(4)] for role in "qk"}
        computed = self.source.computed.items()
        self.of = {**own, **{role: p._size_texts() for role, p in computed}}

    @property
    def loaded(self) -> str:
        """Which of q, k and v the kernel reads as they are given."""
        return "".join(t for t in "qkv" if t not in self.source.computed)

    def make_source(self, program: KernelProgram) -> Source:
        return AttentionSource(program)

    def size_lines(self, tensors: tuple[str, ...]) -> list[str]:
        scale = self.source.form.scale
        return [
            f"n_batches, n_heads, n_rows, depth = {self._q_shape}",
            "n_shared, n_keys, v_depth = v.shape[1:]",
            "scale = depth**-0.5" if scale is None else f"scale = {scale!r}",
        ]

    @property
    def fits(self) -> str:
        found = "max(depth, v_depth) <= 128"
        if len(self.loaded) == 1:
            return found
        alike = " == ".join(f"{t}.dtype" for t in self.loaded)  # as under autocast
        return f"{found} and {alike}"

    @property
    def _q_shape(self) -> str:
        return ", ".join(self.of["q"]) if "q" in self.source.computed else "q.shape"

    @property
    def shared(self) -> str:
        """The number of heads of keys, that all others are checked by."""
        if "k" not in self.source.computed:
            return "k.shape[1]"
        return self.of["k"][1] if self.of["k"][1].isdigit() else "v.shape[1]"

    def expected(self, argument: Argument) -> str:
        group, q, k = self.source.form.group, self.of["q"], self.of["k"]
        heads = f"{group} * {self.shared}" if group > 1 else self.shared
        shared = str(int(q[1]) // group) if q[1].isdigit() else self.shared
        if argument.role == "q":
            return (
                f"(q.shape[0], {heads}, *q.shape[2:])" if heads != "k.shape[1]" else ""
            )
        if argument.role == "k":
            own = q[1] if group == 1 else shared
            return f"({q[0]}, {own}, v.shape[2], {q[3]})"
        if argument.role == "v":
            keys = k[2] if "k" in self.source.computed else "v.shape[2]"
            return f"({q[0]}, {shared}, {keys}, v.shape[3])"
        parts = {"q": {q[1]: heads}, "k": {k[0]: q[0], k[1]: self.shared, k[3]: q[3]}}
        for role, prologue in self.source.computed.items():
            if argument in prologue.layout.arguments:
                return prologue.expected(argument, parts[role])
        return ""

    def copies(self) -> list[str]:
        """Heads are mostly views of other tensors: only their rows must be whole."""
        lines = [
            f"{t} = {t} if {t}.stride(-1) == 1 else {t}.contiguous()"
            for t in self.loaded
        ]
        lines += [
            f"{name} = {name}.contiguous()"
            for a in self.layout.arguments
            if not a.role and (name := self.names[a.value])
        ]
        if self.source.form.mask:
            lines.append("mask = mask.expand(n_batches, n_heads, n_rows, n_keys)")
        return lines

    def result(self, result: ir.Value) -> tuple[str, str]:
        return "y", "v.new_empty(n_batches, n_rows, n_heads, v_depth).transpose(1, 2)"

    queries = "M"  # the letter of their number

    def letters(self, argument: Argument) -> str:
        if argument.role:
            shapes = {"k": "B, G, N, D", "v": "B, G, N, E"}
            shapes |= {"q": f"B, H, {self.queries}, D"}
            shapes |= {"mask": f"B, H, {self.queries}, N"}
            return f"[{shapes[argument.role]}]"
        layouts = [p.layout for p in self.source.computed.values()]
        of = {a: layout for layout in layouts for a in layout.arguments}
        return of[argument].letters(argument)

    def letters_of(self, result: ir.Value) -> str:
        return "[B, H, M, E]"

    def grid(self, result: str) -> str:
        tiles = "triton.cdiv(n_rows, query_tile(n_rows, v.element_size()))"
        return f"(n_batches * n_heads * {tiles},)"

    def options(self) -> dict[str, str]:
        """Keys that are computed take several tensors: none is loaded ahead."""
        stages = 1 if "k" in self.source.computed else 2
        warps = "4 if max(depth, v_depth) <= 64 else 8"
        return {"num_warps": warps, "num_stages": str(stages)}

    def strides(self) -> list[Parameter]:
        """Those of the tensors that are read as they lie, and of the result."""
        found = []
        for t in (*self.loaded, "y"):
            found.append(Parameter(f"{t}_batch", "strides", f"*{t}.stride()[:3]"))
            found += [Parameter(f"{t}_head"), Parameter(f"{t}_row")]
        if self.source.form.mask:
            found.append(Parameter("mask_batch", "strides", "*mask.stride()"))
            found += [Parameter(f"mask_{axis}") for axis in ("head", "row", "key")]
        return found

    def parameters(self, numbers: tuple[str, ...]) -> list[Parameter]:
        heads = "H / G, the heads that share keys and values"
        return [
            *self.tensors(),
            *self.strides(),
            Parameter("n_heads", "H", "n_heads"),
            Parameter("group", heads, "n_heads // n_shared"),
            Parameter("n_rows", "M", "n_rows"),
            Parameter("n_keys", "N", "n_keys"),
            *self.blocks("", "query_tile(n_rows, v.element_size())"),
        ]

    def blocks(self, note: str, rows: str) -> list[Parameter]:
        """What follows in every kernel of attention; a program has `rows` queries."""
        tf32 = '"tf32x3", "tf32" or "ieee", for float32'
        deep = {"D": "depth", "E": "v_depth"}
        return [
            Parameter("depth", "D", "depth"),
            Parameter("v_depth", "E", "v_depth"),
            Parameter("scale", "", "scale"),
            Parameter("PRECISION", tf32, "precision()", constant=True),
            Parameter("BLOCK_M", note, rows, constant=True),
            Parameter("BLOCK_N", "", "128 // v.element_size()", constant=True),
            *(
                Parameter(
                    f"BLOCK_{letter}",
                    f"power of two, at least {letter}",
                    f"max(triton.next_power_of_2({size}), 16)",
                    constant=True,
                )
                for letter, size in deep.items()
            ),
        ]
