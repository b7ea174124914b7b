"""Which statements of one body become one kernel.

Statements join while the fusion plan has them in one group, one kernel can compute
them, and nothing between them needs what they compute; then groups do that are beside
each other, where it saves time by the cost model. All instances of a class, and all
rounds of a loop, have to agree on the kernel, or there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ...analysis.errors import Unsupported
from ...analysis.ops.triton.index_maps import RESHAPES, moves
from ...analysis.spelling.expr import Expr
from ..ir.assignment import Assignment
from ..ir.statement_tree import Statement, flat, reads
from .forms.attention import AttentionLauncher
from .forms.columns import ColumnLauncher, OrderedLauncher
from .forms.decoding import DecodingLauncher
from .forms.depthwise_convolution import ConvolvedLauncher
from .forms.pointwise_convolution import PixelLauncher
from .forms.products import TiledLauncher
from .launch.launcher import KernelSource, Launcher
from .program.build import make_program
from .program.optional_operands import switch_of
from .program.program import KernelProgram, NoKernel, Surroundings, is_view

MAX_STATEMENTS = 24  # of one kernel, for those who read it
# The steps behind one statement, one for each instance of the body.
Steps = tuple[Assignment, ...]
GroupOf = Callable[[Assignment], object]
Kernel = tuple[KernelProgram, KernelSource, list[tuple[str, float]]]
# Kernels, or why there is none, of steps whose values others read.
Memo = dict[tuple[Steps, frozenset[ir.Value]], Kernel | str]


def kernel_text(program: KernelProgram) -> tuple[KernelSource, list[tuple[str, float]]]:
    """The source but for the name, and the numbers that the module passes."""
    launcher = _launcher(program)
    return launcher.text(), launcher.source.eps


def _launcher(program: KernelProgram) -> Launcher:
    if program.attention is not None:
        decodes = program.attention.decodes
        return DecodingLauncher(program) if decodes else AttentionLauncher(program)
    if any(op.taps for op in program.operations):
        return ConvolvedLauncher(program)
    if program.columns is not None:
        inner = program.columns.inner
        return ColumnLauncher(program) if inner else OrderedLauncher(program)
    if program.product is None:
        return Launcher(program)
    assert program.product.product is not None
    pixels = program.product.product.pixels
    return PixelLauncher(program) if pixels else TiledLauncher(program)


@dataclass(eq=False)
class Region:
    """Statements, by their places in the body, and the kernel for them."""

    places: tuple[int, ...]
    text: KernelSource
    numbers: list[tuple[str, float]]
    programs: list[KernelProgram]  # of each instance
    results: tuple[ir.Value, ...]
    arguments: tuple[Expr, ...]


def _is_move(step: Assignment) -> bool:
    return step.node is not None and moves(step.node) is not None


def _reshapes_in_order(step: Assignment) -> bool:
    """Whether PyTorch gives it as a view: only what lies out of order is copied."""
    node = step.node
    if node is None or node.domain or node.op_type not in RESHAPES:
        return False
    given = node.inputs[0]
    return given is not None and not is_view(given)


def _finds_rows(step: Assignment) -> bool:
    op = step.node.op_type if step.node is not None else ""
    return op == "Gather" and len(step.outputs) == 1


class Regions:
    """Finds the regions in the statements of one body, or of one loop in it."""

    def __init__(
        self,
        around: Surroundings,
        group_of: GroupOf,
        memo: Memo,
        saved: Callable[[KernelProgram], float],
    ) -> None:
        self.around, self.group_of, self.memo = around, group_of, memo
        self.saved = saved  # seconds, estimated
        self.reasons: dict[str, str] = {}  # operator -> why it is no part of a kernel

    def find(
        self,
        items: Sequence[Statement],
        steps: Sequence[Steps | None],
        handed_on: Collection[ir.Value],
    ) -> list[Region]:
        """`steps` are those behind each item; `handed_on` what others read of them."""
        self.items, self.steps, self.handed_on = items, steps, handed_on
        home: dict[int, list[int]] = {}
        products: list[int] = []
        makers: dict[ir.Value, int] = {}
        groups = [s and [self.group_of(step) for step in s] for s in steps]
        for place, own in enumerate(steps):
            if own and (
                _finds_rows(own[0]) or _is_move(own[0])
            ):  # part of what reads it
                targets = items[place].targets
                readers = [i for i in range(len(items)) if {*targets} & {*self.read(i)}]
                if len(readers) == 1:
                    groups[place] = groups[readers[0]]
        for place, item in enumerate(items):
            if steps[place] is None:
                continue
            if not self.builds([place], 1):
                continue
            program = self.kernels([place], 1)[0][0]
            if program.product is not None or program.attention is not None:
                products.append(place)
                continue
            home[place] = [place]
            makers.update((t, place) for t in item.targets if t is not None)
            near = {
                id(home[makers[v]]): home[makers[v]]
                for v in self.read(place)
                if v in makers
            }
            near = {k: g for k, g in near.items() if groups[g[0]] == groups[place]}
            whole = sorted({p for g in near.values() for p in g} | {place})
            attempts = [whole] if len(near) > 1 else []
            attempts += [sorted([*g, place]) for g in near.values()]
            for attempt in attempts:
                if len(attempt) <= MAX_STATEMENTS and self.builds(attempt, 1):
                    home.update(dict.fromkeys(attempt, attempt))
                    break
        for group in {id(g): g for g in home.values()}.values():
            entered = self.entered(group)
            for other in set(group).difference(entered):
                del home[other]
            home.update(dict.fromkeys(entered, entered))
        for place in products:
            self.widen([place], home)
        for group in {id(g): g for g in home.values()}.values():
            if home[group[0]] is group:  # not joined yet
                self.widen(group, home)
        ends = {id(g): self.trimmed(g) for g in home.values()}
        found = {k: g for k, g in ends.items() if len(g) > 1 or set(g) & set(products)}
        return [r for g in found.values() if (r := self.region(g)) is not None]

    def widen(self, group: list[int], home: dict[int, list[int]]) -> None:
        """A group takes in its neighbours while that saves time, by the cost model.

        Whatever the fusion plan says: its groups go through the whole graph, where
        those of a module may be parted, and it doesn't know that a product in PyTorch
        is faster than one in a kernel, which what is joined has to make up for.
        """
        place, worth, found = group[0], self.worth(group), True
        while found:
            found = False
            for other in self.beside(group, home):
                joined = sorted({*group, *other})
                if len(joined) > MAX_STATEMENTS:
                    continue
                if not self.builds(joined, self.samples(joined)):
                    continue
                alone = self.worth(other) if len(other) > 1 else 0.0
                together = self.worth(joined)
                if together > worth + max(alone, 0.0):
                    group, worth, found = joined, together, True
                    break
        if worth > 0:
            home.update(dict.fromkeys(group, group))
        elif len(group) == 1 and place not in home:  # a product
            longer = f"{-1e6 * worth / len(self.steps[place] or ((),)):.1f}"
            nothing = longer in ("0.0", "-0.0")
            what = "save nothing" if nothing else f"take {longer} us longer"
            self.note(group, f"a kernel would {what}, by the cost model")

    def worth(self, group: list[int]) -> float:
        """What a kernel saves in all instances, if others are like the samples."""
        made = [self.saved(p) for p, *_ in self.kernels(group, self.samples(group))]
        return sum(made) / len(made) * len(self.steps[group[0]] or ())

    def samples(self, group: list[int]) -> int | None:
        """The first instance alone, unless some leave out a part; None is all."""
        firsts = [(self.steps[place] or ())[:1] for place in group]
        return None if any(switch_of(s) for first in firsts for s in first) else 1

    def beside(self, group: list[int], home: dict[int, list[int]]) -> list[list[int]]:
        """Groups that read what a group makes, then those that make what it reads."""
        made = {t for p in group for t in self.items[p].targets}
        read = {v for p in group for v in self.read(p)}
        found: dict[int, list[int]] = {}
        for place, other in home.items():
            if place not in group and not made.isdisjoint(self.read(place)):
                found[id(other)] = other
        for place, other in home.items():
            targets = self.items[place].targets
            if place not in group and not read.isdisjoint(targets):
                found[id(other)] = other
        return list(found.values())

    def entered(self, group: list[int]) -> list[int]:
        """Without reshapes at the start, which cost nothing and say what shapes are."""
        while True:
            made = {t for p in group for t in self.items[p].targets}
            views = [
                p
                for p in group
                if (s := self.steps[p]) and _reshapes_in_order(s[0])
                if made.isdisjoint(self.read(p))
            ]
            if not views:
                return group
            group = [place for place in group if place not in views]

    def trimmed(self, group: list[int]) -> list[int]:
        """Without moves at the end: PyTorch copies as well, and says what it does.

        Nothing is left of a group that only moves.
        """
        while len(group) > 1:
            ends = {place for place, _ in self._results_of(group)}
            moved = [p for p in ends if (s := self.steps[p]) and _is_move(s[0])]
            if not moved:
                break
            group = [place for place in group if place not in moved]
        return group

    def read(self, place: int) -> list[ir.Value]:
        """The values that the item at a place reads."""
        return [v for s in flat([self.items[place]]) for v in reads(s.expr)]

    def _results_of(self, group: list[int]) -> list[tuple[int, int]]:
        """Which of what the statements make is read outside, by place and position."""
        outside = set(self.handed_on)
        inner = set(group)
        for place, item in enumerate(self.items):
            if place not in inner:
                outside.update(v for s in flat([item]) for v in reads(s.expr))
        return [
            (place, i)
            for place in group
            for i, t in enumerate(self.items[place].targets)
            if t in outside
        ]

    def _stands_together(self, group: list[int]) -> bool:
        """Whether all can be computed where the last of them is."""
        made = {t for p in group for t in self.items[p].targets}
        between = set(range(group[0], group[-1])) - set(group)
        for place in between:
            item = self.items[place]
            if item.kind:
                return False
            if any(v in made for s in flat([item]) for v in reads(s.expr)):
                return False
        return True

    def kernels(self, group: list[int], instances: int | None = None) -> list[Kernel]:
        """The kernel of each instance; raises NoKernel."""
        results = self._results_of(group)
        columns = [self.steps[place] for place in group]
        rows = list(zip(*[c for c in columns if c is not None], strict=True))
        found = []
        for row in rows[:instances]:
            by_place = dict(zip(group, row, strict=True))
            wanted = {by_place[place].outputs[i] for place, i in results}
            found.append(
                self.kernel(row, frozenset(v for v in wanted if v is not None))
            )
        return found

    def kernel(self, row: Steps, outside: frozenset[ir.Value]) -> Kernel:
        """The program and source for some steps; raises NoKernel. It is kept."""
        key = (row, outside)
        if key not in self.memo:
            try:
                program = make_program(row, outside, self.around)
                self.memo[key] = (program, *kernel_text(program))
            except Unsupported as error:
                self.memo[key] = error.what
            except NoKernel as error:
                self.memo[key] = str(error)
        found = self.memo[key]
        if isinstance(found, str):
            raise NoKernel(found)
        return found

    def builds(self, group: list[int], instances: int | None = None) -> bool:
        """Whether there is a kernel for a group; the reason is kept if not."""
        try:
            if not self._stands_together(group):
                raise NoKernel("another statement needs a part of the result first")
            self.kernels(group, instances)
        except NoKernel as error:
            reason = str(error)
            steps = self.steps[group[-1]]
            node = steps[0].node if steps else None
            if node is not None and node.name:
                self.reasons.setdefault(node.name, reason)
            return False
        return True

    def region(self, group: list[int]) -> Region | None:
        """The region of a group; None where its instances need several kernels."""
        if not self.builds(group):
            return None
        made = self.kernels(group)
        programs = [program for program, _, _ in made]
        if any(kernel[1:] != made[0][1:] for kernel in made):
            self.note(group, "instances of the class would need different kernels")
            return None
        first, text, numbers = made[0]
        arguments = tuple(a.expr for a in first.arguments.values())
        arguments += tuple(expr for expr, _ in first.options)
        return Region(
            tuple(group), text, numbers, programs, tuple(first.results), arguments
        )

    def note(self, group: list[int], reason: str) -> None:
        """Keep the reason why a group is no kernel."""
        for place in group:
            for step in self.steps[place] or ():
                if step.node is not None and step.node.name:
                    self.reasons.setdefault(step.node.name, reason)
