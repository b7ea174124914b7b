"""Attention of one query, a decoder's step: the keys are divided among programs.

A head alone would leave most of a GPU idle while it goes through a long cache. So each
program takes a part of the keys, for all heads that share them, and a second kernel
puts the parts together (flash-decoding: Dao et al. 2023).
"""

from __future__ import annotations

import onnx_ir as ir

from ...analysis.ops.helpers_triton import combine_parts
from .attention import REST, AttentionLauncher, AttentionSource, indented
from .program import Argument, Program
from .source import Source

START = """\
# One program for a part of the keys, and the heads that share them.
program = tl.program_id(0).to(tl.int64)  # offsets can exceed 2**31
batch, shared = program // n_shared, program % n_shared
rows = tl.arange(0, BLOCK_M)[:, None]
heads = shared * group + rows
width = tl.arange(0, BLOCK_D)
q = tl.load(
    q_ptr + batch * q_batch + heads * q_head + width[None, :],
    mask=(rows < group) & (width[None, :] < depth),
    other=0.0,
)
k_ptr += batch * k_batch + shared * k_head
v_ptr += batch * v_batch + shared * v_head
largest = tl.full([BLOCK_M, 1], float("-inf"), tl.float32)
total = tl.zeros([BLOCK_M, 1], tl.float32)
y = tl.zeros([BLOCK_M, BLOCK_E], tl.float32)
first = tl.program_id(1) * n_each
last = tl.minimum(first + n_each, n_keys)
for start in range(first, last, BLOCK_N):"""
SCORES = """\
keys = start + tl.arange(0, BLOCK_N).to(tl.int64)
k = tl.load(
    k_ptr + keys[None, :] * k_row + width[:, None],
    mask=(keys[None, :] < last) & (width[:, None] < depth),
    other=0.0,
)
scores = tl.dot(q, k, input_precision=PRECISION) * scale
inside = (rows < group) & (keys[None, :] < last)"""
MASK = """\
mask = tl.load(
    mask_ptr + batch * mask_batch + heads * mask_head + keys[None, :] * mask_key,
    mask=inside,
    other=0,
)"""
END = """\

# What the parts are put together by; one that no key counts for gives 0.
y = y / tl.where(total > 0, total, 1.0)
sums = largest + tl.log(total)
columns = tl.arange(0, BLOCK_E)[None, :]
n_all = tl.num_programs(0) * group  # queries
place = tl.program_id(1) * n_all + program * group + rows
tl.store(sums_ptr + place, sums, mask=rows < group)
tl.store(
    parts_ptr + place * v_depth + columns,
    y,
    mask=(rows < group) & (columns < v_depth),
)"""


class DecodingSource(AttentionSource):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.helpers[combine_parts] = None

    def body(self) -> list[str]:
        lines = indented(START) + indented(SCORES, True)
        inside = "inside"
        if self.form.mask:
            lines += indented(MASK, True)
        if self.form.mask == "added":
            lines.append("    scores += mask.to(tl.float32)")
        elif self.form.mask:
            inside += " & (mask != 0)"
        rest = REST.format(inside=inside).replace("< n_keys", "< last")
        return lines + indented(rest, True) + indented(END)

    def formula(self) -> list[str]:
        return [*super().formula(), "    for one query, whose keys are taken in parts"]


class DecodingLauncher(AttentionLauncher):
    def make_source(self, program: Program) -> Source:
        return DecodingSource(program)

    def size_lines(self, tensors: tuple[str, ...]) -> list[str]:
        sizes, _, scale = super().size_lines(tensors)
        return [
            sizes,
            "n_shared, n_keys, v_depth = v.shape[1:]",
            scale,
        ]

    @property
    def fits(self) -> str:
        return f"{super().fits} and n_heads <= 64 * n_shared"

    def expected(self, argument: Argument) -> str:
        if argument.role == "q":
            group = self.source.form.group
            return f"(q.shape[0], {group} * k.shape[1], 1, q.shape[3])"
        return super().expected(argument)

    def made(self) -> list[str]:
        """One part is the whole result."""
        return [
            "n_parts, n_each = key_parts(n_batches * n_shared, n_keys)",
            "parts, shape = y, (n_parts, n_batches, n_heads)",
            "if n_parts > 1:",
            "    parts = q.new_empty((*shape, v_depth), dtype=torch.float32)",
            "sums = q.new_empty(shape, dtype=torch.float32)",
        ]

    def result(self, result: ir.Value) -> tuple[str, str]:
        return "y", "q.new_empty(n_batches, n_heads, 1, v_depth)"

    def grid(self, result: str) -> str:
        return "(n_batches * n_shared, n_parts)"

    def given(self, results: tuple[tuple[str, str], ...]) -> list[str]:
        tensors = [a.role for a in self.layout.arguments]
        return [*tensors, "parts", "sums"]

    def passed(self, result: str, numbers: tuple[str, ...]) -> list[str]:
        given = ["*q.stride()[:2]", "*k.stride()[:3]", "*v.stride()[:3]"]
        if self.source.form.mask:
            given += ["*mask.stride()[:2]", "mask.stride(3)"]
        return [
            *given,
            *("n_shared", "n_heads // n_shared", "n_keys", "n_each"),
            *("depth", "v_depth", "scale", "PRECISION=precision()"),
            "BLOCK_M=max(triton.next_power_of_2(n_heads // n_shared), 16)",
            "BLOCK_N=64 if max(depth, v_depth) <= 64 else 32",
            "BLOCK_D=max(triton.next_power_of_2(depth), 16)",
            "BLOCK_E=max(triton.next_power_of_2(v_depth), 16)",
        ]

    def after(self) -> list[str]:
        return [
            "if n_parts > 1:",
            "    combine_parts[(n_batches * n_heads,)](",
            "        parts,",
            "        sums,",
            "        y,",
            "        n_parts,",
            "        n_batches * n_heads,",
            "        v_depth,",
            "        BLOCK_P=triton.next_power_of_2(n_parts),",
            "        BLOCK=triton.next_power_of_2(v_depth),",
            "    )",
        ]

    def parameters(self, numbers: tuple[str, ...]) -> list[str]:
        tensors = [a.role for a in self.layout.arguments]
        shapes = {"q": "[B, H, 1, D]", "k": "[B, G, N, D]", "v": "[B, G, N, E]"}
        lines = [f"{t}_ptr,  # {shapes.get(t, '[B, H, 1, N]')} in" for t in tensors]
        lines += ["parts_ptr,  # [P, B, H, E] out", "sums_ptr,  # [P, B, H] out"]
        places = {"q": "batch head", "k": "batch head row", "v": "batch head row"}
        if "mask" in tensors:
            places["mask"] = "batch head key"
        for t, names in places.items():
            first, *others = names.split()
            lines.append(f"{t}_{first},  # strides")
            lines += [f"{t}_{name}," for name in others]
        return [
            *lines,
            "n_shared,  # G",
            "group,  # H / G, the heads that share keys and values",
            "n_keys,  # N",
            "n_each,  # keys of a part",
            "depth,  # D",
            "v_depth,  # E",
            "scale,",
            'PRECISION: tl.constexpr,  # "tf32" or "ieee", for float32',
            "BLOCK_M: tl.constexpr,  # power of two, at least H / G",
            "BLOCK_N: tl.constexpr,",
            "BLOCK_D: tl.constexpr,  # power of two, at least D",
            "BLOCK_E: tl.constexpr,  # power of two, at least E",
        ]
