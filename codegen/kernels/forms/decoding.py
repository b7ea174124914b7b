"""Attention of one query, a decoder's step: the keys are divided among programs.

A head alone would leave most of a GPU idle while it goes through a long cache. So each
program takes a part of the keys, for all heads that share them, and a second kernel
puts the parts together (flash-decoding: Dao et al. 2023).
"""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from ....analysis.ops.helpers.triton import combine_parts
from ..launch.launcher import Parameter
from ..program.program import Argument, KernelProgram
from ..source.row_kernel import Source
from .attention import KEYS as PLAIN_KEYS
from .attention import AttentionLauncher, AttentionSource, HeadIndices

QUERIES = HeadIndices(
    ("batch", "heads", "0", "width[None, :]"),
    ("n_batches", "(n_shared * group)", "1", "depth"),
    "BHMD",
    "(rows < group) & (width[None, :] < depth)",
)
KEYS = replace(PLAIN_KEYS, mask="(keys[None, :] < last) & (width[:, None] < depth)")
Q = f"""\
q = tl.load(
    q_ptr + batch * q_batch + heads * q_head + width[None, :],
    mask={QUERIES.mask},
    other=0.0,
)"""
START = """\
# One program for a part of the keys, and the heads that share them.
program = tl.program_id(0).to(tl.int64)  # offsets can exceed 2**31
batch, shared = program // n_shared, program % n_shared
rows = tl.arange(0, BLOCK_M)[:, None]
heads = shared * group + rows
width = tl.arange(0, BLOCK_D)
columns = tl.arange(0, BLOCK_E)[None, :]
{q}
{k}
v_ptr += batch * v_batch + shared * v_head
largest = tl.full([BLOCK_M, 1], float("-inf"), tl.float32)
total = tl.zeros([BLOCK_M, 1], tl.float32)
y = tl.zeros([BLOCK_M, BLOCK_E], tl.float32)
first = tl.program_id(1) * n_each
last = tl.minimum(first + n_each, n_keys)
for start in range(first, last, BLOCK_N):"""
SCORES = """\
keys = start + tl.arange(0, BLOCK_N).to(tl.int64)
{k}
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
n_all = tl.num_programs(0) * group  # queries
place = tl.program_id(1) * n_all + program * group + rows
tl.store(sums_ptr + place, sums, mask=rows < group)
tl.store(
    parts_ptr + place * v_depth + columns,
    y,
    mask=(rows < group) & (columns < v_depth),
)"""


class _DecodingSource(AttentionSource):
    shared_heads = ""  # their number is given
    start, q, scores, mask, end = START, Q, SCORES, MASK, END
    places = (QUERIES, KEYS)
    last = "last"

    def __init__(self, program: KernelProgram) -> None:
        super().__init__(program)
        self.helpers[combine_parts] = None

    def formula(self) -> list[str]:
        return [*super().formula(), "    for one query, whose keys are taken in parts"]


class DecodingLauncher(AttentionLauncher):
    """What launches attention for one query of each head, and its second pass."""

    queries = "1"

    def make_source(self, program: KernelProgram) -> Source:
        return _DecodingSource(program)

    @property
    def fits(self) -> str:
        return f"{super().fits} and n_heads <= 64 * n_shared"

    def expected(self, argument: Argument) -> str:
        if argument.role == "q":
            group = self.source.form.group
            return f"(q.shape[0], {group} * {self.of['k'][1]}, 1, q.shape[3])"
        return super().expected(argument)

    def allocated(self) -> list[str]:
        """One part is the whole result."""
        return [
            "n_parts, n_each = key_parts(n_batches * n_shared, n_keys)",
            "parts, shape = y, (n_parts, n_batches, n_heads)",
            "if n_parts > 1:",
            "    parts = v.new_empty((*shape, v_depth), dtype=torch.float32)",
            "sums = v.new_empty(shape, dtype=torch.float32)",
        ]

    def result(self, result: ir.Value) -> tuple[str, str]:
        return "y", "v.new_empty(n_batches, n_heads, 1, v_depth)"

    def grid(self, result: str) -> str:
        return "(n_batches * n_shared, n_parts)"

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
            "        num_warps=8,",
            "    )",
        ]

    def tensors(self) -> list[Parameter]:
        """The kernel fills the parts, which a second one puts together."""
        made = {"parts": "[P, B, H, E] out", "sums": "[P, B, H] out"}
        found = [p for p in super().tensors() if p.given != "y"]
        return found + [Parameter(f"{n}_ptr", note, n) for n, note in made.items()]

    def strides(self) -> list[Parameter]:
        """There is one query, which has no stride along the rows."""
        found = []
        for t in self.loaded:
            axes = ["batch", "head", *["row"] * (t != "q")]
            found.append(
                Parameter(f"{t}_batch", "strides", f"*{t}.stride()[:{len(axes)}]")
            )
            found += [Parameter(f"{t}_{axis}") for axis in axes[1:]]
        if self.source.form.mask:
            found.append(Parameter("mask_batch", "strides", "*mask.stride()[:2]"))
            found.append(Parameter("mask_head"))
            found.append(Parameter("mask_key", "", "mask.stride(3)"))
        return found

    def parameters(self, numbers: tuple[str, ...]) -> list[Parameter]:
        heads = "H / G, the heads that share keys and values"
        rows = "max(triton.next_power_of_2(n_heads // n_shared), 16)"
        return [
            *self.tensors(),
            *self.strides(),
            Parameter("n_shared", "G", "n_shared"),
            Parameter("group", heads, "n_heads // n_shared"),
            Parameter("n_keys", "N", "n_keys"),
            Parameter("n_each", "keys of a part", "n_each"),
            *self.blocks("power of two, at least H / G", rows),
        ]
