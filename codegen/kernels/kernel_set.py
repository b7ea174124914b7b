"""The kernels of one package: which are worth it, their names, and what they replace.

Bodies are written twice: first to find the places where a kernel can stand, then, once
it is known what each kernel saves in all its places together, with those worth having.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from math import prod
from typing import Any

import onnx_ir as ir

from ...analysis.cost.device import DEVICES
from ...analysis.cost.typical_sizes import Sizes
from ...analysis.dataflow.dataflow import Dataflow, dataflow
from ...analysis.fusion.dnnfusion import FusionPlan, dnnfusion
from ...analysis.graph.dims import Dim, Dims
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.literals import one_line
from ...analysis.ops.triton.elementwise import pointwise
from ...analysis.ops.triton.rows import whole_rows
from ...rewrites.adapters.provenance import behind
from ..ir.assignment import Assignment
from ..ir.identifiers import unused
from .launch.kernels_page import Entry, Page, Traffic
from .launch.launcher import KernelSource
from .launch.tuning import Tuner, settle
from .program.attention_form import is_fused_attention
from .program.optional_operands import fuller
from .program.program import VIEWS, KernelProgram, Operation, is_view
from .select_regions import Memo, Region

# A kernel that saves less of a forward, estimated, isn't worth a reader's time.
MIN_SAVED = 1e-5
# Of PyTorch's speed, what attention in a kernel is taken to reach.
ATTENTION_SPEED = 0.8
# Of the card's rate, what PyTorch's products of some hundred rows reach, measured.
PYTORCH_SPEED = 0.5
# A tile of a product is 64 x 64, and 64 of its depth are a step, which takes so many
# seconds by the bytes of an element, as measured on an H200 (docs/performance_gpu.md).
# Few tiles take as long as many, since the depth isn't divided among programs.
TILE = 64
STEP = {4: 1e-6, 2: 4e-7}
# Of a launch: a product that takes less than this leaves nothing but launches to save.
SMALL_PRODUCT = 0.05
UNITS = 132  # of the card, each with its share of the rates
FEW_COLUMNS = 8  # of one program, of templates/kernels.py.jinja
# Of the bytes it moves, what a product's kernel has to save beside launches.
SAVED_BYTES = 0.05
QUERY_TILE = 128  # bytes; of templates/kernels.py.jinja


def _is_free(program: KernelProgram, op: Operation) -> bool:
    """Whether it is a view in PyTorch, which nothing here has to copy.

    Products and what goes over rows take tensors in order alone.
    """
    if op.reshapes:  # a copy only of what lies out of order
        given = op.operands[0]
        return isinstance(given, ir.Value) and not is_view(given)
    if op.view.node.op_type not in VIEWS:
        return False
    readers = [o for o in program.operations if set(op.results) & set(o.operands)]
    return not any(reader.row or reader.product for reader in readers)


class KernelSet:
    """With a `tuner`, kernels are chosen by measurement, else by the cost model."""

    def __init__(
        self,
        model: ir.Model,
        shapes: ShapeFacts,
        tuner: Tuner | None = None,
        autotune: bool = False,
        device: str = "h100",
    ) -> None:
        self.tuner, self.autotune = tuner, autotune
        self.shapes, self.sizes = shapes, Sizes(shapes)
        self.device = DEVICES[device]
        self.flow: Dataflow = dataflow(model, shapes)
        self.plan: FusionPlan = dnnfusion(self.flow, self.device)
        self.entries: dict[KernelSource, Entry] = {}
        self.memo: Memo = {}
        self.reasons: dict[str, str] = {}
        self.chosen = self.collecting = False
        nodes = [
            n for n in model.graph if not (n.op_type == "Constant" and not n.domain)
        ]
        self.nodes = nodes
        self.groups = {
            nodes[i]: g
            for g, group in enumerate(self.plan.groups)
            for i in group.operators
        }

    def group_of(self, step: Assignment) -> object:
        """The group that the fusion plan has the operator in; none for made-up ones."""
        return self.groups.get(step.node, step) if step.node is not None else step

    # ---- first time: collect; then choose

    def start(self) -> None:
        """The bodies are going to be written for the first time."""
        self.chosen = self.collecting = True

    def offer(self, region: Region) -> None:
        """Enter a place that a kernel could stand in, with what it would save there."""
        first = fuller(region.programs)
        numbers = [number for _, number in region.numbers]
        given = (*numbers, *(value for _, value in first.options))
        made = Entry(region.text, program=first, numbers=given)
        entry = self.entries.setdefault(region.text, made)
        for program in region.programs:
            entry.saved += self.saved(program)
            parts = [n for op in program.operations for n in op.nodes]
            nodes = [name for part in parts for name in behind(part)]
            entry.sites.append(tuple(nodes))
            if entry.traffic is None and program is first:
                entry.traffic = self.traffic(program)

    def traffic(self, program: KernelProgram) -> Traffic:
        """Bytes that are moved by one kernel, and by PyTorch call by call."""
        fused, apart = self.moved(program)
        calls = sum(1 + op.passes for op, _ in apart)
        return Traffic(
            self.counted(program), fused, sum(part for _, part in apart), calls
        )

    def counted(self, program: KernelProgram) -> str:
        """The sizes that bytes were counted for: [batch=1, seq=128, 768]."""
        parts = []
        for size in program.space:
            number = str(self.sizes.number(size))
            name = one_line(str(size), 24)
            parts.append(f"{name}={number}" if name.isidentifier() else number)
        return f"[{', '.join(parts)}]"

    def saved(self, program: KernelProgram) -> float:
        """Estimated seconds: those of PyTorch, call by call, less those of a kernel."""
        fused, parts = self.moved(program)
        flops = self.flops(program)
        apart = sum(
            self.device.seconds(self.work(op, flops), part)
            + op.passes * self.device.launch
            for op, part in parts
        )
        copies = (
            self.device.seconds(0, 2 * self.size(program, v))
            for v in program.given
            if is_view(v) and not self._by_strides(program, v)
        )
        fused += self.read_again(program)
        fused = round(fused / min(1.0, self.programs(program) / UNITS))
        found = apart - self.computed(program, flops, fused) - sum(copies)
        if program.product is None or self.tuner is not None:
            return found
        work = self.device.seconds(flops, fused) / self.device.launch - 1
        little = sum(part for _, part in parts) < (1 + SAVED_BYTES) * fused
        return min(found, 0.0) if little or work < SMALL_PRODUCT else found

    def work(self, op: Operation, flops: int) -> float:
        """Operations at the card's rate that take as long as those of PyTorch."""
        if op.product is not None:
            return flops / PYTORCH_SPEED
        return flops if op.attention is not None else 0

    def computed(self, program: KernelProgram, flops: int, moved: int) -> float:
        """Estimated seconds of a kernel."""
        extent, op = program.extent, program.product
        if extent is None or op is None or op.product is None:
            return self.device.seconds(flops / ATTENTION_SPEED, moved)
        sizes, lead = list(map(self.sizes.number, extent.result)), extent.batch_axes
        end = lead + 1 if op.product.pixels else -1  # of rows; channels are rows there
        batches, rows, cols = map(prod, (sizes[:lead], sizes[lead:end], sizes[end:]))
        tiles = batches * -(-rows // TILE) * -(-cols // TILE)
        steps = -(-tiles // UNITS) * -(-self.sizes.number(extent.depth) // TILE)
        size = op.result.dtype.itemsize if op.result.dtype is not None else 4
        step = STEP[2 if size < 4 else 4] * min(rows, TILE) / TILE
        return max(steps * step, moved / self.device.bytes) + self.device.launch

    def programs(self, program: KernelProgram) -> float:
        """How many go over rows, one each, or over columns; many where elements do."""
        kept = program.space[: len(program.space) - program.axes]
        if program.columns is not None:
            axes = set(program.columns.axes) - program.columns.reduced
            kept = tuple(program.space[a] for a in axes)
        elif not program.axes:
            return UNITS
        count = prod(map(self.sizes.number, kept)) * max(program.groups, 1)
        inner = program.columns is not None and program.columns.inner
        return max(count / (FEW_COLUMNS if inner else 1), 1)

    def _by_strides(self, program: KernelProgram, value: ir.Value) -> bool:
        """Whether it is read where it lies: attention's own operands are."""
        return program.attention is not None and any(
            value in op.operands for op in program.operations if op.attention
        )

    def read_again(self, program: KernelProgram) -> int:
        """Bytes that keys are computed from, once for each head and tile of queries."""
        if program.attention is None or program.operations[-1].operands[1] in (
            program.arguments
        ):
            return 0
        (heads, rows), keys = program.space[1:3], program.operations[-1].operands[1]
        assert isinstance(keys, ir.Value) and isinstance(heads, int)
        assert keys.dtype is not None
        tile = QUERY_TILE // int(keys.dtype.itemsize)
        times = program.attention.group * -(-self.sizes.number(rows) // tile)
        before = program.before(keys).arguments
        return (times - 1) * sum(self.size(program, v) for v in before)

    def size(self, program: KernelProgram, value: ir.Value) -> int:
        """The bytes of a value in a program; dynamic sizes are assumed."""
        known = map(self.sizes.number, program.dims(value))
        return self.sizes.bytes(value, list(known))

    def flops(self, program: KernelProgram) -> int:
        """Of its product or its attention, beside which nothing else counts."""
        if program.extent is not None:
            sizes = [*program.extent.result, program.extent.depth]
            return 2 * prod(map(self.sizes.number, sizes))
        if program.attention is None:
            return 0
        q, keys, width = self.attended(program)
        return 2 * prod(map(self.sizes.number, [*q[:-1], keys, q[3] + width]))

    def attended(self, program: KernelProgram) -> tuple[Dims, Dim, Dim]:
        """The shape of queries, how many keys there are, and the width of values."""
        operands = program.operations[-1].operands[:3]
        q, k, v = (program.dims(o) for o in operands if isinstance(o, ir.Value))
        return q, k[2], v[3]

    def moved(self, program: KernelProgram) -> tuple[int, list[tuple[Operation, int]]]:
        """Bytes read and written as one kernel, and by each operator alone.

        Without those that PyTorch gives as views.
        """
        size = partial(self.size, program)
        found = [size(op.result) for op in program.operations if op.lookup]
        read = sum(size(v) for v in program.given) + sum(found)
        fused = read + sum(size(v) for v in program.results)
        parts = []
        for op in program.operations:
            if op.left_out or _is_free(program, op):
                continue
            operands = [o for o in op.operands if isinstance(o, ir.Value)]
            part = sum(map(size, operands)) + sum(map(size, op.results))
            part += size(op.result) if op.lookup else 0
            if op.product is not None and program.extent is not None:
                floats = [program.extent.depth, program.extent.result[-1]]
                whole = self.sizes.bytes(op.result, map(self.sizes.number, floats))
                part += 2 * op.passes * whole  # written, and read again
            if op.attention is not None and op.passes:
                q, keys, _ = self.attended(program)
                scores = [*q[:-1], keys]
                whole = self.sizes.bytes(op.result, map(self.sizes.number, scores))
                part += 2 * op.passes * whole
            parts.append((op, part))
        return fused, parts

    def choose(self, taken: Collection[str]) -> None:
        """Settle which kernels there are, and names that nothing else has."""
        names = set(taken)
        for entry in self.entries.values():
            entry.name = unused(entry.text.words, names)
            entry.taken = entry.saved >= MIN_SAVED
            if self.tuner is not None:
                settle(entry, self.tuner, self.sizes, MIN_SAVED)
            if entry.taken:
                names |= {f"{entry.name}{end}" for end in ("", "_reference", "_kernel")}
                continue
            reason = entry.measured or (
                f"a kernel would save an estimated {entry.saved * 1e6:.1f} us of a"
                f" forward; it has to save {MIN_SAVED * 1e6:.0f}"
            )
            for nodes in entry.sites:
                self.reasons.update(dict.fromkeys(nodes, reason))
        self.collecting = False

    def name(self, region: Region) -> str:
        """What the kernel of a region is called; "" if it isn't taken."""
        entry = self.entries.get(region.text)
        return entry.name if entry is not None and entry.taken else ""

    @property
    def page(self) -> Page:
        """What kernels.py is made of."""
        gpu = "" if self.tuner is None else one_line(self.tuner.gpu, 60)
        return Page(self.taken, gpu, self.autotune)

    @property
    def names(self) -> tuple[str, ...]:
        """The kernels that model.py imports."""
        return tuple(sorted(entry.name for entry in self.taken))

    @property
    def taken(self) -> list[Entry]:
        """The kernels that are worth having, in the order of their first places."""
        return [entry for entry in self.entries.values() if entry.taken]

    # ---- what the report says

    def report(self) -> dict[str, Any]:
        """The part of the report that says what became of each group."""
        return {
            "target": {
                "name": "triton",
                **({"autotune": True} if self.autotune else {}),
                "groups": self.table(),
            }
        }

    def table(self) -> list[dict[str, Any]]:
        """Each group of the fusion plan, and what computes its operators."""
        kernel_of = {
            node: entry for entry in self.taken for site in entry.sites for node in site
        }
        rows = []
        for group in self.plan.groups:
            choices: dict[tuple[str, str], list[str]] = {}
            for i in group.operators:
                node = self.nodes[i]
                names = [*behind(node)] or [node.name or "?"]
                kernel = next((kernel_of[n] for n in names if n in kernel_of), None)
                reason = kernel.measured or "one launch" if kernel else ""
                reason = reason or self._reason(node, names)
                fused = "SDPA" if is_fused_attention(node, self.shapes) else "PyTorch"
                choice = f"kernel {kernel.name}" if kernel else fused
                label = one_line(f"{node.name or '?'} ({node.op_type})", 80)
                choices.setdefault((choice, reason), []).append(label)
            rows.append(
                {
                    "type": group.mapping.value,
                    "choices": [
                        {"choice": choice, "reason": reason, "operators": operators}
                        for (choice, reason), operators in choices.items()
                    ],
                }
            )
        return rows

    def _reason(self, node: ir.Node, names: Collection[str]) -> str:
        for name in (node.name or "", *names):
            if name in self.reasons:
                return self.reasons[name]
        if node.op_type == "Conv":
            return "Conv is cuDNN's"
        if pointwise(node) is None and whole_rows(node) is None:
            return f"{node.op_type} is a PyTorch call"
        return "nothing beside it joins it in a kernel"
