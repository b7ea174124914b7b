"""Kernels of attention: softmax in one pass over the keys, so that no score is stored.

The largest score so far and the sums relative to it are kept for each query; they are
scaled when a larger one comes (Milakov and Gimelshein 2018, Dao et al. 2022).
"""

from __future__ import annotations

import onnx_ir as ir

from .forms import Attention
from .launcher import Launcher
from .layout import Axis, Layout
from .program import Argument, Program
from .source import Source


class _NoAxes(Layout):
    """Strides say where elements lie."""

    def _axes(self) -> list[Axis]:
        return []

    def narrow(self, argument: Argument) -> bool:
        return False


START = """\
# One program for a tile of queries of one head.
tiles = tl.cdiv(n_rows, BLOCK_M)
program = tl.program_id(0).to(tl.int64)  # offsets can exceed 2**31
pair, tile = program // tiles, program % tiles
batch, head = pair // n_heads, pair % n_heads
rows = (tile * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
width = tl.arange(0, BLOCK_D)
q = tl.load(
    q_ptr + batch * q_batch + head * q_head + rows * q_row + width[None, :],
    mask=(rows < n_rows) & (width[None, :] < depth),
    other=0.0,
)
k_ptr += batch * k_batch + head // group * k_head
v_ptr += batch * v_batch + head // group * v_head
largest = tl.full([BLOCK_M, 1], float("-inf"), tl.float32)
total = tl.zeros([BLOCK_M, 1], tl.float32)
y = tl.zeros([BLOCK_M, BLOCK_E], tl.float32)
for start in range(0, n_keys, BLOCK_N):"""
SCORES = """\
keys = start + tl.arange(0, BLOCK_N).to(tl.int64)
k = tl.load(
    k_ptr + keys[None, :] * k_row + width[:, None],
    mask=(keys[None, :] < n_keys) & (width[:, None] < depth),
    other=0.0,
)
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
columns = tl.arange(0, BLOCK_E)[None, :]
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
columns = tl.arange(0, BLOCK_E)[None, :]
tl.store(
    y_ptr + batch * y_batch + head * y_head + rows * y_row + columns,
    y,
    mask=(rows < n_rows) & (columns < v_depth),
)"""


def indented(text: str, inner: bool = False) -> list[str]:
    return [f"    {t}" if inner and t else t for t in text.split("\n")]


class AttentionSource(Source):
    def make_layout(self, program: Program) -> Layout:
        return _NoAxes(program)

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        (self.op,) = program.operations
        assert self.op.attention is not None
        self.form: Attention = self.op.attention

    def body(self) -> list[str]:
        lines = indented(START) + indented(SCORES, True)
        if self.form.mask:
            lines += indented(MASK, True)
        inside = "inside"
        if self.form.mask == "added":
            lines.append("    scores += mask.to(tl.float32)")
        elif self.form.mask:
            inside += " & (mask != 0)"
        if self.form.causal:
            inside += " & (keys[None, :] <= rows)"
        return lines + indented(REST.format(inside=inside), True) + indented(END)

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
        lines = [f"y = softmax({scores}) @ v"]
        return [*lines, *([f"    {', '.join(notes)}"] if notes else [])]


class AttentionLauncher(Launcher):
    source: AttentionSource

    def make_source(self, program: Program) -> Source:
        return AttentionSource(program)

    def size_lines(self, tensors: tuple[str, ...]) -> list[str]:
        scale = self.source.form.scale
        return [
            "n_batches, n_heads, n_rows, depth = q.shape",
            "n_keys, v_depth = v.shape[-2:]",
            "scale = depth**-0.5" if scale is None else f"scale = {scale!r}",
        ]

    @property
    def fits(self) -> str:
        return "max(depth, v_depth) <= 128"

    def expected(self, argument: Argument) -> str:
        group = self.source.form.group
        if argument.role == "q" and group > 1:
            return f"(q.shape[0], {group} * k.shape[1], *q.shape[2:])"
        if argument.role == "k":
            heads = "k" if group > 1 else "q"
            return f"(q.shape[0], {heads}.shape[1], v.shape[2], q.shape[3])"
        if argument.role == "v":
            return "(q.shape[0], k.shape[1], *v.shape[2:])"
        return ""

    def copies(self) -> list[str]:
        """Heads are mostly views of other tensors: only their rows must be whole."""
        lines = [
            f"{t} = {t} if {t}.stride(-1) == 1 else {t}.contiguous()" for t in "qkv"
        ]
        if self.source.form.mask:
            lines.append("mask = mask.expand(n_batches, n_heads, n_rows, n_keys)")
        return lines

    def result(self, result: ir.Value) -> tuple[str, str]:
        made = "q.new_empty(n_batches, n_rows, n_heads, v_depth).transpose(1, 2)"
        return "y", made

    def grid(self, result: str) -> str:
        return "(n_batches * n_heads * triton.cdiv(n_rows, query_tile(n_rows)),)"

    def passed(self, result: str, numbers: tuple[str, ...]) -> list[str]:
        given = [f"*{t}.stride()[:3]" for t in ("q", "k", "v", "y")]
        if self.source.form.mask:
            given.append("*mask.stride()")
        return [
            *given,
            *("n_heads", "n_heads // k.shape[1]", "n_rows", "n_keys"),
            *("depth", "v_depth", "scale", "PRECISION=precision()"),
            "BLOCK_M=query_tile(n_rows)",
            "BLOCK_N=64 if max(depth, v_depth) <= 64 else 32",
            "BLOCK_D=max(triton.next_power_of_2(depth), 16)",
            "BLOCK_E=max(triton.next_power_of_2(v_depth), 16)",
        ]

    def parameters(self, numbers: tuple[str, ...]) -> list[str]:
        shapes = {"q": "[B, H, M, D]", "k": "[B, G, N, D]", "v": "[B, G, N, E]"}
        tensors = [a.role for a in self.layout.arguments]
        lines = [f"{t}_ptr,  # {shapes.get(t, '[B, H, M, N]')} in" for t in tensors]
        lines.append("y_ptr,  # [B, H, M, E] out")
        places = ("batch", "head", "row", "key")
        for t in (*"qkvy", *(["mask"] if "mask" in tensors else [])):
            own = places if t == "mask" else places[:3]
            note = "  # strides"
            lines += [f"{t}_{p},{note if p == 'batch' else ''}" for p in own]
        return [
            *lines,
            "n_heads,  # H",
            "group,  # H / G, the heads that share keys and values",
            "n_rows,  # M",
            "n_keys,  # N",
            "depth,  # D",
            "v_depth,  # E",
            "scale,",
            'PRECISION: tl.constexpr,  # "tf32" or "ieee", for float32',
            "BLOCK_M: tl.constexpr,",
            "BLOCK_N: tl.constexpr,",
            "BLOCK_D: tl.constexpr,  # power of two, at least D",
            "BLOCK_E: tl.constexpr,  # power of two, at least E",
        ]
